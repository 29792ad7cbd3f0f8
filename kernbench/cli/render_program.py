"""A program before it runs, as `kbsim program show` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.text import BUSY, WIDE, Bar, headed, ids, short, table, unit

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.cmdq import ProgramSummary
    from kernbench.cmdq.graph import Graph

MOST_LINKS = 5
PATH_ENDS = 6  # ids shown at either end of a long critical path


def program_summary(summary: ProgramSummary, graph: Graph, machine: str, width: int) -> Iterator[RenderableType]:
    """What there is to say of a program on a machine, for a terminal of `width` columns."""
    bounds = summary.bounds
    yield Text.assemble((summary.name or "a program", "bold"), f" on {machine}, {summary.entries:,} entries")
    yield Text.assemble("at least ", (f"{bounds.cycles:,} cycles", "bold"), f", by {bounds.limit}")
    if bounds.stuck:
        yield Text(f"it ends in a deadlock: {len(bounds.stuck):,} entries can never be issued: {ids(bounds.stuck)}", "red")
    yield ""
    yield headed("Opcodes").append(", ".join(f"{name} {count:,}" for name, count in summary.opcodes.items()))
    implied = sum(edge.implied for edge in graph.edges)
    text = headed("Graph").append(f"depth {graph.depth:,}, width {graph.width:,}, {len(graph.edges):,} edges")
    yield text.append(f" ({implied:,} of them by BARRIER and END)" if implied else "")
    yield headed("Critical path").append(f"{bounds.critical_path:,} cycles: {_path(bounds.path)}")
    read, written = sum(summary.dram_read.values()), sum(summary.dram_written.values())
    text = headed("Bytes").append(f"{unit(read, 'B')} read, {unit(written, 'B')} written")
    yield text.append(f"; {unit(summary.moved_bytes - summary.asked_bytes, 'B')} of them are alignment")
    yield headed("Work").append(f"{unit(sum(summary.macs.values()), 'MAC')}, {unit(sum(summary.ops.values()), 'op')}")
    yield ""
    yield _bounds(summary, width)


def _path(path: Sequence[int]) -> str:
    """The ids of a path; of a long one its ends."""
    if len(path) <= 2 * PATH_ENDS:
        return " > ".join(map(str, path))
    first, last = path[:PATH_ENDS], path[-PATH_ENDS:]
    return " > ".join([*map(str, first), f"... {len(path) - 2 * PATH_ENDS:,} more ...", *map(str, last)])


def _bounds(summary: ProgramSummary, width: int) -> Table:
    bounds = summary.bounds
    made = table("Lower bounds", [("of", "left"), ("", "left"), ("cycles", "right"), ("because of", "left")])
    made.columns[-1].no_wrap = False
    rows = [("critical path", bounds.critical_path, f"{len(bounds.path):,} entries one after the other")]
    for name, cycles in bounds.dram.items():
        moved = f"{unit(summary.dram_read[name], 'B')} read, {unit(summary.dram_written[name], 'B')} written"
        rows.append((name, cycles, moved))
    busiest = sorted(bounds.links, key=lambda link: -bounds.links[link])[:MOST_LINKS]
    rows += [(name, cycles, "its bytes") for name, cycles in bounds.links.items() if name in busiest]
    if len(bounds.links) > len(busiest):
        rows.append((f"{len(bounds.links) - len(busiest)} more links", 0, ""))
    rows += [(name, cycles, _jobs(summary, name)) for name, cycles in bounds.engines.items()]
    for name, cycles, reason in rows:
        if name.endswith("more links"):
            made.add_row(Text(name, "dim"))
            continue
        share = cycles / bounds.cycles if bounds.cycles else 0.0
        made.add_row(name, Bar([(share, BUSY, "cyan")], 24 if width >= WIDE else 10), f"{cycles:,}", Text(reason, "dim"))
    return made


def _jobs(summary: ProgramSummary, name: str) -> str:
    text = f"{summary.jobs[name]:,} jobs"
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
