"""The four views of the presets, counted by hand, and what a picture must be: whole, legible, the same every time."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given, settings

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.topology.builder import build_topology
from kernbench.topology.draw.svg import Box, Picture, Text
from kernbench.topology.graph import Topology
from kernbench.topology.views import Level, View, names, view
from kernbench.topology.visualizer import draw
from tests.topologies import graph, node, systems

PRESETS = ("single_cube", "sip_4x4", "two_sips", "pod_8sip")


@cache
def preset(name: str) -> Topology:
    return build_topology(load_config(name, kind=SystemConfig))


def kinds(found: View) -> dict[str, int]:
    return dict(Counter(node.kind for node in found.nodes))


def lines(found: View) -> dict[str, tuple[int, int]]:
    """By kind: lines of the view, and edges that they stand for."""
    counts: dict[str, tuple[int, int]] = {}
    for edge in found.edges:
        drawn, real = counts.get(edge.kind.value, (0, 0))
        counts[edge.kind.value] = (drawn + 1, real + len(edge.edges))
    return counts


def test_the_system() -> None:
    found = view(preset("pod_8sip"), Level.SYSTEM)
    assert kinds(found) == {"host": 1, "sip": 8}
    # A ring of 8 SIPs, both ways; two IO chiplets a SIP, both ways.
    assert lines(found) == {"pcie": (16, 32), "sip": (16, 16)}
    assert all(node.inside for node in found.nodes)
    rate = {edge.kind.value: edge.bytes_per_cycle for edge in found.edges}
    assert rate == {"pcie": 2 * 63, "sip": 100}
    first, second = (next(node for node in found.nodes if node.id == name) for name in ("sip0", "sip1"))
    assert second.x_mm - first.x_mm == preset("pod_8sip").config.system.pitch_mm and second.y_mm == first.y_mm


def test_a_sip_of_sixteen_cubes() -> None:
    found = view(preset("sip_4x4"), Level.SIP)
    assert found.of == "sip0"
    assert kinds(found) == {"host": 1, "io": 2, "cube": 16}
    # Neighbours in 4 rows and 4 columns: 2 * 4 * 3 = 24 pairs, both ways, two ports each. Each IO chiplet serves the 4 cubes
    # at its side by both ports, and commands all 16.
    assert lines(found) == {"pcie": (4, 4), "ucie": (48, 96), "ucie_io": (16, 32), "command": (64, 64)}
    assert {node.id for node in found.nodes if not node.inside} == {"host"}
    assert [node.label for node in found.nodes][:4] == ["host", "io0", "io1", "cube0"]


def test_a_sip_among_others_shows_its_neighbours() -> None:
    found = view(preset("pod_8sip"), Level.SIP, "sip3")
    assert [node.id for node in found.nodes if not node.inside] == ["host", "sip2", "sip4"]


def test_a_cube() -> None:
    found = view(preset("sip_4x4"), Level.CUBE, "sip0.cube5")
    # A 4 x 4 mesh without the four routers in the middle, two ports at each side; four cubes around, both IO chiplets.
    assert kinds(found) == {"io": 2, "m_cpu": 1, "sram": 1, "hbm_ctrl": 1, "router": 12, "ucie": 8, "pe": 8, "cube": 4}
    # Rows 0 and 3 have 3 links, rows 1 and 2 one over the HBM; columns likewise: 16. Eight slices at as many routers.
    wanted = {"mesh": (32, 32), "hbm": (16, 16), "sram": (2, 2), "m_cpu": (2, 2), "ucie_port": (16, 16), "pe_router": (16, 16)}
    # To each neighbour by two ports. Commands: the M_CPU and 8 PEs, and two IO processors.
    assert lines(found) == {**wanted, "ucie": (16, 16), "command": (20, 20)}
    outside = {node.id for node in found.nodes if not node.inside}
    assert outside == {"sip0.io0", "sip0.io1", *(f"sip0.cube{cube}" for cube in (1, 4, 6, 9))}


def test_a_pe() -> None:
    found = view(preset("two_sips"), Level.PE, "sip1.cube2.pe7")
    assert len(found.nodes) == 10 and {node.id for node in found.nodes if not node.inside} == {
        "sip1.cube2.m_cpu",
        next(node.id for node in found.nodes if node.kind == "router"),
    }
    assert lines(found) == {"pe_router": (2, 2), "pe_internal": (10, 10), "command": (14, 14)}
    assert all(edge.bytes_per_cycle is None for edge in found.edges if edge.kind.value != "pe_router")


def test_places_are_those_of_the_nodes() -> None:
    topology = preset("sip_4x4")
    found = {node.id: node for node in view(topology, Level.SIP).nodes}
    # Cubes of 20 mm, 1 mm apart: cube 6 is the third of the second row. Ports reach its edges.
    cube = found["sip0.cube6"]
    assert (cube.x_mm, cube.y_mm, cube.width_mm, cube.height_mm) == (2 * 21 + 10, 21 + 10, 20, 20)
    assert len(cube.nodes) == 3 + 12 + 8 + 8 * 8
    assert found["sip0.io0"].x_mm < 0 and found["sip0.io1"].x_mm > 4 * 21 - 1


def test_names_of_what_there_is_to_see() -> None:
    topology = preset("two_sips")
    assert names(topology, Level.SYSTEM) == [""]
    assert names(topology, Level.SIP) == ["sip0", "sip1"]
    assert names(topology, Level.CUBE) == [f"sip{sip}.cube{cube}" for sip in range(2) for cube in range(4)]
    assert len(names(topology, Level.PE)) == 64


@pytest.mark.parametrize(
    ("level", "of", "message"),
    [
        (Level.SIP, "sip2", "there is no sip sip2; did you mean sip1?"),
        (Level.CUBE, "sip0.cube4", "there is no cube sip0.cube4; did you mean sip0.cube3?"),
        (Level.CUBE, "x", "there is no cube x; there are sip0.cube0 to sip1.cube3"),
        (Level.PE, "sip0", "there is no pe sip0; did you mean sip0.cube0.pe0?"),
        (Level.SYSTEM, "sip0", "the view system shows all SIPs, not sip0"),
    ],
)
def test_what_is_not_there_is_refused(level: Level, of: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        view(preset("two_sips"), level, of)
    assert str(caught.value) == f"two_sips.yaml: {message}"


def test_one_sip_alone_is_named() -> None:
    with pytest.raises(InputError) as caught:
        view(preset("single_cube"), Level.SIP, "y")
    assert str(caught.value) == "single_cube.yaml: there is no sip y; there is sip0"


@settings(max_examples=25, deadline=None)
@given(systems())
def test_views_keep_every_node_and_edge(config: SystemConfig) -> None:
    topology = build_topology(config)
    for level in Level:
        for name in names(topology, level)[:3]:
            found = view(topology, level, name)
            members = [node.id for box in found.nodes for node in box.nodes]
            assert len(members) == len(set(members))
            inside = {node.id for box in found.nodes if box.inside for node in box.nodes}
            box_of = {node.id: box.id for box in found.nodes for node in box.nodes}
            touching = [edge for edge in topology.edges if {edge.source, edge.target} & inside]
            crossing = [edge for edge in touching if box_of[edge.source] != box_of[edge.target]]
            assert sorted((e.source, e.target) for line in found.edges for e in line.edges) == sorted(
                (edge.source, edge.target) for edge in crossing
            )
            for line in found.edges:
                rates = [edge.bytes_per_cycle for edge in line.edges if edge.bytes_per_cycle is not None]
                assert line.bytes_per_cycle == (sum(rates, Fraction(0)) if rates else None)


def test_what_is_connected_to_nothing_is_seen_too() -> None:
    apart = graph([node("sip0.cube0.r0c0"), node("sip0.cube0.r0c1"), node("sip0.cube1.r0c0", cube=1)])
    assert [one.id for one in view(apart, Level.CUBE, "sip0.cube0").nodes] == ["sip0.cube0.r0c0", "sip0.cube0.r0c1"]


# Pictures ---------------------------------------------------------------------------------------------------------


def apart(a: Box | Text, b: Box | Text) -> bool:
    one, other = a.bounds(), b.bounds()
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def check_picture(picture: Picture) -> None:
    """Nothing lies on anything else, every label is inside its box, and the file is whole."""
    for a, b in combinations(picture.texts, 2):
        assert apart(a, b), (a, b)
    for a, b in combinations(picture.boxes, 2):
        assert apart(a, b), (a, b)
    for text in picture.texts:
        for box in picture.boxes:
            left, top, right, bottom = text.bounds()
            around = box.bounds()
            within = around[0] <= left and around[1] <= top and right <= around[2] and bottom <= around[3]
            assert within or apart(text, box), (text, box)
    root = ElementTree.fromstring(picture.svg())
    x, y, width, height = (float(part) for part in root.attrib["viewBox"].split())
    left, top, right, bottom = picture.bounds()
    assert x < left and y < top and right < x + width and bottom < y + height
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {text.text for text in picture.texts} < set(texts) and picture.title in texts


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", PRESETS)
def test_pictures_of_the_presets(name: str, level: Level) -> None:
    check_picture(draw(preset(name), level))


@settings(max_examples=40, deadline=None)
@given(systems())
def test_pictures_of_any_system(config: SystemConfig) -> None:
    topology = build_topology(config)
    for level in Level:
        check_picture(draw(topology, level, names(topology, level)[-1]))


def test_a_picture_is_the_same_every_time() -> None:
    topology = preset("sip_4x4")
    again = build_topology(load_config("sip_4x4", kind=SystemConfig))
    for level in Level:
        assert draw(topology, level).svg() == draw(again, level).svg()


def test_lines_are_as_wide_as_their_bandwidth() -> None:
    picture = draw(preset("sip_4x4"), Level.CUBE)
    widths = {}
    for link in picture.links:
        if ": " in link.about:
            widths[link.about.split(": ")[1].split(",")[0].split(" x ")[1]] = round(link.width, 3)
    # The widest, 256 B/cycle, has 8 px; of the others the square of the width goes with the bandwidth.
    assert widths["ucie port"] == 8
    assert widths["mesh"] == widths["hbm"] == round(8 * (128 / 256) ** 0.5, 3)
    assert widths["m cpu"] == 8 * (64 / 256) ** 0.5
