"""`kbsim bench`: the list of benches, and the parameters of one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.options import Json
from kernbench.cli.summary import WORK_UNITS, limit_of, resource_table, warnings
from kernbench.cli.target import load_machine
from kernbench.cli.text import (
    BAD,
    BUSY,
    DIM,
    GOOD,
    IDLE,
    LIMIT,
    STALLED,
    WAIT,
    WIDE,
    WORK,
    Bar,
    Justify,
    duration,
    headed,
    percent,
    share_text,
    status_text,
    table,
    unit,
)
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.cli.run_target import RunSettings
    from kernbench.runtime_api.bench import Bench
    from kernbench.runtime_api.report import BenchReport
    from kernbench.sim_engine.engine import GraphEngine, LaunchTimes
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.result import Result


app = Section("List and describe benches: kernels with inputs, parameters and a reference.")


@app.command(name="list")
def list_(as_json: Json = False) -> int:
    """Print the benches that come with kernbench."""
    from kernbench.runtime_api.discovery import installed_benches

    found = list(installed_benches().values())
    if as_json:
        output.show_json({"benches": [{"name": one.name, "description": one.description} for one in found]})
    else:
        output.show([bench_table(found, output.console(sys.stdout).width)])
    return output.OK


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="BENCH", help="A bench's name, or a .py file.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Print a bench's description, its parameters and its file."""
    from kernbench.runtime_api.discovery import load_bench
    from kernbench.runtime_api.report import described

    found = load_bench(name)
    if as_json:
        output.show_json(described(found))
    else:
        output.show(bench_details(found, output.console(sys.stdout).width))
    return output.OK


def prepared(
    bench: Bench,
    config: str | None,
    overrides: list[str] | None,
    *,
    op_log: bool,
    strict_wait: bool,
    allow_code: list[str] | None = None,
    quiet: bool = False,
) -> tuple[GraphEngine, Machine]:
    """Return an engine with the bench at cycle 0. `overrides` are values of parameters and of the machine."""
    from kernbench.runtime_api.bench import split_settings
    from kernbench.sim_engine.engine import GraphEngine

    params, keys = split_settings(bench.where, bench.params, overrides or [])
    machine = load_machine(config or bench.machine, keys, quiet=quiet, allow_code=allow_code or ())
    engine = GraphEngine(machine, op_log=op_log, strict_wait=strict_wait)
    return engine, engine.prepare(bench, **params)


def run_bench(
    bench: Bench,
    config: str | None,
    overrides: list[str] | None,
    settings: RunSettings,
    *,
    verify: bool,
    strict_wait: bool,
    allow_code: list[str] | None = None,
) -> int:
    """Run the bench, print its summary and return the exit code."""
    import json

    from kernbench.runtime_api.report import report

    engine, machine = prepared(
        bench, config, overrides, op_log=verify, strict_wait=strict_wait, allow_code=allow_code, quiet=settings.quiet
    )
    pages = settings.run(machine)
    failed = said_later(engine)
    found = report(engine, verify=verify)
    settings.answer(json.dumps(found.to_dict()), lambda width: bench_summary(found, width, whole=settings.whole), pages)
    if failed:
        output.note(failed)
    return output.ENDINGS[found.result.status] or found.exit_code


def said_later(engine: GraphEngine) -> str:
    """The traceback of the exception of a kernel, or an empty text. InputError as it is."""
    from kernbench.sim_engine.engine import KernelFailed

    try:
        engine.check()
    except KernelFailed as error:
        return error.traceback.rstrip("\n")
    return ""


def said(engine: GraphEngine) -> None:
    """Print the exception of a kernel on stderr."""
    text = said_later(engine)
    if text:
        output.note(text)


MAX_LAUNCHES = 12
MAX_FAILURES = 5
MAX_WAITS = 16  # lines of a deadlock


def bench_table(benches: Sequence[Bench], width: int) -> widgets.Table:
    """Names and descriptions."""
    made = table("Benches", [("name", "left"), ("what it does", "left")])
    _wrap_last(made)
    for bench in benches:
        made.add_row(widgets.Text(bench.name, LIMIT), bench.description)
    return made


