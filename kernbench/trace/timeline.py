"""A trace as tables: commands, spans on tracks, waits, instants and samples.

Everything that views, pictures and the report show is made from a `Timeline`; it is read from the file once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.trace import schema
from kernbench.trace.columns import NULL, Collector, Column, Ints, Table, paired, pick, rows_of
from kernbench.trace.reader import Trace
from kernbench.trace.schema import BY_NAME, Field

#: For each kind of span: the events at its start and end, and the keys that identify the span.
SPAN_EVENTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("DMA", "DMA_START", "DMA_END", ("tx_id",)),
    ("TE", "TE_START", "TE_END", ("job_id",)),
    ("VE", "VE_START", "VE_END", ("job_id",)),
    ("DRAM", "DRAM_TX_START", "DRAM_TX_END", ("tx_id", "channel")),
    ("NOC", "NOC_TX_START", "NOC_TX_END", ("tx_id", "channel", "link_id")),
)
KINDS: tuple[str, ...] = ("DMA", "TE", "VE", "CONTROL", "DRAM", "NOC")  #: the kinds of spans, by number
JOBS = ("DMA", "TE", "VE")  #: kinds of spans that are jobs; flows are parts of jobs, control commands take no time
POINTS: tuple[str, ...] = (
    "ERROR", "WARN", "MARKER", "TOKEN", "TOKEN_COMPLETE", "IRQ_EMIT", "SRAM_CONFLICT", "DRAM_TX_SUSPEND", "DRAM_TX_RESUME",
    "POWER_STATE", "HW_COUNTER",
)  # fmt: skip
SAMPLES: tuple[str, ...] = ("BANDWIDTH_SAMPLE", "ENGINE_SAMPLE", "BANK_SAMPLE")
_OTHERS = ("CMD_ENQUEUE", "CMD_START", "CMD_END", "JOB_ISSUE", "STALL_EVENT", "RESUME_EVENT")
_COMMON = {"core_id", "npu_id", "tenant_id", "thread_id"}
_CLOCK = schema.COMMON_FIELDS[0]
MAX_CYCLES = 2**53 - 1  #: what browsers count to
MAX_SPANS = 5_000_000  #: more would not fit into a page or a picture


@dataclass(frozen=True, slots=True)
class Unit:
    """One track."""

    name: str
    component: str
    facts: dict[str, Any]  #: its fields in TRACE_META: capacity, macs_per_cycle, ...


@dataclass(frozen=True)
class Timeline:
    """A trace in tables. Cycles are those of the file; `last` is the first cycle after everything."""

    meta: dict[str, Any]
    end: dict[str, Any] | None  #: TRACE_END
    broken: str  #: where and why the file breaks off; empty: it is whole
    first: int
    last: int
    units: list[Unit]
    commands: Table  #: a row a command, by id: CMD_ENQUEUE's fields, `start`, `end`, `status`
    #: `kind`, `unit`, `row` in its track, `start`, `end`, `open`, `command` (a row), `job`, `issue`, `detail` (a row)
    spans: Table
    details: dict[str, Table]  #: by kind of span: the fields of its two events
    waits: Table  #: `span` (a row, or NULL), `start`, `end`, `reason`, `open` and STALL_EVENT's fields
    points: dict[str, Table]  #: by event type: `t_cycle` and its fields
    samples: dict[str, Table]

    @property
    def window(self) -> int:
        """[cycle] of a sample."""
        return max(1, int(self.meta["window_cycles"]))


def read_timeline(trace: Trace, cycles: tuple[int, int] | None = None) -> Timeline:
    """Read a trace file; with `cycles`, only the events that overlap `[from, to)`. InputError if there are too many spans."""
    collectors = {name: Collector(_fields(name)) for name in _wanted()}
    takers = _Takers(collectors)
    for batch in trace.batches({name: [one.name for one in collector.fields] for name, collector in collectors.items()}):
        for record in batch:
            take = takers[type(record)]
            if take is not None:
                take(record)
    tables = {name: collector.table() for name, collector in collectors.items()}
    end = None if trace.end is None else _plain(trace.end, "TRACE_END")
    last = max([trace.meta.t_cycle, *([] if end is None else [end["cycles"]]), *(_ends(table) for table in tables.values())])
    if last > MAX_CYCLES:
        rule = f"a report shows cycles up to {MAX_CYCLES:,}, and not {last:,}"
        raise InputError(Problem(trace.path, rule))
    made = _Builder(_plain(trace.meta, "TRACE_META"), tables, last).timeline(
        end, "" if trace.broken is None else str(trace.broken)
    )
    made = made if cycles is None else _within(made, cycles)
    if len(made.spans) > MAX_SPANS:
        rule = f"it has {len(made.spans):,} spans, and a report shows at most {MAX_SPANS:,}"
        raise InputError(Problem(trace.path, rule, remedy="take a part of it with --cycles FROM:TO"))
    return made


class _Takers(dict[type, Any]):
    """The handler of a record by the name of its class, because readers have different classes for one event type."""

    def __init__(self, collectors: dict[str, Collector]) -> None:
        super().__init__()
        self._collectors = collectors

    def __missing__(self, kind: type) -> Any:
        collector = self._collectors.get(kind.event.name)  # type: ignore[attr-defined]
        self[kind] = None if collector is None else collector.add
        return self[kind]


def _wanted() -> tuple[str, ...]:
    return (*_OTHERS, *(name for _, first, last, _ in SPAN_EVENTS for name in (first, last)), *POINTS, *SAMPLES)


def _fields(name: str) -> list[Field]:
    """The clock and an event's fields; of a command all ids too."""
    fields = [_CLOCK, *BY_NAME[name].fields]
    return fields + [one for one in schema.COMMON_FIELDS if one.name in _COMMON] if name == "CMD_ENQUEUE" else fields


