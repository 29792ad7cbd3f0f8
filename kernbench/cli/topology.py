"""`kbsim topology`: nodes, routes and pictures of a system, without a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.options import AllowCode, Json, Overrides, SystemArgument, SystemConfigOption, system_asked
from kernbench.cli.text import WAIT, Justify, rational, scaled, share_text, short, table
from kernbench.common.json_shapes import counted
from kernbench.common.units import plain_number
from kernbench.config.system.dimensions import DIMENSIONS, arrangement
from kernbench.topology.graph import EdgeKind, Graph, Measure
from kernbench.topology.views import Level

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.config.system import SystemConfig
    from kernbench.policy.routing.router import Route
    from kernbench.topology.builder import Compiled
    from kernbench.topology.graph import Edge, Topology


app = Section("Show systems of SIPs, cubes and PEs: nodes, routes, pictures.")


@app.command()
def show(
    system: SystemArgument = None,
    config: SystemConfigOption = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Show the structure of a system: levels, nodes by kind, links with their bandwidths."""
    topology = _built(system_asked("topology show", config, system), overrides, allow_code)
    if as_json:
        output.show_json(topology_dict(topology))
    else:
        output.show(topology_summary(topology))
    return output.OK


@app.command("compile")
def compile_(
    file: SystemArgument = None,
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", metavar="FILE", help="The file of a system (.yaml, .json).", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Rewrite cube_mesh.yaml, even if it was edited by hand.")] = False,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Check a system, build its graph, and update the file cube_mesh.yaml in the same folder."""
    from time import perf_counter

    from kernbench.common.errors import InputError, Problem
    from kernbench.topology.builder import compile_topology

    if file is None and config is None:
        raise InputError(Problem("kbsim topology compile", "--config is missing: the system's file"))
    place = system_asked("topology compile", config, file)
    started = perf_counter()
    compiled = compile_topology(place, force=force, allow_code=allow_code or ())
    seconds = perf_counter() - started
    if as_json:
        mesh = {"mesh_file": str(compiled.mesh_file), "mesh": compiled.action}
        output.show_json({"status": "compiled", **mesh, **topology_dict(compiled.topology)})
    else:
        output.show([stage_table(compiled)])
        output.note(f"{place}: compiled in {seconds:.2f} s")
    return output.OK


@app.command()
def route(
    source: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="Start of the route: a node (sip0.io0.pcie_ep), a PE (sip0.cube0.pe3) or an address in a memory (0x80000000).",
            show_default=False,
        ),
    ],
    destination: Annotated[str, typer.Argument(metavar="B", help="End of the route: a node, a PE or "
        "an address.", show_default=False)],
    system: SystemArgument = None,
    config: SystemConfigOption = None,
    graph: Annotated[Graph, typer.Option("--graph", help="The graph whose edges the route may use.")] = Graph.DATA,
    by: Annotated[Measure, typer.Option("--by", help="The cost that the route minimises.")] = Measure.WEIGHT,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Show the route from A to B: its hops, their cost, and its bottleneck."""
    from kernbench.policy.routing.router import PathRouter, find_between

    topology = _built(system_asked("topology route", config, system), overrides, allow_code)
    router = PathRouter(topology)
    found = find_between(router, source, destination, graph, by)
    along = router.route(found.path)
    if as_json:
        output.show_json({"topology": topology.config.source, "graph": found.graph.value, "by": by.value, **route_dict(along)})
    else:
        output.show(route_summary(along, topology.config, found.graph, by, found.meanings))
    return output.OK


