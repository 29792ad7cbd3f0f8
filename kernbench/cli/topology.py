"""`kbsim topology`: a system's parts, routes and pictures, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import AllowCode, Json, Overrides
from kernbench.topology.graphs import Graph, Measure
from kernbench.topology.levels import Level

if TYPE_CHECKING:
    from kernbench.topology.graph import Topology

app = typer.Typer(help="Look at systems of SIPs, cubes and PEs: parts, routes, pictures.", no_args_is_help=True)

System = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A system: a preset's name, or a .yaml or .json file.", show_default=False),
]


@app.command()
def show(target: System, overrides: Overrides = None, allow_code: AllowCode = None, as_json: Json = False) -> int:
    """Show what a system is made of: its levels, nodes by kind, links with their bandwidths."""
    from kernbench.cli.render_topology import topology_dict, topology_summary

    topology = _built(target, overrides, allow_code)
    if as_json:
        output.show_json(topology_dict(topology))
    else:
        output.show(topology_summary(topology))
    return output.OK


@app.command("compile")
def compile_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A system's file (.yaml, .json).", show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Write cube_mesh.yaml anew, even where it was edited by hand.")
    ] = False,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Check a system, build it, and bring the cube_mesh.yaml beside its file up to date."""
    from time import perf_counter

    from kernbench.cli.render_topology import stage_table, topology_dict
    from kernbench.topology.builder import compile_topology

    started = perf_counter()
    compiled = compile_topology(file, force=force, allow_code=allow_code or ())
    seconds = perf_counter() - started
    if as_json:
        mesh = {"mesh_file": str(compiled.mesh_file), "mesh": compiled.action}
        output.show_json({"status": "compiled", **mesh, **topology_dict(compiled.topology)})
    else:
        output.show([stage_table(compiled)])
        output.note(f"{file}: compiled in {seconds:.2f} s")
    return output.OK


@app.command()
def route(
    source: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A node (sip0.io0.pcie_ep), a PE (sip0.cube0.pe3: its pe_dma) or an address (0x80000000: its memory).",
            show_default=False,
        ),
    ],
    destination: Annotated[str, typer.Argument(metavar="B", help="Another of these.", show_default=False)],
    target: System,
    graph: Annotated[Graph, typer.Option("--graph", help="Which edges it may use.")] = Graph.DATA,
    by: Annotated[Measure, typer.Option("--by", help="What makes a route short.")] = Measure.WEIGHT,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Show the route from A to B: its hops, what they cost, and what limits it."""
    from kernbench.cli.render_route import route_dict, route_summary
    from kernbench.policy.routing.ends import find_between
    from kernbench.policy.routing.router import PathRouter

    topology = _built(target, overrides, allow_code)
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
    target: System,
    level: Annotated[Level, typer.Option("--view", help="What the picture is of.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to: .svg.", show_default=False)],
    of: Annotated[
        str, typer.Option("--of", metavar="NAME", help="Which one: sip0, sip0.cube3, sip0.cube3.pe1.", show_default="the first")
    ] = "",
    overrides: Overrides = None,
    allow_code: AllowCode = None,
) -> int:
    """Draw a view of a system as SVG: of all SIPs, or of one SIP, cube or PE."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_writable, write_whole
    from kernbench.topology.visualizer import draw as drawn

    if out.suffix.lower() != ".svg":
        raise InputError(Problem("kbsim topology draw", "its name must end in .svg", "--out", str(out)))
    check_writable(out)
    picture = drawn(_built(target, overrides, allow_code), level, of)
    data = picture.svg().encode()
    write_whole(out, data)
    output.note(f"{out}: {picture.title}, {len(data):,} bytes")
    return output.OK


def _built(target: str, overrides: list[str] | None, allow_code: list[str] | None) -> Topology:
    from kernbench.config import load_config
    from kernbench.config.system import SystemConfig
    from kernbench.topology.builder import build_topology

    return build_topology(load_config(target, overrides or [], kind=SystemConfig, allow_code=allow_code or ()))
