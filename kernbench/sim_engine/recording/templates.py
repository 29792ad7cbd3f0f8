"""The conversion of the core's records: templates in the order of the schema's fields, for `kernbench_core.Format`.

The values of entries for templates: int64 columns, and the texts that some columns index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.run.commands import Command
from kernbench.trace.schema import BY_NAME, STALL_REASONS
from kernbench_core.numbers import (
    ALWAYS,
    COLUMN,
    CYCLE,
    NO_UNIT,
    NOTHING,
    TEXT,
    TEXT_OF_COLUMN,
    TEXT_OF_VALUE,
    TOKEN_ENDS,
    UNIT_OF_ENTRY,
    VALUE,
    EngineType,
)

#: Fields of an entry that all its events have, unless the fields are 0.
COMMON = ("core_id", "npu_id", "tenant_id", "thread_id")

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def text(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return _ENCODE(value).encode()


def line(name: str, cycle: int, fields: dict[str, Any], entry: Entry | Command | None = None) -> bytes:
    """One event and a line feed: its fields in the order of the schema, without those that are None. `entry`: the entry of the
    event."""
    out: dict[str, Any] = {"event_type": name, "t_cycle": cycle}
    out.update((f.name, fields[f.name]) for f in BY_NAME[name].fields if fields.get(f.name) is not None)
    if entry is not None:
        out.update(common_of(entry))
    return text(out) + b"\n"


def common_of(entry: Entry | Command) -> dict[str, int]:
    """The common fields of an entry that differ from TRACE_META.defaults."""
    return {name: entry.meta[name] for name in COMMON if entry.meta.get(name)}


def exact_text(number: Fraction) -> str:
    """A rational as text: an integer, the shortest decimal of the nearest float if this is exact, else `p/q`."""
    if number.denominator == 1:
        return str(number.numerator)
    shortest = repr(number.numerator / number.denominator)
    return shortest if Fraction(shortest) == number else f"{number.numerator}/{number.denominator}"


KINDS = (EngineType.DMA, EngineType.TE, EngineType.VE, EngineType.COMPONENT)  # in the order of the table `kinds`
HOST_COPY = "HOST_COPY"  #: job type of transfers without a scratchpad


class Columns:
    """The columns of a program from its plan; `names` are those of the tracks."""

    def __init__(self, program: Program, plan: Plan, names: Iterable[str]) -> None:
        self.plan = plan
        self._commands = program.entries
        self.program = program = plan.rows(program)
        self.columns = {name: np.full(len(program.entries), NOTHING, dtype=np.int64) for name in COLUMNS}
        self.tables: dict[str, list[bytes]] = {name: [text(value) for value in FIXED.get(name, ())] for name in TABLES}
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._known: dict[tuple[str, type, Any], int] = {}  # the same texts by value; 1 and True are different
        self.unit_number = {name: self._number("units", text(name)) for name in names}
        self.tokens_remaining: list[int] = []  #: entries of each token group
        self._groups: dict[int, int] = {}
        self._rows = len(program.entries)  # number of filled rows
        for entry in program.entries:
            for name, value in self._values(entry).items():
                if value is not None:
                    self.columns[name][entry.index] = value

    def add(self, commands: Sequence[Command]) -> bool:
        """Add rows for further commands of components, the first of which have rows already; return whether there were any."""
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
        """The index of a text in its table, to which new texts are added."""
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
        """The common fields of every command."""
        meta = entry.meta
        named = common_of(entry)
        common = b"".join([b',"%s":%d' % (name.encode(), value) for name, value in named.items()]) if named else b""
        return {
            "cmd_id": entry.command_id,
            "first": 0 if meta.get("job", 0) == 0 else None,
            "last": 0 if meta.get("job", 0) == meta.get("jobs", 1) - 1 else None,
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
        """The values of a command of a component: without a token group, because token groups are counted before the run."""
        values, given = self._common(command, command.unit), command.given
        job_type = command.opcode.removesuffix("_TILE")
        if command.engine == "dma":
            values |= self._moves(command.number, given, given["bytes"])
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
        if group == len(self.tokens_remaining):
            self.tokens_remaining.append(0)
        self.tokens_remaining[group] += 1
        return group

    def _transfer(self, entry: Entry) -> dict[str, int | None]:
        plan, row = self.plan, self.plan.transfer(entry.index)
        values = self._moves(row["engine"], row, plan.bytes_of(entry.index))
        if isinstance(entry, PairEntry):
            values |= self._between(row["peer"], entry.opcode)
        return values

    def _between(self, peer: int, opcode: str) -> dict[str, int | None]:
        """The values that differ between two scratchpads."""
        job_type = self._text("job_types", opcode.removesuffix("_TILE"))
        return {"far": self._scratchpad(peer), "dram": None, "direction": 2, "job_type": job_type}

    def _moves(self, number: int, row: Mapping[str, int], nbytes: int) -> dict[str, int | None]:
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
            "weight": engine["channels"][row["channel"]][2],
        }

    def _scratchpad(self, number: int) -> int | None:
        """The track of a scratchpad; None without banks."""
        pads = self.plan.scratchpads
        return self.unit_number[pads[number]] if number < len(pads) else None

    def _service(self, entry: Entry) -> dict[str, int | None]:
        row = self.plan.service(entry.index)
        given = dict(row)
        if isinstance(entry, TeEntry):
            whole = self._commands[entry.meta.get("command_index", entry.index)]
            assert isinstance(whole, TeEntry)
            given |= {"m": whole.m, "n": whole.n, "k": whole.k, "tile_m": entry.m, "tile_n": entry.n, "tile_k": entry.k}
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
            "work": given["work"],
        }
        if engine["kind"] == EngineType.TE:
            values |= {name: given[name] for name in ("m", "n", "k")}
            values |= {f"tile_{name}": given.get(f"tile_{name}", given[name]) for name in ("m", "n", "k")}
        elif engine["kind"] == EngineType.VE:
            op = self._text("ops", job_type.removeprefix("VE_"))
            values |= {"op_type": op, "len": given["length"], "batch": given["batch"]}
        return values


#: int64 columns over the entries, by position.
COLUMNS = (
    "cmd_id", "unit", "job_type", "tile_id", "vec_chunk_id", "phase", "common", "token", "irq_line", "marker", "group",
    "token_idx", "channel", "direction", "src_addr", "dst_addr", "size_bytes", "weight", "m", "n", "k",
    "spm", "work", "op_type", "len", "batch", "by", "served", "far", "dram",
    "tile_m", "tile_n", "tile_k", "first", "last",
)  # fmt: skip
#: Tables of texts, by position.
TABLES = ("units", "job_types", "phases", "commons", "markers", "ops", "kinds", "reasons", "suspensions", "flags", "directions",
          "accesses", "served", "clients")  # fmt: skip

FIXED: dict[str, tuple[Any, ...]] = {
    "kinds": ("DMA", "TE", "VE", "M_CPU"),
    "reasons": (*STALL_REASONS,),  # the core's StallReason, from 1 on, then `bank_conflict`
    "suspensions": ("backpressure", "fifo", "flits"),
    "flags": (False, True),
    "directions": ("DRAM_TO_SRAM", "SRAM_TO_DRAM", "SRAM_TO_SRAM"),
    "accesses": ("READ", "WRITE"),
    "served": ("WRITE", "READ"),  # in its own scratchpad, by whether the transfer writes the other end
    "clients": tuple([kind for bit, kind in enumerate(("DMA", "TE", "VE")) if mask >> bit & 1] for mask in range(8)),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A number of the record."""

    at: int