def _plain(record: Any, name: str) -> dict[str, Any]:
    fields = (_CLOCK, *BY_NAME[name].fields)
    return {one.name: value for one in fields if (value := getattr(record, one.name)) is not None}


def _ends(table: Table) -> int:
    return int(table["t_cycle"].max()) if len(table) else 0


class _Builder:
    """Puts the tables of single events together."""

    def __init__(self, meta: dict[str, Any], tables: dict[str, Table], last: int) -> None:
        self.meta = meta
        self.tables = tables
        self.first, self.last = int(meta["t_cycle"]), last
        self.units: dict[str, Unit] = {}
        for unit in meta["units"]:
            name = str(unit.get("unit"))
            self.units[name] = Unit(name, str(unit.get("component", "")), unit)
        self._numbers = {name: i for i, name in enumerate(self.units)}

    def timeline(self, end: dict[str, Any] | None, broken: str) -> Timeline:
        commands = self._commands()
        parts = [self._spans(*events, commands) for events in SPAN_EVENTS]
        parts.insert(KINDS.index("CONTROL"), self._control(commands))
        spans = _stacked([part for part, _ in parts])
        spans = spans.take(_in_order(spans))
        spans.columns["row"] = Column(rows_of(spans))
        spans = spans.take(np.lexsort((spans["start"], spans["row"], spans["unit"])))
        waits = self._waits(spans)
        points = {
            name: self._with_unit(self.tables[name], BY_NAME[name].component) for name in POINTS if len(self.tables[name])
        }
        samples = {name: self._with_unit(self.tables[name], "") for name in SAMPLES}
        details = {kind: table for kind, (_, table) in zip(KINDS, parts, strict=True)}
        units = list(self.units.values())
        return Timeline(self.meta, end, broken, self.first, self.last, units, commands, spans, details, waits, points, samples)

    def _commands(self) -> Table:
        queued, starts, ends = (self.tables[name] for name in ("CMD_ENQUEUE", "CMD_START", "CMD_END"))
        jobs = [self.tables[name] for _, *both, _ in SPAN_EVENTS for name in both]
        ids = np.unique(np.concatenate([table["cmd_id"] for table in (queued, starts, ends, *jobs)]))
        ids = ids[ids != NULL]
        made = queued.take(pick(queued["cmd_id"], ids))
        started, ended = starts.take(pick(starts["cmd_id"], ids)), ends.take(pick(ends["cmd_id"], ids))
        made.columns["cmd_id"] = Column(ids)
        for name in sorted(_COMMON):
            default = self.meta["defaults"].get(name)
            if isinstance(default, int):
                made.columns[name] = Column(np.where(made[name] == NULL, default, made[name]))
        made.columns["start"], made.columns["end"] = Column(started["t_cycle"]), Column(ended["t_cycle"])
        made.columns["status"] = ended.columns["status"]
        made.columns["unit"] = Column(np.where(self._unit(made) < 0, self._unit(started), self._unit(made)))
        return made

    def _spans(self, kind: str, first: str, last: str, keys: Sequence[str], commands: Table) -> tuple[Table, Table]:
        starts, ends = self.tables[first], self.tables[last]
        one, other = paired([starts[key] for key in keys], [ends[key] for key in keys])
        started, ended = starts.take(one), ends.take(other)
        detail = {name: column for name, column in started.columns.items() if name != "t_cycle"}
        for name, column in ended.columns.items():
            if name not in detail:
                detail[name] = column if name != "t_cycle" else Column(ended["t_cycle"])
            elif (one < 0).any() and column.texts is None:
                detail[name] = Column(np.where(one < 0, column.values, detail[name].values))
        detail.pop("t_cycle", None)
        unit = np.where(one < 0, self._unit(ended, kind), self._unit(started, kind))
        end = np.where(other < 0, np.maximum(self.last, started["t_cycle"]), ended["t_cycle"])
        latency = ended["latency_cycles"]
        guess = np.where(latency == NULL, self.first, end - latency)
        start = np.where(one < 0, guess, started["t_cycle"])
        table = Table(detail, len(one))
        job, command = table["job_id"], pick(commands["cmd_id"], table["cmd_id"])
        issues = self.tables["JOB_ISSUE"].take(pick(self.tables["JOB_ISSUE"]["job_id"], job))
        if kind in JOBS:
            table.columns["job_type"] = issues.columns["job_type"]
        issue = issues["t_cycle"] if kind in JOBS else np.full(len(one), NULL)
        is_open = (other < 0).astype(np.int64)
        return self._table(kind, unit, start, np.maximum(end, start), is_open, command, job, issue), _without(table, "unit")

    def _control(self, commands: Table) -> tuple[Table, Table]:
        """NOP, BARRIER and END: commands that no engine ran."""
        names = np.array([unit.component in ("CPU", "CONTROL", "") for unit in self.units.values()] or [False])
        ran = (commands["unit"] >= 0) & names[np.maximum(commands["unit"], 0)] & (commands["start"] != NULL)
        rows = np.flatnonzero(ran)
        start, end = commands["start"][rows], commands["end"][rows]
        nothing = np.full(len(rows), NULL)
        ended = np.where(end == NULL, start, end)
        made = self._table(
            "CONTROL", commands["unit"][rows], start, ended, np.zeros(len(rows), np.int64), rows, nothing, nothing
        )
        return made, Table({}, len(rows))

    def _table(
        self, kind: str, unit: Ints, start: Ints, end: Ints, is_open: Ints, command: Ints, job: Ints, issue: Ints
    ) -> Table:
        count = len(unit)
        given = {"kind": np.full(count, KINDS.index(kind)), "unit": unit, "start": start, "end": end, "open": is_open}
        given |= {"command": np.where(command < 0, NULL, command), "job": job, "issue": issue, "detail": np.arange(count)}
        return Table({name: Column(values) for name, values in given.items()}, count)

    def _waits(self, spans: Table) -> Table:
        starts, ends = self.tables["STALL_EVENT"], self.tables["RESUME_EVENT"]
        reasons = {name: i for i, name in enumerate(schema.STALL_REASONS)}
        keys = [[table["job_id"], _recoded(table.columns["reason"], reasons), table["channel"]] for table in (starts, ends)]
        one, other = paired(*keys)
        started, ended = starts.take(one), ends.take(other)
        end = np.where(other < 0, np.maximum(self.last, started["t_cycle"]), ended["t_cycle"])
        start = np.where(one < 0, end - ended.filled("duration_cycles"), started["t_cycle"])
        job = np.where(one < 0, ended["job_id"], started["job_id"])
        reason = np.where(
            one < 0, keys[1][1][np.maximum(other, 0)] if len(ends) else 0, keys[0][1][np.maximum(one, 0)] if len(starts) else 0
        )
        jobs = np.flatnonzero(spans["kind"] <= KINDS.index("VE"))
        span = pick(spans["job"][jobs], job)
        found = {"span": np.where(span < 0, NULL, jobs[span] if len(jobs) else NULL), "start": start, "end": end, "job": job}
        found |= {"reason": reason, "open": (other < 0).astype(np.int64), "channel": started["channel"]}
        found |= {"bank_id": started["bank_id"], "by_job": started["by_job"]}
        table = Table({name: Column(values) for name, values in found.items()}, len(one))
        return table.take(np.lexsort((table["job"], table["end"], table["start"])))

    def _with_unit(self, table: Table, component: str) -> Table:
        """The same with numbers of units instead of their names."""
        if "unit" not in table.columns:
            return table
        return Table({**table.columns, "unit": Column(self._unit(table, component))}, len(table))

    def _unit(self, table: Table, component: str = "") -> Ints:
        """The number of the unit of each row, or -1. One that TRACE_META does not list gets the next number."""
        column = table.columns["unit"]
        if column.texts is None:
            return column.values
        for name in column.texts:
            number = self._numbers.setdefault(name, len(self._numbers))
            if number == len(self.units) or not self.units[name].component:
                facts = self.units[name].facts if name in self.units else {"unit": name}
                self.units[name] = Unit(name, component, facts)
        numbers = np.array([self._numbers[name] for name in column.texts] or [-1], np.int64)
        return np.where(column.values == NULL, -1, numbers[np.maximum(column.values, 0)])


