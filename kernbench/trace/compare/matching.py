"""The alignment of the commands of two runs: by id if the programs agree, otherwise by what the commands of kernels did, or by
the longest common alignment.

Two commands can be matched if their keys are equal: opcode, layer, phase, head and tile.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import Any, Literal

from kernbench.common.units import cycles_to_ns
from kernbench.trace.events import Record
from kernbench.trace.reader import Break, Trace

Key = Hashable
#: What the pairs have in common: their ids; the work that commands of kernels did; their keys, in the same order.
By = Literal["id", "work", "key"]


@dataclass(frozen=True)
class Alignment:
    """Pairs of positions in the two lists, in the order of the first list, and the positions without a partner."""

    pairs: list[tuple[int, int]]
    only_a: list[int]
    only_b: list[int]
    by: By


def align_commands(a: Sequence[tuple[int, Key]], b: Sequence[tuple[int, Key]]) -> Alignment:
    """Align two lists of (id, key).

    If every common id has the same key in both runs, these commands are pairs, and only the rest is aligned by keys. Otherwise
    ids are ignored, and everything is aligned by keys.
    """
    place = {number: j for j, (number, _) in enumerate(b)}
    shared = [(i, place[number]) for i, (number, _) in enumerate(a) if number in place]
    by_id = bool(shared) and all(a[i][1] == b[j][1] for i, j in shared)
    pairs = shared if by_id else []
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    rest_a = [i for i in range(len(a)) if i not in taken_a]
    rest_b = [j for j in range(len(b)) if j not in taken_b]
    more = longest_common([a[i][1] for i in rest_a], [b[j][1] for j in rest_b])
    pairs = sorted([*pairs, *((rest_a[i], rest_b[j]) for i, j in more)])
    return _alignment(a, b, pairs, "id" if by_id else "key")


def align_work(a: Sequence[Key], b: Sequence[Key]) -> Alignment | None:
    """Pair equal items in any order: of several equal items, the first with the first. None if each list has items that the
    other does not have.
    """
    places: dict[Key, deque[int]] = defaultdict(deque)
    for j, item in enumerate(b):
        places[item].append(j)
    pairs = [(i, places[item].popleft()) for i, item in enumerate(a) if places[item]]
    return _alignment(a, b, pairs, "work") if pairs and len(pairs) == min(len(a), len(b)) else None


def _alignment(a: Sequence[Any], b: Sequence[Any], pairs: list[tuple[int, int]], by: By) -> Alignment:
    mates_a, mates_b = {i for i, _ in pairs}, {j for _, j in pairs}
    only_a = [i for i in range(len(a)) if i not in mates_a]
    return Alignment(pairs, only_a, [j for j in range(len(b)) if j not in mates_b], by)


def longest_common(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """A longest list of pairs of equal items, in ascending order in both lists."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    middle = _middle(a[head : len(a) - tail], b[head : len(b) - tail])
    pairs = [(i, i) for i in range(head)] + [(head + i, head + j) for i, j in middle]
    return pairs + [(len(a) - k, len(b) - k) for k in range(tail, 0, -1)]