@app.command()
def draw(
    system: SystemArgument = None,
    *,
    level: Annotated[Level, typer.Option("--view", help="What to draw.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write: .svg.", show_default=False)],
    of: Annotated[
        str,
        typer.Option(
            "--of", metavar="NAME", show_default="the first",
            help="Which SIP, cube or PE to draw: sip0, sip0.cube3, sip0.cube3.pe1.",
        ),
    ] = "",
    dark: Annotated[bool, typer.Option("--dark", help="Use dark colours.")] = False,
    config: SystemConfigOption = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
) -> int:
    """Draw a system as SVG: all SIPs, or one SIP, cube or PE."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_writable, write_whole
    from kernbench.topology.visualizer import draw as drawn

    if out.suffix.lower() != ".svg":
        raise InputError(Problem("kbsim topology draw", "the file name must end in .svg", "--out", str(out)))
    check_writable(out)
    picture = drawn(_built(system_asked("topology draw", config, system), overrides, allow_code), level, of)
    data = picture.svg("dark" if dark else "light").encode()
    write_whole(out, data)
    output.note(f"{out}: {picture.title}, {len(data):,} bytes")
    return output.OK


def _built(target: str, overrides: list[str] | None, allow_code: list[str] | None) -> Topology:
    from kernbench.config import load_config
    from kernbench.config.system import SystemConfig
    from kernbench.topology.builder import build_topology

    return build_topology(load_config(target, overrides or [], kind=SystemConfig, allow_code=allow_code or ()))


GB = ("GB/s", "TB/s", "PB/s")
BETWEEN = (EdgeKind.UCIE, EdgeKind.UCIE_IO, EdgeKind.SIP)  #: edges between cubes, IO chiplets and SIPs


@dataclass(frozen=True)
class Links:
    """The connections of one kind; two edges in opposite directions are one connection."""

    kind: EdgeKind
    edges: Sequence[Edge]

    @property
    def links(self) -> int:
        """How many there are."""
        pairs = {(edge.source, edge.target) for edge in self.edges}
        return sum((edge.target, edge.source) not in pairs or edge.source < edge.target for edge in self.edges)

    @property
    def rates(self) -> list[Fraction]:
        """The bandwidths of those edges that have a bandwidth."""
        return [edge.bytes_per_cycle for edge in self.edges if edge.bytes_per_cycle is not None]


def links_by_kind(topology: Topology) -> list[Links]:
    """The links by kind, in the order of the catalogue."""
    found: dict[EdgeKind, list[Edge]] = {kind: [] for kind in EdgeKind}
    for edge in topology.edges:
        found[edge.kind].append(edge)
    return [Links(kind, edges) for kind, edges in found.items() if edges]


def topology_summary(topology: Topology) -> Iterator[RenderableType]:
    """The summary of a system for a terminal."""
    config = topology.config
    yield widgets.Text.assemble(
        (config.source, "bold"),
        f"  {counted(len(topology.nodes), 'node')}, {counted(len(topology.edges), 'edge')}, {float(config.freq_ghz):g} GHz",
    )
    yield from ("", _levels(config))
    yield from ("", _nodes(topology))
    yield from ("", _links(topology))


def _levels(config: SystemConfig) -> widgets.Table:
    system, sip, cube, pe = config.system, config.sip, config.cube, config.pe
    hbm = cube.hbm.capacity * cube.hbm.channels * config.freq_ghz
    grid = widgets.Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    package = f"{system.kind} of {_arrangement(config)}" if system.sips > 1 else "one SIP"
    grid.add_row("System", "1", f"{package}; HBM {_bytes(config.system.sips * config.cubes * cube.hbm.capacity_bytes)}")
    chiplets = ", ".join(f"{io.name} ({io.side})" for io in sip.io) or "none"
    grid.add_row("SIP", short(system.sips), f"{sip.rows} x {sip.cols} cubes; IO chiplets {chiplets}")
    mesh = f"mesh {cube.mesh.rows} x {cube.mesh.cols}; {counted(cube.pes, 'PE')}"
    memory = f"HBM {_bytes(cube.hbm.capacity_bytes)} in {counted(config.slices, 'slice')}, {scaled(float(hbm), GB)}"
    size = f"{rational(cube.width_mm)} x {rational(cube.height_mm)} mm"
    grid.add_row("Cube", short(system.sips * config.cubes), f"{size}; {mesh}; {memory}; SRAM {_bytes(cube.sram.bytes)}")
    engines = f"{counted(pe.dma.engines, 'DMA engine')}; TE {pe.te.engines} x {rational(pe.te.rate(8, 8))} MAC"
    spm = f"scratchpad {_bytes(pe.spm.size_bytes)} in {counted(pe.spm.num_banks, 'bank')}"
    grid.add_row("PE", short(config.pes), f"{engines}; VE {pe.ve.engines} x {pe.ve.lanes} lanes; {spm}")
    return grid


def _arrangement(config: SystemConfig) -> str:
    """The rows and columns of SIPs, or their dimensions."""
    return arrangement(config) if config.system.kind == DIMENSIONS else f"{config.system.rows} x {config.sip_cols}"


def _bytes(nbytes: int) -> str:
    """A size in the largest unit of which it has at least one."""
    power = min(max(nbytes.bit_length() - 1, 0) // 10, 6)
    return f"{nbytes / (1 << 10 * power):.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"


def _nodes(topology: Topology) -> widgets.Table:
    made = table("Nodes", [("kind", "left"), ("in a", "left"), ("each has", "right"), ("in all", "right")])
    config = topology.config
    holders = {"PE": config.pes, "cube": config.system.sips * config.cubes, "SIP": config.system.sips, "system": 1}
    levels: dict[str, str] = {}
    for node in topology.nodes:
        level = "system" if node.sip is None else "SIP" if node.cube is None else "cube" if node.pe is None else "PE"
        levels.setdefault(node.kind, level)
    for kind, count in Counter(node.kind for node in topology.nodes).items():
        made.add_row(kind, levels[kind], short(count // holders[levels[kind]]), short(count))
    return made


def _links(topology: Topology) -> widgets.Table:
    """Each kind of link; bandwidths are of one direction."""
    freq = topology.config.freq_ghz
    rate_units = ["B/cycle"] if freq == 1 else ["B/cycle", "GB/s"]  # at 1 GHz the two are the same number
    columns = ["links", *rate_units, "cycles", "mm", "together"]
    made = table("Links", [("kind", "left"), *((name, "right") for name in columns)], "bandwidths are of one direction")
    for links in links_by_kind(topology):
        rates = links.rates
        each = [_span([rate * factor for rate in rates]) if rates else "" for factor in (1, freq)[: len(rate_units)]]
        # Both directions have the same sum, half of all edges.
        together = scaled(float(sum(rates, Fraction(0)) * freq / 2), GB) if rates else ""
        costs = [_span([edge.cycles for edge in links.edges]), _span([edge.mm for edge in links.edges])]
        made.add_row(links.kind.value, short(links.links), *each, *costs, together)
    return made


def _span(values: Iterable[Fraction | int]) -> str:
    """A range of a quantity, from the smallest to the largest."""
    low, high = min(found := [Fraction(value) for value in values]), max(found)
    return rational(low) if low == high else f"{rational(low)}..{rational(high)}"


def topology_dict(topology: Topology) -> dict[str, Any]:
    """The same as plain JSON."""
    config = topology.config
    levels = {"sips": config.system.sips, "cubes": config.system.sips * config.cubes, "pes": config.pes}
    sizes = {"hbm_bytes": config.cube.hbm.capacity_bytes, "hbm_slices": config.slices, "sram_bytes": config.cube.sram.bytes}
    return {
        "topology": config.source,
        "digest": config.digest(),
        **levels,
        **sizes,
        "scratchpad_bytes": config.pe.spm.size_bytes,
        "nodes": {"all": len(topology.nodes), **Counter(node.kind for node in topology.nodes)},
        "edges": {
            "all": len(topology.edges),
            **{
                links.kind.value: {
                    "edges": len(links.edges),
                    "links": links.links,
                    "bytes_per_cycle": _range(links.rates),
                    "cycles": _range([edge.cycles for edge in links.edges]),
                    "mm": _range([edge.mm for edge in links.edges]),
                }
                for links in links_by_kind(topology)
            },
        },
    }


def _range(values: Sequence[Fraction | int]) -> list[int | float | str] | None:
    """The smallest and the largest value, or None without values."""
    return [plain_number(Fraction(find(values))) for find in (min, max)] if values else None


def stage_table(compiled: Compiled) -> widgets.Table:
    """One line per stage of the compiler: its output, time and memory."""
    config, topology = compiled.topology.config, compiled.topology
    kinds = Counter(node.kind for node in topology.nodes)
    links = {one.kind: one.links for one in links_by_kind(topology)}
    inside = [node for node in topology.nodes if node.cube is not None]
    mesh = f"{kinds['router'] // (config.system.sips * config.cubes):,} routers a cube"
    shape = f"{_arrangement(config)} {config.system.kind}"
    rows = (
        ("read and validate", f"{config.source}, {config.schema_name}"),
        ("cube mesh", f"{compiled.mesh_file.name} {compiled.action}, {mesh}"),
        ("system", f"host, {counted(config.system.sips, 'SIP')} ({shape})"),
        ("IO chiplets", f"{counted(kinds['io_noc'], 'chiplet')}, {counted(links.get(EdgeKind.PCIE, 0), 'PCIe link')}"),
        ("cubes", f"{counted(config.system.sips * config.cubes, 'cube')}, {counted(config.pes, 'PE')}, {len(inside):,} nodes"),
        ("edges", ", ".join(f"{links.get(kind, 0):,} {kind.value}" for kind in BETWEEN)),
        ("views", "system, sip, cube, pe"),
    )
    made = table("Stages", [("", "right"), ("stage", "left"), ("made", "left"), ("ms", "right"), ("MB", "right")])
    made.columns[2].no_wrap = False
    for i, (row, stage) in enumerate(zip(rows, compiled.stages, strict=True), 1):
        made.add_row(str(i), *row, f"{stage.seconds * 1000:,.1f}", f"{stage.grown / 1e6:,.1f}")
    return made


def route_summary(
    route: Route, config: SystemConfig, graph: Graph, by: Measure, meanings: Sequence[str] = ()
) -> Iterator[RenderableType]:
    """The two ends, one line per hop, then the sums and the bottleneck."""
    yield widgets.Text.assemble(
        (route.nodes[0], "bold"), " to ", (route.nodes[-1], "bold"), f" on {config.source}, graph {graph}, shortest by {by}"
    )
    yield from (widgets.Text(meaning, "dim") for meaning in meanings)
    columns: list[tuple[str, Justify]] = [("", "right"), ("node", "left"), ("over", "left")]
    made = table("Hops", [*columns, ("mm", "right"), ("cycles", "right"), ("B/cycle", "right")])
    made.add_row("0", route.nodes[0])
    for i, edge in enumerate(route.edges, 1):
        made.add_row(str(i), *_cells(edge), style=WAIT if edge is route.bottleneck else "")
    made.add_row(
        "",
        widgets.Text("in all", "bold"),
        "",
        *(widgets.Text(text, "bold") for text in (rational(route.mm), f"{route.cycles:,}")),
    )
    yield from ("", made)
    yield from ("", _limit(route, config))


def _cells(edge: Edge) -> tuple[str, ...]:
    rate = "" if edge.bytes_per_cycle is None else rational(edge.bytes_per_cycle)
    return edge.target, edge.kind.value, rational(edge.mm), f"{edge.cycles:,}", rate


def _limit(route: Route, config: SystemConfig) -> widgets.Text:
    hops = counted(len(route.edges), "hop")
    limit = route.bottleneck
    if limit is None or limit.bytes_per_cycle is None:
        return widgets.Text(f"{hops}; no edge limits its bandwidth")
    rate = f"{rational(limit.bytes_per_cycle)} B/cycle"
    if config.freq_ghz != 1:
        rate += f", {share_text(float(limit.bytes_per_cycle * config.freq_ghz))} GB/s"
    place = f" at {limit.kind.value} {limit.source} to {limit.target}"
    return widgets.Text.assemble(f"{hops}; bottleneck ", (rate, "bold"), place)


def route_dict(route: Route) -> dict[str, Any]:
    """The same as plain JSON, exactly."""
    hops = [
        {
            "from": edge.source,
            "to": edge.target,
            "kind": edge.kind.value,
            "mm": plain_number(edge.mm),
            "cycles": edge.cycles,
            "bytes_per_cycle": None if edge.bytes_per_cycle is None else plain_number(edge.bytes_per_cycle),
            "weight": plain_number(edge.weight),
        }
        for edge in route.edges
    ]
    limit = None if route.bottleneck is None else hops[route.edges.index(route.bottleneck)]
    totals = {"mm": plain_number(route.mm), "cycles": route.cycles, "weight": plain_number(route.weight)}
    return {"path": list(route.nodes), **totals, "bottleneck": limit, "hops": hops}
