"""Networks of `kind: dimensions`: links, routes, estimates, collectives, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.group_routes import latencies, routes_of
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.ccl.rings import (
    RING,
    TORUS,
    combining_of_kind,
    flat_ring,
    kind_of_dimensions,
    level_rings,
    ring_through,
    sizes_of_kind,
)
from kernbench.ccl.tuner import Tuner
from kernbench.common import naming
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.policy.routing.router import PathRouter
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import EdgeKind
from tests.oracles import ref_dimensions

REGISTRY = read_registry()
SMALL = ("sip.rows=1", "sip.cols=1")


def described(dimensions: list[ref_dimensions.Dimension], **more: Any) -> SystemConfig:
    """A machine of SIPs of one cube. Links have no length, so their cycles are those of the file."""
    listed = [
        {"kind": kind, "size": size, "link": {"cycles": cycles, "bytes_per_cycle": 50, "mm": 0}}
        | ({"switch": {"cycles": inside}} if kind == "switch" else {})
        for kind, size, cycles, inside in dimensions
    ]
    sips = prod(size for _, size, _, _ in dimensions)
    system = {"kind": "dimensions", "sips": sips, "dimensions": listed, **more}
    cube = {"pes": 2, "mesh": {"rows": 2, "cols": 2}, "width_mm": 24, "height_mm": 24}
    return load_config({"schema": "kernbench/system/1", "system": system, "cube": cube}, kind=SystemConfig)


def overridden(dimensions: str, sips: int, *more: str) -> SystemConfig:
    """A machine with room for the queues of all algorithms."""
    keys = ("system.kind=dimensions", f"system.sips={sips}", f"system.dimensions=[{dimensions}]")
    return load_config("pod_8sip", [*SMALL, *keys, *more], kind=SystemConfig)


KINDS = st.sampled_from(["ring", "fully_connected", "switch"])
DIMENSION = st.tuples(KINDS, st.integers(1, 5), st.integers(1, 40), st.integers(0, 30))
NETWORKS = st.lists(DIMENSION, min_size=1, max_size=4).filter(lambda some: 2 <= prod(size for _, size, _, _ in some) <= 24)


def hops_of(router: PathRouter, a: int, b: int) -> list[ref_dimensions.Hop]:
    """The links between SIPs of a route, with their cycles."""
    ends = naming.place(a, cube=0, pe=0), naming.place(b, cube=0, pe=1)
    route = router.route(router.find_path(f"{ends[0]}.{naming.PE_DMA}", f"{ends[1]}.{naming.PE_TCM}"))

    def short(name: str) -> str:
        return name.partition(".")[0]

    return [(short(edge.source), short(edge.target), edge.cycles) for edge in route.edges if edge.kind is EdgeKind.SIP]


@settings(deadline=None, max_examples=25)
@given(NETWORKS, st.data())
def test_routes_take_one_dimension_after_another(dimensions: list[ref_dimensions.Dimension], data: st.DataObject) -> None:
    """The links of each route, against an oracle that goes SIP by SIP."""
    config = described(dimensions)
    router, sips = PathRouter(build_topology(config)), st.integers(0, config.system.sips - 1)
    for _ in range(6):
        a, b = data.draw(sips), data.draw(sips)
        if a != b:
            assert hops_of(router, a, b) == ref_dimensions.route(a, b, dimensions)


@settings(deadline=None, max_examples=15)
@given(NETWORKS.filter(lambda some: prod(size for _, size, _, _ in some) <= 12))
def test_estimates_of_large_machines_have_the_latencies_and_links_of_routes(dimensions: list[ref_dimensions.Dimension]) -> None:
    """The latencies and loads of links in closed form, which machines of more SIPs use, against looked-up routes."""
    config = described(dimensions)
    sips = config.system.sips
    group, times = group_of(config, Shape(sips, 1, 1)), latencies(config)
    looked_up, computed = (routes_of(config, group, one) for one in (times, replace(times, sip_routes={})))
    for a, b in product(range(sips), repeat=2):
        if a != b:
            assert computed.between(a, b) == looked_up.between(a, b)
            assert [slower for _, slower in computed.links(a, b)] == [slower for _, slower in looked_up.links(a, b)]
    every = [(a, b) for a in range(sips) for b in range(sips) if a != b]
    for hops in (every, [(a, (a + 1) % sips) for a in range(sips)], [(a, (a * 7 + 3) % sips) for a in range(sips)]):
        assert computed.loads(hops) == looked_up.loads(hops)


def test_links_and_switches() -> None:
    """Neighbours of a ring, every two SIPs of a fully connected line, and a switch for each line of a dimension."""
    config = described([("ring", 4, 7, 0), ("fully_connected", 3, 9, 0), ("switch", 2, 11, 5)])
    edges = [edge for edge in build_topology(config).edges if edge.kind is EdgeKind.SIP]
    pairs = {(naming.parse_node(edge.source).sip, naming.parse_node(edge.target).sip): edge.cycles for edge in edges}
    assert sum(cycles == 7 for cycles in pairs.values()) == 2 * 4 * 6  # rings of four links
    assert sum(cycles == 9 for cycles in pairs.values()) == 2 * 3 * 8
    assert sum(edge.cycles == 16 for edge in edges) == sum(edge.cycles == 11 for edge in edges) == 24
    assert len({edge.target for edge in edges if edge.target.startswith("switch")}) == 12
    assert pairs[0, 3] == pairs[3, 0] == 7 and pairs[0, 8] == 9 and (0, 5) not in pairs and (3, 4) not in pairs


def test_a_dimension_without_links_of_its_own_has_those_of_the_system() -> None:
    config = overridden("{kind: ring, size: 4}, {kind: switch, size: 2}", 8, "system.link.cycles=77", "system.link.mm=0",
                        "system.switch.cycles=5")  # fmt: skip
    edges = [edge for edge in build_topology(config).edges if edge.kind is EdgeKind.SIP]
    assert {edge.cycles for edge in edges} == {77, 82}


def test_an_oversubscribed_switch_limits_what_goes_through_it() -> None:
    """Four links of 8 B/cycle, and 8 B/cycle through the switch. The four SIPs on one side send to those on the other side."""
    link = "link: {bytes_per_cycle: 8, mm: 0}"
    lines = f"{{kind: ring, size: 2, {link}}}, {{kind: switch, size: 4, {link}, switch: {{oversubscription: "
    free, thin = (overridden(f"{lines}{over}}}}}", 8) for over in (1, 4))
    edges = build_topology(thin).edges
    through = [edge for edge in edges if edge.source.startswith("switch") and edge.target.startswith("switch")]
    assert [edge.bytes_per_cycle for edge in through] == [8, 8] and {edge.cycles for edge in through} == {0}
    nbytes, times = 1 << 16, []
    for config in (free, thin):
        entry, group = REGISTRY.find("send_recv", "ring"), group_of(config, Shape(8, 1, 1))
        order = [0, 2, 4, 6, 1, 3, 5, 7]  # around the switch of each line
        pes, rows = tuple(group.pes[sip] for sip in order), tuple(group.rows[sip] for sip in order)
        moved = replace(group, kind=RING, pes=pes, rows=rows)
        made, _ = row(CclRequest(config, moved, entry, "f16", queues_of(REGISTRY, entry), False), nbytes // 2)
        assert made is not None
        times.append(made.cycles)
    assert nbytes / 8 < times[0] < 2.4 * nbytes / 8 and 3 * nbytes / 8 < times[1] < 1.2 * 4 * nbytes / 8


def test_broken_links_are_avoided() -> None:
    """Around a ring, over another line, or over the switch of another line; no node twice."""
    dimensions: list[ref_dimensions.Dimension] = [("ring", 2, 5, 0), ("ring", 3, 5, 0), ("switch", 2, 9, 3)]
    config = described(dimensions, failed=["0-1", "4-0", "dim2.5"])
    router = PathRouter(build_topology(config))
    for a, b in product(range(12), repeat=2):
        if a != b:
            nodes = [hop[0] for hop in hops_of(router, a, b)] + [f"sip{b}"]
            assert len(set(nodes)) == len(nodes) and nodes[0] == f"sip{a}"
            broken = {("sip0", "sip1"), ("sip0", "sip4"), ("sip5", "switch5")}
            assert not broken & {pair for one in pairwise(nodes) for pair in (one, one[::-1])}
    assert [hop[1] for hop in hops_of(router, 0, 3)] == ["sip2", "sip3"]  # not over sip1 and back
    assert [hop[1] for hop in hops_of(router, 0, 4)] == ["sip2", "sip4"]


RING_4 = {"kind": "ring", "size": 4}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sips": 8, "dimensions": []}, "needs 1 to 5 dimensions, but there are 0"),
        ({"sips": 8, "dimensions": [RING_4]}, "it must be the product of the sizes of the dimensions, 4"),
        ({"sips": 4, "rows": 2, "dimensions": [RING_4]}, "rows = 2, but dimensions has one row"),
        ({"kind": "ring", "sips": 4, "dimensions": [RING_4]}, "it is for kind: dimensions"),
        ({"sips": 4, "dimensions": [RING_4 | {"switch": {}}]}, "dimensions[0].switch: a dimension ring has no switches"),
        ({"sips": 4, "dimensions": [{"kind": "mesh", "size": 4}]}, "must be one of ring, fully_connected, switch"),
        ({"sips": 4, "dimensions": [{"kind": "ring"}]}, "system.dimensions[0].size: it is required"),
        ({"sips": 64, "dimensions": [{"kind": "ring", "size": 2}] * 6}, "needs 1 to 5 dimensions, but there are 6"),
        ({"sips": 4, "dimensions": [RING_4], "failed": ["0-2"]}, "no such link in dimensions of 4 SIPs"),
        ({"sips": 4, "dimensions": [RING_4], "failed": ["dim0.1"]}, "no such link to a switch in a dimensions"),
        ({"sips": 4, "dimensions": [{"kind": "switch", "size": 4}], "failed": ["dim0.4"]}, "no such link to a switch"),
    ],
)
def test_refusals(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        load_config({"schema": "kernbench/system/1", "system": {"kind": "dimensions", **keys}})
    assert said in str(error.value).replace("\n", " "), error.value


@given(st.lists(st.integers(1, 1024), min_size=1, max_size=5), st.data())
def test_a_kind_keeps_the_sizes_of_dimensions(sizes: list[int], data: st.DataObject) -> None:
    combining = data.draw(st.none() | st.integers(0, len(sizes) - 1))
    kind = kind_of_dimensions(sizes, combining)
    assert (sizes_of_kind(kind), combining_of_kind(kind)) == (tuple(sizes), combining) and kind < 1 << 63
    assert not sizes_of_kind(RING) and not sizes_of_kind(TORUS)


def test_rings_of_dimensions() -> None:
    """A level for each dimension, and a ring through all SIPs whose hops are one step of one dimension."""
    kind, shape = kind_of_dimensions((4, 3, 2)), Shape(24, 1, 2)
    levels = level_rings(kind, shape)
    assert [{ring.size for ring in level} for level in levels] == [{2}, {1}, {4}, {3}, {2}]
    assert [level[0].plane for level in levels] == [0, 1, 2, 3, 4]
    assert [one // 2 for one in levels[3][0].members] == [0, 4, 8] and [one // 2 for one in levels[4][0].members] == [0, 12]
    order = ring_through(kind, 24)
    assert sorted(order) == list(range(24)) and flat_ring(kind, shape).members[::2] == tuple(2 * sip for sip in order)
    places = ref_dimensions.places([("ring", 4, 1, 0), ("ring", 3, 1, 0), ("ring", 2, 1, 0)])
    for one, other in pairwise(order):
        assert sorted(abs(x - y) for x, y in zip(places[one], places[other], strict=True)) == [0, 0, 1]


MIXED = (
    "{kind: ring, size: 4, link: {bytes_per_cycle: 100, cycles: 50}}, "
    "{kind: switch, size: 2, link: {bytes_per_cycle: 25, cycles: 300}, switch: {cycles: 70, reduce: true}}"
)


def cycles(config: SystemConfig, collective: str, name: str, pes: int = 1, count: int = 3000, check: bool = False) -> int:
    """Of an algorithm on all SIPs; its results are compared with the reference."""
    entry, group = REGISTRY.find(collective, name), group_of(config, Shape(config.system.sips, 1, pes))
    queues = queues_of(REGISTRY, entry, config=config, group=group)
    made, _ = row(CclRequest(config, group, entry, "f16", queues, check), count)
    assert made is not None and not made.wrong
    return made.cycles


@pytest.mark.parametrize(
    ("collective", "name"),
    [
        *((one, "hierarchical") for one in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")),
        *((one, name) for one in ("all_reduce", "all_gather", "reduce_scatter") for name in ("torus", "switch")),
        ("all_reduce", "ring"),
    ],
)
def test_collectives_have_right_results(collective: str, name: str) -> None:
    """Every algorithm that knows dimensions, against numpy, with three dimensions and two PEs."""
    config = overridden(f"{MIXED}, {{kind: fully_connected, size: 2}}", 16)
    cycles(config, collective, name, pes=2, count=72, check=True)


def test_a_single_dimension_is_the_network_without_dimensions() -> None:
    """Rings, links between every two SIPs, and switches have the same times in both forms, and two rings those of a torus."""
    one = ("system.link.cycles=90", "system.switch.cycles=30", "sip.io=[{name: io0, side: w}]")
    for kind, dimension in (("ring", "ring"), ("all_to_all", "fully_connected"), ("switch", "switch")):
        plain = load_config("pod_8sip", [*SMALL, f"system.kind={kind}", "system.sips=5", *one], kind=SystemConfig)
        named = overridden(f"{{kind: {dimension}, size: 5}}", 5, *one)
        for algorithm in ("hierarchical", "ring", "direct"):
            assert cycles(named, "all_reduce", algorithm) == cycles(plain, "all_reduce", algorithm), (kind, algorithm)
    sides = ("system.kind=torus", "system.sips=6", "system.rows=2")
    torus = load_config("pod_8sip", [*SMALL, *sides, *one], kind=SystemConfig)
    rings = overridden("{kind: ring, size: 3}, {kind: ring, size: 2}", 6, *one)
    assert cycles(rings, "all_reduce", "hierarchical") == cycles(torus, "all_reduce", "hierarchical")


def test_less_data_crosses_the_outer_dimension() -> None:
    """Level by level, few elements cross the slow links, so the algorithm is faster than a flat ring. The tuner knows this."""
    config = overridden(MIXED.replace("25", "10"), 8)
    far = cycles(config, "all_reduce", "ring", count=1 << 18)
    near = cycles(config, "all_reduce", "hierarchical", count=1 << 18)
    assert near < far / 2
    tuner = Tuner(config, group_of(config, Shape(8, 1, 1)), REGISTRY)
    choice = tuner.choose("all_reduce", 1 << 18, "f16")
    assert choice.cycles["hierarchical"] == pytest.approx(near, rel=0.25)
    assert choice.cycles["ring"] == pytest.approx(far, rel=0.25)
    assert choice.cycles["ring"] > 1.5 * choice.cycles["hierarchical"]


def test_a_queue_through_switches_stays_in_its_dimension() -> None:
    config = overridden(MIXED, 8)
    group = group_of(config, Shape(8, 1, 1))
    entry = REGISTRY.find("all_reduce", "switch")
    assert combining_of_kind(group.kind) == 1 and not entry.unfit(config, group)
    assert "needs switches that combine" in entry.unfit(config, group_of(config, Shape(4, 1, 1)))  # one ring, no switch
    flat = replace(group, kind=RING)  # as in a ring of all SIPs: the members differ in both dimensions
    with pytest.raises(InputError, match="must be in one line of dimension 1"):
        row(CclRequest(config, flat, replace(entry, module="kernbench.ccl.algorithms.all_reduce_switch"), "f16",
                  queues_of(REGISTRY, entry), False), 64)  # fmt: skip


def test_an_algorithm_of_a_user_sees_a_ring() -> None:
    config = overridden(MIXED, 8)
    group = group_of(config, Shape(8, 1, 1))
    entry = REGISTRY.find("all_reduce", "ring")
    assert entry.seen(group) is group and replace(entry, module="mine.py").seen(group).kind == RING
    assert group.arranged == "4 x 2 dimensions" and group.kind_name == "ring"


@pytest.mark.parametrize(
    ("sips", "sizes"), [(2, (2,)), (4, (4,)), (8, (4, 2)), (12, (4, 3)), (24, (4, 3, 2)), (48, (4, 3, 4)), (6, ()), (16, ())]
)
def test_dimensions_of_a_part_of_a_machine(sips: int, sizes: tuple[int, ...]) -> None:
    """Whole dimensions and a part of the next one; other numbers of SIPs are a ring. Estimates may have more SIPs."""
    from kernbench.ccl.group import kind_of

    config = described([("ring", 4, 5, 0), ("ring", 3, 5, 0), ("switch", 2, 9, 3)])
    assert sizes_of_kind(kind_of(config, Shape(sips, 1, 1))) == sizes


def test_rates_of_dimensions_are_checked() -> None:
    """The terms of every rate stay below 2^31, even with the transfers of all PEs on one link."""
    with pytest.raises(InputError, match=r"system.dimensions.1.link.bytes_per_cycle"):
        overridden("{kind: ring, size: 4}, {kind: ring, size: 2, link: {bytes_per_cycle: 1.0000001}}", 8)
