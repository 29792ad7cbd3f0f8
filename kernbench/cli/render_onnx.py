"""A run of a graph as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.text import Justify, duration, headed, percent, scaled, short, size_text, table, unit
from kernbench.common.words import counted
from kernbench.workloads.graphs.lowering import missing_lines

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.workloads.graphs.run import GraphRun

_JOULE = ("pJ", "nJ", "uJ", "mJ", "J")


def onnx_summary(run: GraphRun, weight_bits: int, activation_bits: int) -> Iterator[RenderableType]:
    """What `kbsim onnx` prints."""
    graph = run.lowered.graph
    yield Text.assemble((duration(run.ns), "bold"), f"  {short(run.cycles)} cycles, {unit(run.macs, 'MAC')}")
    used = f"{unit(run.dram_used, 'B')} of {size_text(run.machine.dram.capacity_bytes)} of DRAM"
    what = f"{graph.name} W{weight_bits}A{activation_bits} on {run.machine.source}"
    yield Text(f"{what}: {counted(len(graph.nodes), 'node')}, {used}")
    missing = list(missing_lines(run.lowered))
    if missing:
        yield ""
        yield Text(f"{counted(len(missing), 'node')} not lowered, and in no figure below:", "bold red")
        yield from (Text(f"{node}: {reason}", "red") for node, reason in missing)
    yield ""
    yield from _why(run)
    yield ""
    yield _nodes(run)
    total = sum(run.energy_pj.values())
    if total:
        largest = sorted((pj, name) for name, pj in run.energy_pj.items() if pj >= total / 100)[::-1]
        shares = ", ".join(f"{name} {percent(pj / total)}" for pj, name in largest)
        yield ""
        yield headed("Energy").append(scaled(total, _JOULE), "bold").append(f": {shares}")


def _why(run: GraphRun) -> Iterator[Text]:
    """The bounds beside what was achieved."""
    name, bound = run.limit
    line = headed("Bounds").append(f"DRAM bandwidth {short(run.dram_cycles)}, ")
    line.append(percent(run.dram_cycles / run.cycles), "bold")
    line.append(f"; MACs {short(run.mac_cycles)}, ").append(percent(run.mac_cycles / run.cycles), "bold")
    yield line.append(f" of {short(run.cycles)} cycles")
    yield Text(f"busiest in this program: {name}, {short(bound)}, {percent(bound / run.cycles)}", "dim")
    moved = run.bytes
    total = unit(sum(moved.values()), "B")
    parts = f"weights {unit(moved['weights'], 'B')}, activations {unit(moved['activations'], 'B')}"
    yield Text(f"DRAM bytes: {total} ({parts}), at least {unit(run.least_bytes, 'B')}")


def _nodes(run: GraphRun) -> Table:
    """A row a node. Those of a whole model share the cycles: each has those from the end of the earlier ones to its own."""
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("cycles", "of all", "MACs", "weights", "activations")]
    made = table("Nodes", [("node", "left"), ("operator", "left"), *numbers])
    made.columns[0].no_wrap = made.columns[1].no_wrap = False
    for row in run.rows:
        operator = Text(row.op)
        if row.note:
            operator.append(f", {row.note}", "red" if row.note.startswith("NOT") else "dim")
        if not row.jobs:
            made.add_row(row.name, operator, "", "", "", "", "")
            continue
        moved = [unit(row.bytes[role], "B") if row.bytes[role] else "" for role in ("weights", "activations")]
        macs = short(row.macs) if row.macs else ""
        made.add_row(row.name, operator, short(row.cycles), percent(row.cycles / run.cycles), macs, *moved)
    return made
