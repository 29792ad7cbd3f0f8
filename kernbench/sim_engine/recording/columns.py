"""What templates ask of an entry: int64 columns, and the texts that some of them number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.recording.templates import COLUMNS, FIXED, TABLES
from kernbench.sim_engine.run.commands import Command
from kernbench.trace.schema import BY_NAME
from kernbench_core.numbers import NOTHING, EngineType

#: Fields of an entry that stand on all its events, where they are not 0.
COMMON = ("core_id", "npu_id", "tenant_id", "thread_id")

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def text(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return _ENCODE(value).encode()


def line(name: str, cycle: int, fields: dict[str, Any], entry: Entry | Command | None = None) -> bytes:
    """One event and a line feed: its fields in the order of the schema, without those that are None. `entry`: whose it is."""
    out: dict[str, Any] = {"event_type": name, "t_cycle": cycle}
    out.update((f.name, fields[f.name]) for f in BY_NAME[name].fields if fields.get(f.name) is not None)
    if entry is not None:
        out.update(common_of(entry))
    return text(out) + b"\n"


def common_of(entry: Entry | Command) -> dict[str, int]:
    """The common fields of an entry that are not what TRACE_META.defaults says."""
    return {name: entry.meta[name] for name in COMMON if entry.meta.get(name)}


def exact_text(number: Fraction) -> str:
    """A rational as text: an integer, the shortest decimal of the nearest float where that is exact, else `p/q`."""
    if number.denominator == 1:
        return str(number.numerator)
    shortest = repr(number.numerator / number.denominator)
    return shortest if Fraction(shortest) == number else f"{number.numerator}/{number.denominator}"


KINDS = (EngineType.DMA, EngineType.TE, EngineType.VE, EngineType.COMPONENT)  # in the order of the table `kinds`
HOST_COPY = "HOST_COPY"  #: job type of transfers that no scratchpad takes part in


class Columns:
    """Columns of a program by its plan; `names` are those of the tracks."""

    def __init__(self, program: Program, plan: Plan, names: Iterable[str]) -> None:
        self.plan = plan
        self.program = program
        self.columns = {name: np.full(len(program.entries), NOTHING, dtype=np.int64) for name in COLUMNS}
        self.tables: dict[str, list[bytes]] = {name: [text(value) for value in FIXED.get(name, ())] for name in TABLES}
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._known: dict[tuple[str, type, Any], int] = {}  # the same, by values: 1 and True are two
        self.unit_number = {name: self._number("units", text(name)) for name in names}
        self.token_left: list[int] = []  #: entries of each token group
        self._groups: dict[int, int] = {}
        self._rows = len(program.entries)  # that are filled
        for entry in program.entries:
            for name, value in self._values(entry).items():
                if value is not None:
                    self.columns[name][entry.index] = value

    def add(self, commands: Sequence[Command]) -> bool:
        """Rows for further commands of components, of which the first so many have theirs; whether there were any."""
        new = commands[self._rows - len(self.program.entries) :]
        if not new:
            return False
        room = len(self.columns["cmd_id"])
        rows = self._rows + len(new)
        if rows > room:
            more = np.full(rows, NOTHING, dtype=np.int64)  # twice as many
            self.columns = {name: np.concatenate((column[: self._rows], more)) for name, column in self.columns.items()}
        for command in new:
            for name, value in self._values_of(command).items():
                if value is not None:
                    self.columns[name][command.index] = value
        self._rows = rows
        return True

    def _number(self, table: str, item: bytes) -> int:
        """Where a text stands in its table; it is put there if it is new."""
        key = (table, item)
        if key not in self._numbers:
            self._numbers[key] = len(self.tables[table])
            self.tables[table].append(item)
        return self._numbers[key]

    def _text(self, table: str, value: Any) -> int | None:
        if value is None:
            return None
        key = (table, type(value), value)
        if key not in self._known:
            self._known[key] = self._number(table, text(value))
        return self._known[key]

    def _common(self, entry: Entry | Command, unit: str) -> dict[str, int | None]:
        """What every command has."""
        meta = entry.meta
        named = common_of(entry)
        common = b"".join([b',"%s":%d' % (name.encode(), value) for name, value in named.items()]) if named else b""
        return {
            "cmd_id": entry.id,
            "unit": self.unit_number[unit],
            "phase": self._text("phases", meta.get("phase")),
            "common": self._number("commons", common),
            "token": meta.get("token"),
            "irq_line": meta.get("irq_line"),
            "marker": self._text("markers", meta.get("marker")),
            "token_idx": meta.get("token_idx"),
            "vec_chunk_id" if entry.engine == "ve" else "tile_id": meta.get("tile_id"),
        }

    def _values_of(self, command: Command) -> dict[str, int | None]:
        """Of a command of a component: of no token group, which are counted before the run."""
        values, given = self._common(command, command.unit), command.given
        job_type = command.opcode.removesuffix("_TILE")
        if command.engine == "dma":
            values |= self._moves(command.number, given, given["bytes"], given["head_cycles"])
            return values | self._between(given["peer"], command.opcode) if "peer" in given else values
        values |= self._works(command.number, given, job_type) if command.engine != "component" else {}
        values["job_type"] = self._text("job_types", job_type)
        return values

    def _values(self, entry: Entry) -> dict[str, int | None]:
        values = self._common(entry, self.plan.units[entry.index])
        values["group"] = self._group(entry.meta.get("token_idx"))
        if entry.engine == "dma":
            values |= self._transfer(entry)
        elif entry.engine != "control":
            values |= self._service(entry)
        return values

    def _group(self, token_idx: int | None) -> int | None:
        if token_idx is None:
            return None
        group = self._groups.setdefault(token_idx, len(self._groups))
        if group == len(self.token_left):
            self.token_left.append(0)
        self.token_left[group] += 1
        return group

    def _transfer(self, entry: Entry) -> dict[str, int | None]:
        plan, row = self.plan, self.plan.transfer(entry.index)
        touched = [k for k, nbytes in enumerate(plan.channel_bytes(entry.index)) if nbytes]
        head = plan.machine["memories"][row["memory"]]["setup"]
        head += max(int(plan.machine["route_latency"][row["route"] + k]) for k in touched)
        values = self._moves(row["engine"], row, plan.bytes_of(entry.index), head)
        if isinstance(entry, PairEntry):
            values |= self._between(row["peer"], entry.opcode)
        return values

    def _between(self, peer: int, opcode: str) -> dict[str, int | None]:
        """What is different between two scratchpads."""
        job_type = self._text("job_types", opcode.removesuffix("_TILE"))
        return {"far": self._scratchpad(peer), "dram": None, "direction": 2, "job_type": job_type}

    def _moves(self, number: int, row: Mapping[str, int], nbytes: int, head: int) -> dict[str, int | None]:
        """A transfer of a DMA engine."""
        plan, write = self.plan, row["write"]
        memory = plan.machine["memories"][row["memory"]]
        dram, spm = row["dram_addr"] // memory["align"] * memory["align"], row["spm_addr"]
        engine = plan.machine["dma"][number]
        job_type = "DMA_WRITE" if write else "DMA_READ"
        if self._scratchpad(engine["spm"]) is None:
            job_type = HOST_COPY
        return {
            "by": 0,
            "spm": self._scratchpad(engine["spm"]),
            "far": None,
            "dram": 0 if self._scratchpad(engine["spm"]) is not None else None,
            "served": write,
            "job_type": self._text("job_types", job_type),
            "channel": row["channel"],
            "direction": write,
            "src_addr": spm if write else dram,
            "dst_addr": dram if write else spm,
            "size_bytes": nbytes,
            "head_cycles": head,
            "weight": engine["channels"][row["channel"]][2],
        }

    def _scratchpad(self, number: int) -> int | None:
        """The track of a scratchpad; None for what has no banks."""
        pads = self.plan.scratchpads
        return self.unit_number[pads[number]] if number < len(pads) else None

    def _service(self, entry: Entry) -> dict[str, int | None]:
        row = self.plan.service(entry.index)
        given = dict(row)
        if isinstance(entry, TeEntry):
            given |= {"m": entry.m, "n": entry.n, "k": entry.k}
        elif isinstance(entry, VeEntry):
            given |= {"length": entry.length, "batch": entry.batch}
        return self._works(row["engine"], given, entry.opcode.removesuffix("_TILE"))

    def _works(self, number: int, given: Mapping[str, int], job_type: str) -> dict[str, int | None]:
        """A job of a TE, a VE or an M_CPU."""
        engine = self.plan.machine["compute"][number]
        values: dict[str, int | None] = {
            "by": KINDS.index(engine["kind"]),
            "spm": self._scratchpad(engine["spm"]),
            "job_type": self._text("job_types", job_type),
            "body_cycles": given["body"],
            "total_cycles": given["init"] + given["body"] + given["finalize"],
            "work": given["work"],
        }
        if engine["kind"] == EngineType.TE:
            values |= {name: given[name] for name in ("m", "n", "k")}
        elif engine["kind"] == EngineType.VE:
            op = self._text("ops", job_type.removeprefix("VE_"))
            values |= {"op_type": op, "len": given["length"], "batch": given["batch"]}
        return values
