"""A comparison for machines and for CI: an object for JSON, Markdown for a comment, JUnit for a gate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from kernbench.common.units import plain_number
from kernbench.trace.compare.commands import Command, Ran
from kernbench.trace.compare.diff import Change, Diff, Pair, Row
from kernbench.trace.compare.tables import Table, all_tables, matching, verdict

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
    """All of it, in whole numbers but for `growth`; of the commands those that changed. `limit`: what `--fail-above` allows."""
    growth = None if diff.growth is None else float(diff.growth)
    return {
        "verdict": verdict(diff),
        "growth": growth,
        "fail_above": None if limit is None else plain_number(limit),
        "failed": limit is not None and diff.grew_above(limit),
        "a": _run(diff.a),
        "b": _run(diff.b),
        "aligned": {
            "by": "id" if diff.by_id else "key",
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
    """Markdown, as forges show it in a comment."""
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
    """A part of 1 in hundredths, with two digits behind the point at most; what is nearly nothing says so.

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
    """Text that stays text: what might be markup, a link, a mention or the end of a cell becomes code."""
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
