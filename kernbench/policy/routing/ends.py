"""The ends of a route as people name them: a node, a PE, which is its DMA engine, or an address, which is its memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.policy.routing.router import Path, PathRouter
from kernbench.topology.graph import Graph, Measure

_ADDRESS = re.compile(r"0[xX][0-9a-fA-F_]+|[0-9][0-9_]*")


@dataclass(frozen=True, slots=True)
class End:
    """One end of a route."""

    node: str
    address: int | None = None
    meaning: str = ""  #: of an address: which byte of which memory it is


@dataclass(frozen=True, slots=True)
class Found:
    """A path between two ends as they were named."""

    path: Path
    graph: Graph  #: the one that was searched: with an address of the own cube `local`
    meanings: tuple[str, ...]


def end_of(router: PathRouter, text: str) -> End:
    """What a name or address means. InputError for an address in no memory; other names are taken to be nodes."""
    if _ADDRESS.fullmatch(text):
        address = int(text, 0) if text[:2].lower() == "0x" else int(text)
        node, place = router.resolver.locate(address)
        inside = f"byte {address - router.resolver.base(node):,}"
        if place is not None:
            inside = f"byte {place.offset:,} of slice {place.slice}"
        return End(node, address, f"{text} is {inside} of {node}")
    try:
        return End(naming.pe_node(*naming.parse_pe(text), naming.PE_DMA))
    except ValueError:
        return End(text)


def find_between(
    router: PathRouter, source: str, target: str, graph: Graph = Graph.DATA, by: Measure = Measure.WEIGHT
) -> Found:
    """The path between two ends. HBM is entered and left where the address's slice is attached.

    InputError for what is not there, for two addresses, and where no path leads.
    """
    ends = end_of(router, source), end_of(router, target)
    meanings = tuple(end.meaning for end in ends if end.meaning)
    here, there = ends
    if here.address is not None and there.address is not None:
        rule = "both ends are addresses, and bytes of a memory go to a node or come from one"
        raise InputError(Problem("route", rule, remedy="name the PE, M_CPU or endpoint that moves them"))
    if here.address is None and there.address is None:
        return Found(router.find(here.node, there.node, graph, by), graph, meanings)
    node, address = (here.node, there.address) if here.address is None else (there.node, here.address)
    assert address is not None
    searched = router.memory_graph(node, address) if graph is Graph.DATA else graph
    read = here.address is not None
    return Found(router.find_memory_path(node, address, by=by, read=read, graph=searched), searched, meanings)
