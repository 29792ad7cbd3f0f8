"""Runs `kbsim validate` for its page: tables and plots of every suite.

As a program, it records the errors of published tables of chips in docs/validation.md: a build may not have the tables.

    kbsim validate chips --data DIR --json > errors.json
    python docs/validation_tables.py errors.json
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.validate.figures import error_svg, figure_svg
from kernbench.validate.page import COLUMNS, NUMBERS, cells, headline, largest, reasons, share_text
from kernbench.validate.run import SUITES, Options, Runner, SuiteRun, run_suite

SUBSETS = ("noc", "noc_mesh", "plans")  #: suites that take too long in full for a build
#: With KERNBENCH_DOCS_QUICK=1 a build runs the subsets of these suites: for a test of the build itself. Other tests run all.
QUICK = os.environ.get("KERNBENCH_DOCS_QUICK") == "1"
SHOWN = ("systolic", "tensor", "vector", "transfers", "dram", "noc") if QUICK else tuple(SUITES)
GOALS = ("chips",)  #: suites whose limits are goals: a page that says which are missed is built


PAGE = Path(__file__).parent / "validation.md"
RECORDED = "<!-- errors of chips: docs/validation_tables.py writes these lines -->\n", "<!-- end of the errors of chips -->\n"
WORST = 2  #: rows of a table that are recorded
SHARES = (
    "median", "mean", "left_out", "left_out_mean", "new_chip", "new_chip_mean", "moved", "moved_mean", "roofline", "three",
)  # fmt: skip

#: Rows that fail, by suite, which docs/validation.md explains: a build with any other one fails.
EXPLAINED = {
    "caches": ("a100: 22,395 KB, latency", "a100: 85,770 KB, latency", "a100: 107,282 KB, latency"),
}


def validation_tables() -> dict[str, str]:
    """File name: MyST text."""
    runs = [run_suite(name, Runner(Options(quick=QUICK or name in SUBSETS))) for name in SHOWN]
    held = [run for run in runs if run.data.suite not in GOALS]
    if any(row.case not in EXPLAINED.get(run.data.suite, ()) for run in held for row in run.failed):
        raise RuntimeError(f"kbsim validate: {headline(runs)}")
    return {
        "believe.md": "\n".join(_believe(runs)) + "\n",
        "validation_summary.md": "\n".join(_summary(runs)) + "\n",
        "validation.md": "\n\n".join(part for run in runs for part in _suite(run)) + "\n",
    }


def _believe(runs: list[SuiteRun]) -> Iterator[str]:
    """What was compared with what, by source: cases that have an allowed error, and the largest error among them."""
    yield "| figure | compared with | cases | largest error | allowed |"
    yield "|---|---|---:|---:|---:|"
    for run in runs:
        for name, source in run.data.sources.items():
            rows = [row for row in run.rows if row.source == name and row.allowed is not None]
            if rows:
                error = share_text(max((row.error for row in rows), key=abs), sign=True)
                allowed = share_text(max(Fraction(row.allowed or 0) for row in rows))
                cited = f"[{source.title}]({source.url})" if source.url else source.title
                yield f"| {run.data.title} (`{run.data.suite}`) | {cited} | {len(rows)} | {error} | {allowed} |"


def _summary(runs: list[SuiteRun]) -> Iterator[str]:
    subsets = ", ".join(SHOWN if QUICK else SUBSETS)
    yield f"This build of the documentation says: {headline(runs)}. Of {subsets} it has the subset (`--quick`).\n"
    yield "| suite | what | rows | largest error |"
    yield "|---|---|---:|---:|"
    for run in runs:
        shown = "skipped | " if run.skipped else f"{len(run.rows):,} | {largest(run)}"
        yield f"| `{run.data.suite}` | {run.data.title} | {shown} |"


def _suite(run: SuiteRun) -> Iterator[str]:
    yield f"### {run.data.title} (`{run.data.suite}`)"
    yield run.data.about
    if run.skipped:
        yield f"Not in this build: {run.skipped}."
    if run.left_out:
        yield f"Not in this build: {run.left_out}."
    drawn = [error_svg(run.rows, "kb-")] if any(row.error for row in run.rows) else []
    for picture in (*drawn, *(figure_svg(figure, "kb-") for figure in run.figures)):
        yield '```{raw} html\n<div class="wide">\n' + picture + "</div>\n```"
    if run.details:
        yield "\n".join(_chips(run))
    elif run.rows:
        yield "\n".join(_table(run))
        yield "\n".join(f"- {reason}" for reason in reasons(run.rows))
    yield "\n".join(
        f"- `{name}`: {f'[{source.title}]({source.url})' if source.url else source.title}; {source.licence}. {source.redo}"
        for name, source in run.data.sources.items()
    )


def _table(run: SuiteRun) -> Iterator[str]:
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|" + "|".join("---:" if name in NUMBERS else "---" for name in COLUMNS) + "|"
    for row in run.rows:
        yield "| " + " | ".join(cells(row)) + " |"


def _chips(run: SuiteRun) -> Iterator[str]:
    """A line a table, and then the row of each that is furthest off."""
    yield (
        "| table | rows | median | mean | left out | datasheet only | others' fits | roofline | three numbers "
        "| furthest row: measured, simulated |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for one in run.details:
        if one.skipped:
            yield f"| `{one.name}` | 0 | skipped: {one.skipped} | | | | | | | |"
            continue
        shares = [one.median, one.mean, one.left_out, one.new_chip, one.moved, one.roofline, one.three]
        cells = ["n/a" if share is None else f"{share:.1%}" for share in shares]
        far = one.worst[0]
        text = f"{far.op} {far.label}: {far.measured:.4g} {far.unit}, {far.ours:.4g}"
        yield f"| `{one.name}` | {one.cases:,} | " + " | ".join(cells) + f" | {text} |"
    yield ""
    missed = [f"{row.case} is {float(row.ours):.1%}" for row in run.failed]
    yield f"Goals that are missed: {'; '.join(missed) or 'none'}."


def recorded_errors(tables: list[dict[str, Any]]) -> Iterator[str]:
    """A line a table with its errors, and a line a table with the rows that are furthest off."""
    yield (
        "| table | profile | rows | median | mean | left out: median | left out: mean | datasheet only: median "
        "| datasheet only: mean | others' fits: median | others' fits: mean | roofline | three numbers |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    shown = [one for one in tables if not one["skipped"]]
    for one in shown:
        shares = ["n/a" if one[name] is None else f"{one[name]:.1%}" for name in SHARES]
        yield f"| `{one['name']}` | `{one['runtime']}` | {one['cases']:,} | " + " | ".join(shares) + " |"
    yield from ["", "| table | row | error | largest simulated part |", "|---|---|---:|---|"]
    for one in shown:
        for far in one["worst"][:WORST]:
            part = max(far["causes"], key=lambda name: far["causes"][name], default="")
            label = far["label"] if far["op"] in far["label"] else f"{far['op']} {far['label']}"
            yield f"| `{one['name']}` | {label} | {far['error']:+.0%} | {part} |"
    skipped = [f"- The suite `chips` skips the table `{one['name']}`: {one['skipped']}." for one in tables if one["skipped"]]
    yield from ["", *skipped] if skipped else []


def record(found: dict[str, Any]) -> None:
    """Writes the errors of the suite `chips` to the page."""
    (tables,) = (one["tables"] for one in found["suites"] if one["suite"] == "chips")
    begin, end = RECORDED
    before, rest = PAGE.read_text().split(begin)
    _, after = rest.split(end)
    PAGE.write_text(before + begin + "\n" + "\n".join(recorded_errors(tables)) + "\n\n" + end + after)


if __name__ == "__main__":
    record(json.loads(Path(sys.argv[1]).read_text()))