@dataclass(frozen=True, slots=True)
class Column:
    """A number of its entry."""

    name: str


@dataclass(frozen=True, slots=True)
class TextOf:
    """A text of a table, by a number of the record."""

    table: str
    at: int
    base: int = 0


@dataclass(frozen=True, slots=True)
class TextBy:
    """A text of a table, by a number of its entry."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same value on every line; `unit`: the number of the track that it names."""

    text: bytes
    unit: int | None = None


Source = Value | Column | TextOf | TextBy | Fixed
JOB, CMD, UNIT = Value(0), Column("cmd_id"), TextBy("units", "unit")
NAMES: dict[str, Source] = {"job_id": JOB, "cmd_id": CMD, "unit": UNIT}
COMMAND: dict[str, Source] = {"cmd_id": CMD, "unit": UNIT}
OK: dict[str, Source] = {"status": Fixed(b'"OK"')}
#: Values of a record of a flow over routers, from 1 on.
FLITS = ("channel", "packets", "travel_cycles", "alone_cycles", "no_credit_cycles", "no_channel_cycles", "lost_cycles")
LOOKUP = ("hits", "misses", "hit_bytes", "miss_bytes", "evictions", "write_backs")  #: values of a record of lookups, from 1 on
PHASE: dict[str, Source] = {"phase": TextBy("phases", "phase")}
JOB_TYPE: dict[str, Source] = {"job_type": TextBy("job_types", "job_type")}
TOKEN: dict[str, Source] = {"token": Column("token")}
SERVICE: dict[str, Source] = {"body_cycles": Value(1), "total_cycles": Value(2), **PHASE}

Template = tuple[int, int, int, tuple[int, ...], list[tuple[int, int, int, int, bytes]]]


