"""A comparison as tables of plain values: what a terminal, Markdown and CI show of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from kernbench.trace.compare.commands import PARTS, Command
from kernbench.trace.compare.diff import WAITS, Change, Diff, Row

Kind = Literal["text", "count", "change", "share", "ratio"]
MOST = 8  #: rows of a long table


@dataclass(frozen=True)
class Table:
    """Rows of values; a column's kind says how to write them. None is nothing."""

    title: str
    columns: Sequence[tuple[str, Kind]]
    rows: list[list[Any]]
    note: str = ""


def verdict(diff: Diff) -> Literal["slower", "faster", "same"]:
    """Which way the run's time went."""
    if diff.b.ns == diff.a.ns:
        return "same"
    return "slower" if diff.b.ns > diff.a.ns else "faster"


def matching(diff: Diff) -> str:
    """How commands were aligned, and what that left over."""
    how = "by id" if diff.by_id else "by opcode, layer, phase, head and tile"
    parts = [f"{len(diff.pairs):,} of {len(diff.a.commands):,} and {len(diff.b.commands):,} commands matched, {how}"]
    for name, only in (("A", diff.only_a), ("B", diff.only_b)):
        if only:
            parts.append(f"only in {name}: {_listed(only)}")
    if diff.moved:
        parts.append(f"{diff.moved:,} ran on another unit")
    if diff.open:
        parts.append(f"not ended in both, and in no sum: {diff.open:,}")
    for name, run in (("A", diff.a), ("B", diff.b)):
        if run.broken is not None:
            parts.append(f"{name} breaks off, so its cycles are those that are there")
        elif run.filtered:
            parts.append(f"{name} was written with a filter")
    return "; ".join(parts)


def _listed(commands: Sequence[Command], most: int = 4) -> str:
    text = ", ".join(f"{one.number} {one.opcode}" for one in commands[:most])
    return text + (f" and {len(commands) - most:,} more" if len(commands) > most else "")


def all_tables(diff: Diff) -> Iterator[Table]:
    """The tables that have something to say, in the order in which they are read."""
    for table in (settings(diff), parts(diff), engines(diff), resources(diff), kinds(diff), commands(diff)):
        if table.rows:
            yield _without_empty_columns(table)


def _without_empty_columns(table: Table) -> Table:
    kept = [i for i in range(len(table.columns)) if any(row[i] not in (None, "") for row in table.rows)]
    return Table(table.title, [table.columns[i] for i in kept], [[row[i] for i in kept] for row in table.rows], table.note)


def settings(diff: Diff) -> Table:
    """What differs between the machines."""
    rows = [[path, _value(a), _value(b)] for path, a, b in diff.settings]
    return Table("Machine", [("setting", "text"), ("A", "text"), ("B", "text")], rows[:MOST], _first(rows))


