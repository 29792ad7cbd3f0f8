"""A route as `kbsim topology route` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.text import Justify, rational, share_text, table
from kernbench.common.units import plain_number
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.config.system import SystemConfig
    from kernbench.policy.routing.route import Route
    from kernbench.topology.graph import Edge
    from kernbench.topology.graphs import Graph, Measure


def route_summary(
    route: Route, config: SystemConfig, graph: Graph, by: Measure, meanings: Sequence[str] = ()
) -> Iterator[RenderableType]:
    """What was named, a line a hop, then what they add up to and what limits them."""
    yield Text.assemble(
        (route.nodes[0], "bold"), " to ", (route.nodes[-1], "bold"), f" on {config.source}, graph {graph}, shortest by {by}"
    )
    yield from (Text(meaning, "dim") for meaning in meanings)
    columns: list[tuple[str, Justify]] = [("", "right"), ("node", "left"), ("over", "left")]
    made = table("Hops", [*columns, ("mm", "right"), ("cycles", "right"), ("B/cycle", "right")])
    made.add_row("0", route.nodes[0])
    for i, edge in enumerate(route.edges, 1):
        made.add_row(str(i), *_cells(edge), style="yellow" if edge is route.bottleneck else "")
    made.add_row("", Text("in all", "bold"), "", *(Text(text, "bold") for text in (rational(route.mm), f"{route.cycles:,}")))
    yield from ("", made)
    yield from ("", _limit(route, config))


def _cells(edge: Edge) -> tuple[str, ...]:
    rate = "" if edge.bytes_per_cycle is None else rational(edge.bytes_per_cycle)
    return edge.target, edge.kind.value, rational(edge.mm), f"{edge.cycles:,}", rate


def _limit(route: Route, config: SystemConfig) -> Text:
    hops = counted(len(route.edges), "hop")
    limit = route.bottleneck
    if limit is None or limit.bytes_per_cycle is None:
        return Text(f"{hops}; no edge limits its bandwidth")
    rate = f"{rational(limit.bytes_per_cycle)} B/cycle, {share_text(float(limit.bytes_per_cycle * config.freq_ghz))} GB/s"
    place = f" at {limit.kind.value} {limit.source} to {limit.target}"
    return Text.assemble(f"{hops}; bottleneck ", (rate, "bold"), place)


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
