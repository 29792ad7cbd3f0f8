"""Benches as a person reads them: the list, one of them, and what a run came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from kernbench.cli.render import warnings
from kernbench.cli.render_tables import WORK_UNITS, resource_table
from kernbench.cli.text import (
    BUSY,
    IDLE,
    STALLED,
    WIDE,
    Bar,
    Justify,
    duration,
    headed,
    percent,
    share_text,
    short,
    status_text,
    table,
    unit,
)
from kernbench.common.words import counted
from kernbench.sim_engine.deadlock import wait_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.runtime_api.bench import Bench
    from kernbench.runtime_api.report import BenchReport
    from kernbench.sim_engine.engine import LaunchTimes
    from kernbench.sim_engine.result import Result

MOST_LAUNCHES = 12
MOST_CHANNELS = 8
MOST_LINKS = 5
MOST_FAILURES = 5
MOST_WAITS = 16  # lines of a deadlock


def bench_table(benches: Sequence[Bench], width: int) -> Table:
    """Names and descriptions."""
    made = table("Benches", [("name", "left"), ("what it does", "left")])
    _wrap_last(made)
    for bench in benches:
        made.add_row(Text(bench.name, "bold"), bench.description)
    return made


def bench_details(bench: Bench, width: int) -> Iterator[RenderableType]:
    """What there is to know of one before it runs."""
    yield Text.assemble((bench.name, "bold"), f"  {bench.description}")
    reference = "verified against its reference" if bench.reference else "without a reference"
    yield Text(f"{Path(bench.source).name}, runs on {bench.machine} unless --config says otherwise, {reference}", "dim")
    if not bench.params:
        return
    yield Text("parameters are changed by --set NAME=VALUE", "dim")
    yield ""
    made = table("Parameters", [("name", "left"), ("default", "right"), ("what it is", "left")])
    _wrap_last(made)
    for name, param in bench.params.items():
        allowed = f" ({', '.join(map(str, param.choices))})" if param.choices else ""
        made.add_row(Text(name, "bold"), str(param.default), f"{param.doc}{allowed}")
    yield made


def bench_summary(report: BenchReport, width: int) -> Iterator[RenderableType]:
    """What `kbsim run BENCH` prints, part by part, for a terminal of `width` columns."""
    yield from _headline(report)
    result = report.result
    if result.failure is None:
        yield from _bounds(report)
    if report.launches:
        yield ""
        yield launch_table(report.launches)
    if result.failure is None and result.cycles:
        yield from _uses(report, width)
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


def wait_table(result: Result) -> Iterator[Text]:
    """Which PEs wait for which."""
    lines = wait_lines(result.waiting)
    yield Text("Nothing can ever happen again", "bold red")
    yield from map(Text, lines[:MOST_WAITS])
    if len(lines) > MOST_WAITS:
        yield Text(f"and {len(lines) - MOST_WAITS:,} more (all are in --json)")


def _uses(report: BenchReport, width: int) -> Iterator[RenderableType]:
    """What engines, channels and links did."""
    yield ""
    yield use_table(report, width)
    if report.channels:
        yield ""
        yield _bandwidth(report)
        yield resource_table("DRAM channels", report.channels, MOST_CHANNELS, width)
    if report.links:
        yield ""
        yield resource_table("Links", report.links, MOST_LINKS, width)


def _wrap_last(made: Table) -> None:
    """Texts in the last column take as many lines as they need."""
    made.columns[-1].no_wrap = False


def _headline(report: BenchReport) -> Iterator[Text]:
    result = report.result
    text = status_text(result.status).append("  ").append(counted(result.cycles, "cycle"), "bold")
    yield text.append(f", {duration(result.t_ns)} at {report.freq_ghz:g} GHz")
    params = ", ".join(f"{name}={value}" for name, value in report.params.items())
    yield Text(f"{report.bench} on {result.machine}" + (f": {params}" if params else ""))


def _bounds(report: BenchReport) -> Iterator[Text]:
    bound = report.bound
    if not bound.cycles:
        return
    kind = report.roofs[0].kind
    text = Text.assemble(f"{kind} bound ", (short(bound.cycles), "bold"))
    if report.result.status == "done":
        text.append(", achieved ").append(short(bound.achieved), "bold").append(", ").append(percent(bound.share), "bold")
    yield text.append("" if bound.name == kind else f"  ({bound.name})", "dim")
    others = ", ".join(f"{roof.kind} {short(roof.cycles)}" for roof in report.roofs[1:] if roof.cycles)
    if others:
        yield Text(f"other bounds: {others}", "dim")


def launch_table(launches: Sequence[LaunchTimes]) -> Table:
    """Each launch: when, how long, and how its PEs differ."""
    more = len(launches) - MOST_LAUNCHES
    columns: list[tuple[str, Justify]] = [("launch", "left"), ("issued", "right"), ("start", "right"), ("end", "right")]
    columns += [("cycles", "right")]
    columns += [("PEs", "right"), ("fastest", "right"), ("slowest", "right")]
    made = table("Launches", columns, f"the first {MOST_LAUNCHES} of {len(launches):,}" if more > 0 else "")
    for one in launches[:MOST_LAUNCHES]:
        times = [pe.end - pe.start for pe in one.pes.values() if pe.start is not None and pe.end is not None]
        made.add_row(
            Text(one.name, "bold"),
            f"{one.issued:,}",
            _cycle(one.start),
            _cycle(one.end),
            _cycle(one.cycles),
            f"{len(one.pes):,}",
            _cycle(min(times, default=None)),
            _cycle(max(times, default=None)),
        )
    return made


def use_table(report: BenchReport, width: int) -> Table:
    """How busy the engines of each kind were, those that had any work."""
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("", "left"), ("engines", "right"), ("", "left"), ("mean", "right")]
    columns += [("least", "right"), ("most", "right"), ("stalled", "right"), ("jobs", "right"), ("work", "right")]
    columns += [("per cycle", "right")] if wide else []
    made = table("Engines", columns, f"{BUSY} busy  {STALLED} stalled on banks  {IDLE} idle, of those with work")
    for kind in report.kinds:
        bar = Bar([(kind.mean, BUSY, "green"), (kind.stalled, STALLED, "red")], 24 if wide else 10)
        cells = [percent(share) for share in (kind.mean, kind.least, kind.most, kind.stalled)]
        work = unit(kind.work, WORK_UNITS[kind.kind])
        rate = [share_text(kind.work / report.result.cycles)] if wide else []
        made.add_row(kind.kind, f"{kind.used} of {kind.engines}", bar, *cells, f"{kind.jobs:,}", work, *rate)
    return made


def _cycle(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _bandwidth(report: BenchReport) -> Text:
    """All channels together."""
    moved = sum(channel.bytes for channel in report.channels)
    capacity = float(sum(channel.capacity for channel in report.channels))
    achieved = moved / report.result.cycles
    text = headed("DRAM").append(f"{share_text(achieved)} of {share_text(capacity)} B/cycle", "bold")
    text.append(f" ({percent(achieved / capacity)}), {share_text(achieved * report.freq_ghz)} GB/s")
    return text.append(f" over the {counted(len(report.channels), 'channel')} in use")


def verification_lines(report: BenchReport) -> Iterator[Text]:
    """Whether the tensors are right; of those that are not, where, what and who."""
    checked = report.verification
    if checked is None:
        asked = "not verified: the run did not end" if report.result.status != "done" else "not verified (--verify does)"
        yield headed("Outputs").append(", ".join(report.outputs) or "none").append(f", {asked}", "dim")
        return
    right = len(checked.checked) - len(checked.failures)
    text = headed("Outputs").append(", ".join(report.outputs))
    whole = len(checked.checked)
    parts = "" if whole == len(report.outputs) else f" in {counted(whole, 'part')}"
    if checked.ok:
        yield text.append(parts).append(": ").append("as expected", "bold green")
        return
    yield text.append(parts).append(": ").append(f"{whole - right:,} of {whole:,} wrong", "bold red")
    for failure in checked.failures[:MOST_FAILURES]:
        head, *rest = str(failure).split("; ")
        yield Text(head, "red")
        for one in rest:
            yield Text(f"  {one}")
    if len(checked.failures) > MOST_FAILURES:
        yield Text(f"and {len(checked.failures) - MOST_FAILURES:,} more")

