"""The summary of a run as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kernbench.cli.drawn import Drawable, Line, Table, headed, status_line
from kernbench.cli.rows import fits, joined, joined_name, mean
from kernbench.cli.text import (
    BAD,
    BUSY,
    DIM,
    IDLE,
    LIMIT,
    STALLED,
    WAIT,
    WIDE,
    WORK,
    Bar,
    Justify,
    common_place,
    duration,
    ids,
    percent,
    rational,
    scaled,
    share_text,
    short,
    unit,
    without_place,
)
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from kernbench.sim_engine.result import Result
    from kernbench.sim_engine.run.waits import Wait
    from kernbench.sim_engine.summary import BankConflicts, BoundShare, EngineUse, ResourceUse, RunSummary


MAX_WAITING = 8  # entries of a deadlock that are listed
MAX_WARNINGS = 5
MAX_ROWS = 2  # most rows of channels, and of links: rows of equal use count as one
NEAR_LIMIT = 0.75  # a bound of at least this share of the run is reported as its limit
FEW_WAITS = 3  # that are shown, if not all


def run_summary(summary: RunSummary, width: int, *, whole: bool = False) -> Iterator[Drawable]:
    """The output of `kbsim run`, section by section, for a terminal of `width` columns: about 30 lines, or everything if
    `whole`.
    """
    result = summary.result
    yield from headline(summary)
    if result.status != "deadlock":  # the bounds apply to a run that ends normally
        yield from bound_lines(summary)
    yield from ending(summary)
    if not result.cycles:
        yield from warnings(result)
        return
    limit = limit_of(summary.bound, result.status)
    yield ""
    yield engine_table(summary.engines, width, limit, whole=whole)
    yield from queue_lines(summary.engines)
    yield ""
    yield resource_table("DRAM channels and links", (summary.channels, summary.links), width, limit, whole=whole)
    yield ""
    yield banks_line(summary.banks)
    if summary.waits:
        yield ""
        yield wait_table(summary, width, len(summary.waits) if whole else FEW_WAITS)
    if result.metrics["energy_pj"]["total"]:
        yield ""
        yield energy_line(result)
    yield from warnings(result)
    yield from advice_lines(summary)


def limit_of(bound: BoundShare, status: str) -> str:
    """The channel, link or engine that limits a run; empty if no single bound is near its time."""
    return bound.name if status == "done" and bound.cycles and bound.share >= NEAR_LIMIT else ""


def advice_lines(summary: RunSummary) -> Iterator[Drawable]:
    """Advice, if some engines of the machine had no work and others of their kind had some."""
    from kernbench.sim_engine.summary import idle_advice

    advice = idle_advice(summary.engines)
    if advice and summary.result.status == "done":
        yield ""
        yield headed("Note").append(advice)


def headline(summary: RunSummary) -> Iterator[Line]:
    """Status, cycles and time; then program and machine."""
    result = summary.result
    text = status_line(result.status).append("  ").append(counted(result.cycles, "cycle"), LIMIT)
    yield text.append(f", {duration(result.t_ns)} at {float(summary.freq_ghz):g} GHz")
    yield Line(f"{result.program or 'a program'} on {result.machine}, {counted(summary.entries, 'entry')}")


def bound_lines(summary: RunSummary) -> Iterator[Line]:
    """The lower bound: `DRAM bound 6.41 M, achieved 6.63 M, 97%`; then the largest bounds of other kinds."""
    bound = summary.bound
    if not bound.cycles:  # there is no work
        return
    text = Line(f"{bound.kind} bound ", (f"{bound.cycles:,}", LIMIT))
    if summary.result.status == "done":
        text.append(", achieved ").append(f"{bound.achieved:,} cycles", LIMIT)
        text.append(", ").append(percent(bound.share), LIMIT)
    yield text.append(f"  ({bound.name})" if bound.kind != bound.name else "", DIM)
    if bound.others:
        others = ", ".join(f"{name} {cycles:,}" for name, cycles in bound.others)
        yield Line((f"other bounds: {others}", DIM))


def ending(summary: RunSummary) -> Iterator[Drawable]:
    """The explanation of a run that did not end as done."""
    result = summary.result
    if result.status == "aborted":
        more = 2 * max(summary.max_cycles, summary.bound.cycles)
        yield (
            f"stopped at max_cycles = {summary.max_cycles:,}: {summary.unfinished:,} of {counted(summary.entries, 'entry')} "
            f"have not ended, {summary.not_started:,} of them have not started; allow more with --set max_cycles={more}"
        )
    if result.failure is not None:
        if "traceback" in result.failure:
            yield Line((str(result.failure["traceback"]), DIM))
        yield Line((str(result.failure["message"]), BAD))
    if result.status == "deadlock":
        yield f"nothing can ever happen again: {summary.unfinished:,} of {counted(summary.entries, 'entry')} have not ended"
        yield from ("", deadlock_table(result))


def deadlock_table(result: Result) -> Drawable:
    """Which entry waits for which, and since which cycle."""
    waiting = result.waiting
    more = len(waiting) - MAX_WAITING
    made = Table(
        "Waiting",
        [("entry", "left"), ("waits for", "left"), ("since cycle", "right"), ("because of", "left")],
        f"the first {MAX_WAITING} of {len(waiting):,}" if more > 0 else "",
    )
    for item in waiting[:MAX_WAITING]:
        made.add_row(f"{item['id']} {item['opcode']}", ids(item["waits_for"], 4), f"{item['since']:,}", item["reason"])
    return made


def energy_line(result: Result) -> Line:
    """Energy, average power, and the components with at least 1% of the energy."""
    total = result.metrics["energy_pj"]["total"]
    parts = [(pj, name) for name, pj in result.metrics["energy_pj"].items() if name != "total" and pj >= total / 100]
    text = headed("Energy").append(scaled(total, ("pJ", "nJ", "uJ", "mJ", "J")), LIMIT)
    if result.t_ns:
        text.append(f" at {scaled(total / result.t_ns, ('mW', 'W', 'kW'))}")
    return text.append(": " + ", ".join(f"{name} {percent(pj / total)}" for pj, name in sorted(parts, reverse=True)))


def warnings(result: Result) -> Iterator[Drawable]:
    """The run's warnings, of many the first."""
    if not result.warnings:
        return
    yield from ("", Line((f"Warnings ({len(result.warnings):,})", f"bold {WAIT}")))
    for warning in result.warnings[:MAX_WARNINGS]:
        yield f"cycle {warning['cycle']:,}: {warning['message']}"
    more = len(result.warnings) - MAX_WARNINGS
    if more > 0:
        yield f"and {more:,} more (all are in --json)"


