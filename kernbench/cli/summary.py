"""The summary of a run as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kernbench.cli import widgets
from kernbench.cli.text import (
    BUSY,
    IDLE,
    STALLED,
    WIDE,
    Bar,
    Justify,
    common_place,
    duration,
    headed,
    ids,
    percent,
    rational,
    scaled,
    share_text,
    short,
    status_text,
    table,
    unit,
    without_place,
)
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sim_engine.result import Result
    from kernbench.sim_engine.run.waits import Wait
    from kernbench.sim_engine.summary import BankConflicts, EngineUse, ResourceUse, RunSummary


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


def headline(summary: RunSummary) -> Iterator[widgets.Text]:
    """Status, cycles and time; then program and machine."""
    result = summary.result
    text = status_text(result.status).append("  ").append(counted(result.cycles, "cycle"), "bold")
    yield text.append(f", {duration(result.t_ns)} at {float(summary.freq_ghz):g} GHz")
    yield widgets.Text(f"{result.program or 'a program'} on {result.machine}, {counted(summary.entries, 'entry')}")


def bound_lines(summary: RunSummary) -> Iterator[widgets.Text]:
    """The lower bound beside the answer: `DRAM bound 6.41 M, achieved 6.63 M, 97%`; then the other kinds' largest."""
    bound = summary.bound
    if not bound.cycles:  # there is nothing to do
        return
    text = widgets.Text.assemble(f"{bound.kind} bound ", (short(bound.cycles), "bold"))
    if summary.result.status == "done":
        text.append(", achieved ").append(short(bound.achieved), "bold")
        text.append(", ").append(percent(bound.share), "bold")
    yield text.append(f"  ({bound.name})" if bound.kind != bound.name else "", "dim")
    if bound.others:
        others = ", ".join(f"{name} {short(cycles)}" for name, cycles in bound.others)
        yield widgets.Text(f"other bounds: {others}", "dim")


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
            yield widgets.Text(str(result.failure["traceback"]), "dim")
        yield widgets.Text(str(result.failure["message"]), "red")
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


def energy_line(result: Result) -> widgets.Text:
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
    yield from ("", widgets.Text(f"Warnings ({len(result.warnings):,})", "bold yellow"))
    for warning in result.warnings[:MOST_WARNINGS]:
        yield f"cycle {warning['cycle']:,}: {warning['message']}"
    more = len(result.warnings) - MOST_WARNINGS
    if more > 0:
        yield f"and {more:,} more (all are in --json)"


WORK_UNITS = {"dma": "B", "te": "MAC", "ve": "op", "cpu": "launch"}
MOST_ENGINES = 16  # of a kind; of more the busiest are shown
FEW_ENGINES = 4  # of a kind; of so many the idle ones are shown too
SHORT_NAME = 12  # characters of an engine's name beside which a bar has room, in 80 columns


def engine_table(engines: Sequence[EngineUse], width: int) -> Table:
    """Where each engine's cycles went, and what it got done. Bars are left out where long names leave them no room."""
    wide = width >= WIDE
    place = common_place([engine.name for engine in engines])
    barred = wide or max((len(without_place(engine.name, place)) for engine in engines), default=0) <= SHORT_NAME
    columns: list[tuple[str, Justify]] = [("engine", "left")]
    if barred:
        columns.append(("", "left"))
    columns += [("use", "right"), ("busy", "right"), ("bank\nconflict", "right"), ("back-\npressure", "right")]
    columns += [("idle", "right"), ("jobs", "right"), ("work", "right")]
    if wide:
        columns.append(("per cycle", "right"))
    made = table("Engines" + _of(place), columns, f"{BUSY} busy  {STALLED} stalled  {IDLE} idle" if barred else "")
    for kind in WORK_UNITS:
        rows = [engine for engine in engines if engine.kind == kind]
        shown = sorted(rows, key=lambda engine: -engine.busy)[:MOST_ENGINES]
        if len(rows) > FEW_ENGINES:
            shown = [engine for engine in shown if engine.idle < engine.cycles]
        for engine in rows:
            if engine in shown:
                cells = _engine_cells(engine, wide)
                made.add_row(without_place(engine.name, place), *(cells if barred else cells[1:]))
        if len(rows) > len(shown):
            rest = [engine.utilisation for engine in rows if engine not in shown]
            name, about = f"{len(rest)} {'more ' if shown else ''}{kind}", widgets.Text("at most", "dim")
            if barred:
                made.add_row(name, about, percent(max(rest)))
            else:
                made.add_row(widgets.Text(f"{name} ").append_text(about), percent(max(rest)))
    return made