def _middle(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """Bit j of a row is 0 if the part of `a` so far has one more in common with the first j + 1 items of `b` than with j.

    A row is computed from the previous row by one addition, for all columns at once. Some rows are kept on the way down; the
    other rows are computed again on the way back up, block by block.
    """
    masks: dict[Any, int] = {}
    for j, key in enumerate(b):
        masks[key] = masks.get(key, 0) | 1 << j
    full = (1 << len(b)) - 1
    size = isqrt(len(a)) + 1
    kept = [full]
    row = full
    for i, key in enumerate(a, 1):
        row = _next(row, masks.get(key, 0), full)
        if i % size == 0:
            kept.append(row)
    pairs: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    for block in range(len(kept) - 1, -1, -1):
        first = block * size
        rows = [kept[block]]
        for key in a[first:i]:
            rows.append(_next(rows[-1], masks.get(key, 0), full))
        while i > first and j:
            bit = 1 << (j - 1)
            if rows[i - first] & bit:
                j -= 1
                continue
            i -= 1
            if rows[i - first] & bit:
                j -= 1
                pairs.append((i, j))
        i = min(i, first)
    return pairs[::-1]


def _next(row: int, mask: int, full: int) -> int:
    both = row & mask
    return ((row + both) | (row - both)) & full


#: The causes of the cycles of a command from its issue: the causes add up to these cycles.
PARTS: dict[str, str] = {
    "queue": "issued, its engine busy or at its limits",
    "head": "head latency of a transfer",
    "move": "bytes of a transfer, with every wait on the way",
    "work": "TE or VE",
    "bank": "TE or VE held by a bank conflict",
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": ("t_cycle", "cmd_id", "cmd_type", "unit", "layer_id", "phase", "head_id", "tile_id"),
    "CMD_START": ("t_cycle", "cmd_id", "unit"),
    "CMD_END": ("t_cycle", "cmd_id", "unit", "status"),
    "JOB_ISSUE": ("t_cycle", "job_id", "cmd_id"),
    "DMA_START": ("t_cycle", "job_id", "cmd_id", "head_cycles", "direction", "src_addr", "dst_addr", "size_bytes"),
    "TE_START": ("t_cycle", "job_id", "cmd_id", "m", "n", "k"),
    "VE_START": ("t_cycle", "job_id", "cmd_id", "op_type", "len", "batch"),
    "DMA_END": ("t_cycle", "job_id", "cmd_id", "latency_cycles"),
    "TE_END": ("t_cycle", "job_id", "cmd_id", "latency_cycles", "stall_cycles"),
    "VE_END": ("t_cycle", "job_id", "cmd_id", "latency_cycles", "stall_cycles"),
}


@dataclass(slots=True)
class Command:
    """An entry of the queue, and its times."""

    number: int  #: its id
    opcode: str
    unit: str
    layer: int | None = None
    phase: str | None = None
    head: int | None = None
    tile: int | None = None
    issue: int | None = None  #: [cycle] issue of its first job; for a command without jobs, its start
    start: int | None = None
    end: int | None = None  #: [cycle] None if the command did not end normally
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    work: tuple[Any, ...] = ()  #: of each job: the shape, or the DRAM address and the bytes

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a command of a kernel did, and on which PE: the same if the kernel does it earlier or later."""
        return *self.key, self.unit.rpartition(".")[0], self.work

    @property
    def key(self) -> tuple[Any, ...]:
        """The key by which a command is matched with one of another run."""
        return self.opcode, self.layer, self.phase, self.head, self.tile

    @property
    def cycles(self) -> int | None:
        """[cycle] From issue to end."""
        return None if self.end is None or self.issue is None else self.end - self.issue


@dataclass(frozen=True)
class Ran:
    """A run."""

    path: str
    program: str
    machine: dict[str, Any]  #: the configuration
    status: str
    cycles: int  #: of the run; for a truncated trace, the cycles that it contains
    freq_ghz: Fraction
    commands: list[Command]
    counters: dict[str, Any]  #: the counters of TRACE_END; empty if the trace has no TRACE_END
    units: dict[str, str]  #: component by unit
    broken: Break | None
    filtered: bool  #: written with a filter: excluded commands cannot be compared

    @property
    def of_kernels(self) -> bool:
        """Whether kernels issued the commands. Their ids are in the order of issue."""
        return any(one.opcode == "KERNEL" for one in self.commands)

    @property
    def ns(self) -> Fraction:
        """The length of the run in nanoseconds, exactly."""
        return cycles_to_ns(self.cycles, self.freq_ghz)


def read_run(trace: Trace) -> Ran:
    """Read a trace once, in memory that grows with the number of commands."""
    reader = _Reader()
    for records in trace.batches(only=_FIELDS):
        for record in records:
            reader.take(record)
    meta, end = trace.meta, trace.end
    return Ran(
        path=trace.path,
        program=meta.program,
        machine=meta.sim_config,
        status="broken off" if end is None else end.status,
        cycles=reader.last if end is None else end.cycles,
        freq_ghz=trace.freq_ghz,
        commands=list(reader.commands.values()),
        counters={} if end is None else end.counters,
        units={str(unit.get("unit")): str(unit.get("component")) for unit in meta.units},
        broken=trace.broken,
        filtered=meta.filter is not None,
    )


class _Reader:
    def __init__(self) -> None:
        self.commands: dict[int, Command] = {}
        self.last = 0
        self._issued: dict[int, int] = {}
        self._head: dict[int, int] = {}

    def take(self, record: Record) -> None:
        """One event."""
        name = record.event.name
        if name not in _FIELDS:
            return
        self.last = max(self.last, record.t_cycle)
        if name == "CMD_ENQUEUE":
            where = (record.layer_id, record.phase, record.head_id, record.tile_id)
            self.commands[record.cmd_id] = Command(record.cmd_id, record.cmd_type, record.unit, *where)
            return
        command = self.commands.get(record.cmd_id)
        if command is None:  # of a trace that was filtered
            unit = getattr(record, "unit", "")
            command = self.commands[record.cmd_id] = Command(record.cmd_id, "command", unit)
        if name.startswith("CMD_"):
            self._command(record, command)
        else:
            self._job(record, command)

    def _command(self, record: Record, command: Command) -> None:
        if record.event.name == "CMD_START":
            command.start = record.t_cycle
            command.issue = record.t_cycle if command.issue is None else command.issue
        elif record.status == "OK":
            command.end = record.t_cycle

    def _job(self, record: Record, command: Command) -> None:
        name, parts = record.event.name, command.parts
        if name == "JOB_ISSUE":
            self._issued[record.job_id] = record.t_cycle
            command.issue = record.t_cycle if command.issue is None else command.issue
        elif name.endswith("_START"):
            parts["queue"] += record.t_cycle - self._issued.pop(record.job_id, record.t_cycle)
            command.work += _work(record)
            if name == "DMA_START":
                self._head[record.job_id] = record.head_cycles
        elif name == "DMA_END":
            head = min(self._head.pop(record.job_id, 0), record.latency_cycles)
            parts["head"] += head
            parts["move"] += record.latency_cycles - head
        else:
            parts["bank"] += record.stall_cycles
            parts["work"] += record.latency_cycles - record.stall_cycles


def _work(record: Record) -> tuple[Any, ...]:
    """The shape of a started job; of a transfer, the address in DRAM and the bytes."""
    if record.event.name == "TE_START":
        return record.m, record.n, record.k
    if record.event.name == "VE_START":
        return record.op_type, record.len, record.batch
    address = {"DRAM_TO_SRAM": record.src_addr, "SRAM_TO_DRAM": record.dst_addr}.get(record.direction)
    return record.direction, address, record.size_bytes


def align_runs(a: Ran, b: Ran) -> Alignment:
    """Align the commands of two runs. If the ids of kernels' commands do not stand for the same work, and one run did all the
    work of the other, commands with the same work are pairs.
    """
    lists = [[(one.number, one.key) for one in run.commands] for run in (a, b)]
    if a.of_kernels and b.of_kernels:
        identities = [{one.number: one.identity for one in run.commands} for run in (a, b)]
        shared = identities[0].keys() & identities[1].keys()
        if any(identities[0][number] != identities[1][number] for number in shared):
            found = align_work(*(list(one.values()) for one in identities))
            if found is not None:
                return found
    return align_commands(*lists)
