"""`kbsim calibrate`: fits a machine and a profile to kernels that the user has measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.endings import answering
from kernbench.cli.options import Json, Overrides, Quiet
from kernbench.cli.target import load_machine
from kernbench.cli.text import WAIT, WIDE, Justify, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.chips.calibrate import Calibration

Data = Annotated[Path, typer.Argument(metavar="DATA.csv", help="Table of measured kernels, with the columns class, op, "
    "m, n, k, measured (us).")]
Machine = Annotated[str, typer.Option("--config", "-c", metavar="NAME|FILE", help="Chip to start from.")]
Profile = Annotated[
    str, typer.Option("--runtime", metavar="NAME|FILE", help="Runtime profile that describes how the kernels were timed.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the calibrated machine to FILE.", show_default=False)
]
RuntimeOut = Annotated[
    Path | None, typer.Option("--runtime-out", metavar="FILE", help="Write the calibrated profile to FILE.", show_default=False)
]


def calibrate(
    data: Data,
    config: Machine,
    runtime: Profile = "kernel_only",
    overrides: Overrides = None,
    out: Out = None,
    runtime_out: RuntimeOut = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Fit a few constants of a chip to measured kernels, and report the errors for kernels outside the fit."""
    from kernbench.analysis.chips.calibrate import calibrate as fitted
    from kernbench.analysis.chips.calibrate import machine_text, runtime_text
    from kernbench.common.files import check_writable, write_whole
    from kernbench.config import NpuConfig
    from kernbench.config.runtime import load_runtime

    machine = load_machine(config, overrides, kind=NpuConfig, quiet=True)  # it need not be calibrated yet
    profile = load_runtime(runtime)
    for path in (out, runtime_out):
        if path is not None:
            check_writable(path)
    found = fitted(data, machine, profile)
    if as_json:
        output.show_json(found.to_dict())
    elif not quiet:
        output.show(calibration_text(found, output.console(sys.stdout).width, [str(one) for one in (out, runtime_out) if one]))
    with answering(as_json):
        if out is not None:
            write_whole(out, machine_text(found).encode())
        if runtime_out is not None:
            write_whole(runtime_out, runtime_text(found).encode())
    return output.OK


def _plain(value: float, digits: int) -> str:
    """A number with this number of digits, without an exponent from 0.001 to 10^12."""
    exact = float(f"{value:.{digits}g}")
    return f"{exact:,.0f}" if 10**digits <= abs(exact) < 1e12 else f"{value:,.{digits}g}"


def calibration_text(found: Calibration, width: int, written: list[str]) -> Iterator[RenderableType]:
    """Constants with their intervals, errors of rows with and without use in the fit, and the rows with the largest errors."""
    from kernbench.analysis.chips.calibrate import ONE_CLASS

    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("constant", "left"), ("before", "right"), ("fitted", "right"), ("95 %", "left")]
    columns += [("unit", "left")]
    if wide:
        columns.append(("meaning", "left"))
    made = table("Constants", columns, f"{found.cases:,} rows of {found.source}")
    made.columns[0].overflow = "fold"
    for column in made.columns[4:]:
        column.no_wrap = False
    for one in found.fitted.constants:
        interval = f"{_plain(one.low, 4)}..{_plain(one.high, 4)}"
        cells = [one.constant.path, _plain(one.before, 5), _plain(one.value, 5), interval, one.constant.unit]
        made.add_row(*cells, *([one.constant.meaning] if wide else []))
    if found.fitted.constants:
        yield made
    else:
        yield widgets.Text(f"No constant is changed by {found.cases:,} rows of {found.source}")
    yield ""
    columns = [("constants of", "left"), ("rows", "right"), ("before", "right"), ("after", "right"), ("result", "left")]
    chosen = table("Groups of constants", columns, "mean errors of left-out rows")
    chosen.columns[0].no_wrap = chosen.columns[-1].no_wrap = False
    for group in found.choice.decisions:
        errors_of = ["" if value is None else f"{value:.1%}" for value in (group.before, group.after)]
        result = f"{f'fitted, {group.choice}' if group.fitted else 'kept'}: {group.why}"
        chosen.add_row(group.name, f"{group.rows:,}", *errors_of, result)
    yield chosen
    yield ""
    errors = table("Errors", [("rows", "left"), ("number", "right"), ("median", "right"), ("mean", "right")], "")
    errors.add_row("all, before the fit", f"{found.cases:,}", *(f"{value:.1%}" for value in found.before))
    errors.add_row("all, after the fit", f"{found.cases:,}", *(f"{value:.1%}" for value in found.after))
    for held in (found.folds, *found.classes):
        name = f"not in the fit ({held.name})" if held is found.folds else f"left out: class {held.name}"
        errors.add_row(name, f"{held.rows:,}", f"{held.median:.1%}", f"{held.mean:.1%}")
    for held in found.shapes:
        errors.add_row(f"left out: {held.name}", f"{held.rows:,}", f"{held.median:.1%}", f"{held.mean:.1%}")
    yield errors
    if not found.classes:
        yield widgets.Text(ONE_CLASS, WAIT)
    yield ""
    far = table(
        "Rows with the largest errors",
        [("row", "left"), ("measured", "right"), ("simulated", "right"), ("largest parts", "left")],
        "us",
    )
    far.columns[0].overflow, far.columns[-1].no_wrap = "fold", False
    for row in found.worst:
        parts = sorted(row.causes.items(), key=lambda item: -item[1])[:3]
        made_of = ", ".join(f"{name} {_plain(ns / 1e3, 3)}" for name, ns in parts)
        far.add_row(row.label, _plain(row.measured, 4), _plain(row.ours, 4), made_of)
    yield far
    for text in found.unread[:3]:
        yield widgets.Text(f"ignored: {text}", WAIT)
    for name in written:
        yield widgets.Text(f"wrote {name}", "dim")
