"""A graph of operators on a machine: how long it takes, node by node. `kbsim onnx` and `kbsim torch` show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.text import BAD, Justify, duration, headed, percent, scaled, short, size_text, table, unit
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.config import MachineConfig
    from kernbench.workloads.graphs.beyond import ExcessCause
    from kernbench.workloads.graphs.graph import Graph
    from kernbench.workloads.graphs.run import GraphProgram, GraphRun
    from kernbench.workloads.graphs.verify import Verification


WeightBits = Annotated[int, typer.Option("--w", metavar="BITS", help="Bits per weight of matrix products and embedding "
    "tables.")]
ActivationBits = Annotated[int, typer.Option("--a", metavar="BITS", help="Bits per element of all tensors to which --w does "
    "not apply: 8, 16 or 32.")]
Partial = Annotated[bool, typer.Option("--partial", help="Leave out the nodes that cannot be lowered, and list them.")]
Emit = Annotated[
    Path | None, typer.Option("--emit", metavar="FILE", help="Write the program to FILE, without running the program.",
        show_default=False)
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Run the model a second time, and write the trace of the "
        "second run.", show_default=False),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Compute the outputs of the graph tile by tile, and compare them with a reference.")
]
LiveMap = Annotated[
    Path | None, typer.Option("--live-map", metavar="FILE", help="Draw the scratchpad buffers as .svg.", show_default=False)
]


def time_graph(
    read: Callable[[], Graph], config: MachineConfig, limit: int | None, options: Options, check: Callable[[], Verification]
) -> int:
    """Lower a graph, run it and show the result, or write its program.

    `limit`: of its cycles; None: as many as it takes. `check`: what `--verify` does.
    """
    from kernbench.cli.program import report_written
    from kernbench.workloads.graphs.run import GraphProgram

    made = GraphProgram(read(), config, options.a, partial=options.partial, max_cycles=limit)
    if options.live_map is not None:
        _draw(made, options.live_map)
    if options.emit is not None:
        made.program.save(options.emit)
        report_written(options.emit, len(made.program), made.machine.source, as_json=options.as_json, quiet=options.quiet)
        return output.OK
    if options.trace is not None:
        _trace(made, options.trace)
    run = made.run()
    verified = check() if options.verify else None
    if options.as_json:
        output.show_json(run.to_dict() | ({} if verified is None else {"verification": verified.to_dict()}))
    elif not options.quiet:
        output.show(graph_summary(run, options.w, options.a))
        if verified is not None:
            output.show(verification_lines(verified))
    return output.OK if verified is None or verified.passed else output.WRONG


def verification_lines(found: Verification) -> Iterator[RenderableType]:
    """What `--verify` found."""
    yield ""
    what = f"{counted(found.jobs, 'job')} followed, {counted(found.tiles, 'tile')} of products computed"
    if found.passed:
        yield headed("Verified").append(f"{what}; {counted(len(found.worst), 'output')} equal within tolerance")
        return
    yield widgets.Text(f"NOT VERIFIED: {what}", f"bold {BAD}")
    yield from (widgets.Text(fault, BAD) for fault in found.faults)
    wrong = [name for name, error in found.worst.items() if error > 1]
    yield from (widgets.Text(f"output {name} differs from the reference", BAD) for name in wrong)


@dataclass(frozen=True, slots=True)
class Options:
    """What `kbsim onnx` and `kbsim torch` have in common."""

    w: int
    a: int
    partial: bool
    emit: Path | None
    trace: Path | None
    live_map: Path | None
    verify: bool
    as_json: bool
    quiet: bool

    def check(self, command: str) -> None:
        """InputError before the run if they do not fit, or a file cannot be written."""
        _check_bits(command, self.w, self.a)
        _check_files(command, self.emit, self.trace, self.live_map)
        if self.verify and (self.emit is not None or self.partial):
            other = "--partial" if self.partial else "--emit"
            raise InputError(Problem(command, f"{other} has no outputs to compare", "--verify", other, "leave one of them out"))


def _draw(made: GraphProgram, path: Path) -> None:
    from kernbench.common.files import write_whole
    from kernbench.workloads.layer.live_map import live_map_svg

    write_whole(path, live_map_svg(made.plan.scratchpad, made.stages).encode())


def _trace(made: GraphProgram, path: Path) -> None:
    from kernbench.cli.tracing import traced
    from kernbench.sim_engine.machine import Machine

    machine = Machine(made.target, made.program)
    with traced(machine, path, None):
        machine.run()


def _check_bits(command: str, w: int, a: int) -> None:
    """InputError if they are not element widths."""
    for name, value, allowed in (("--w", w, (1, 2, 4, 8, 16, 32, 64)), ("--a", a, (8, 16, 32))):
        if value not in allowed:
            raise InputError(Problem(command, f"it must be one of {', '.join(map(str, allowed))}", name, value))


def _check_files(command: str, emit: Path | None, trace: Path | None, live_map: Path | None) -> None:
    """InputError before the run if they cannot be written."""
    from kernbench.common.files import check_writable

    if emit is not None and trace is not None:
        raise InputError(Problem(command, "--emit runs nothing, so there is no trace", "--trace", str(trace)))
    if live_map is not None and live_map.suffix.lower() != ".svg":
        raise InputError(Problem(command, "the file name must end in .svg", "--live-map", str(live_map)))
    for path in (emit, trace, live_map):
        if path is not None:
            check_writable(path)


_ENGINES = {"te": "tensor engines", "ve": "vector engines", "dma": "DMA engines"}
_BOUNDS = {"te": "MACs", "ve": "vector operations", "dma": "DRAM bandwidth"}
_JOULE = ("pJ", "nJ", "uJ", "mJ", "J")


def graph_summary(run: GraphRun, weight_bits: int, activation_bits: int) -> Iterator[RenderableType]:
    """The output of `kbsim onnx` and `kbsim torch`."""
    from kernbench.workloads.graphs.lowering import missing_lines

    graph = run.lowered.graph
    yield widgets.Text.assemble((duration(run.ns), "bold"), f"  {run.cycles:,} cycles, {unit(run.macs, 'MAC')}")
    used = f"{unit(run.dram_used, 'B')} of {size_text(run.machine.dram.capacity_bytes)} of DRAM"
    what = f"{graph.name} W{weight_bits}A{activation_bits} on {run.machine.source}"
    yield widgets.Text(f"{what}: {counted(len(graph.nodes), 'node')}, {used}")
    for line in graph.assumed:
        yield widgets.Text(f"assumed: {line}")
    missing = list(missing_lines(run.lowered))
    if missing:
        yield ""
        yield widgets.Text(f"{counted(len(missing), 'node')} not lowered, and in no figure below:", f"bold {BAD}")
        yield from (widgets.Text(f"{node}: {reason}", BAD) for node, reason in missing)
    yield ""
    yield from _why(run)
    yield from _beyond(run)
    yield ""
    yield _nodes(run)
    total = sum(run.energy_pj.values())
    if total:
        largest = sorted((pj, name) for name, pj in run.energy_pj.items() if pj >= total / 100)[::-1]
        shares = ", ".join(f"{name} {percent(pj / total)}" for pj, name in largest)
        yield ""
        yield headed("Energy").append(scaled(total, _JOULE), "bold").append(f": {shares}")


def _why(run: GraphRun) -> Iterator[widgets.Text]:
    """The bounds compared with the achieved cycles, and which operators are far above them."""
    from kernbench.workloads.graphs.run import EXPLAINED

    name, bound = run.limit
    line = headed("Bounds").append(f"DRAM bandwidth {run.dram_cycles:,}, ")
    line.append(percent(run.share(run.dram_cycles)), "bold")
    line.append(f"; MACs {run.mac_cycles:,}, ").append(percent(run.share(run.mac_cycles)), "bold")
    line.append(f"; vector operations {run.vector_cycles:,}, ").append(percent(run.share(run.vector_cycles)), "bold")
    yield line.append(f" of {run.cycles:,} cycles")
    yield widgets.Text(f"bottleneck: {name}, {bound:,} cycles, {percent(run.share(bound))}", "dim")
    if run.over_roofline > EXPLAINED:
        reasons = [f"{one.op} {one.cycles:,} ({_ENGINES[one.engine]} busy for {one.busy:,})" for one in run.beyond()]
        yield widgets.Text(f"{run.over_roofline:.2f} times the roofline; cycles beyond products: {', '.join(reasons)}", "dim")
    moved = run.bytes
    total = unit(sum(moved.values()), "B")
    parts = f"weights {unit(moved['weights'], 'B')}, activations {unit(moved['activations'], 'B')}"
    yield widgets.Text(f"DRAM bytes: {total} ({parts}), at least {unit(run.least_bytes, 'B')}")


def _beyond(run: GraphRun) -> Iterator[RenderableType]:
    """For a run far above the roofline, the cycles beyond the largest bound by reason."""
    from kernbench.workloads.graphs.run import EXPLAINED

    if run.over_roofline <= EXPLAINED:
        return
    numbers: list[tuple[str, Justify]] = [("cycles", "right"), ("of all", "right")]
    made = table(f"Beyond the bound of {_BOUNDS[run.bound]}", [*numbers, ("reason", "left"), ("most of them", "left")])
    made.columns[2].no_wrap = made.columns[3].no_wrap = False
    for part in run.parts():
        made.add_row(f"{part.cycles:,}", percent(run.share(part.cycles)), reason_text(part, run), f"{part.op} {part.of_op:,}")
    yield ""
    yield made


def reason_text(part: ExcessCause, run: GraphRun) -> str:
    """A reason for cycles beyond the largest bound, in words."""
    kind = run.bound
    own = _ENGINES[kind]
    match part.reason:
        case "work" if kind == "dma":
            return "further bytes, and transfers that are slower than the DRAM"
        case "work" if kind == "te":
            return "zeros in matrices of grouped convolutions, and unused parts of arrays"
        case "work":
            return "further copies (elements that several windows share, reordered or converted tensors) and unused lanes"
        case "ends":
            return f"the first and last cycles of {counted(part.jobs, 'job')}"
        case "waits":
            return f"waits of {counted(part.jobs, 'job')} for banks of the scratchpad"
        case "uneven":
            return f"some {own} have no job while others work"
        case "none":
            return "no engine works, between jobs that depend on each other"
        case _:
            idle = "no transfer is active" if kind == "dma" else f"all {own} wait"
            return f"{idle} for transfers" if part.reason == "dma" else f"{idle} while {_ENGINES[part.reason]} work"


def _nodes(run: GraphRun) -> Table:
    """One row per node. The nodes share the cycles: each has those from the end of the earlier nodes to its own end."""
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("cycles", "of all", "MACs", "weights", "activations")]
    made = table("Nodes", [("node", "left"), ("operator", "left"), *numbers])
    made.columns[0].no_wrap = made.columns[1].no_wrap = False
    for row in run.rows:
        operator = widgets.Text(row.op)
        if row.note:
            operator.append(f", {row.note}", BAD if row.note.startswith("NOT") else "dim")
        if not row.jobs:
            made.add_row(row.name, operator, "", "", "", "", "")
            continue
        moved = [unit(row.bytes[role], "B") if row.bytes[role] else "" for role in ("weights", "activations")]
        macs = short(row.macs) if row.macs else ""
        made.add_row(row.name, operator, f"{row.cycles:,}", percent(row.cycles / run.cycles), macs, *moved)
    return made
