"""The output of `kbsim validate chips`: one line per table, its row with the largest error, and the missed targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kernbench.cli import widgets
from kernbench.cli.text import BAD, WAIT, WIDE, Justify, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.validate.chips import TableResult
    from kernbench.validate.run import SuiteRun


def chip_tables_text(run: SuiteRun, width: int) -> Iterator[RenderableType]:
    """Tables and their errors, then the worst row of each, then the errors above their targets."""
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("table", "left"), ("rows", "right"), ("median", "right"), ("mean", "right")]
    columns.append(("left out", "right"))
    if wide:
        columns += [("datasheet", "right"), ("others' fits", "right")]
    columns += [("roofline", "right"), ("3 numbers", "right")]
    if wide:
        columns.append(("profile", "left"))
    made = table(run.data.title, columns, "errors in % of the measured figure")
    made.columns[0].overflow = "fold"
    for one in run.details:
        colour = "" if one.calibrated or one.skipped else WAIT
        cells: list[str | widgets.Text] = [widgets.Text(one.name, colour), f"{one.cases:,}"]
        if one.skipped:
            made.add_row(*cells, widgets.Text("skipped", WAIT), *[""] * (len(columns) - 3))
            continue
        new = (one.new_chip, one.moved) if wide else ()
        cells += [_percent(value) for value in (one.median, one.mean, one.left_out, *new, one.roofline, one.three)]
        made.add_row(*cells, *([one.runtime] if wide else []))
    yield made
    yield widgets.Text("left out: median with constants from other tables, chips and profiles", "dim")
    if wide:
        yield widgets.Text("datasheet: median with its datasheet and all constants of other chips, as for a new chip", "dim")
        yield widgets.Text("others' fits: the same with measured latencies, cache rates and starts of the chip", "dim")
    uncalibrated = sorted({one.chip for one in run.details if not one.calibrated and not one.skipped})
    if uncalibrated:
        yield widgets.Text(f"not calibrated (rates are the vendor's, shares are assumed): {', '.join(uncalibrated)}", WAIT)
    for one in run.details:
        if one.skipped:
            yield widgets.Text(f"{one.name}: skipped, {one.skipped}", WAIT)
        elif one.notes:
            more = f"; {len(one.notes) - 1:,} more" if len(one.notes) > 1 else ""
            yield widgets.Text(f"{one.name}: {one.notes[0]}{more}", WAIT)
    yield ""
    yield _worst(run.details, wide)
    for row in run.failed:
        yield widgets.Text(f"fail  {row.case}: {float(row.ours):.1%}, {row.why}", f"bold {BAD}")
    yield ""


def _worst(details: Sequence[TableResult], wide: bool) -> RenderableType:
    columns: list[tuple[str, Justify]] = [("table", "left"), ("worst row", "left"), ("measured", "right")]
    columns += [("simulated", "right"), ("error", "right")]
    if wide:
        columns.append(("largest simulated part", "left"))
    made = table("The row with the largest error", columns, "")
    made.columns[0].overflow = made.columns[1].overflow = "fold"
    for one in details:
        for wrong in one.worst[:1]:
            part = max(wrong.causes, key=lambda name: wrong.causes[name], default="")
            text = f"{part} {wrong.causes[part] / 1e3:.4g} us" if part else ""
            cells = [one.name, f"{wrong.op} {wrong.label}" if wrong.op not in wrong.label else wrong.label]
            cells += [f"{wrong.measured:.4g} {wrong.unit}", f"{wrong.ours:.4g}", f"{wrong.error:+.0%}"]
            made.add_row(*cells, *([text] if wide else []))
    return made


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"
