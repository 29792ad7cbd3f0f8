"""The tables of a run's summary: engines, channels and links, banks, waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.text import (
    BUSY,
    IDLE,
    STALLED,
    WIDE,
    Bar,
    Justify,
    common_place,
    headed,
    percent,
    rational,
    share_text,
    short,
    table,
    unit,
    without_place,
)

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.sim_engine.summary import BankConflicts, EngineUse, ResourceUse, RunSummary
    from kernbench.sim_engine.waits import Wait

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
            name, about = f"{len(rest)} {'more ' if shown else ''}{kind}", Text("at most", "dim")
            if barred:
                made.add_row(name, about, percent(max(rest)))
            else:
                made.add_row(Text(f"{name} ").append_text(about), percent(max(rest)))
    return made


def _engine_cells(engine: EngineUse, wide: bool) -> list[str | Text | Bar]:
    cycles = engine.cycles
    stalled = engine.bank_conflict + engine.backpressure
    bar = Bar(
        [(engine.utilisation, BUSY, "green"), (stalled / cycles if cycles else 0.0, STALLED, "red")], 24 if wide else 10
    )
    split = [engine.bank_conflict, engine.backpressure if engine.kind == "dma" else None, engine.idle]
    cells: list[str | Text | Bar] = [bar, Text(percent(engine.utilisation), "bold"), short(engine.busy)]
    cells += [_part(part, cycles, wide) for part in split]
    cells += [short(engine.jobs), unit(engine.work, WORK_UNITS[engine.kind])]
    if wide:
        cells.append(unit(engine.work / cycles if cycles else 0, WORK_UNITS[engine.kind]))
    return cells


def _of(place: str) -> str:
    return f" of {place[:-1]}" if place else ""


def _part(part: int | None, cycles: int, wide: bool) -> Text:
    """A part of the cycles; nothing where the engine has no such part, dim where it is 0."""
    if part is None:
        return Text()
    if not part:
        return Text("0", "dim")
    return Text(f"{short(part)} ({percent(part / cycles)})" if wide else short(part))


def queue_lines(engines: Sequence[EngineUse]) -> Iterator[Text]:
    """Job-cycles that transfers spent stalled in the queues of DMA engines, where there are any."""
    for engine in engines:
        waits = (("queue_full", engine.queue_full), ("priority_deferred", engine.priority_deferred))
        parts = [f"{short(count)} {name}" for name, count in waits if count]
        if parts:
            yield Text(f"{engine.name} queue: {', '.join(parts)} job-cycles", "dim")


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
                Text(percent(resource.share), "bold"),
                unit(resource.bytes, "B"),
                share_text(resource.achieved),
                rational(resource.capacity),
                share_text(resource.gb_per_s),
                percent(resource.busy / resource.cycles if resource.cycles else 0.0),
            )
    if rest:
        most_used = percent(max(resource.share for resource in rest))
        made.add_row(f"{len(rest)} more", Text("at most", "dim"), most_used, unit(sum(r.bytes for r in rest), "B"))
    return made


def banks_line(banks: BankConflicts) -> Text:
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
