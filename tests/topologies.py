"""Topologies for tests: drawn by hand, drawn at random, and small random systems."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.common.naming import in_cube, in_io, pe_node
from kernbench.config.system import SystemConfig
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import Edge, EdgeKind, Node, Topology
from tests.sampled import sampled_from

NAMES = ("a", "b", "r0c0", "r10c0", "r2c0", "z")
LENGTHS = sampled_from([Fraction(0), Fraction(1), Fraction(1), Fraction(2), Fraction(1, 2), Fraction(4, 3)])


def node(name: str, kind: str = "router", sip: int | None = 0, cube: int | None = 0, pe: int | None = None) -> Node:
    """A node at no particular place."""
    return Node(name, kind, sip, cube, pe, Fraction(0), Fraction(0))


def edge(source: str, target: str, kind: EdgeKind = EdgeKind.MESH, *, mm: Any = 1, weight: Any = 1, cycles: int = 1,
         rate: Any = 64, slices: tuple[int, ...] = ()) -> Edge:  # fmt: skip
    """One direction."""
    limit = None if rate is None else Fraction(rate)
    return Edge(source, target, kind, Fraction(mm), cycles, limit, Fraction(weight), slices)


def both(source: str, target: str, kind: EdgeKind = EdgeKind.MESH, **values: Any) -> list[Edge]:
    """Both directions."""
    return [edge(source, target, kind, **values), edge(target, source, kind, **values)]


def graph(nodes: Iterable[Node], *edges: Iterable[Edge], config: SystemConfig | None = None) -> Topology:
    """A topology of these; the configuration is of no matter to paths."""
    return Topology(config or SystemConfig(), tuple(nodes), tuple(one for group in edges for one in group))


@st.composite
def graphs(draw: Any) -> Topology:
    """Two to six nodes with names out of order, edges of all kinds, some one-way; every other graph is full of ties."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(2, len(NAMES)))]
    plain = draw(st.booleans())
    node_kinds = st.just("router") if plain else sampled_from(["router", "router", "router", "hbm_ctrl", "host", "io_noc"])
    mixed = [*[EdgeKind.MESH] * 8, *[EdgeKind.UCIE_IO] * 3, *EdgeKind]
    edge_kinds = st.just(EdgeKind.MESH) if plain else sampled_from(mixed)
    lengths = st.just(Fraction(1)) if plain else LENGTHS
    nodes = [node(name, draw(node_kinds)) for name in names]
    found: dict[tuple[str, str], Edge] = {}
    for a, b in [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]:
        if draw(st.booleans()):
            kind, mm, weight = draw(edge_kinds), draw(lengths), draw(lengths)
            ways = [(a, b), (b, a)] if draw(st.integers(0, 3)) else [draw(sampled_from([(a, b), (b, a)]))]
            found |= {(x, y): edge(x, y, kind, mm=mm, weight=weight) for x, y in ways}
    return graph(nodes, found.values())


def memories(**config: object) -> Topology:
    """Two SIPs of two cubes of two PEs: stacks of 12 KiB in four slices, SRAMs of 1 KiB, scratchpads of 16 x 1 KiB."""
    made = SystemConfig.model_validate(
        {
            "system": {"sips": 2},
            "sip": {"rows": 1, "cols": 2},
            "cube": {"pes": 2, "hbm": {"slices": 4, "channels": 4, "capacity_bytes": 12 * 1024}, "sram": {"bytes": 1024}},
            "pe": {"spm": {"bank_size_bytes": 1024}},
            **config,
        }
    )
    nodes = []
    for sip, cube in product(range(2), range(2)):
        nodes += [node(in_cube(sip, cube, kind), kind, sip, cube) for kind in ("hbm_ctrl", "sram", "m_cpu", "router")]
        nodes += [node(pe_node(sip, cube, pe, "pe_tcm"), "pe_tcm", sip, cube, pe) for pe in range(2)]
    for sip, io in product(range(2), (1, 0)):
        nodes += [node(in_io(sip, io, kind), kind, sip, None) for kind in ("pcie_ep", "io_cpu")]
    return graph(nodes, config=made)


def _parts(draw: Any, pes: int) -> dict[str, Any]:
    """A cube that the HBM may not leave a place for a router: then it cannot be built."""
    width, height = draw(sampled_from([(20, 20), (10, 30), ("33/2", "7.5")]))
    slices = draw(sampled_from([1, pes, 2 * pes]))
    footprint = draw(sampled_from([(0, 0), (4, 4), (7, 5)]))
    return {
        "width_mm": width,
        "height_mm": height,
        "pes": pes,
        "mesh": {"rows": draw(st.integers(1, 4)), "cols": draw(st.integers(1, 5)), "router_cycles": draw(st.integers(0, 2))},
        "hbm": {
            "channels": slices * draw(st.integers(1, 2)),
            "slices": slices,
            "capacity_bytes": slices * draw(sampled_from([64, 1000, 2**20])),
            "width_mm": footprint[0],
            "height_mm": footprint[1],
        },
        "sram": {"bytes": draw(sampled_from([1, 1000, 2**20])), "cycles": draw(st.integers(0, 3))},
        "ucie": {"ports_per_side": draw(st.integers(1, 3)), "link": {"cycles": draw(st.integers(0, 5))}},
    }


@st.composite
def systems(draw: Any) -> SystemConfig:
    """A small system with at most 4 SIPs of 6 cubes of 5 PEs, that can be built."""
    rows, cols = draw(sampled_from([(1, 1), (1, 1), (1, 2), (2, 2), (1, 3), (1, 4)]))
    kind = draw(sampled_from(["ring", "torus", "mesh"] if rows == 1 else ["torus", "mesh"]))
    sides = draw(st.lists(sampled_from("nesw"), min_size=1, max_size=4, unique=True))
    config = {
        "system": {"sips": rows * cols, "kind": kind, "rows": rows},
        "sip": {
            "rows": draw(st.integers(1, 3)),
            "cols": draw(st.integers(1, 2)),
            "gap_mm": draw(sampled_from([0, 1, "4/3"])),
            "io": [{"name": f"io{i}", "side": side} for i, side in enumerate(sides)],
        },
        "cube": _parts(draw, draw(st.integers(1, 5))),
        "wires": {"mm_per_cycle": draw(sampled_from([1, 7, 1000]))},
    }
    made = SystemConfig.model_validate(config)
    try:
        build_topology(made)
    except InputError:
        reject()
    return made