def _engine_cells(engine: EngineUse, wide: bool) -> list[str | widgets.Text | Bar]:
    cycles = engine.cycles
    stalled = engine.bank_conflict + engine.backpressure
    bar = Bar([(engine.utilisation, BUSY, "green"), (stalled / cycles if cycles else 0.0, STALLED, "red")], 24 if wide else 10)
    split = [engine.bank_conflict, engine.backpressure if engine.kind == "dma" else None, engine.idle]
    cells: list[str | widgets.Text | Bar] = [bar, widgets.Text(percent(engine.utilisation), "bold"), short(engine.busy)]
    cells += [_part(part, cycles, wide) for part in split]
    cells += [short(engine.jobs), unit(engine.work, WORK_UNITS[engine.kind])]
    if wide:
        cells.append(unit(engine.work / cycles if cycles else 0, WORK_UNITS[engine.kind]))
    return cells


def _of(place: str) -> str:
    return f" of {place[:-1]}" if place else ""


def _part(part: int | None, cycles: int, wide: bool) -> widgets.Text:
    """A part of the cycles; nothing where the engine has no such part, dim where it is 0."""
    if part is None:
        return widgets.Text()
    if not part:
        return widgets.Text("0", "dim")
    return widgets.Text(f"{short(part)} ({percent(part / cycles)})" if wide else short(part))


def queue_lines(engines: Sequence[EngineUse]) -> Iterator[widgets.Text]:
    """Job-cycles that transfers spent stalled in the queues of DMA engines, where there are any."""
    for engine in engines:
        waits = (("queue_full", engine.queue_full), ("priority_deferred", engine.priority_deferred))
        parts = [f"{short(count)} {name}" for name, count in waits if count]
        if parts:
            yield widgets.Text(f"{engine.name} queue: {', '.join(parts)} job-cycles", "dim")


def resource_table(title: str, resources: Sequence[ResourceUse], most: int, width: int) -> Table:
    """Bytes and bandwidth of channels or links beside their capacity; of many the busiest, in their order."""
    shown = sorted(resources, key=lambda resource: -resource.bytes)[:most]
    rest = [resource for resource in resources if resource not in shown]
    columns: list[tuple[str, Justify]] = [("channel" if title.startswith("DRAM") else "link", "left"), ("", "left")]
    columns += [("use", "right"), ("bytes", "right"), ("B/cycle", "right"), ("capacity", "right")]
    columns += [("GB/s", "right"), ("active", "right")]
    place = common_place([resource.name for resource in resources])
    made = table(title + _of(place), columns, f"the busiest {most} of {len(resources)}" if rest else "")
    for resource in resources:
        if resource in shown:
            bar = Bar([(resource.share, BUSY, "green")], 24 if width >= WIDE else 10)
            made.add_row(
                without_place(resource.name, place),
                bar,
                widgets.Text(percent(resource.share), "bold"),
                unit(resource.bytes, "B"),
                share_text(resource.achieved),
                rational(resource.capacity),
                share_text(resource.gb_per_s),
                percent(resource.busy / resource.cycles if resource.cycles else 0.0),
            )
    if rest:
        most_used = percent(max(resource.share for resource in rest))
        made.add_row(f"{len(rest)} more", widgets.Text("at most", "dim"), most_used, unit(sum(r.bytes for r in rest), "B"))
    return made


def banks_line(banks: BankConflicts) -> widgets.Text:
    """Requests and denials of the scratchpad's banks, and the worst of them."""
    text = headed("Scratchpad banks").append(f"{short(banks.requests)} requests, {short(banks.denials)} denied")
    if banks.worst is None:
        return text
    text.append(f" ({percent(banks.rate)})")
    worst = banks.worst_denials / banks.worst_requests
    where = f" of {banks.where}" if banks.where else ""
    return text.append(
        f"; worst: bank {banks.worst}{where}, {short(banks.worst_denials)} of {short(banks.worst_requests)} ({percent(worst)})"
    )


def wait_table(summary: RunSummary, width: int) -> Table:
    """The longest waits: of jobs that could have been issued or started, had something else not been in their way."""
    waits = summary.waits
    note = f"the longest {len(waits)} of {summary.waits_in_all:,}" if summary.waits_in_all > len(waits) else ""
    columns: list[tuple[str, Justify]] = [("cycles", "right"), ("entry", "left"), ("from", "right"), ("to", "right")]
    made = table("Waits", [*columns, ("waited for", "left")], note)
    made.columns[-1].no_wrap = False
    for wait in waits:
        until = "now" if wait.until is None else f"{wait.until:,}"
        cause = _cause(wait, width >= WIDE)
        made.add_row(f"{wait.cycles:,}", f"{wait.id} {wait.opcode}", f"{wait.since:,}", until, cause)
    return made


def _cause(wait: Wait, wide: bool) -> str:
    if wait.reason == "barrier":
        return f"barrier {wait.behind}" + (f", with {wait.others:,} more" if wait.others else "")
    if wait.reason == "issue width":
        return "issue width"
    if wait.behind is None:
        return f"{wait.engine}"
    verb = "until the end of" if wide else "behind"
    return f"{wait.engine}, {verb} {wait.behind}" + (f" {wait.behind_opcode}" if wide else "")
