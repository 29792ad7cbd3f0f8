"""Paths over small graphs, worked out by hand, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.policy.routing import LEFT_OUT, Measure, NoPath, PathRouter, VirtualMap, VirtualRange
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import EdgeKind, Topology
from tests.topologies import both, edge, graph, memories, node

K = EdgeKind


def square() -> Topology:
    """s to t by way of a or of b."""
    nodes = [node(name) for name in "tbas"]
    return graph(nodes, both("s", "b", weight=1), both("b", "t", weight=2), both("s", "a", weight=2), both("a", "t", weight=1))


def test_the_shortest_by_weight_or_by_distance() -> None:
    nodes = [node(name) for name in "stx"]
    made = graph(nodes, both("s", "t", weight=5, mm=1), both("s", "x", weight=1, mm=3), both("x", "t", weight=1, mm=3))
    router = PathRouter(made)
    assert router.find_path("s", "t") == ("s", "x", "t")
    assert router.find_path_with_distance("s", "t") == (("s", "x", "t"), Fraction(6))
    assert router.find_path("s", "t", by=Measure.DISTANCE) == ("s", "t")
    assert router.find_path_with_distance("s", "t", by=Measure.DISTANCE) == (("s", "t"), Fraction(1))


def test_of_equal_paths_the_first_name_decides_at_the_first_step() -> None:
    router = PathRouter(square())
    assert router.find_path("s", "t") == ("s", "a", "t")  # 2 + 1 as 1 + 2
    assert router.find_path("t", "s") == ("t", "a", "s")


def test_names_compare_as_text() -> None:
    nodes = [node(name) for name in ("s", "t", "r2c0", "r10c0")]
    made = graph(nodes, *(both(end, middle) for end in "st" for middle in ("r2c0", "r10c0")))
    assert PathRouter(made).find_path("s", "t") == ("s", "r10c0", "t")


def test_of_equal_weights_the_shorter_then_the_one_of_fewer_hops() -> None:
    nodes = [node(name) for name in "sabt"]
    longer = [*both("s", "a", mm=3), *both("a", "t", mm=3)]
    assert PathRouter(graph(nodes, longer, both("s", "b"), both("b", "t"))).find_path("s", "t") == ("s", "b", "t")
    free = [*both("s", "a", weight=0, mm=0), *both("a", "b", weight=0, mm=0), *both("b", "t", weight=0, mm=0)]
    assert PathRouter(graph(nodes, free, both("s", "b", weight=0, mm=0))).find_path("s", "t") == ("s", "b", "t")


def test_a_path_and_the_path_back_are_equally_long_though_they_differ() -> None:
    nodes = [node(name) for name in "sabczt"]
    made = graph(nodes, both("s", "a"), both("a", "z"), both("z", "t"), both("s", "b"), both("b", "c"), both("c", "t"))
    router = PathRouter(made)
    assert router.find_path_with_distance("s", "t") == (("s", "a", "z", "t"), 3)  # a before b
    assert router.find_path_with_distance("t", "s") == (("t", "c", "b", "s"), 3)  # c before z


def test_paths_to_one_target_are_the_same_in_any_order_and_after_a_search_without_a_path() -> None:
    names, lost = "sabczt", "u"
    edges = [both("s", "a"), both("a", "z"), both("z", "t"), both("s", "b"), both("b", "c"), both("c", "t"), both("a", "b")]
    made = graph([node(name) for name in (*names, lost)], *edges)
    alone = {name: PathRouter(made).find_path(name, "t") for name in names}
    for order in permutations(names, 3):
        router = PathRouter(made)
        assert [router.find_path(name, "t") for name in order] == [alone[name] for name in order]
        with pytest.raises(NoPath):
            router.find_path(lost, "t")
        assert {name: router.find_path(name, "t") for name in names} == alone


def test_a_path_to_itself_is_the_node_alone() -> None:
    assert PathRouter(square()).find_path_with_distance("s", "s") == (("s",), 0)


def pe() -> Topology:
    """Of a PE its DMA engine, scratchpad and scheduler, at one router; an M_CPU and a port at another."""
    nodes = [node(name) for name in ("dma", "tcm", "sched", "r0", "r1", "mcpu", "port", "far")]
    data = [*both("dma", "tcm", K.PE_INTERNAL), *both("dma", "r0", K.PE_ROUTER), *both("r0", "r1")]
    data += both("mcpu", "r1", K.M_CPU)
    outside = [*both("r1", "port", K.UCIE_PORT), *both("port", "far", K.UCIE)]
    return graph(nodes, data, outside, [edge("mcpu", "sched", K.COMMAND), edge("sched", "dma", K.COMMAND)])


def test_each_method_asks_its_own_graph() -> None:
    router = PathRouter(pe())
    assert router.find_node_path("mcpu", "tcm") == ("mcpu", "sched", "dma", "tcm")
    assert router.find_path("mcpu", "tcm") == ("mcpu", "r1", "r0", "dma", "tcm")
    assert router.find_local_path("mcpu", "tcm") == ("mcpu", "r1", "r0", "dma", "tcm")
    assert router.find_mcpu_dma_path("mcpu", "far") == router.find_path("mcpu", "far") == ("mcpu", "r1", "port", "far")


@pytest.mark.parametrize(
    ("method", "target", "name", "left_out"),
    [
        ("find_path", "sched", "data", "command"),
        ("find_mcpu_dma_path", "tcm", "mcpu", "command, pe_internal, pe_router"),
        ("find_local_path", "far", "local", "command, ucie, ucie_io, ucie_port"),
    ],
)
def test_no_path_names_ends_graph_and_kinds(method: str, target: str, name: str, left_out: str) -> None:
    with pytest.raises(NoPath) as caught:
        getattr(PathRouter(pe()), method)("mcpu", target)
    assert str(caught.value) == f"machine: mcpu to {target}: there is no path in the graph {name}, which leaves out {left_out}"


def test_no_path_in_the_graph_of_all_edges() -> None:
    with pytest.raises(NoPath) as caught:
        PathRouter(graph([node("a"), node("b")], [edge("b", "a")])).find_node_path("a", "b")
    assert str(caught.value) == "machine: a to b: there is no path in the graph all, which leaves out nothing"


def test_the_graphs_leave_out_what_the_reference_says() -> None:
    assert {graph.value: {kind.value for kind in kinds} for graph, kinds in LEFT_OUT.items()} == {
        "all": set(),
        "data": {"command"},
        "mcpu": {"command", "pe_internal", "pe_router"},
        "local": {"command", "ucie_port", "ucie", "ucie_io"},
    }


def test_a_node_that_is_not_there_is_refused_with_the_nearest() -> None:
    router = PathRouter(pe())
    for call in (lambda: router.find_path("port", "schde"), lambda: router.find_path("schde", "port")):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == "machine: there is no node schde; did you mean sched?"
    with pytest.raises(InputError) as caught:
        router.find_path("sip7.cube9", "port")
    assert str(caught.value) == (
        "machine: there is no node sip7.cube9; nodes are called as in sip0.cube0.pe0; to see the parts of a system, use kbsim "
        "topology show"
    )


def test_nothing_passes_through_a_memory_or_the_host() -> None:
    for kind in ("hbm_ctrl", "sram", "host"):
        nodes = [node("s"), node("t"), node("a"), node("m", kind)]
        made = graph(nodes, both("s", "m"), both("m", "t"), both("s", "a", weight=9), both("a", "t", weight=9))
        router = PathRouter(made)
        assert router.find_path("s", "t") == ("s", "a", "t")
        assert router.find_path("s", "m") == ("s", "m")
        assert router.find_path("m", "t") == ("m", "t")
    alone = graph([node("s"), node("t"), node("m", "sram")], both("s", "m"), both("m", "t"))
    with pytest.raises(NoPath):
        PathRouter(alone).find_path("s", "t")


def test_a_route_adds_up_what_its_edges_are() -> None:
    nodes = [node(name) for name in "abcd"]
    edges = [edge("a", "b", mm=1, cycles=3, rate=64, weight=2), edge("b", "c", K.PE_INTERNAL, mm=0, cycles=0, rate=None)]
    edges.append(edge("c", "d", K.UCIE, mm=Fraction(1, 2), cycles=7, rate=Fraction(63, 2)))
    made = graph(nodes, edges)
    router = PathRouter(made)
    route = router.route(router.find_path("a", "d"))
    assert (route.mm, route.cycles, route.weight) == (Fraction(3, 2), 10, 4)
    assert route.bottleneck is made.edge["c", "d"]
    assert router.route(("b", "c")).bottleneck is None
    assert router.route(("a",)).edges == () and router.route(("a",)).mm == 0


def test_memory_paths_enter_where_the_slice_is_attached() -> None:
    made = memories()
    cube = "sip0.cube0."
    nodes = [*made.nodes, node(cube + "pe0.pe_dma", "pe_dma", pe=0), node(cube + "r0c1")]
    edges = [
        both(cube + "pe0.pe_dma", cube + "router"),
        both(cube + "router", cube + "r0c1"),
        both(cube + "router", cube + "hbm_ctrl", K.HBM, slices=(0, 1)),
        both(cube + "r0c1", cube + "hbm_ctrl", K.HBM, slices=(2, 3)),
        both(cube + "r0c1", cube + "sram", K.SRAM),
    ]
    router = PathRouter(graph(nodes, *edges, config=made.config))
    pe, near, far = cube + "pe0.pe_dma", cube + "router", cube + "r0c1"
    assert router.find_memory_path(pe, 0) == (pe, near, cube + "hbm_ctrl")
    assert router.find_memory_path(pe, 2 * 0xC00) == (pe, near, far, cube + "hbm_ctrl")
    assert router.find_memory_path(pe, 2 * 0xC00, read=True) == (cube + "hbm_ctrl", far, near, pe)
    assert router.find_memory_path(pe, 0x10000) == (pe, near, far, cube + "sram")
    assert router.find_memory_path(pe, 0x10000, read=True) == (cube + "sram", far, near, pe)
    assert router.find_memory_path(cube + "hbm_ctrl", 2 * 0xC00) == (cube + "hbm_ctrl",)
    moved = VirtualMap([VirtualRange(0x1000_0000, 2 * 0xC00, 64)])
    assert router.find_memory_path(pe, 0x1000_0004, through=moved) == (pe, near, far, cube + "hbm_ctrl")
    with pytest.raises(NoPath) as caught:
        router.find_memory_path(pe, 0x4000)
    assert str(caught.value) == (
        f"machine: {pe} to sip0.cube1.hbm_ctrl: there is no path in the graph data, which leaves out command"
    )
    with pytest.raises(NoPath) as caught:
        router.find_memory_path(pe, 0x4000, read=True)
    assert "sip0.cube1.hbm_ctrl to sip0.cube0.pe0.pe_dma: " in str(caught.value)


def test_a_slice_at_two_routers_is_entered_by_the_nearer() -> None:
    made = memories()
    cube = "sip0.cube0."
    nodes = [*made.nodes, node("s"), node(cube + "r0c1")]
    edges = [
        both("s", cube + "router"),
        both("s", cube + "r0c1", weight=2, mm=2),
        both(cube + "router", cube + "hbm_ctrl", K.HBM, slices=(0,), weight=3, mm=1),
        both(cube + "r0c1", cube + "hbm_ctrl", K.HBM, slices=(0,)),
    ]
    router = PathRouter(graph(nodes, *edges, config=made.config))
    assert router.find_memory_path("s", 0) == ("s", cube + "r0c1", cube + "hbm_ctrl")  # 2 + 1 < 1 + 3
    assert router.find_memory_path("s", 0, by=Measure.DISTANCE) == ("s", cube + "router", cube + "hbm_ctrl")  # 1 + 1 < 2 + 1
    assert router.find_memory_path("s", 0, read=True) == (cube + "hbm_ctrl", cube + "r0c1", "s")


def test_a_memory_of_the_own_cube_is_reached_inside_it() -> None:
    made = memories()
    near, far = "sip0.cube0.", "sip0.cube1."
    nodes = [*made.nodes, node(near + "r0c1"), node(near + "ucie_e0", "ucie"), node(far + "ucie_w0", "ucie", cube=1)]
    edges = [
        both(near + "router", near + "r0c1", weight=100),
        both(near + "router", near + "ucie_e0", K.UCIE_PORT),
        both(near + "ucie_e0", far + "ucie_w0", K.UCIE),
        both(far + "ucie_w0", near + "r0c1", K.UCIE),  # a way around that is shorter
        both(far + "ucie_w0", far + "router", K.UCIE_PORT),
        both(near + "r0c1", near + "hbm_ctrl", K.HBM, slices=(0,)),
        both(far + "router", far + "hbm_ctrl", K.HBM, slices=(0,)),
    ]
    router = PathRouter(graph(nodes, *edges, config=made.config))
    assert len(router.find_path(near + "router", near + "hbm_ctrl")) == 5
    assert router.find_memory_path(near + "router", 0) == (near + "router", near + "r0c1", near + "hbm_ctrl")
    assert router.find_memory_path(near + "router", 0x4000)[1] == near + "ucie_e0"


def test_a_launch_does_not_pass_through_an_m_cpu_however_slow_the_io_chiplet_is() -> None:
    config = load_config("single_cube", ["io.noc.cycles=400", "sip.cols=2"])
    path = PathRouter(build_topology(config)).find_node_path("sip0.io0.pcie_ep", "sip0.io0.io_cpu")
    assert path == ("sip0.io0.pcie_ep", "sip0.io0.io_noc", "sip0.io0.io_cpu")
