"""The summary of a run as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.render_tables import banks_line, engine_table, queue_lines, resource_table, wait_table
from kernbench.cli.text import duration, headed, ids, percent, scaled, short, status_text, table
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.result import Result
    from kernbench.sim_engine.summary import RunSummary

MOST_WAITING = 8  # entries of a deadlock that are listed
MOST_WARNINGS = 5
MOST_CHANNELS = 16
MOST_LINKS = 5


def run_summary(summary: RunSummary, width: int) -> Iterator[RenderableType]:
    """What `kbsim run` prints, part by part, for a terminal of `width` columns."""
    result = summary.result
    yield from headline(summary)
    if result.status != "deadlock":  # the bounds are those of a run that comes to its end
        yield from bound_lines(summary)
    yield from ending(summary)
    if not result.cycles:
        yield from warnings(result)
        return
    yield ""
    yield engine_table(summary.engines, width)
    yield from queue_lines(summary.engines)
    yield ""
    yield resource_table("DRAM channels", summary.channels, MOST_CHANNELS, width)
    if summary.links:
        yield ""
        yield resource_table("Mesh links", summary.links, MOST_LINKS, width)
    yield ""
    yield banks_line(summary.banks)
    if summary.waits:
        yield ""
        yield wait_table(summary, width)
    if result.metrics["energy_pj"]["total"]:
        yield ""
        yield energy_line(result)
    yield from warnings(result)


def headline(summary: RunSummary) -> Iterator[Text]:
    """Status, cycles and time; then program and machine."""
    result = summary.result
    text = status_text(result.status).append("  ").append(counted(result.cycles, "cycle"), "bold")
    yield text.append(f", {duration(result.t_ns)} at {float(summary.freq_ghz):g} GHz")
    yield Text(f"{result.program or 'a program'} on {result.machine}, {counted(summary.entries, 'entry')}")


def bound_lines(summary: RunSummary) -> Iterator[Text]:
    """The lower bound beside the answer: `DRAM bound 6.41 M, achieved 6.63 M, 97%`; then the other kinds' largest."""
    bound = summary.bound
    if not bound.cycles:  # there is nothing to do
        return
    text = Text.assemble(f"{bound.kind} bound ", (short(bound.cycles), "bold"))
    if summary.result.status == "done":
        text.append(", achieved ").append(short(bound.achieved), "bold")
        text.append(", ").append(percent(bound.share), "bold")
    yield text.append(f"  ({bound.name})" if bound.kind != bound.name else "", "dim")
    if bound.others:
        others = ", ".join(f"{name} {short(cycles)}" for name, cycles in bound.others)
        yield Text(f"other bounds: {others}", "dim")


def ending(summary: RunSummary) -> Iterator[RenderableType]:
    """What there is to say of a run that did not end as its program would have."""
    result = summary.result
    if result.status == "aborted":
        more = 2 * max(summary.max_cycles, summary.bound.cycles)
        yield (
            f"stopped at max_cycles = {summary.max_cycles:,}: {summary.unfinished:,} of {counted(summary.entries, 'entry')} "
            f"have not ended, {summary.not_started:,} of them have not started; allow more with --set max_cycles={more}"
        )
    if result.failure is not None:
        if "traceback" in result.failure:
            yield Text(str(result.failure["traceback"]), "dim")
        yield Text(str(result.failure["message"]), "red")
    if result.status == "deadlock":
        yield f"nothing can ever happen again: {summary.unfinished:,} of {counted(summary.entries, 'entry')} have not ended"
        yield from ("", deadlock_table(result))


def deadlock_table(result: Result) -> RenderableType:
    """Who waits for whom, since which cycle."""
    waiting = result.waiting
    more = len(waiting) - MOST_WAITING
    made = table(
        "Waiting",
        [("entry", "left"), ("waits for", "left"), ("since cycle", "right"), ("because of", "left")],
        f"the first {MOST_WAITING} of {len(waiting):,}" if more > 0 else "",
    )
    for item in waiting[:MOST_WAITING]:
        made.add_row(f"{item['id']} {item['opcode']}", ids(item["waits_for"], 4), f"{item['since']:,}", item["reason"])
    return made


def energy_line(result: Result) -> Text:
    """Energy, the average power, and the parts that make a hundredth of it or more."""
    total = result.metrics["energy_pj"]["total"]
    parts = [(pj, name) for name, pj in result.metrics["energy_pj"].items() if name != "total" and pj >= total / 100]
    text = headed("Energy").append(scaled(total, ("pJ", "nJ", "uJ", "mJ", "J")), "bold")
    if result.t_ns:
        text.append(f" at {scaled(total / result.t_ns, ('mW', 'W', 'kW'))}")
    return text.append(": " + ", ".join(f"{name} {percent(pj / total)}" for pj, name in sorted(parts, reverse=True)))


def warnings(result: Result) -> Iterator[RenderableType]:
    """The run's warnings, of many the first."""
    if not result.warnings:
        return
    yield from ("", Text(f"Warnings ({len(result.warnings):,})", "bold yellow"))
    for warning in result.warnings[:MOST_WARNINGS]:
        yield f"cycle {warning['cycle']:,}: {warning['message']}"
    more = len(result.warnings) - MOST_WARNINGS
    if more > 0:
        yield f"and {more:,} more (all are in --json)"
