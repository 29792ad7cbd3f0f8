"""Rows and suites as text: what tables on a terminal, in a page and in the documentation have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kernbench.common.words import counted
from kernbench.validate.run import SuiteRun
from kernbench.validate.suite import Figure, Number, Row, Series

COLUMNS = ("case", "source", "expected", "ours", "unit", "error", "allowed", "verdict")


def number_text(value: Number) -> str:
    """A whole number with its digits, any other with four that count, or all before the point."""
    exact = Fraction(value)
    return f"{float(exact):.4g}" if exact.denominator > 1 and abs(exact) < 1000 else f"{round(exact):,}"


def size_text(nbytes: int) -> str:
    """Bytes in the largest binary unit that divides them: `16 GiB`, `8 B`."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes % (1 << power) == 0:
            return f"{nbytes >> power:,} {name}"
    return f"{nbytes:,} B"


def expected_text(row: Row) -> str:
    """The figure, or the range `0.4..0.5`."""
    ends = row.expected
    return "..".join(map(number_text, ends)) if isinstance(ends, tuple) else number_text(ends)


def share_text(value: Number, *, sign: bool = False) -> str:
    """A share in percent: `0`, `-1.4%`, `+12%`; the sign of what is asked for."""
    if value == 0:
        return "0"
    percent = float(value) * 100
    digits = 2 if abs(percent) < 1 else 1 if abs(percent) < 10 else 0
    return f"{percent:{'+' if sign else ''},.{digits}f}%"


def cells(row: Row) -> tuple[str, ...]:
    """A row in the order of COLUMNS."""
    allowed = "any" if row.allowed is None else share_text(row.allowed)
    error = share_text(row.error, sign=True)
    return row.case, row.source, expected_text(row), number_text(row.ours), row.unit, error, allowed, row.verdict


def reasons(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Each tolerance with its sentence, once: `0`, `a formula of integers: nothing may differ`."""
    seen = dict.fromkeys((cells(row)[6], row.why) for row in rows)
    yield from seen


def largest(run: SuiteRun) -> str:
    """The largest error of a suite's rows."""
    return share_text(max((row.error for row in run.rows), key=abs, default=0), sign=True)


def headline(runs: Sequence[SuiteRun]) -> str:
    """What all suites together say, in a sentence."""
    rows = sum(len(run.rows) for run in runs)
    outside = sum(len(run.outside) for run in runs)
    told = sum(row.verdict == "told" for run in runs for row in run.rows)
    skipped = [run.data.suite for run in runs if run.skipped]
    parts = [f"{counted(rows, 'row')}: {rows - outside - told:,} inside, {outside:,} outside"]
    parts += [f"{told:,} told"] if told else []
    parts += [f"skipped: {', '.join(skipped)}"] if skipped else []
    return ", ".join(parts)


def figures_of(run: SuiteRun) -> list[Figure]:
    """The figures of a suite; of one that draws none, ours over expected."""
    if run.figures or not run.rows:
        return list(run.figures)
    by_source: dict[str, list[tuple[float, float]]] = {}
    for row in run.rows:
        if not isinstance(row.expected, tuple) and row.expected > 0 and row.ours > 0:
            by_source.setdefault(row.source, []).append((float(row.expected), float(row.ours)))
    ends = [value for points in by_source.values() for point in points for value in point]
    if not ends:
        return []
    same = Series("equal", [(min(ends), min(ends)), (max(ends), max(ends))], "line")
    unit = run.rows[0].unit
    series = [same, *(Series(name, points) for name, points in by_source.items())]
    return [Figure(run.data.title, f"expected [{unit}]", f"ours [{unit}]", series, log_x=True, log_y=True)]
