"""`kbsim validate`: the simulator compared with closed forms and published measurements."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.endings import answering
from kernbench.cli.options import Json, Quiet
from kernbench.cli.text import BAD, GOOD, WAIT, WIDE, Justify, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.validate.run import SuiteRun


FAILED = 1  #: exit code where a row has an error that is not allowed


Suites = Annotated[list[str] | None, typer.Argument(metavar="[SUITE]...", help="The suites to run.", show_default="all")]
Listed = Annotated[bool, typer.Option("--list", help="List the suites, and do not run them.")]
Page = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML page with tables and plots.", show_default=False)
]
Quick = Annotated[bool, typer.Option("--quick", help="Run only some rows of each suite, and at least one row of every kind.")]
Plant = Annotated[
    list[str] | None,
    typer.Option(
        "--plant",
        metavar="ENGINE=FACTOR",
        help="Slow an engine (dma, te, ve, noc, dram) by FACTOR, to test that a suite detects the change.",
        show_default=False,
    ),
]
ScaleSim = Annotated[
    Path | None,
    typer.Option(
        "--scalesim",
        metavar="PYTHON",
        envvar="KERNBENCH_SCALESIM",
        help="A Python interpreter that can import SCALE-Sim. With this option, kbsim compares its results with SCALE-Sim.",
        show_default=False,
    ),
]
Topologies = Annotated[
    Path | None,
    typer.Option("--topologies", metavar="DIR", help="A folder with layers for SCALE-Sim, as .csv files.", show_default=False),
]
Traces = Annotated[
    Path | None,
    typer.Option(
        "--traces",
        metavar="DIR",
        envvar="KERNBENCH_NOC_TRACES",
        help="A folder with recorded NoC traces to replay.",
        show_default=False,
    ),
]
ChipTables = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="KERNBENCH_CHIP_TABLES",
        help="A folder with tables of measurements of chips, for the suite named chips.",
        show_default=False,
    ),
]
Ramulator = Annotated[
    Path | None,
    typer.Option(
        "--ramulator",
        metavar="DIR",
        envvar="KERNBENCH_RAMULATOR",
        help="A folder with results of Ramulator 2, for the suite named dram.",
        show_default=False,
    ),
]
Booksim = Annotated[
    Path | None,
    typer.Option(
        "--booksim",
        metavar="DIR",
        envvar="KERNBENCH_BOOKSIM",
        help="A folder with results of BookSim2, for the suite named noc.",
        show_default=False,
    ),
]


def validate(
    suites: Suites = None,
    listed: Listed = False,
    report: Page = None,
    quick: Quick = False,
    plant: Plant = None,
    scalesim: ScaleSim = None,
    topologies: Topologies = None,
    traces: Traces = None,
    data: ChipTables = None,
    ramulator: Ramulator = None,
    booksim: Booksim = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Compare simulated results with closed forms and published figures; exit with 1 if an error exceeds its tolerance."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_writable
    from kernbench.validate.run import Options, Runner, chosen, run_suite

    for option, folder in (("--data", data), ("--ramulator", ramulator), ("--booksim", booksim)):
        if folder is not None and not os.path.isdir(folder):
            rule = "there is no such folder, or it cannot be read"
            raise InputError(Problem("kbsim validate", rule, option, str(folder)))
    names = chosen(suites or [])
    if listed:
        return _list(names, as_json=as_json)
    if report is not None:
        check_writable(report)
    folders = {"topologies": topologies, "traces": traces, "chip_tables": data, "ramulator": ramulator, "booksim": booksim}
    runner = Runner(Options(quick=quick, scalesim=scalesim, **folders), _planted(plant or []))
    runs: list[SuiteRun] = []
    for name in names:
        runs.append(run_suite(name, runner))
        if not as_json and not quiet:
            output.show(suite_text(runs[-1], output.console(sys.stdout).width))
    code = _print_result(runs, as_json=as_json, quiet=quiet)
    if report is not None:
        with answering(as_json):
            _write(report, runs)
    return code


def _write(report: Path, runs: list[SuiteRun]) -> None:
    from kernbench.common.files import write_whole
    from kernbench.validate.page import page_bytes

    write_whole(report, page_bytes(runs))


def _print_result(runs: list[SuiteRun], *, as_json: bool, quiet: bool) -> int:
    """Finish the report; returns the exit code."""
    from kernbench.validate.page import headline

    failed = sum(len(run.failed) for run in runs)
    if as_json:
        output.show_json({"failed": failed, "suites": [run.to_dict() for run in runs]})
    elif not quiet:
        output.write(headline(runs) + "\n")
    return FAILED if failed else output.OK


def _list(names: list[str], *, as_json: bool) -> int:
    from kernbench.validate.suite import read_suite_data

    found = [read_suite_data(name) for name in names]
    if as_json:
        output.show_json({"suites": [{"suite": data.suite, "title": data.title, "about": data.about} for data in found]})
    else:
        width = max(len(name) for name in names)
        output.write("".join(f"{data.suite:{width}}  {data.title}\n" for data in found))
    return output.OK


def _planted(given: list[str]) -> dict[str, Fraction]:
    """Parse `te=1.1`. InputError for an unknown engine, or a factor that is not above 0."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.units import parse_rational
    from kernbench.validate.run import ENGINES

    plant = {}
    for text in given:
        name, _, factor = text.partition("=")
        try:
            plant[name] = parse_rational(factor)
        except ValueError:
            plant[name] = Fraction(0)
        if name not in ENGINES or not 1 <= plant[name] < 1000:
            rule = f"it must be ENGINE=FACTOR: one of {', '.join(ENGINES)}, and a number from 1 to 1000"
            raise InputError(Problem("kbsim validate", rule, "--plant", text))
    return plant


STYLES = {"pass": GOOD, "fail": f"bold {BAD}", "info": WAIT}
CASE = 12  #: characters of a case, at least
SIDES: dict[str, Justify] = dict.fromkeys(("expected", "simulated", "error", "allowed"), "right")


def suite_text(run: SuiteRun, width: int) -> Iterator[RenderableType]:
    """A suite's table, and the reasons of its tolerances."""
    from kernbench.validate.page import COLUMNS, cells, reasons

    if run.skipped:
        yield widgets.Text.assemble((run.data.title, "bold"), (f"  {run.data.suite}", "dim"))
        yield widgets.Text(f"skipped: {run.skipped}", WAIT)
        yield ""
        return
    if run.details:
        from kernbench.cli.chip_tables import chip_tables_text

        yield from chip_tables_text(run, width)
        return
    shown = [name for name in COLUMNS if name != "unit" or width >= WIDE]
    units = ", ".join(dict.fromkeys(row.unit for row in run.rows))
    note = run.data.suite if width >= WIDE else f"{run.data.suite}, in {units}"
    made = table(run.data.title, [(name, SIDES.get(name, "left")) for name in shown], note)
    first = made.columns[0]
    first.no_wrap, first.overflow, first.min_width = False, "fold", CASE
    for row in run.rows:
        texts = dict(zip(COLUMNS, cells(row), strict=True))
        *others, verdict = (texts[name] for name in shown)
        made.add_row(*others, widgets.Text(verdict, STYLES[verdict]))
    yield made
    for reason in reasons(run.rows):
        yield widgets.Text(reason, "dim")
    if run.left_out:
        yield widgets.Text(f"skipped: {run.left_out}", WAIT)
    yield ""