def templates(event: str, sources: dict[str, Source], only_if: int = ALWAYS, shared: tuple[int, ...] = ()) -> Template:
    """The lines of one event type: the source of each field. A field without a source is never written. `shared`: the values
    of the record that an entry's many lines have in common; all other values are numbers."""
    parts = [(CYCLE, 0, 0, 0, b'{"event_type":"%s","t_cycle":' % event.encode())]
    unit, unit_value = NO_UNIT, -1
    for field in BY_NAME[event].fields:
        source = sources.get(field.name)
        if source is None:
            continue
        start = b',"%s":' % field.name.encode()
        if isinstance(source, Fixed):
            parts.append((TEXT, 0, 0, 0, start + source.text))
        else:
            parts.append(_part(source, start))
        if field.name == "unit":
            unit, unit_value = _unit(source)
    if "cmd_id" in sources:
        parts.append((TEXT_OF_COLUMN, COLUMNS.index("common"), TABLES.index("commons"), 0, b""))
    parts.append((TEXT, 0, 0, 0, b"}"))
    return only_if, unit, unit_value, shared, parts


def _part(source: Source, start: bytes) -> tuple[int, int, int, int, bytes]:
    if isinstance(source, Value):
        return VALUE, source.at, 0, 0, start
    if isinstance(source, Column):
        return COLUMN, COLUMNS.index(source.name), 0, 0, start
    if isinstance(source, TextOf):
        return TEXT_OF_VALUE, source.at, TABLES.index(source.table), source.base, start
    assert isinstance(source, TextBy)
    return TEXT_OF_COLUMN, COLUMNS.index(source.column), TABLES.index(source.table), 0, start


def _unit(source: Source) -> tuple[int, int]:
    if isinstance(source, TextOf):
        return source.base, source.at
    if isinstance(source, Fixed):
        assert source.unit is not None
        return source.unit, -1
    column = source.column if isinstance(source, TextBy) else "unit"
    return (UNIT_OF_ENTRY if column == "unit" else -3 - COLUMNS.index(column)), -1


def kinds(first_channel: int, first_link: int, first_spm: int) -> list[list[Template]]:
    """The templates of every kind of record, in the order of kernbench_core/trace/events.pxd.

    `first_channel`, `first_link`, `first_spm`: their numbers among the tracks.
    """
    channel, link = TextOf("units", 1, first_channel), TextOf("units", 2, first_link)
    flow: dict[str, Source] = {**NAMES, "tx_id": JOB, "channel": Value(1), "unit": channel}
    on_link: dict[str, Source] = {**flow, "unit": link, "link_id": Value(2)}
    reason = TextOf("reasons", 1, -1)
    stall: dict[str, Source] = {**NAMES, "reason": reason, "channel": Value(2), "bank_id": Value(3), "by_job": Value(4)}
    resume: dict[str, Source] = {**NAMES, "reason": reason, "duration_cycles": Value(2), "channel": Value(3)}
    tiles: dict[str, Source] = {"tile_id": Column("tile_id"), "vec_chunk_id": Column("vec_chunk_id")}
    access, moved, conflict, run, far = _accesses(first_spm)
    begin = templates("CMD_START", COMMAND, COLUMNS.index("first"))
    end = templates("CMD_END", {**COMMAND, **OK}, COLUMNS.index("last"))
    return [
        [templates("JOB_ISSUE", {**NAMES, **JOB_TYPE, **tiles, **PHASE})],
        [begin, end, *_said()],
        *([begin, start] for start in _starts()),
        *([end, done, finish, *_said(), whole] for done, finish, whole in _ends()),
        [templates("STALL_EVENT", stall)],
        [templates("RESUME_EVENT", resume)],
        [templates("DRAM_TX_START", {**flow, "size_bytes": Value(2), "weight": Value(3)})],
        [templates("NOC_TX_START", {**on_link, "size_bytes": Value(3)})],
        [templates("DRAM_TX_END", {**flow, "size_bytes": Value(2)})],
        [templates("NOC_TX_END", on_link)],
        [templates("DRAM_TX_SUSPEND", {**flow, "reason": TextOf("suspensions", 2)})],
        [templates("DRAM_TX_RESUME", flow)],
        [access],
        [moved],
        [conflict],
        [],  # WARN OVERLAP: a sentence that Python makes
        [],  # MARKER of a component: also made in Python
        [run, moved],
        [begin],  # a launch starts
        [end, _done(), *_said(), _whole()],
        [far],
        [templates("STALL_EVENT", {**stall, "scratchpad": TextBy("units", "far")})],
        [],  # CMD_ENQUEUE of a component's command: made in Python
        [templates("CACHE_LOOKUP", {**NAMES, "tx_id": JOB, **{name: Value(k) for k, name in enumerate(LOOKUP, 1)}})],
        [templates("WRITE_BACK_START", {"channel": Value(1), "unit": channel})],
        [templates("WRITE_BACK_END", {"channel": Value(1), "unit": channel})],
        [templates("NOC_FLITS", {**NAMES, "tx_id": JOB, **{name: Value(k) for k, name in enumerate(FLITS, 1)}})],
    ]


