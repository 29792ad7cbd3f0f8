"""Two sweeps side by side: the same points before and after a change. A is the sweep before the change, and B the sweep after
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from kernbench.common.json_shapes import counted
from kernbench.common.units import parse_rational, plain_number
from kernbench.sweep.report.table import FACTS, Entry, SweepTable, plain_text
from kernbench.trace.compare.reports import markdown_cell, share, xml_text


@dataclass(frozen=True, slots=True)
class Pair:
    """A point of both sweeps."""

    label: str
    a: Entry
    b: Entry

    @property
    def growth(self) -> Fraction | None:
        """The exact relative growth from A to B; None if one of the runs is not done, or if A took no time."""
        if self.a.row is None or self.b.row is None or self.a.status != "done" or self.b.status != "done":
            return None
        before, after = parse_rational(self.a.row.ns), parse_rational(self.b.row.ns)
        return (after - before) / before if before else None

    @property
    def broke(self) -> bool:
        """Whether it was done before, and is not done any more."""
        return self.a.status == "done" and self.b.status != "done"

    @property
    def changed(self) -> bool:
        """Whether the times of its jobs changed, or its status."""
        if self.a.row is None or self.b.row is None:
            return self.a.status != self.b.status
        return (self.a.status, self.a.row.jobs_hash) != (self.b.status, self.b.row.jobs_hash)

    def fails(self, limit: Fraction) -> bool:
        """Whether it broke or grew above the limit."""
        return self.broke or (self.growth is not None and self.growth > limit)


@dataclass(frozen=True)
class Comparison:
    """The whole comparison."""

    a: SweepTable
    b: SweepTable
    pairs: list[Pair]
    only_a: list[str]
    only_b: list[str]

    @property
    def compared(self) -> list[Pair]:
        """Pairs with a time in both sweeps, those with the largest growth first."""
        known = [pair for pair in self.pairs if pair.growth is not None]
        return sorted(known, key=lambda pair: -(pair.growth or 0))

    @property
    def slower(self) -> list[Pair]:
        """Pairs that grew, the largest growth first."""
        return [pair for pair in self.compared if pair.growth is not None and pair.growth > 0]

    @property
    def faster(self) -> list[Pair]:
        """Pairs that shrank, the largest change first."""
        return [pair for pair in reversed(self.compared) if pair.growth is not None and pair.growth < 0]

    @property
    def broken(self) -> list[Pair]:
        """Points that were done before and are not done any more."""
        return [pair for pair in self.pairs if pair.broke]

    @property
    def mean(self) -> Fraction:
        """The mean growth of all compared points."""
        known = [pair.growth or Fraction(0) for pair in self.compared]
        return sum(known, Fraction(0)) / len(known) if known else Fraction(0)

    def failing(self, limit: Fraction) -> list[Pair]:
        """Points that broke or grew above a limit, the largest growth first."""
        return [*self.broken, *(pair for pair in self.slower if pair.fails(limit))]


def compare_sweeps(a: SweepTable, b: SweepTable) -> Comparison:
    """Two points are the same if target, machine and the values of all axes of both sweeps are equal."""
    names = tuple(dict.fromkeys((*a.names, *b.names)))
    before, after = _by_label(a, names), _by_label(b, names)
    pairs = [Pair(label, entry, after[label]) for label, entry in before.items() if label in after]
    only_a = [label for label in before if label not in after]
    return Comparison(a, b, pairs, only_a, [label for label in after if label not in before])


def _by_label(table: SweepTable, names: tuple[str, ...]) -> dict[str, Entry]:
    """Points by label; if only one sweep has several targets or machines, the labels of both include them."""
    found: dict[str, Entry] = {}
    for entry in table.entries:
        place = table.place(entry)
        known: dict[str, object] = {name: getattr(entry, name) for name in FACTS if name in names}
        known.update(place)
        label = ", ".join(f"{name}={plain_text(value)}" for name, value in known.items()) or entry.target
        found.setdefault(label, entry)
    return found


MAX_ROWS = 20  #: most rows of a table in Markdown


def headline(found: Comparison, limit: Fraction | None) -> str:
    """The comparison in one sentence."""
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
    """Everything as plain JSON; only pairs that changed."""
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
    values = {"point": pair.label, "growth": None if pair.growth is None else float(pair.growth)}
    return values | {side: _entry(entry) for side, entry in (("a", pair.a), ("b", pair.b))}


def _entry(entry: Entry) -> dict[str, Any]:
    row = entry.row
    return {"status": entry.status, "cycles": None if row is None else row.cycles, "ns": None if row is None else row.ns}


def time_text(entry: Entry) -> str:
    """The cycles of a point, or the status in which it ended."""
    return f"{entry.row.cycles:,}" if entry.row is not None and entry.status == "done" else entry.status


def markdown(found: Comparison, limit: Fraction | None) -> str:
    """The comparison in Markdown, for comments on code-hosting sites."""
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
    more = f" (the first {MAX_ROWS} of {len(pairs):,})" if len(pairs) > MAX_ROWS else ""
    yield f"**{title}**{more}"
    yield ""
    yield "| point | cycles A | cycles B | time |"
    yield "|:--|--:|--:|--:|"
    for pair in pairs[:MAX_ROWS]:
        grown = "" if pair.growth is None else share(pair.growth, sign=True, even=True)
        yield f"| {markdown_cell(pair.label)} | {time_text(pair.a)} | {time_text(pair.b)} | {grown} |"


def junit(found: Comparison, limit: Fraction | None) -> str:
    """A JUnit report with one test for each point: the point is still done, and its time did not grow above the limit."""
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
        text = f"{time_text(pair.a)} to {time_text(pair.b)} cycles"
        lines.append(f"{head}><failure message={quoteattr(grown)}>{escape(xml_text(text))}</failure></testcase>")
    lines.append(f"<system-out>{escape(xml_text(markdown(found, limit)))}</system-out>")
    return "\n".join([*lines, "</testsuite></testsuites>", ""])


def _ns(entry: Entry) -> Fraction:
    return Fraction(0) if entry.row is None or entry.row.ns is None else parse_rational(entry.row.ns)
