"""Laws of routes: on random graphs against every path there is, on systems against what a route must not use."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.policy.routing import LEFT_OUT, Graph, Measure, NoPath, PathRouter
from kernbench.policy.routing.search import ENDS
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import EdgeKind, Topology
from tests.oracles.ref_paths import Path, least_weights, shortest
from tests.topologies import graphs, systems


def found(router: PathRouter, source: str, target: str, kind: Graph, by: Measure) -> Path | None:
    try:
        return router.find(source, target, kind, by)
    except NoPath:
        return None


def exits(topology: Topology) -> frozenset[tuple[str, str]]:
    """The edges from a cube into an IO chiplet."""
    into = {node.id for node in topology.nodes if node.kind in ("io_noc", "io_cpu")}
    cubes = {node.id for node in topology.nodes if node.cube is not None}
    return frozenset((e.source, e.target) for e in topology.edges if e.source in cubes and e.target in into)


def all_paths(topology: Topology, pairs: list[tuple[str, str]], kind: Graph, by: Measure) -> dict[tuple[str, str], Path | None]:
    """By one router, in the order of `pairs`: each search goes on from where the last one stopped."""
    router = PathRouter(topology)
    return {pair: found(router, *pair, kind, by) for pair in pairs}


@given(graphs(), st.sampled_from(Graph), st.sampled_from(Measure), st.randoms(use_true_random=False))
def test_paths_are_the_least_of_all(topology: Topology, kind: Graph, by: Measure, random: Random) -> None:
    edges = {(e.source, e.target): (e.weight, e.mm) for e in topology.edges if e.kind not in LEFT_OUT[kind]}
    closed = frozenset(node.id for node in topology.nodes if node.kind in ENDS)
    out = exits(topology)
    pairs = [(a.id, b.id) for a in topology.nodes for b in topology.nodes]
    random.shuffle(pairs)
    for (a, b), path in all_paths(topology, pairs, kind, by).items():
        assert path == shortest(edges, a, b, closed, by is Measure.DISTANCE, out)


@given(graphs(), st.sampled_from(Graph), st.sampled_from(Measure), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_edges_decides_nothing(topology: Topology, kind: Graph, by: Measure, random: Random) -> None:
    nodes, edges = list(topology.nodes), list(topology.edges)
    random.shuffle(nodes)
    random.shuffle(edges)
    shuffled = Topology(topology.config, tuple(nodes), tuple(edges))
    pairs = [(a.id, b.id) for a in topology.nodes for b in topology.nodes]
    assert all_paths(topology, pairs, kind, by) == all_paths(shuffled, pairs, kind, by)


# Systems ----------------------------------------------------------------------------------------------------------

PRESETS = ("single_cube", "sip_4x4", "two_sips", "pod_8sip")
DATA = ("pe_dma", "pe_tcm", "sram", "hbm_ctrl", "m_cpu", "io_noc", "pcie_ep", "host", "router", "ucie")


@cache
def preset(name: str) -> Topology:
    return build_topology(load_config(name, kind=SystemConfig))


def some_pairs(topology: Topology, random: Random, count: int = 12) -> list[tuple[str, str]]:
    """Pairs of nodes of different kinds and places."""
    by_kind: dict[str, list[str]] = {}
    for node in topology.nodes:
        by_kind.setdefault(node.kind, []).append(node.id)
    kinds = [(random.choice(DATA), random.choice(DATA)) for _ in range(count)]
    return [(random.choice(by_kind[a]), random.choice(by_kind[b])) for a, b in kinds]


def check_routes(topology: Topology, random: Random) -> None:
    """Every law that a route of data keeps, for some pairs."""
    router = PathRouter(topology)
    for (a, b), by in product(some_pairs(topology, random), Measure):
        path, mm = router.find_path_with_distance(a, b, by=by)
        route = router.route(path)
        assert (path[0], path[-1]) == (a, b) and len(set(path)) == len(path)
        assert [(edge.source, edge.target) for edge in route.edges] == list(pairwise(path))  # each hop is an edge
        assert mm == route.mm == sum(edge.mm for edge in route.edges)
        assert route.cycles == sum(edge.cycles for edge in route.edges)
        assert EdgeKind.COMMAND not in {edge.kind for edge in route.edges}
        assert router.find_path_with_distance(b, a, by=by)[1] == mm
        others = [edge.bytes_per_cycle for edge in route.edges if edge.bytes_per_cycle is not None]
        assert (route.bottleneck.bytes_per_cycle if route.bottleneck else None) == min(others, default=None)


def check_left_out(topology: Topology, random: Random) -> None:
    """What an M_CPU's copies and a cube's own routes do not use."""
    router = PathRouter(topology)
    node = random.choice([one for one in topology.nodes if one.kind == "m_cpu"])
    inside = [one.id for one in topology.nodes if (one.sip, one.cube) == (node.sip, node.cube) and one.kind in DATA[:4]]
    for target in random.sample(inside, min(len(inside), 6)):
        kinds = {edge.kind for edge in router.route(router.find_local_path(node.id, target)).edges}
        assert not kinds & {EdgeKind.UCIE, EdgeKind.UCIE_PORT, EdgeKind.UCIE_IO, EdgeKind.COMMAND}
    for target in [one.id for one in topology.nodes if one.kind in ("hbm_ctrl", "sram", "host")][:20]:
        kinds = {edge.kind for edge in router.route(router.find_mcpu_dma_path(node.id, target)).edges}
        assert not kinds & {EdgeKind.PE_INTERNAL, EdgeKind.PE_ROUTER, EdgeKind.COMMAND}


def check_io_chiplets(topology: Topology, random: Random) -> None:
    """Between cubes of a SIP no route leads through an IO chiplet, and to or from one it passes no other."""
    router = PathRouter(topology)
    by_id = topology.by_id
    for (a, b), by in product(some_pairs(topology, random), Measure):
        kinds = [by_id[name].kind for name in router.find_path(a, b, by=by)]
        out = sum(kinds[i] == "ucie" and kinds[i + 1] == "io_noc" for i in range(len(kinds) - 1))
        if by_id[a].sip == by_id[b].sip and by_id[a].cube is not None:
            assert out == (by_id[b].cube is None)
        elif by_id[a].sip == by_id[b].sip and a != b and by_id[b].cube is not None:
            assert out == 0


def memory_addresses(router: PathRouter, topology: Topology) -> Iterator[tuple[int, str, int | None]]:
    """(address, node, slice) of the first and last byte of every slice, and of every other memory."""
    resolver, config = router.resolver, topology.config
    for sip, cube, number in product(range(config.system.sips), range(config.cubes), range(config.slices)):
        for offset in (0, config.slice_bytes - 1):
            yield resolver.address(sip, cube, number, offset), f"sip{sip}.cube{cube}.hbm_ctrl", number
    for node in topology.nodes:
        if node.kind in ("sram", "pe_tcm"):
            yield resolver.base(node.id), node.id, None


def check_memories(topology: Topology, random: Random) -> None:
    """A PE reaches every memory, HBM by an edge of the slice, and back; within its own cube it does not leave it."""
    router = PathRouter(topology)
    pe = random.choice([one for one in topology.nodes if one.kind == "pe_dma"])
    addresses = list(memory_addresses(router, topology))
    for address, memory, number in random.sample(addresses, min(len(addresses), 400)):
        there = router.find_memory_path(pe.id, address)
        back = router.find_memory_path(pe.id, address, read=True)
        assert (there[0], there[-1]) == (pe.id, memory) == (back[-1], back[0])
        assert router.route(there).mm == router.route(back).mm
        if number is not None:
            assert number in topology.edge[there[-2], memory].slices and number in topology.edge[memory, back[1]].slices
        if (topology.by_id[memory].sip, topology.by_id[memory].cube) == (pe.sip, pe.cube):
            assert all(topology.by_id[name].cube == pe.cube and topology.by_id[name].kind != "ucie" for name in there)


@pytest.mark.parametrize("name", PRESETS)
def test_laws_of_the_presets(name: str) -> None:
    for seed in range(3):
        check_routes(preset(name), Random(seed))
        check_left_out(preset(name), Random(seed))
        check_io_chiplets(preset(name), Random(seed))
    check_memories(preset(name), Random(7))


@settings(max_examples=40, deadline=None)
@given(systems(), st.randoms(use_true_random=False))
def test_laws_of_systems(config: SystemConfig, random: Random) -> None:
    topology = build_topology(config)
    check_routes(topology, random)
    check_left_out(topology, random)
    check_io_chiplets(topology, random)
    check_memories(topology, random)


@settings(max_examples=25, deadline=None)
@given(systems(), st.sampled_from(Graph), st.sampled_from(Measure), st.randoms(use_true_random=False))
def test_routes_of_systems_are_of_least_weight(config: SystemConfig, kind: Graph, by: Measure, random: Random) -> None:
    topology = build_topology(config)
    out, above = exits(topology), sum(edge.weight + edge.mm for edge in topology.edges) + 1
    costs = {
        (edge.source, edge.target): edge.weight if by is Measure.WEIGHT else edge.mm
        for edge in topology.edges
        if edge.kind not in LEFT_OUT[kind]
    }
    costs |= {pair: costs[pair] + above for pair in out if pair in costs}
    closed = frozenset(node.id for node in topology.nodes if node.kind in ENDS)
    router = PathRouter(topology)
    target = random.choice(topology.nodes).id
    least = least_weights(costs, target, closed)
    for node in topology.nodes:
        path = found(router, node.id, target, kind, by)
        total = None if path is None else sum((costs[pair] for pair in pairwise(path)), Fraction(0))
        assert total == least.get(node.id)


@settings(max_examples=25, deadline=None)
@given(systems(), st.sampled_from(Measure), st.randoms(use_true_random=False))
def test_the_order_of_a_system_decides_no_route(config: SystemConfig, by: Measure, random: Random) -> None:
    topology = build_topology(config)
    nodes, edges = list(topology.nodes), list(topology.edges)
    random.shuffle(nodes)
    random.shuffle(edges)
    pairs = some_pairs(topology, random)
    shuffled = Topology(topology.config, tuple(nodes), tuple(edges))
    assert all_paths(topology, pairs, Graph.DATA, by) == all_paths(shuffled, pairs, Graph.DATA, by)
