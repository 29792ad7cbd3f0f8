"""A program before it runs, as `kbsim program show` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from kernbench.cli import output
from kernbench.cli.text import BUSY, WIDE, Bar, Justify, common_place, ids, table, unit, without_place
from kernbench.common.words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from kernbench.cmdq import ProgramSummary
    from kernbench.cmdq.graph import Graph

MOST_CHANNELS = 16  # of each kind the ones with the highest bounds are shown
MOST_LINKS = 5
MOST_ENGINES = 16
BOUND_COLUMNS: list[tuple[str, Justify]] = [("of", "left"), ("", "left"), ("cycles", "right"), ("because of", "left")]
PATH_ENDS = 6  # ids shown at either end of a long critical path


def program_summary(
    summary: ProgramSummary, graph: Graph, machine: str, width: int, nothing: str = ""
) -> Iterator[RenderableType]:
    """What there is to say of a program on a machine, for a terminal of `width` columns; `nothing`: why nothing runs in it."""
    bounds = summary.bounds
    yield Text.assemble((summary.name or "a program", "bold"), f" on {machine}, {counted(summary.entries, 'entry')}")
    if nothing:
        yield Text(f"nothing runs: it has {nothing}", "bold yellow")
        return
    yield Text.assemble("at least ", (counted(bounds.cycles, "cycle"), "bold"), f", by {bounds.limit}")
    if bounds.stuck:
        yield Text(f"it ends in a deadlock; never issued: {ids(bounds.stuck)}", "red")
    yield from ("", _facts(summary, graph))
    yield from ("", _bounds(summary, width))


def tell_written(path: Path, entries: int, machine: str, layouts: str = "", *, as_json: bool, quiet: bool) -> None:
    """A command wrote a program in the place of running it. `layouts`: the override with which its machine runs it."""
    if as_json:
        told = {"status": "written", "program": str(path), "entries": entries, "machine": machine}
        output.show_json(told | {"set": layouts or None})
    elif not quiet:
        output.note(f"{path}: {counted(entries, 'entry')} for {machine}")
        if layouts:
            output.note(f"run it with --set '{layouts}'")


def _facts(summary: ProgramSummary, graph: Graph) -> Table:
    implied = sum(edge.implied for edge in graph.edges)
    by_control = f", {implied:,} of them by BARRIER and END" if implied else ""
    read, written = sum(summary.dram_read.values()), sum(summary.dram_written.values())
    padding = summary.moved_bytes - summary.asked_bytes
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    grid.add_row("Opcodes", ", ".join(f"{count:,} {name}" for name, count in summary.opcodes.items()))
    grid.add_row(
        "Graph", f"depth {graph.depth:,}, width {graph.width:,}, {counted(len(graph.edges), 'edge')}{by_control}"
    )
    grid.add_row("Critical path", f"{counted(summary.bounds.critical_path, 'cycle')}: {_path(summary.bounds.path)}")
    elsewhere = f", {unit(summary.elsewhere, 'B')} over no channel" if summary.elsewhere else ""
    moved = f"{unit(read, 'B')} read, {unit(written, 'B')} written{elsewhere}"
    grid.add_row("Bytes", f"{moved}; of these {unit(padding, 'B')} only align")
    grid.add_row("Work", f"{unit(sum(summary.macs.values()), 'MAC')}, {unit(sum(summary.ops.values()), 'op')}")
    return grid


def _path(path: Sequence[int]) -> str:
    """The ids of a path; of a long one its ends."""
    if len(path) <= 2 * PATH_ENDS:
        return " > ".join(map(str, path))
    first, last = path[:PATH_ENDS], path[-PATH_ENDS:]
    return " > ".join([*map(str, first), f"... {len(path) - 2 * PATH_ENDS:,} more ...", *map(str, last)])


def _bounds(summary: ProgramSummary, width: int) -> Table:
    bounds = summary.bounds
    place = common_place([name for part in (bounds.dram, bounds.links, bounds.engines) for name in part])
    made = table("Lower bounds" + (f" of {place[:-1]}" if place else ""), BOUND_COLUMNS)
    made.columns[-1].no_wrap = False
    path = f"{counted(len(bounds.path), 'entry')} one after the other"
    _bound_row(made, "critical path", bounds.critical_path, path, bounds.cycles, width)
    for part, most, noun in (
        (bounds.dram, MOST_CHANNELS, "more channel"),
        (bounds.links, MOST_LINKS, "more link"),
        (bounds.engines, MOST_ENGINES, "more engine"),
    ):
        shown = sorted(part, key=lambda name: -part[name])[:most]
        for name, cycles in part.items():
            if name in shown:
                _bound_row(made, without_place(name, place), cycles, _reason(summary, name), bounds.cycles, width)
        if len(part) > len(shown):
            made.add_row(Text(counted(len(part) - len(shown), noun), "dim"))
    return made


def _bound_row(made: Table, name: str, cycles: int, reason: str, largest: int, width: int) -> None:
    share = cycles / largest if largest else 0.0
    made.add_row(name, Bar([(share, BUSY, "cyan")], 24 if width >= WIDE else 10), f"{cycles:,}", Text(reason, "dim"))


def _reason(summary: ProgramSummary, name: str) -> str:
    if name in summary.dram_read:
        return f"{unit(summary.dram_read[name], 'B')} read, {unit(summary.dram_written[name], 'B')} written"
    return _jobs(summary, name) if name in summary.jobs else ""


def _jobs(summary: ProgramSummary, name: str) -> str:
    text = counted(summary.jobs[name], "job")
    if name in summary.macs:
        return f"{text}, {unit(summary.macs[name], 'MAC')}"
    return f"{text}, {unit(summary.ops[name], 'op')}" if name in summary.ops else text


def program_dict(summary: ProgramSummary, graph: Graph, machine: str) -> dict[str, Any]:
    """The same for `--json`, in full."""
    bounds = summary.bounds
    return {
        "status": "valid",
        "program": summary.name,
        "machine": machine,
        "entries": summary.entries,
        "opcodes": summary.opcodes,
        "jobs": summary.jobs,
        "dram_read": summary.dram_read,
        "dram_written": summary.dram_written,
        "elsewhere": summary.elsewhere,
        "asked_bytes": summary.asked_bytes,
        "moved_bytes": summary.moved_bytes,
        "macs": summary.macs,
        "ops": summary.ops,
        "graph": {"depth": graph.depth, "width": graph.width, "edges": len(graph.edges)},
        "critical_path": list(bounds.path),
        "bounds": {
            "cycles": bounds.cycles,
            "limit": bounds.limit,
            "critical_path": bounds.critical_path,
            **bounds.dram,
            **bounds.links,
            **bounds.engines,
        },
        "never_issued": list(bounds.stuck),
    }