WORK_UNITS = {"dma": "B", "te": "MAC", "ve": "op", "cpu": "launch"}
MAX_ENGINES = 4  # rows of a kind; if there are more engines, the busiest are shown
SHORT_NAME = 12  # characters of an engine's name beside which a bar has room, in 80 columns


def engine_table(engines: Sequence[EngineUse], width: int, limit: str = "", *, whole: bool = False) -> Table:
    """The cycles of each engine by state, and its work. Engines of a kind with equal use are one row.

    Bars are left out where long names or counts leave them no room; counts are whole where there is room.
    """
    wide = width >= WIDE
    place = common_place([engine.name for engine in engines])
    groups, rest = _engine_groups(engines, whole)
    labels = [joined_name([without_place(engine.name, place) for engine in group]) for group in groups]
    pairs = list(zip(labels, groups, strict=True))
    counts = ("use", "busy", "conflict", "pressure", "idle", "jobs", "work")
    least = [[label, " " * _bar_width(width), *_engine_texts(group, wide, full=False)] for label, group in pairs]
    marked = any(_limits(limit, group) for group in groups)
    fitting = wide or fits(["engine", "", *counts], least, width - 9 * marked)
    barred = fitting and (wide or max(map(len, labels), default=0) <= SHORT_NAME)
    columns: list[tuple[str, Justify]] = [("engine", "left")]
    if barred:
        columns.append(("", "left"))
    columns += [(name, "right") for name in counts]
    if wide:
        columns.append(("per cycle", "right"))
    columns.append(("", "left"))
    bar = " " * _bar_width(width)
    texts = [[label, *([bar] * barred), *_engine_texts(group, wide, full=True), ""] for label, group in pairs]
    full = fits([head for head, _ in columns], [*texts, ["< limit"] + [""] * (len(columns) - 1)], width - 9 * bool(limit))
    together = any(len(group) > 1 for group in groups)
    note = f"{BUSY} busy  {STALLED} stalled  {IDLE} idle" if barred else ""
    made = Table("Engines" + _of(place), columns, f"{note}{JOINED if together else ''}".strip())
    for label, group in pairs:
        limits = _limits(limit, group)
        cells: list[str | Line | Bar] = list(_engine_texts(group, wide, full=full))
        cells[0] = Line((str(cells[0]), LIMIT))
        if barred:
            cells.insert(0, _engine_bar(group, width))
        made.add_row(Line((label, LIMIT if limits else "")), *cells, Line(("< limit" if limits else "", LIMIT)))
    for kind, (most, count) in rest.items():
        at_most = Line((f"{count} more {kind}, at most", DIM))
        made.add_row(at_most, *([""] * barred), percent(most))
    return made


