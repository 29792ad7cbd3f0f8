"""The summary of a run as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from kernbench.cli.render_ending import ending, warnings
from kernbench.cli.text import (
    BUSY,
    IDLE,
    STALLED,
    STATUS_STYLES,
    Bar,
    duration,
    percent,
    rational,
    short,
    table,
    unit,
)
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import EngineUse, ResourceUse, RunSummary
from kernbench.sim_engine.waits import Wait

WIDE = 110  # columns from which tables say more
WORK_UNITS = {"dma": "B", "te": "MAC", "ve": "op"}
MOST_ROWS = 16  # rows of a kind that are all shown; of more the busiest are
MOST_LINKS = 5
FLOW_BAR = (BUSY, "green")


def run_summary(summary: RunSummary, width: int) -> Iterator[RenderableType]:
    """What `kbsim run` prints, part by part, for a terminal of `width` columns."""
    yield headline(summary.result, summary.freq_ghz)
    yield bound_line(summary)
    yield from ending(summary)
    yield Text()
    yield engines(summary.engines, width)
    yield from _queues(summary.engines)
    yield Text()
    yield resources("DRAM channels", summary.channels, len(summary.channels), width)
    if summary.links:
        yield Text()
        yield resources("Mesh links", summary.links, MOST_LINKS, width)
    yield Text()
    yield _banks(summary)
    if summary.waits:
        yield Text()
        yield _waits(summary, width)
    yield Text()
    yield _energy(summary.result)
    yield from warnings(summary.result)


def headline(result: Result, freq_ghz: object) -> Text:
    """Status, program, machine, cycles and time."""
    text = Text.assemble((result.status, STATUS_STYLES.get(result.status, "bold red")), "  ")
    text.append(f"{result.program or 'program'} on {result.machine}: ")
    text.append(f"{result.cycles:,} cycles", "bold")
    return text.append(f", {duration(result.t_ns)} at {rational_ghz(freq_ghz)} GHz")


def rational_ghz(freq_ghz: object) -> str:
    """A clock as people say it: `1`, `1.5`."""
    return f"{float(freq_ghz):g}" if isinstance(freq_ghz, (int, float)) else f"{float(str(freq_ghz)):g}"


def bound_line(summary: RunSummary) -> Text:
    """The lower bound beside the answer: `DRAM bound 6.41 M, achieved 6.63 M, 97%`."""
    bound = summary.bound
    text = Text(f"{bound.kind} bound ").append(short(bound.cycles), "bold")
    if summary.result.status == "done":
        text.append(", achieved ").append(short(bound.achieved), "bold")
        text.append(", ").append(percent(bound.share), "bold")
    rest = [f"{name} {short(cycles)}" for name, cycles in bound.others]
    named = [bound.name] if bound.kind != bound.name else []
    return text.append(f"  ({'; '.join([*named, *rest])})" if named or rest else "", "dim")