def _accesses(first_spm: int) -> list[Template]:
    """The events at banks: served bytes, moved bytes, denials, served bytes in a record of moved bytes, and the same in the far
    scratchpad.
    """
    access: dict[str, Source] = {
        **NAMES, "unit": TextBy("units", "spm"), "addr": Value(1), "size_bytes": Value(2), "bank_id": Value(3),
        "access_type": TextOf("accesses", 4), "by": TextBy("kinds", "by"), "conflict": TextOf("flags", 5), "cycles": Value(6),
    }  # fmt: skip
    run = access | {
        "addr": Value(3), "size_bytes": Value(4), "bank_id": Value(6), "access_type": TextBy("served", "served"),
        "conflict": TextOf("flags", 7), "cycles": Value(5),
    }  # fmt: skip
    moved: dict[str, Source] = {
        **NAMES, "tx_id": JOB, "channel": Value(1), "source_engine": Fixed(b'"DMA"'), "dram_addr": Value(2),
        "spm_addr": Value(3), "size_bytes": Value(4), "direction": TextBy("directions", "direction"), "cycles": Value(5),
    }  # fmt: skip
    conflict: dict[str, Source] = {
        "unit": TextOf("units", 5, first_spm), "bank_id": Value(0), "access_type": TextOf("accesses", 1),
        "num_requests": Value(2), "allowed": Value(3), "stalled_clients": TextOf("clients", 4), "cmd_id": CMD,
    }  # fmt: skip
    return [
        templates("SRAM_ACCESS", access, shared=(0, 4, 5)),
        templates("MEM_ACCESS_EVENT", moved, COLUMNS.index("dram"), shared=(0, 1)),
        templates("SRAM_CONFLICT", conflict),
        templates("SRAM_ACCESS", run, shared=(0, 7)),
        templates("SRAM_ACCESS", {**access, "unit": TextBy("units", "far")}, shared=(0, 4, 5)),
    ]


def _said() -> list[Template]:
    """The optional events at the end of a command."""
    irq, token, marker = (COLUMNS.index(name) for name in ("irq_line", "token", "marker"))
    ended: dict[str, Source] = {"token_idx": Column("token_idx"), "start_cycle": Value(6), "latency_cycles": Value(7), **PHASE}
    return [
        templates("IRQ_EMIT", {"cmd_id": CMD, **TOKEN, "irq_line": Column("irq_line")}, irq),
        templates("TOKEN_COMPLETE", {"cmd_id": CMD, **TOKEN, **OK}, token),
        templates("MARKER", {"cmd_id": CMD, "marker": TextBy("markers", "marker")}, marker),
        templates("TOKEN", ended, TOKEN_ENDS),
    ]


def _starts() -> list[Template]:
    names = ("channel", "src_addr", "dst_addr", "size_bytes", "weight")
    dma: dict[str, Source] = {name: Column(name) for name in names}
    dma |= {"tx_id": JOB, "head_cycles": Value(1)}
    dma |= {"direction": TextBy("directions", "direction"), "peer": TextBy("units", "far")}
    te: dict[str, Source] = {f"{tile}{axis}": Column(f"{tile}{axis}") for tile in ("", "tile_") for axis in "mnk"}
    ve: dict[str, Source] = {"op_type": TextBy("ops", "op_type"), "len": Column("len"), "batch": Column("batch")}
    return [
        templates("DMA_START", {**NAMES, **dma, **PHASE}),
        templates("TE_START", {**NAMES, **te, **SERVICE}),
        templates("VE_START", {**NAMES, **ve, **SERVICE}),
    ]


def _done() -> Template:
    return templates("JOB_DONE", {**NAMES, **JOB_TYPE, "latency_cycles": Value(1)})


def _whole() -> Template:
    return templates("ENGINE_EVENT", {**NAMES, "start_cycle": Value(3), "end_cycle": Value(5)})


def _ends() -> list[tuple[Template, Template, Template]]:
    """JOB_DONE, the engine's own end and ENGINE_EVENT, by kind of engine."""
    done = _done()
    latency: dict[str, Source] = {**NAMES, "latency_cycles": Value(2)}
    whole: dict[str, Source] = {**NAMES, "start_cycle": Value(3), "end_cycle": Value(5)}
    work: dict[str, Source] = {"stall_cycles": Value(4)}
    compute = _whole()
    return [
        (
            done,
            templates("DMA_END", {**latency, "tx_id": JOB, "channel": Column("channel")}),
            templates("ENGINE_EVENT", {**whole, "bytes": Column("size_bytes")}),
        ),
        (done, templates("TE_END", {**latency, **work, "mac_count": Column("work")}), compute),
        (done, templates("VE_END", {**latency, **work, "op_count": Column("work")}), compute),
    ]