def _limits(limit: str, group: Sequence[EngineUse]) -> bool:
    """Whether the limit of the run is an engine of this row, or its kind."""
    return limit in [engine.name for engine in group] or limit.rpartition(" ")[2] == group[0].kind


JOINED = "  equal rows joined"


def _engine_groups(engines: Sequence[EngineUse], whole: bool) -> tuple[list[list[EngineUse]], dict[str, tuple[float, int]]]:
    """The rows, and for each kind that has more: the highest use of those left out, and how many they are."""
    groups: list[list[EngineUse]] = []
    rest: dict[str, tuple[float, int]] = {}
    for kind in WORK_UNITS:
        of_kind = [engine for engine in engines if engine.kind == kind]
        if whole:
            groups += [[engine] for engine in of_kind]
            continue
        found = joined(of_kind, lambda engine: percent(engine.utilisation))
        busiest = sorted(found, key=lambda group: -group[0].busy)[:MAX_ENGINES]
        groups += [group for group in found if group in busiest]
        left = [engine for group in found if group not in busiest for engine in group]
        if left:
            rest[kind] = max(engine.utilisation for engine in left), len(left)
    return groups, rest


def _bar_width(width: int) -> int:
    return 20 if width >= WIDE else 10


def _engine_bar(group: Sequence[EngineUse], width: int) -> Bar:
    cycles = group[0].cycles
    stalled = mean([engine.bank_conflict + engine.backpressure for engine in group])
    use = mean([engine.utilisation for engine in group])
    return Bar([(use, BUSY, WORK), (stalled / cycles if cycles else 0.0, STALLED, WAIT)], _bar_width(width))


def _engine_texts(group: Sequence[EngineUse], wide: bool, *, full: bool) -> list[str]:
    """The cells behind the bar. `full`: counts have all their digits."""
    cycles = group[0].cycles
    count = (lambda number: f"{number:,}") if full else short
    split = [mean([engine.bank_conflict for engine in group]), mean([engine.idle for engine in group])]
    pressure = count(mean([engine.backpressure for engine in group])) if group[0].kind == "dma" else ""
    work, name = mean([engine.work for engine in group]), WORK_UNITS[group[0].kind]
    cells = [percent(group[0].utilisation), count(mean([engine.busy for engine in group])), count(split[0]), pressure]
    cells += [count(split[1]), short(mean([engine.jobs for engine in group])), unit(work, name)]
    return [*cells, f"{unit(work / cycles if cycles else 0, name)}/cycle"] if wide else cells


def _of(place: str) -> str:
    return f" of {place[:-1]}" if place else ""


def queue_lines(engines: Sequence[EngineUse]) -> Iterator[Line]:
    """Job-cycles that transfers spent stalled in the queues of DMA engines, where there are any."""
    for engine in engines:
        waits = (("queue_full", engine.queue_full), ("priority_deferred", engine.priority_deferred))
        parts = [f"{short(count)} {name}" for name, count in waits if count]
        if parts:
            yield Line((f"{engine.name} queue: {', '.join(parts)} job-cycles", DIM))


