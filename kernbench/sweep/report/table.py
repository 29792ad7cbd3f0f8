"""The table of a sweep: one row for each point, in the order of the spec. It does not depend on where and when points ran."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import NoRoomError, temporary_folder
from kernbench.config.allowed_code import AllowCode
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sweep.goals import GOALS, goal_value, keeps
from kernbench.sweep.points import Task
from kernbench.sweep.sources import check_code
from kernbench.sweep.spec import Goal
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import About, read_about, read_lines, sweep_named
from kernbench.sweep.store.tables import METRICS, Row
from kernbench.sweep.work import Work
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from kernbench.trace.writer import TraceFile

MISSING = "missing"  #: status of a point that has no result
RESULT = ("status", "cycles", "ns", "jobs", "jobs_hash")  #: columns of every row, then METRICS and `error`
FACTS = ("target", "machine")


@dataclass(frozen=True, slots=True)
class Entry:
    """A point and its result."""

    number: int
    target: str
    machine: str
    values: tuple[Any, ...]
    task: Task
    row: Row | None

    @property
    def status(self) -> str:
        """The status of its run, or `missing`."""
        return MISSING if self.row is None else self.row.status


@dataclass(frozen=True)
class SweepTable:
    """A sweep and its results."""

    name: str
    about: About
    entries: list[Entry]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that vary: targets and machines if there are several, then the axes."""
        there = [name for name in FACTS if len({getattr(entry, name) for entry in self.entries}) > 1]
        return (*there, *self.about.names)

    @property
    def goals(self) -> Sequence[Goal]:
        """The goals of the sweep."""
        return self.about.goals

    def place(self, entry: Entry) -> dict[str, Any]:
        """The location of a point: its value for each of `names`."""
        known = {"target": entry.target, "machine": entry.machine, **dict(zip(self.about.names, entry.values, strict=True))}
        return {name: known[name] for name in self.names}

    def value(self, entry: Entry, name: str) -> Any:
        """The value of a point for one of `names`."""
        return entry.values[self._columns[name]] if name in self._columns else getattr(entry, name)

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.about.names)}

    def label(self, entry: Entry) -> str:
        """A point in words: `dram.channels=4, te.engines=2`."""
        return ", ".join(f"{name}={plain_text(value)}" for name, value in self.place(entry).items()) or entry.target

    def allowed(self, entry: Entry) -> bool:
        """Whether a result meets the constraints of the sweep."""
        constraints = self.about.constraints
        return not constraints or (
            entry.row is not None and keeps(entry.row, dict(zip(self.about.names, entry.values, strict=True)), constraints)
        )

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """The goals that are expressions instead of numbers of a row."""
        return tuple(dict.fromkeys(name for name, _ in self.goals if name not in GOALS))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the complete table."""
        taken = ("number", *FACTS, *RESULT, *METRICS, "error")
        axes = [f"axis {name}" if name in taken else name for name in self.about.names]
        return ("number", "target", "machine", *axes, *RESULT, *METRICS, *self.expressions, "error")

    def cells(self, entry: Entry) -> tuple[Any, ...]:
        """A complete row of the table; None for a missing value."""
        row = entry.row
        if row is None:
            result: tuple[Any, ...] = (MISSING, *[None] * (len(RESULT) + len(METRICS) + len(self.expressions)))
        else:
            numbers = (row.status, row.cycles, row.ns, row.jobs, row.jobs_hash or None)
            computed = ((None if (value := goal_value(row, name)) is None else float(value)) for name in self.expressions)
            result = (*numbers, *(row.metrics.get(name) for name in METRICS), *computed, row.error or None)
        return (entry.number, entry.target, entry.machine, *entry.values, *result)


def read_table(store: Store, name: str | None = None) -> SweepTable:
    """The table of a sweep; without a name, the table of the only sweep in the store."""
    which = sweep_named(store, name)
    lines = list(read_lines(store, which))
    rows = store.rows(list(dict.fromkeys(line.task.key for line in lines)))
    entries = [Entry(line.number, line.target, line.machine, line.values, line.task, rows.get(line.task.key)) for line in lines]
    return SweepTable(which, read_about(store, which), entries)


def plain_text(value: Any) -> str:
    """A value as a table shows it: a text is unchanged, and any other value is JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def csv_bytes(table: SweepTable) -> bytes:
    """The complete table as CSV in UTF-8 (RFC 4180, but lines end in a line feed)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    for entry in table.entries:
        writer.writerow(["" if value is None else plain_text(value) for value in table.cells(entry)])
    return out.getvalue().encode("utf-8", "replace")


def dicts(table: SweepTable) -> list[dict[str, Any]]:
    """The complete table as JSON objects."""
    return [dict(zip(table.columns, table.cells(entry), strict=True)) for entry in table.entries]


def parquet_bytes(table: SweepTable) -> bytes:
    """The complete table as Parquet; InputError without the extra `analysis`. A column of mixed types is text."""
    try:
        pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        rule = "Parquet needs pyarrow"
        raise InputError(Problem("kbsim sweep report", rule, remedy="pip install 'kernbench[analysis]'")) from None
    columns = {}
    for name, values in zip(table.columns, zip(*(table.cells(entry) for entry in table.entries), strict=True), strict=True):
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            columns[name] = pa.array([None if value is None else float(value) for value in values])
        elif len(kinds) > 1 or kinds & {list, dict}:
            columns[name] = pa.array([None if value is None else plain_text(value) for value in values])
        else:
            columns[name] = pa.array(values)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def reasons_of(table: SweepTable, entries: Sequence[Entry], *, allow_code: AllowCode = ()) -> dict[str, str]:
    """One sentence for each of the given points, by key; every such point is run again. InputError if a bench of the sweep does
    not exist here, or if the sweep names Python code that `allow_code` does not allow."""
    if not entries:
        return {}
    work = Work.of(table.about.context, allow_code)
    return {entry.task.key: _reason(work, entry) for entry in entries}


def _reason(work: Work, entry: Entry) -> str:
    """The sentence, or the reason why there is none."""
    config = work.machines[entry.task.machine].again(entry.task.settings)
    check_code(config)
    try:
        of, machine = work.targets[entry.task.target].longest(config, entry.task.params)
        with temporary_folder("the trace of a point") as folder:
            path = folder / "run.jsonl"
            with TraceFile(path) as file:
                tracing = machine.trace(file, TraceOptions("full"))
                machine.run()
                tracing.close()
            return of + explain(open_trace(str(path))).sentence
    except NoRoomError:  # not a property of the point
        raise
    except InputError as error:
        return f"it cannot be explained: {error.problems[0].rule}"