def _recoded(column: Column, codes: dict[str, int]) -> Ints:
    numbers = np.array([codes.get(text, len(codes)) for text in column.texts or ()] or [0], np.int64)
    return np.where(column.values == NULL, len(codes), numbers[np.maximum(column.values, 0)])


def _without(table: Table, name: str) -> Table:
    return Table({key: column for key, column in table.columns.items() if key != name}, len(table))


def _stacked(tables: Sequence[Table]) -> Table:
    names = list(tables[0].columns)
    return Table({name: Column(np.concatenate([table[name] for table in tables])) for name in names})


def _in_order(spans: Table) -> Ints:
    return np.lexsort((spans["detail"], spans["job"], spans["end"], spans["start"], spans["unit"]))


def _within(timeline: Timeline, cycles: tuple[int, int]) -> Timeline:
    """The events that overlap `[from, to)`; commands and samples are not cut."""
    first, last = cycles
    spans = timeline.spans
    keep = np.flatnonzero((spans["start"] < last) & ((spans["end"] > first) | (spans["start"] >= first)))
    numbers = np.full(len(spans) + 1, NULL)
    numbers[keep] = np.arange(len(keep))
    waits = timeline.waits.take(np.flatnonzero((timeline.waits["start"] < last) & (timeline.waits["end"] > first)))
    waits.columns["span"] = Column(np.where(waits["span"] == NULL, NULL, numbers[np.maximum(waits["span"], 0)]))
    points = {name: _between(table, first, last) for name, table in timeline.points.items()}
    samples = {name: _overlapping(table, first, last) for name, table in timeline.samples.items()}
    kept = spans.take(keep)
    details = _renumbered(kept, timeline.details)
    first, last = max(first, timeline.first), min(last, timeline.last)
    return replace(
        timeline, first=first, last=last, spans=kept, waits=waits, details=details, samples=samples,
        points={name: table for name, table in points.items() if len(table)},
    )  # fmt: skip


def _renumbered(spans: Table, details: dict[str, Table]) -> dict[str, Table]:
    """The details of these spans alone; their `detail` is put right."""
    made = {}
    numbers = spans["detail"].copy()
    for i, kind in enumerate(KINDS):
        own = np.flatnonzero(spans["kind"] == i)
        made[kind] = details[kind].take(numbers[own])
        numbers[own] = np.arange(len(own))
    spans.columns["detail"] = Column(numbers)
    return made


def _overlapping(samples: Table, first: int, last: int) -> Table:
    """Samples whose windows have a cycle in `[first, last)`."""
    return samples.take(
        np.flatnonzero((samples["t_cycle"] >= first) & (samples["t_cycle"] + 1 - samples["window_cycles"] < last))
    )


def _between(table: Table, first: int, last: int) -> Table:
    return table.take(np.flatnonzero((table["t_cycle"] >= first) & (table["t_cycle"] < last)))


def names(units: Iterable[Unit], component: str) -> list[str]:
    """The names of a component's units, in the order of TRACE_META."""
    return [unit.name for unit in units if unit.component == component]