def resource_table(
    title: str, kinds: Sequence[Sequence[ResourceUse]], width: int, limit: str = "", *, whole: bool = False
) -> Table:
    """Bytes and bandwidth of channels and links, compared with their capacity. Resources with equal use are one row; the
    busiest rows of each kind are shown.
    """
    place = common_place([resource.name for kind in kinds for resource in kind])
    rows, rest = _resource_rows(kinds, place, whole=whole)
    same_clock = all(resource.freq_ghz == 1 for _, group in rows for resource in group)
    barred = width >= WIDE or max((len(label) for label, _ in rows), default=0) <= LONG_NAME
    columns: dict[str, tuple[str, Justify]] = {
        "name": ("", "left"), "bar": ("", "left"), "use": ("use", "right"), "bytes": ("bytes", "right"),
        "rate": ("rate of capacity", "right"), "speed": ("", "right"), "active": ("active", "right"), "limit": ("", "left"),
    }  # fmt: skip
    left_out = {"bar": not barred, "speed": same_clock, "active": width < WIDE}
    shown = [name for name in columns if not left_out.get(name)]
    together = any(len(group) > 1 for _, group in rows)
    made = Table(title + _of(place), [columns[name] for name in shown], JOINED.strip() if together else "")
    for label, group in rows:
        limits = limit in [resource.name for resource in group]
        cells = _use_of(group, width) | {
            "name": Line((label, LIMIT if limits else "")), "limit": Line(("< limit" if limits else "", LIMIT)),
        }  # fmt: skip
        made.add_row(*(cells[name] for name in shown))
    for left in rest:
        at_most = Line((f"{len(left)} more, at most ", DIM))
        moved = unit(sum(one.bytes for one in left), "B")
        made.add_row(at_most, *([""] * barred), percent(max(one.share for one in left)), moved)
    made.fit_first(width)
    return made


def _resource_rows(
    kinds: Sequence[Sequence[ResourceUse]], place: str, *, whole: bool
) -> tuple[list[tuple[str, list[ResourceUse]]], list[list[ResourceUse]]]:
    """The rows with their labels, and for each kind the resources without a row."""
    rows: list[tuple[str, list[ResourceUse]]] = []
    rest: list[list[ResourceUse]] = []
    for kind in kinds:
        busiest = sorted(kind, key=lambda resource: -resource.bytes)
        groups = [[one] for one in kind] if whole else joined(busiest, lambda one: (percent(one.share), one.capacity))
        groups = [sorted(group, key=kind.index) for group in groups]
        most = len(groups) if whole or len(groups) <= MAX_ROWS + 1 else MAX_ROWS
        rows += [(joined_name([without_place(one.name, place) for one in group]), group) for group in groups[:most]]
        left = [one for group in groups[most:] for one in group]
        rest += [left] if left else []
    return rows, rest


def _use_of(group: Sequence[ResourceUse], width: int) -> dict[str, str | Line | Bar]:
    """The cells of a row by column: means of resources with equal use."""
    first = group[0]
    return {
        "bar": Bar([(mean([one.share for one in group]), BUSY, WORK)], _bar_width(width)),
        "use": Line((percent(first.share), LIMIT)),
        "bytes": unit(mean([one.bytes for one in group]), "B"),
        "rate": f"{share_text(mean([one.achieved for one in group]))} of {rational(first.capacity)} B/cycle",
        "speed": f"{share_text(mean([one.gb_per_s for one in group]))} GB/s",
        "active": percent(mean([one.busy / one.cycles if one.cycles else 0.0 for one in group])),
    }


LONG_NAME = 20  # characters of a resource's name beside which a bar has room, in 80 columns


def banks_line(banks: BankConflicts) -> Line:
    """Requests and denials of the scratchpad's banks, and the worst of them."""
    text = headed("Scratchpad banks").append(f"{short(banks.requests)} requests, {short(banks.denials)} denied")
    if banks.worst is None:
        return text
    worst = banks.worst_denials / banks.worst_requests
    where = f" of {banks.where}" if banks.where else ""
    return text.append(f" ({percent(banks.rate)}), most at bank {banks.worst}{where} ({percent(worst)})")


def wait_table(summary: RunSummary, width: int, most: int = FEW_WAITS) -> Table:
    """The longest waits of jobs that were blocked by other jobs."""
    waits = summary.waits[:most]
    note = f"the longest {len(waits)} of {summary.waits_in_all:,}" if summary.waits_in_all > len(waits) else ""
    columns: list[tuple[str, Justify]] = [("cycles", "right"), ("entry", "left"), ("from", "right"), ("to", "right")]
    made = Table("Waits", [*columns, ("waited for", "left")], note, wrap_last=True)
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
    if wait.reason == "enqueue":
        return "enqueue by the host"
    if wait.behind is None:
        return f"{wait.engine}"
    verb = "until the end of" if wide else "behind"
    return f"{wait.engine}, {verb} {wait.behind}" + (f" {wait.behind_opcode}" if wide else "")