def _value(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def parts(diff: Diff) -> Table:
    """What the cycles of all matched commands went into."""
    used = [(row.name, row.values["cycles"]) for row in diff.parts if row.values["cycles"] != Change(0, 0)]
    rows: list[list[Any]] = [[name, *_pair(cycles), PARTS[name]] for name, cycles in used]
    total = Change(sum(cycles.a or 0 for _, cycles in used), sum(cycles.b or 0 for _, cycles in used))
    if rows:
        rows.append(["total", *_pair(total), "of all matched commands"])
    heads: list[tuple[str, Kind]] = [("cycles", "text"), ("A", "count"), ("B", "count"), ("change", "change")]
    return Table("Commands, from issue to end", [*heads, ("of", "text")], rows)


def engines(diff: Diff) -> Table:
    """Busy cycles of engines, and what else of their cycles changed."""
    changed = [row for row in diff.engines if _changes(row, but="idle")]
    waits = [wait for wait in WAITS if any(_by(row, wait) for row in changed)]
    heads: list[tuple[str, Kind]] = [("engine", "text"), ("busy A", "count"), ("B", "count"), ("change", "change")]
    heads += [(wait.replace("_", "\n"), "change") for wait in waits]
    rows = []
    for row in changed:
        busy, idle = row.values["busy"], row.values["idle"]
        rows.append([row.name, *_pair(busy), *(_by(row, wait) for wait in waits), idle.by])
    note = _others(diff.engines, rows, 2 * MOST, "the same but for idle")
    return Table("Engines", [*heads, ("idle", "change")], rows[: 2 * MOST], note)


def resources(diff: Diff) -> Table:
    """Bytes of channels and links, and how many transfers shared them while they were in use."""
    heads: list[tuple[str, Kind]] = [("channel, link", "text"), ("bytes A", "count"), ("B", "count"), ("change", "change")]
    heads += [("busy", "change"), ("sharers A", "ratio"), ("B", "ratio")]
    changed = [row for row in diff.resources if _changes(row)]
    changed.sort(key=lambda row: -max(row.values["bytes"].a or 0, row.values["bytes"].b or 0))
    rows = []
    for row in changed:
        busy, members = row.values["busy"], row.values["member_cycles"]
        sharers = [_ratio(members.a, busy.a), _ratio(members.b, busy.b)]
        rows.append([row.name, *_pair(row.values["bytes"]), busy.by, *sharers])
    return Table("Channels and links", heads, rows[:MOST], _others(diff.resources, rows, MOST))


def kinds(diff: Diff) -> Table:
    """Cycles by opcode and phase."""
    heads: list[tuple[str, Kind]] = [("opcode and phase", "text"), ("commands", "count"), ("A", "count"), ("B", "count")]
    changed = [row for row in diff.kinds if row.values["cycles"].by]
    rows = [[row.name, row.values["commands"].a, *_pair(row.values["cycles"]), _share(row.values["cycles"])] for row in changed]
    note = _others(diff.kinds, rows, MOST)
    return Table("Cycles by kind, from issue to end", [*heads, ("change", "change"), ("", "share")], rows[:MOST], note)


def commands(diff: Diff) -> Table:
    """The commands that grew most, and what grew in them."""
    heads: list[tuple[str, Kind]] = [("change", "change"), ("command", "text"), ("layer, phase", "text"), ("on", "text")]
    heads += [("A", "count"), ("B", "count"), ("most of it", "text"), ("", "change")]
    grown = [pair for pair in diff.changed if pair.by > 0]
    rows = []
    for pair in grown[:MOST]:
        layer = " ".join(str(one) for one in (pair.a.layer, pair.a.phase) if one is not None)
        part = pair.because
        mate = pair.b.number
        name = f"{pair.a.number} {pair.a.opcode}" if mate == pair.a.number else f"{pair.a.number}, {mate} {pair.a.opcode}"
        unit = pair.a.unit if pair.a.unit == pair.b.unit else f"{pair.a.unit}, {pair.b.unit}"
        by = pair.b.parts[part] - pair.a.parts[part]
        rows.append([pair.by, name, layer, unit, pair.a.cycles, pair.b.cycles, part, by])
    shrunk = len(diff.changed) - len(grown)
    note = f"{len(grown):,} of {len(diff.pairs):,}; {shrunk:,} got faster"
    return Table("Slower commands", heads, rows, note)


def _pair(change: Change) -> list[int | None]:
    return [change.a, change.b, change.by]


def _changes(row: Row, but: str = "") -> bool:
    values = (change for name, change in row.values.items() if name != but)
    return any(change.by or (change.a is None) != (change.b is None) for change in values)


def _by(row: Row, name: str) -> int | None:
    return row.values[name].by if name in row.values else None


def _ratio(numerator: int | None, denominator: int | None) -> Fraction | None:
    return Fraction(numerator, denominator) if numerator is not None and denominator else None


def _share(change: Change) -> Fraction | None:
    return Fraction(change.by, change.a) if change.a else None


def _first(rows: Sequence[Any]) -> str:
    return f"the first {MOST} of {len(rows):,}" if len(rows) > MOST else ""


def _others(everything: Sequence[Any], rows: Sequence[Any], most: int, alike: str = "the same") -> str:
    """How many rows are not shown, and why."""
    same = len(everything) - len(rows)
    notes = [f"{most} of {len(rows):,} that changed"] if len(rows) > most else []
    return "; ".join([*notes, *([f"{same:,} {alike}"] if same else [])])