def bench_details(bench: Bench, width: int) -> Iterator[RenderableType]:
    """The description, parameters and file of a bench that has not run."""
    yield widgets.Text.assemble((bench.name, LIMIT), f"  {bench.description}")
    reference = "verified against its reference" if bench.reference else "without a reference"
    yield widgets.Text(f"{Path(bench.source).name}, runs on {bench.machine} unless --config says otherwise, {reference}", DIM)
    if not bench.params:
        return
    yield widgets.Text("parameters are changed by --set NAME=VALUE", DIM)
    yield ""
    made = table("Parameters", [("name", "left"), ("default", "right"), ("what it is", "left")])
    _wrap_last(made)
    for name, param in bench.params.items():
        allowed = f" ({', '.join(map(str, param.choices))})" if param.choices else ""
        made.add_row(widgets.Text(name, LIMIT), str(param.default), f"{param.doc}{allowed}")
    yield made


def bench_summary(report: BenchReport, width: int, *, whole: bool = False) -> Iterator[RenderableType]:
    """The output of `kbsim run BENCH`, section by section, for a terminal of `width` columns: about 30 lines, or everything if
    `whole`.
    """
    yield from _headline(report)
    result = report.result
    if result.failure is None:
        yield from _bounds(report)
    if report.launches:
        yield ""
        yield launch_table(report.launches)
    if result.failure is None and result.cycles:
        yield from _uses(report, width, whole)
    if report.implicit_waits:
        yield ""
        yield headed("Implicit waits").append(f"{report.implicit_waits:,}: a command was issued when its operand had ended")
    if report.notes:
        yield ""
        yield from (headed("Note").append(note) for note in report.notes)
    yield from warnings(result)
    if result.status == "deadlock":
        yield ""
        yield from wait_table(result)
    yield ""
    yield from verification_lines(report)


def wait_table(result: Result) -> Iterator[widgets.Text]:
    """Which PEs wait for which other PEs."""
    from kernbench.sim_engine.run.waits import wait_lines

    lines = wait_lines(result.waiting)
    yield widgets.Text("Nothing can ever happen again", f"bold {BAD}")
    yield from map(widgets.Text, lines[:MAX_WAITS])
    if len(lines) > MAX_WAITS:
        yield widgets.Text(f"and {len(lines) - MAX_WAITS:,} more (all are in --json)")


def _uses(report: BenchReport, width: int, whole: bool) -> Iterator[RenderableType]:
    """The utilisation of engines, channels and links."""
    yield ""
    yield use_table(report, width)
    if report.channels or report.links:
        yield ""
        if report.channels:
            yield _bandwidth(report)
        limit = limit_of(report.bound, report.result.status)
        yield resource_table("DRAM channels and links", (report.channels, report.links), width, limit, whole=whole)


def _wrap_last(made: widgets.Table) -> None:
    """Let texts in the last column wrap over several lines."""
    made.columns[-1].no_wrap = False


def _headline(report: BenchReport) -> Iterator[widgets.Text]:
    result = report.result
    text = status_text(result.status).append("  ").append(counted(result.cycles, "cycle"), LIMIT)
    yield text.append(f", {duration(result.t_ns)} at {report.freq_ghz:g} GHz")
    params = ", ".join(f"{name}={value}" for name, value in report.params.items())
    yield widgets.Text(f"{report.bench} on {result.machine}" + (f": {params}" if params else ""))


def _bounds(report: BenchReport) -> Iterator[widgets.Text]:
    bound = report.bound
    if not bound.cycles:
        return
    kind = report.roofs[0].kind
    text = widgets.Text.assemble(f"{kind} bound ", (f"{bound.cycles:,}", LIMIT))
    if report.result.status == "done":
        text.append(", achieved ").append(f"{bound.achieved:,} cycles", LIMIT).append(", ").append(percent(bound.share), LIMIT)
    yield text.append("" if bound.name == kind else f"  ({bound.name})", DIM)
    others = ", ".join(f"{roof.kind} {roof.cycles:,}" for roof in report.roofs[1:] if roof.cycles)
    if others:
        yield widgets.Text(f"other bounds: {others}", DIM)


