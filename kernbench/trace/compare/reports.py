"""A comparison for programs and for CI: a JSON object, a Markdown comment, and a JUnit report that can fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from kernbench.common.units import plain_number
from kernbench.trace.compare.diff import WAITS, Change, Diff, Pair, Row
from kernbench.trace.compare.matching import PARTS, Command, Ran

Kind = Literal["text", "count", "change", "share", "ratio"]
LIMIT = 8  #: the most rows that are shown of a long table


@dataclass(frozen=True)
class Table:
    """Rows of values; the kind of a column says how its values are written. None means that there is no value."""

    title: str
    columns: Sequence[tuple[str, Kind]]
    rows: list[list[Any]]
    note: str = ""


def verdict(diff: Diff) -> Literal["slower", "faster", "same"]:
    """Whether the run became slower or faster."""
    if diff.b.ns == diff.a.ns:
        return "same"
    return "slower" if diff.b.ns > diff.a.ns else "faster"


_HOW = {
    "id": "by id",
    "work": "by opcode, shape and DRAM address: kernels issued them in another order",
    "key": "by opcode, layer, phase, head and tile",
}


def matching(diff: Diff) -> str:
    """The method of the alignment, and the commands without a match."""
    how = _HOW[diff.by]
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
    """The non-empty tables, in reading order."""
    for table in (settings(diff), parts(diff), engines(diff), resources(diff), kinds(diff), commands(diff)):
        if table.rows:
            yield _without_empty_columns(table)


def _without_empty_columns(table: Table) -> Table:
    kept = [i for i in range(len(table.columns)) if any(row[i] not in (None, "") for row in table.rows)]
    return Table(table.title, [table.columns[i] for i in kept], [[row[i] for i in kept] for row in table.rows], table.note)


def settings(diff: Diff) -> Table:
    """The settings that differ between the machines."""
    rows = [[path, _value(a), _value(b)] for path, a, b in diff.settings]
    return Table("Machine", [("setting", "text"), ("A", "text"), ("B", "text")], rows[:LIMIT], _first(rows))


def _value(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def parts(diff: Diff) -> Table:
    """The cycles of all matched commands, by component."""
    used = [(row.name, row.values["cycles"]) for row in diff.parts if row.values["cycles"] != Change(0, 0)]
    rows: list[list[Any]] = [[name, *_table_pair(cycles), PARTS[name]] for name, cycles in used]
    total = Change(sum(cycles.a or 0 for _, cycles in used), sum(cycles.b or 0 for _, cycles in used))
    if rows:
        rows.append(["total", *_table_pair(total), "of all matched commands"])
    heads: list[tuple[str, Kind]] = [("cycles", "text"), ("A", "count"), ("B", "count"), ("change", "change")]
    return Table("Commands, from issue to end", [*heads, ("of", "text")], rows)


def engines(diff: Diff) -> Table:
    """Busy cycles of engines, and the other cycles of engines that changed."""
    changed = [row for row in diff.engines if _changes(row, but="idle")]
    waits = [wait for wait in WAITS if any(_by(row, wait) for row in changed)]
    heads: list[tuple[str, Kind]] = [("engine", "text"), ("busy A", "count"), ("B", "count"), ("change", "change")]
    heads += [(wait.replace("_", "\n"), "change") for wait in waits]
    rows = []
    for row in changed:
        busy, idle = row.values["busy"], row.values["idle"]
        rows.append([row.name, *_table_pair(busy), *(_by(row, wait) for wait in waits), idle.by])
    note = _others(diff.engines, rows, 2 * LIMIT, "the same but for idle")
    return Table("Engines", [*heads, ("idle", "change")], rows[: 2 * LIMIT], note)


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
        rows.append([row.name, *_table_pair(row.values["bytes"]), busy.by, *sharers])
    return Table("Channels and links", heads, rows[:LIMIT], _others(diff.resources, rows, LIMIT))


def kinds(diff: Diff) -> Table:
    """Cycles by opcode and phase."""
    heads: list[tuple[str, Kind]] = [("opcode and phase", "text"), ("commands", "count"), ("A", "count"), ("B", "count")]
    changed = [row for row in diff.kinds if row.values["cycles"].by]
    rows = [
        [row.name, row.values["commands"].a, *_table_pair(row.values["cycles"]), _share(row.values["cycles"])]
        for row in changed
    ]
    note = _others(diff.kinds, rows, LIMIT)
    return Table("Cycles by kind, from issue to end", [*heads, ("change", "change"), ("", "share")], rows[:LIMIT], note)


def commands(diff: Diff) -> Table:
    """The commands that grew most, and what grew in them."""
    heads: list[tuple[str, Kind]] = [("change", "change"), ("command", "text"), ("layer, phase", "text"), ("on", "text")]
    heads += [("A", "count"), ("B", "count"), ("most of it", "text"), ("", "change")]
    grown = [pair for pair in diff.changed if pair.by > 0]
    rows = []
    for pair in grown[:LIMIT]:
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


def _table_pair(change: Change) -> list[int | None]:
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
    return f"the first {LIMIT} of {len(rows):,}" if len(rows) > LIMIT else ""


def _others(everything: Sequence[Any], rows: Sequence[Any], most: int, alike: str = "the same") -> str:
    """How many rows are not shown, and why."""
    same = len(everything) - len(rows)
    notes = [f"{most} of {len(rows):,} that changed"] if len(rows) > most else []
    return "; ".join([*notes, *([f"{same:,} {alike}"] if same else [])])


_HARMLESS = re.compile(r"[\w .,:;()/+%=-]*")
_SIDES = {"text": ":--", "count": "--:", "change": "--:", "share": "--:", "ratio": "--:"}


def headline(diff: Diff) -> str:
    """The comparison in a sentence: `slower by 27.9%: 3,410 to 4,363 cycles (+953)`."""
    text = f"{diff.a.cycles:,} to {diff.b.cycles:,} cycles ({diff.cycles.by:+,})"
    if not diff.same_clock:
        text += f", {decimal(diff.a.ns)} to {decimal(diff.b.ns)} ns"
    which = verdict(diff)
    if which == "same":
        return f"the same: {text}"
    return f"{which} by {share(abs(diff.growth))}: {text}" if diff.growth is not None else f"{which}: {text}"


def to_dict(diff: Diff, limit: Fraction | None = None) -> dict[str, Any]:
    """The whole comparison, in integers except for `growth`; only commands that changed are included. `limit`: the limit of
    `--fail-above`."""
    growth = None if diff.growth is None else float(diff.growth)
    return {
        "verdict": verdict(diff),
        "growth": growth,
        "fail_above": None if limit is None else plain_number(limit),
        "failed": limit is not None and diff.grew_above(limit),
        "a": _run(diff.a),
        "b": _run(diff.b),
        "aligned": {
            "by": diff.by,
            "matched": len(diff.pairs),
            "only_a": [_command(one) for one in diff.only_a],
            "only_b": [_command(one) for one in diff.only_b],
            "moved": diff.moved,
            "open": diff.open,
        },
        "settings": [{"setting": path, "a": a, "b": b} for path, a, b in diff.settings],
        "parts": {row.name: _change(row.values["cycles"]) for row in diff.parts},
        "kinds": [_row(row) for row in diff.kinds],
        "engines": [_row(row) for row in diff.engines],
        "resources": [_row(row) for row in diff.resources],
        "commands": [_pair(pair) for pair in diff.changed],
    }


def _run(run: Ran) -> dict[str, Any]:
    broken = None if run.broken is None else str(run.broken)
    ns = plain_number(run.ns)
    return {"file": run.path, "program": run.program, "status": run.status, "cycles": run.cycles, "ns": ns, "broken": broken}


def _command(one: Command) -> dict[str, Any]:
    where = {"layer_id": one.layer, "phase": one.phase, "head_id": one.head, "tile_id": one.tile}
    return {"cmd_id": one.number, "cmd_type": one.opcode, "unit": one.unit, **where}


def _change(change: Change) -> dict[str, int | None]:
    return {"a": change.a, "b": change.b, "change": change.by}


def _row(row: Row) -> dict[str, Any]:
    return {"name": row.name, **{name: _change(change) for name, change in row.values.items()}}


def _pair(pair: Pair) -> dict[str, Any]:
    parts = {name: _change(Change(pair.a.parts[name], pair.b.parts[name])) for name in pair.a.parts}
    cycles = {"cycles": _change(Change(pair.a.cycles, pair.b.cycles)), "because": pair.because, "parts": parts}
    return {**_command(pair.a), "cmd_id_b": pair.b.number, "unit_b": pair.b.unit, **cycles}


# Markdown ---------------------------------------------------------------------------------------------------------


def markdown(diff: Diff, limit: Fraction | None = None) -> str:
    """The comparison in Markdown, for comments on code-hosting sites."""
    gate = "" if limit is None else f" {_gate(diff, limit)}."
    lines = [f"### {markdown_cell(diff.b.program or 'a program')}: {headline(diff)}", ""]
    lines += [f"{_sentence(markdown_cell(matching(diff)))}{gate}", ""]
    for table in all_tables(diff):
        lines += [*_markdown_table(table), ""]
    return "\n".join(lines)


def _gate(diff: Diff, limit: Fraction) -> str:
    verb = "is above" if diff.grew_above(limit) else "is not above"
    grown = "it took no time before" if diff.growth is None else f"{share(diff.growth, sign=True)}"
    return f"The change of {grown} {verb} the limit of {share(limit)}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"**{table.title}**" + (f" ({table.note})" if table.note else "")
    yield ""
    yield "| " + " | ".join(markdown_cell(head) for head, _ in table.columns) + " |"
    yield "|" + "|".join(_SIDES[kind] for _, kind in table.columns) + "|"
    for row in table.rows:
        cells = (markdown_cell(exact(value, kind)) for value, (_, kind) in zip(row, table.columns, strict=True))
        yield "| " + " | ".join(cells) + " |"


def exact(value: Any, kind: str) -> str:
    """A value in full."""
    if value is None:
        return ""
    if kind == "count":
        return f"{value:,}"
    if kind == "change":
        return f"{value:+,}" if value else "0"
    if kind == "share":
        return share(value, sign=True)
    return f"{float(value):.2f}" if kind == "ratio" else str(value)


def share(value: Fraction, sign: bool = False, *, even: bool = False) -> str:
    """A share as a percentage with at most two decimals; a tiny share is marked.

    `even`: with both digits always, as in a column.
    """
    text = f"{float(value * 100):{'+' if sign else ''}.2f}"
    if value and float(text) == 0:
        return f"{'-' if value < 0 else '+' if sign else ''}<0.01%"
    return "0%" if not value else f"{text}%" if even else f"{text.rstrip('0').rstrip('.')}%"


def decimal(value: Fraction) -> str:
    """A number with three digits behind the point at most."""
    return f"{float(value):,.3f}".rstrip("0").rstrip(".")


def markdown_cell(text: str) -> str:
    """Text that is shown literally: text that might be markup, a link, a mention or the end of a cell becomes code."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    if _HARMLESS.fullmatch(flat):
        return flat
    return "`" + flat.replace("`", "'").replace("|", "\\|") + "`"


