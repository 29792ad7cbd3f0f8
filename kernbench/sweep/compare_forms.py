"""A comparison of sweeps for machines and for CI: an object for JSON, Markdown for a comment, JUnit for a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from kernbench.common.units import parse_rational, plain_number
from kernbench.common.words import counted
from kernbench.sweep.compare import Comparison, Pair
from kernbench.sweep.table import Entry
from kernbench.trace.diff_forms import markdown_cell, share, xml_text

MOST_ROWS = 20  #: of a table in Markdown


def headline(found: Comparison, limit: Fraction | None) -> str:
    """The comparison in a sentence."""
    changed = sum(pair.changed for pair in found.pairs)
    text = f"{counted(len(found.pairs), 'point')} compared: {len(found.slower):,} slower, {len(found.faster):,} faster"
    text += f", {changed:,} changed, mean {share(found.mean, sign=True)}"
    if found.broken:
        text += f", {len(found.broken):,} broke"
    if limit is not None:
        failing = len(found.failing(limit))
        text += f"; {failing:,} above the limit of {share(limit)}" if failing else f"; none above the limit of {share(limit)}"
    return text


def to_dict(found: Comparison, limit: Fraction | None) -> dict[str, Any]:
    """All of it; of the pairs those that changed."""
    return {
        "a": found.a.name,
        "b": found.b.name,
        "points": len(found.pairs),
        "slower": len(found.slower),
        "faster": len(found.faster),
        "broken": len(found.broken),
        "mean_growth": float(found.mean),
        "fail_above": None if limit is None else plain_number(limit),
        "failed": limit is not None and bool(found.failing(limit)),
        "only_a": found.only_a,
        "only_b": found.only_b,
        "changed": [_pair(pair) for pair in found.pairs if pair.changed],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    told = {"point": pair.label, "growth": None if pair.growth is None else float(pair.growth)}
    return told | {side: _entry(entry) for side, entry in (("a", pair.a), ("b", pair.b))}


def _entry(entry: Entry) -> dict[str, Any]:
    row = entry.row
    return {"status": entry.status, "cycles": None if row is None else row.cycles, "ns": None if row is None else row.ns}


def time_text(entry: Entry) -> str:
    """A point's cycles, or how it ended."""
    return f"{entry.row.cycles:,}" if entry.row is not None and entry.status == "done" else entry.status


def markdown(found: Comparison, limit: Fraction | None) -> str:
    """Markdown, as forges show it in a comment."""
    lines = [f"### Sweep {markdown_cell(found.b.name)}: {headline(found, limit)}", ""]
    tables: list[tuple[str, Sequence[Pair]]] = [("Broke", found.broken), ("Slower", found.slower), ("Faster", found.faster)]
    for title, pairs in tables:
        if pairs:
            lines += [*_table(title, pairs), ""]
    for side, labels in (("A", found.only_a), ("B", found.only_b)):
        if labels:
            lines += [f"{counted(len(labels), 'point')} only in {side}, the first {markdown_cell(labels[0])}.", ""]
    return "\n".join(lines)


def _table(title: str, pairs: Sequence[Pair]) -> Iterator[str]:
    more = f" (the first {MOST_ROWS} of {len(pairs):,})" if len(pairs) > MOST_ROWS else ""
    yield f"**{title}**{more}"
    yield ""
    yield "| point | cycles A | cycles B | time |"
    yield "|:--|--:|--:|--:|"
    for pair in pairs[:MOST_ROWS]:
        grown = "" if pair.growth is None else share(pair.growth, sign=True, even=True)
        yield f"| {markdown_cell(pair.label)} | {time_text(pair.a)} | {time_text(pair.b)} | {grown} |"


def junit(found: Comparison, limit: Fraction | None) -> str:
    """A JUnit report with a test a point: that it is still done, and its time did not grow above the limit."""
    failing = {id(pair) for pair in (found.broken if limit is None else found.failing(limit))}
    seconds = sum((_ns(pair.b) for pair in found.pairs), Fraction(0)) / 10**9
    counts = f'tests="{len(found.pairs)}" failures="{len(failing)}" errors="0" skipped="0" time="{float(seconds):.9f}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites {counts}><testsuite name="kbsim sweep compare" {counts}>']
    name = quoteattr(xml_text(found.b.name))
    for pair in found.pairs:
        head = f"<testcase classname={name} name={quoteattr(xml_text(pair.label))} time=\"{float(_ns(pair.b) / 10**9):.9f}\""
        if id(pair) not in failing:
            lines.append(f"{head}/>")
            continue
        grown = "it is not done any more" if pair.growth is None else f"its time grew by {share(pair.growth)}"
        told = f"{time_text(pair.a)} to {time_text(pair.b)} cycles"
        lines.append(f"{head}><failure message={quoteattr(grown)}>{escape(xml_text(told))}</failure></testcase>")
    lines.append(f"<system-out>{escape(xml_text(markdown(found, limit)))}</system-out>")
    return "\n".join([*lines, "</testsuite></testsuites>", ""])


def _ns(entry: Entry) -> Fraction:
    return Fraction(0) if entry.row is None or entry.row.ns is None else parse_rational(entry.row.ns)