def launch_table(launches: Sequence[LaunchTimes]) -> widgets.Table:
    """Each launch: when, how long, and how its PEs differ."""
    more = len(launches) - MAX_LAUNCHES
    columns: list[tuple[str, Justify]] = [("launch", "left"), ("issued", "right"), ("start", "right"), ("end", "right")]
    columns += [("cycles", "right")]
    columns += [("PEs", "right"), ("fastest", "right"), ("slowest", "right")]
    made = table("Launches", columns, f"the first {MAX_LAUNCHES} of {len(launches):,}" if more > 0 else "")
    for one in launches[:MAX_LAUNCHES]:
        times = [pe.end - pe.start for pe in one.pes.values() if pe.start is not None and pe.end is not None]
        made.add_row(
            widgets.Text(one.name, LIMIT),
            f"{one.issued:,}",
            _cycle(one.start),
            _cycle(one.end),
            _cycle(one.cycles),
            f"{len(one.pes):,}",
            _cycle(min(times, default=None)),
            _cycle(max(times, default=None)),
        )
    return made


def use_table(report: BenchReport, width: int) -> widgets.Table:
    """The utilisation of each kind of engine that had work."""
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("", "left"), ("engines", "right"), ("", "left"), ("mean", "right")]
    columns += [("least", "right"), ("most", "right"), ("stalled", "right"), ("jobs", "right"), ("work", "right")]
    columns += [("per cycle", "right")] if wide else []
    made = table("Engines", columns, f"{BUSY} busy  {STALLED} stalled on banks  {IDLE} idle, of those with work")
    for kind in report.kinds:
        bar = Bar([(kind.mean, BUSY, WORK), (kind.stalled, STALLED, WAIT)], 24 if wide else 10)
        cells = [percent(share) for share in (kind.mean, kind.least, kind.most, kind.stalled)]
        work = unit(kind.work, WORK_UNITS[kind.kind])
        rate = [f"{unit(kind.work / report.result.cycles, WORK_UNITS[kind.kind])}/cycle"] if wide else []
        made.add_row(kind.kind, f"{kind.used} of {kind.engines}", bar, *cells, f"{kind.jobs:,}", work, *rate)
    return made


def _cycle(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _bandwidth(report: BenchReport) -> widgets.Text:
    """All channels together."""
    moved = sum(channel.bytes for channel in report.channels)
    capacity = float(sum(channel.capacity for channel in report.channels))
    achieved = moved / report.result.cycles
    text = headed("DRAM").append(f"{share_text(achieved)} of {share_text(capacity)} B/cycle", LIMIT)
    text.append(f" ({percent(achieved / capacity)})")
    text.append("" if report.freq_ghz == 1 else f", {share_text(achieved * report.freq_ghz)} GB/s")
    return text.append(f" over the {counted(len(report.channels), 'channel')} in use")


def verification_lines(report: BenchReport) -> Iterator[widgets.Text]:
    """The result of the verification, with location, values and op of each wrong tensor."""
    checked = report.verification
    if checked is None:
        asked = "not verified: the run did not end" if report.result.status != "done" else "not verified (--verify does)"
        yield headed("Outputs").append(", ".join(report.outputs) or "none").append(f", {asked}", DIM)
        return
    right = len(checked.checked) - len(checked.failures)
    text = headed("Outputs").append(", ".join(report.outputs))
    whole = len(checked.checked)
    parts = "" if whole == len(report.outputs) else f" in {counted(whole, 'part')}"
    if checked.ok:
        yield text.append(parts).append(": ").append("as expected", f"bold {GOOD}")
        return
    yield text.append(parts).append(": ").append(f"{whole - right:,} of {whole:,} wrong", f"bold {BAD}")
    for failure in checked.failures[:MAX_FAILURES]:
        head, *rest = str(failure).split("; ")
        yield widgets.Text(head, BAD)
        for one in rest:
            yield widgets.Text(f"  {one}")
    if len(checked.failures) > MAX_FAILURES:
        yield widgets.Text(f"and {len(checked.failures) - MAX_FAILURES:,} more")