# JUnit ------------------------------------------------------------------------------------------------------------


def junit(diff: Diff, limit: Fraction | None = None) -> str:
    """A JUnit report of one test: that the run's time did not grow above the limit. Without a limit it cannot fail."""
    failed = limit is not None and diff.grew_above(limit)
    seconds = f"{float(diff.b.ns / 10**9):.9f}"
    name = xml_text(diff.b.program or "a program")
    facts: dict[str, Any] = {"cycles_a": diff.a.cycles, "cycles_b": diff.b.cycles}
    facts |= {"ns_a": plain_number(diff.a.ns), "ns_b": plain_number(diff.b.ns)}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    counts = f'tests="1" failures="{int(failed)}" errors="0" skipped="0" time="{seconds}"'
    lines.append(f'<testsuites {counts}><testsuite name="kbsim trace diff" {counts}>')
    lines.append("<properties>")
    lines += [f'<property name="{key}" value="{value}"/>' for key, value in facts.items()]
    lines.append("</properties>")
    lines.append(f'<testcase classname={quoteattr(name)} name="makespan" time="{seconds}">')
    if failed and limit is not None:
        lines.append(f"<failure message={quoteattr(_gate(diff, limit))}>{escape(xml_text(headline(diff)))}</failure>")
    lines.append(f"<system-out>{escape(xml_text(markdown(diff, limit)))}</system-out>")
    return "\n".join([*lines, "</testcase></testsuite></testsuites>", ""])


def xml_text(text: str) -> str:
    """Text that XML can hold: it has no control characters, surrogates or noncharacters."""
    return "".join(c if c in "\t\n" or (c >= " " and c.isprintable()) or c == "\u00a0" else "\ufffd" for c in text)
