"""The exported part of a trace: kinds of events, and commands of some layers or phases; and an estimate of its size."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, cast

from kernbench.common.errors import InputError, Problem
from kernbench.trace.events import Record
from kernbench.trace.exporters.write import TIMED, Format, TimeUnit
from kernbench.trace.reader import Trace
from kernbench.trace.schema import BY_NAME

#: Event types by kind. TRACE_META and TRACE_END are always there.
KINDS: dict[str, tuple[str, ...]] = {
    "commands": ("CMD_ENQUEUE", "CMD_START", "CMD_END"),
    "jobs": (
        "JOB_ISSUE", "JOB_DONE", "DMA_START", "DMA_END", "TE_START", "TE_END", "VE_START", "VE_END", "ENGINE_EVENT",
    ),
    "flows": (
        "DRAM_TX_START", "DRAM_TX_END", "DRAM_TX_SUSPEND", "DRAM_TX_RESUME", "NOC_TX_START", "NOC_TX_END",
        "CACHE_LOOKUP", "WRITE_BACK_START", "WRITE_BACK_END", "NOC_FLITS",
    ),
    "waits": ("STALL_EVENT", "RESUME_EVENT"),
    "accesses": ("SRAM_ACCESS", "MEM_ACCESS_EVENT", "SRAM_CONFLICT"),
    "samples": (
        "BANDWIDTH_SAMPLE", "QUEUE_SAMPLE", "ENGINE_SAMPLE", "BANK_SAMPLE", "NOC_QUEUE_DEPTH", "ENERGY_SAMPLE", "POWER_STATE",
        "HW_COUNTER",
    ),
    "signals": ("IRQ_EMIT", "TOKEN_COMPLETE", "MARKER", "TOKEN", "ERROR", "WARN"),
}  # fmt: skip
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
OF_COMMANDS = {name: ("cmd_id",) for name in KIND_OF if any(field.name == "cmd_id" for field in BY_NAME[name].fields)}
SAMPLE = 30_000  #: records that are exported to learn how large each type is


@dataclass(frozen=True, slots=True)
class Selection:
    """Kinds of `KINDS`; layers and phases whose commands are meant, or None for all commands."""

    kinds: frozenset[str] = frozenset(KINDS)
    layers: frozenset[int] | None = None
    phases: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the export is complete."""
        return self == Selection()


class SelectedTrace(Trace):
    """A trace with only the selected events. Events without a command, such as samples, count as events of every layer."""

    def __init__(self, path: str | os.PathLike[str], selection: Selection) -> None:
        super().__init__(path)
        self._selection = selection
        self._commands = None if selection.layers is None and selection.phases is None else self._chosen(selection)

    def _chosen(self, selection: Selection) -> frozenset[int]:
        """The commands of the layers and phases. InputError if the trace has none."""
        found, layers, phases = set(), set(), set()
        for records in super().batches({"CMD_ENQUEUE": ("cmd_id", "layer_id", "phase")}):
            for record in records:
                if record.event.name != "CMD_ENQUEUE":
                    continue
                layers.add(record.layer_id)
                phases.add(record.phase)
                in_layer = selection.layers is None or record.layer_id in selection.layers
                if in_layer and (selection.phases is None or record.phase in selection.phases):
                    found.add(record.cmd_id)
        if not found:
            known = [f"layers {', '.join(str(one) for one in sorted(layers - {None})) or 'none'}"]
            known.append(f"phases {', '.join(sorted(phases - {None})) or 'none'}")
            raise InputError(Problem(self.path, f"no command is of these layers and phases; it has {'; '.join(known)}"))
        return frozenset(found)

    def batches(self, only: Mapping[str, Iterable[str]] | None = None) -> Iterator[list[Record]]:
        """The selected records. `only`: as that of a trace."""
        if self._selection.is_whole:
            yield from super().batches(only)
            return
        kinds, commands = self._selection.kinds, self._commands
        if only is not None and commands is not None:
            only = {**OF_COMMANDS, **{name: {*fields, *OF_COMMANDS.get(name, ())} for name, fields in only.items()}}
        for records in super().batches(only):
            kept = [record for record in records if KIND_OF[record.event.name] in kinds]
            if commands is not None:
                kept = [one for one in kept if self._is_meant(one, commands)]
            if kept:
                yield kept


    def _is_meant(self, record: Record, commands: frozenset[int]) -> bool:
        """Whether a record belongs to one of the commands, or to no command."""
        return record.event.name not in OF_COMMANDS or record.cmd_id is None or record.cmd_id in commands


class _Counting(io.RawIOBase):
    """A file that counts the bytes that are written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


class _Sampled(SelectedTrace):
    """The first SAMPLE records. Bytes that are written while a record is current count for its type."""

    def __init__(self, path: str | os.PathLike[str], selection: Selection, out: _Counting) -> None:
        super().__init__(path, selection)
        self._out = out
        self.sizes: Counter[str] = Counter()  #: [B] by event type
        self.seen: Counter[str] = Counter()  #: records by event type

    def batches(self, only: Mapping[str, Iterable[str]] | None = None) -> Iterator[list[Record]]:
        if only is not None:
            yield from super().batches(only)
            return
        for records in super().batches():
            for record in records:
                before = self._out.size
                yield [record]
                self.sizes[record.event.name] += self._out.size - before
                self.seen[record.event.name] += 1
            if self.seen.total() >= SAMPLE:
                return


@dataclass(frozen=True, slots=True)
class Size:
    """The estimated size of an export, before compression."""

    events: dict[str, int]  #: by kind
    nbytes: dict[str, int]  #: [B] by kind
    rest: int  #: [B] of the first and the last line, and of the text that belongs to no event

    @property
    def total(self) -> int:
        """[B] of the file."""
        return sum(self.nbytes.values()) + self.rest


def estimate(path: str | os.PathLike[str], selection: Selection, form: Format, time: TimeUnit = TimeUnit.NS) -> Size:
    """The selected events are counted, and the first SAMPLE of them exported to nowhere, to learn how large each type is."""
    out = _Counting()
    sampled = _Sampled(path, selection, out)
    writer = import_module(f"kernbench.trace.exporters.{form.value}").export
    file = cast(BinaryIO, out)
    if form in TIMED:
        writer(sampled, file, time)
    else:
        writer(sampled, file)
    mean = sampled.sizes.total() / max(1, sampled.seen.total())
    counts: Counter[str] = Counter()
    for records in SelectedTrace(path, selection).batches({}):
        counts.update(record.event.name for record in records)
    events: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for name, count in counts.items():
        each = sampled.sizes[name] / sampled.seen[name] if sampled.seen[name] else mean
        events[KIND_OF[name]] += count
        sizes[KIND_OF[name]] += round(count * each)
    order = [kind for kind in KINDS if events[kind]]
    rest = out.size - sampled.sizes.total()
    return Size({kind: events[kind] for kind in order}, {kind: sizes[kind] for kind in order}, rest)
