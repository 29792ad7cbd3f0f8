"""The conversion of the core's records: templates in the order of the schema's fields, for `kernbench_core.Format`.

The values of entries for templates: int64 columns, and the texts that some columns index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.run.commands import Command
from kernbench.trace.schema import BY_NAME, EVENTS, STALL_REASONS
from kernbench_core.numbers import (
    ALWAYS,
    CHANNELS,
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
_COMMON = frozenset(COMMON)

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


#: The same bytes for values without floats, in a fifth of the time.
_ENCODE_WITHOUT_FLOATS = msgspec.json.Encoder().encode

#: The names of the fields of each event, in the order of the schema.
_FIELDS = {event.name: tuple(field.name for field in event.fields) for event in EVENTS}
_WITH_FLOATS = {event.name for event in EVENTS if {field.kind for field in event.fields} & {"number", "object", "objects"}}


def text(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return _ENCODE(value).encode()


def line(name: str, cycle: int, fields: Mapping[str, Any], entry: Entry | Command | None = None) -> bytes:
    """One event and a line feed: its fields in the order of the schema, without those that are None. `entry`: the entry of the
    event."""
    out: dict[str, Any] = {"event_type": name, "t_cycle": cycle}
    for field in _FIELDS[name]:
        value = fields.get(field)
        if value is not None:
            out[field] = value
    if entry is not None and (common := common_of(entry)):
        out.update(common)
    return (text if name in _WITH_FLOATS else _ENCODE_WITHOUT_FLOATS)(out) + b"\n"


def common_of(entry: Entry | Command) -> dict[str, int]:
    """The common fields of an entry that differ from TRACE_META.defaults."""
    meta = entry.meta
    return {} if _COMMON.isdisjoint(meta) else {name: meta[name] for name in COMMON if meta.get(name)}


def common_text(entry: Entry | Command) -> bytes:
    """The common fields of an entry as they are in its lines."""
    return b"".join([b',"%s":%d' % (name.encode(), value) for name, value in common_of(entry).items()])


def exact_text(number: Fraction) -> str:
    """A rational as text: an integer, the shortest decimal of the nearest float if this is exact, else `p/q`."""
    if number.denominator == 1:
        return str(number.numerator)
    shortest = repr(number.numerator / number.denominator)
    return shortest if Fraction(shortest) == number else f"{number.numerator}/{number.denominator}"


KINDS = (EngineType.DMA, EngineType.TE, EngineType.VE, EngineType.COMPONENT)  # in the order of the table `kinds`
HOST_COPY = "HOST_COPY"  #: job type of transfers without a scratchpad
MOVE = ("channel", "write", "memory", "dram_addr", "spm_addr")  #: of a transfer, in plans and in commands
AXES = ("m", "n", "k")
Numbers = npt.NDArray[np.int64]


class Columns:
    """The columns of a program from its plan; `names` are those of the tracks."""

    def __init__(self, program: Program, plan: Plan, names: Iterable[str]) -> None:
        self._commands = program.entries
        self.program = program = plan.rows(program)
        self.columns = {name: np.full(len(program.entries), NOTHING, dtype=np.int64) for name in COLUMNS}
        self.tables: dict[str, list[bytes]] = {name: [text(value) for value in FIXED.get(name, ())] for name in TABLES}
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._known: dict[tuple[str, type, Any], int] = {}  # the same texts by value; 1 and True are different
        self.unit_number = {name: self._number("units", text(name)) for name in names}
        self._engines = _Engines(plan, self.unit_number)
        self.tokens_remaining: list[int] = []  #: entries of each token group
        self._groups: dict[int, int] = {}
        self._rows = 0  # number of filled rows
        self._put_common(program.entries, plan.units)
        self.columns["group"][:] = [self._group(entry.meta.get("token_idx")) for entry in program.entries]
        self._put_transfers(plan.program["dma"])
        self._put_services(plan.program["compute"])

    def add(self, commands: Sequence[Command]) -> bool:
        """Add rows for further commands of components, the first of which have rows already; return whether there were any."""
        new = commands[self._rows - len(self.program.entries) :]
        if not new:
            return False
        rows = self._rows + len(new)
        if rows > len(self.columns["cmd_id"]):
            more = np.full(rows, NOTHING, dtype=np.int64)  # twice as many
            self.columns = {name: np.concatenate((column[: self._rows], more)) for name, column in self.columns.items()}
        self._put_common(new, [command.unit for command in new])
        self._put_moves([command for command in new if command.engine == "dma" and "peer" not in command.given])
        self._put_moves([command for command in new if command.engine == "dma" and "peer" in command.given], peer=True)
        self._put_works([command for command in new if command.engine != "dma"])
        return True

    def _number(self, table: str, item: bytes) -> int:
        """The index of a text in its table, to which new texts are added."""
        key = (table, item)
        if key not in self._numbers:
            self._numbers[key] = len(self.tables[table])
            self.tables[table].append(item)
        return self._numbers[key]

    def _text(self, table: str, value: Any) -> int:
        """The index of the text of a value; NOTHING for None."""
        if value is None:
            return NOTHING
        key = (table, type(value), value)
        if key not in self._known:
            self._known[key] = self._number(table, text(value))
        return self._known[key]

    def _put(self, rows: Any, **values: Any) -> None:
        """Set the values of rows: an array or a list for each column, or one value for all rows."""
        for name, value in values.items():
            self.columns[name][rows] = value

    def _put_common(self, entries: Sequence[Entry | Command], units: Sequence[str]) -> None:
        """Add rows of entries with the values that every command has."""
        metas: list[Mapping[str, Any]] = [entry.meta for entry in entries]
        places = [(meta.get("job", 0), meta.get("jobs", 1) - 1) for meta in metas]
        tiles, on_ve = numbers_of(metas, "tile_id"), [entry.engine == "ve" for entry in entries]
        self._put(
            slice(self._rows, self._rows + len(entries)),
            cmd_id=[entry.command_id for entry in entries],
            first=[NOTHING if job else 0 for job, _ in places],
            last=[0 if job == last else NOTHING for job, last in places],
            unit=[self.unit_number[unit] for unit in units],
            phase=[self._text("phases", meta.get("phase")) for meta in metas],
            common=[self._number("commons", common_text(entry)) for entry in entries],
            token=numbers_of(metas, "token"),
            irq_line=numbers_of(metas, "irq_line"),
            marker=[self._text("markers", meta.get("marker")) for meta in metas],
            token_idx=numbers_of(metas, "token_idx"),
            vec_chunk_id=np.where(on_ve, tiles, NOTHING),
            tile_id=np.where(on_ve, NOTHING, tiles),
        )
        self._rows += len(entries)

    def _group(self, token_idx: int | None) -> int:
        """The token group of a further entry; NOTHING without one."""
        if token_idx is None:
            return NOTHING
        group = self._groups.setdefault(token_idx, len(self._groups))
        if group == len(self.tokens_remaining):
            self.tokens_remaining.append(0)
        self.tokens_remaining[group] += 1
        return group

    def _put_transfers(self, moves: Mapping[str, Numbers]) -> None:
        """The values of all transfers of the program."""
        rows, entries = moves["entry"], self.program.entries
        self._put_move(rows, moves["engine"], moves, moves["nbytes"])
        pairs = np.array([k for k, row in enumerate(rows.tolist()) if isinstance(entries[row], PairEntry)], dtype=np.int64)
        self._put_between(rows[pairs], moves["peer"][pairs], [entries[row].opcode for row in rows[pairs].tolist()])

    def _put_moves(self, commands: Sequence[Command], *, peer: bool = False) -> None:
        """The values of transfers of components. `peer`: they are between two scratchpads."""
        given = {name: numbers([one.given[name] for one in commands]) for name in (*MOVE, "bytes", *(["peer"] if peer else []))}
        rows, engines = numbers([one.index for one in commands]), numbers([one.number for one in commands])
        self._put_move(rows, engines, given, given["bytes"])
        if peer:
            self._put_between(rows, given["peer"], [one.opcode for one in commands])

    def _put_move(self, rows: Numbers, engine: Numbers, moves: Mapping[str, Numbers], nbytes: Numbers) -> None:
        """Transfers of DMA engines, by the values of `MOVE`."""
        own, write = self._engines.dma_pad[engine], moves["write"]
        align = self._engines.align[moves["memory"]]
        dram, spm = moves["dram_addr"] // align * align, moves["spm_addr"]
        by_direction = numbers([self._text("job_types", "DMA_READ"), self._text("job_types", "DMA_WRITE")])
        self._put(
            rows,
            by=0,
            spm=own,
            dram=np.where(own == NOTHING, NOTHING, 0),
            served=write,
            job_type=np.where(own == NOTHING, self._text("job_types", HOST_COPY), by_direction[write]),
            channel=moves["channel"],
            direction=write,
            src_addr=np.where(write, spm, dram),
            dst_addr=np.where(write, dram, spm),
            size_bytes=nbytes,
            weight=self._engines.weight[engine, moves["channel"]],
        )

    def _put_between(self, rows: Numbers, peer: Numbers, opcodes: Sequence[str]) -> None:
        """The values that differ in transfers between two scratchpads."""
        self._put(rows, far=self._engines.pads(peer), dram=NOTHING, direction=2, job_type=self._job_types(opcodes))

    def _job_types(self, opcodes: Sequence[str]) -> list[int]:
        return [self._text("job_types", opcode.removesuffix("_TILE")) for opcode in opcodes]

    def _put_services(self, jobs: Mapping[str, Numbers]) -> None:
        """The values of all jobs of TEs, VEs and processors of the program."""
        entries = [self.program.entries[row] for row in jobs["entry"].tolist()]
        self._put_work(jobs["entry"], jobs["engine"], [entry.opcode for entry in entries], jobs["work"])
        products = [entry for entry in entries if isinstance(entry, TeEntry)]
        whole: Any = [self._commands[entry.meta.get("command_index", entry.index)] for entry in products]
        self._put(
            numbers([entry.index for entry in products]),
            **{axis: [getattr(entry, axis) for entry in whole] for axis in AXES},
            **{f"tile_{axis}": [getattr(entry, axis) for entry in products] for axis in AXES},
        )
        vectors = [entry for entry in entries if isinstance(entry, VeEntry)]
        self._put_vectors(vectors, [(entry.length, entry.batch) for entry in vectors])

    def _put_works(self, commands: Sequence[Command]) -> None:
        """The values of jobs of components, except transfers."""
        rows = numbers([one.index for one in commands])
        self._put(rows, job_type=self._job_types([one.opcode for one in commands]))
        on_engine = [one for one in commands if one.engine != "component"]
        rows, engines = numbers([one.index for one in on_engine]), numbers([one.number for one in on_engine])
        self._put_work(rows, engines, [one.opcode for one in on_engine], numbers([one.given["work"] for one in on_engine]))
        products = [one for one in on_engine if one.engine == "te"]
        for axis in AXES:
            size = [one.given[axis] for one in products]
            self._put(numbers([one.index for one in products]), **{axis: size, f"tile_{axis}": size})
        vectors = [one for one in on_engine if one.engine == "ve"]
        self._put_vectors(vectors, [(one.given["length"], one.given["batch"]) for one in vectors])

    def _put_work(self, rows: Numbers, engine: Numbers, opcodes: Sequence[str], work: Numbers) -> None:
        """Jobs of TEs, VEs and processors."""
        engines = self._engines
        self._put(rows, by=engines.kind[engine], spm=engines.compute_pad[engine], job_type=self._job_types(opcodes), work=work)

    def _put_vectors(self, vectors: Sequence[Entry | Command], sizes: Sequence[tuple[int, int]]) -> None:
        """The values of jobs of VEs. `sizes`: their lengths and batches."""
        rows = numbers([one.index for one in vectors])
        ops = [self._text("ops", one.opcode.removesuffix("_TILE").removeprefix("VE_")) for one in vectors]
        self._put(rows, op_type=ops, len=[length for length, _ in sizes], batch=[batch for _, batch in sizes])


class _Engines:
    """What lines tell of engines and memories, by their numbers."""

    def __init__(self, plan: Plan, unit_number: Mapping[str, int]) -> None:
        machine = plan.machine
        self._tracks = numbers([*(unit_number[name] for name in plan.scratchpads), NOTHING])
        self.dma_pad = self.pads(numbers([engine["spm"] for engine in machine["dma"]]))
        self.compute_pad = self.pads(numbers([engine["spm"] for engine in machine["compute"]]))
        self.kind = numbers([KINDS.index(engine["kind"]) for engine in machine["compute"]])
        self.align = numbers([memory["align"] for memory in machine["memories"]])
        self.weight = np.zeros((len(machine["dma"]), len(CHANNELS)), dtype=np.int64)
        for number, engine in enumerate(machine["dma"]):
            weights = [channel[2] for channel in engine["channels"]]
            self.weight[number, : len(weights)] = weights

    def pads(self, scratchpads: Numbers) -> Numbers:
        """The tracks of scratchpads; NOTHING of those without banks, which come after the others."""
        found: Numbers = self._tracks[np.minimum(scratchpads, len(self._tracks) - 1)]
        return found


def numbers(values: Sequence[Any]) -> Numbers:
    """As an array."""
    return np.array(values, dtype=np.int64)


def numbers_of(metas: Sequence[Mapping[str, Any]], name: str) -> list[int]:
    """A field of the metadata of each entry; NOTHING where it is missing."""
    return [NOTHING if (value := meta.get(name)) is None else value for meta in metas]


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


class Value(msgspec.Struct, frozen=True):
    """A number of the record."""

    at: int


class Column(msgspec.Struct, frozen=True):
    """A number of its entry."""

    name: str


class TextOf(msgspec.Struct, frozen=True):
    """A text of a table, by a number of the record."""

    table: str
    at: int
    base: int = 0


class TextBy(msgspec.Struct, frozen=True):
    """A text of a table, by a number of its entry."""

    table: str
    column: str


class Fixed(msgspec.Struct, frozen=True):
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
