"""Networks between SIPs: who is linked with whom, what shares a link, and what a broken link does."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.common import naming
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.config.system.links import all_sip_pairs
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import EdgeKind
from kernbench.topology.sips import sip_pairs
from tests.cli.conftest import Kbsim, kbsim

__all__ = ["kbsim"]

REGISTRY = read_registry()


def system(sips: int, kind: str, rows: int = 1, *more: str) -> SystemConfig:
    settings = [f"system.sips={sips}", f"system.kind={kind}", f"system.rows={rows}", "system.cols=null", *more]
    return load_config("two_sips", settings, kind=SystemConfig)


def linked(config: SystemConfig) -> set[frozenset[int]]:
    """The SIPs that an edge of the graph connects, each way."""
    edges = {
        (naming.parse_node(edge.source).sip, naming.parse_node(edge.target).sip)
        for edge in build_topology(config).edges
        if edge.kind is EdgeKind.SIP
    }
    assert edges == {(target, source) for source, target in edges}
    return {frozenset(pair) for pair in edges}  # type: ignore[arg-type]


@pytest.mark.parametrize("sips", [1, 2, 3, 5])
def test_all_to_all_has_a_link_between_every_two(sips: int) -> None:
    assert linked(system(sips, "all_to_all")) == {frozenset(pair) for pair in combinations(range(sips), 2)}


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9), st.integers(1, 6))
def test_a_dragonfly_is_at_most_three_hops_wide(groups: int, each: int) -> None:
    """Groups are complete, there is one link between every two of them, and SIPs have nearly equal numbers of those."""
    pairs = [(pair.first, pair.second) for pair in all_sip_pairs(system(groups * each, "dragonfly", groups))]
    assert len(pairs) == len({frozenset(pair) for pair in pairs})
    inside = [pair for pair in pairs if pair[0] // each == pair[1] // each]
    between = [(one // each, other // each) for one, other in pairs if one // each != other // each]
    assert len(inside) == groups * each * (each - 1) // 2
    assert sorted(between) == list(combinations(range(groups), 2))
    outward = [sum(sip in pair for pair in pairs if pair not in inside) for sip in range(groups * each)]
    assert max(outward) - min(outward) <= 1
    near: dict[int, set[int]] = {sip: {sip} for sip in range(groups * each)}
    for _ in range(3):
        near = {sip: {other for one in reached for other in _around(one, pairs)} | reached for sip, reached in near.items()}
    assert all(len(reached) == groups * each for reached in near.values())


def _around(sip: int, pairs: list[tuple[int, int]]) -> set[int]:
    return {other for pair in pairs if sip in pair for other in pair}


def test_a_broken_link_is_left_out() -> None:
    whole = linked(system(4, "all_to_all"))
    assert linked(system(4, "all_to_all", 1, "system.failed=[0-1, 3-2]")) == whole - {frozenset((0, 1)), frozenset((2, 3))}
    assert len(sip_pairs(system(4, "ring", 1, "system.failed=[3-0]"))) == 3


@pytest.mark.parametrize(
    ("kind", "rows", "failed", "said"),
    [
        ("ring", 1, "0-2", 'system.failed.0 = "0-2", but there is no such link in a ring of 4 SIPs'),
        ("ring", 1, "0-9", "there is no such link"),
        ("ring", 1, "1-1", "there is no such link"),
        ("ring", 1, "0-1, 1-0", 'system.failed.1 = "1-0", but it is named twice'),
        ("ring", 1, "sip0-sip1", 'it must be two SIP numbers such as "0-1"'),
        ("all_to_all", 2, "", "all_to_all has one row"),
    ],
)
def test_refusals(kind: str, rows: int, failed: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        system(4, kind, rows, f"system.failed=[{failed}]")
    assert said in str(error.value)


def test_defaults_are_as_before() -> None:
    """A key that a file does not have is no part of what identifies the machine."""
    assert {"failed", "slow", "switch"}.isdisjoint(load_config("two_sips").to_dict()["system"])


def gather(config: SystemConfig, nbytes: int = 1 << 17) -> int:
    """Cycles until SIP 0 has a block of every other SIP."""
    entry = REGISTRY.find("gather", "direct")
    group = group_of(config, Shape(config.system.sips, 1, 1))
    request = CclRequest(config, group, entry, "f16", queues_of(REGISTRY, entry), False)
    made, _ = row(request, nbytes // 2)
    assert made is not None
    return made.cycles


SLOW = ("system.link.bytes_per_cycle=8", "system.link.mm=0")


def test_flows_share_a_link() -> None:
    """On a line of three SIPs, both blocks cross the link into SIP 0; with links between all, each has its own."""
    nbytes = 1 << 17
    line, each = gather(system(3, "mesh", 1, *SLOW)), gather(system(3, "all_to_all", 1, *SLOW))
    assert nbytes / 8 < each < 2 * nbytes / 8 < line  # two blocks over one link cannot be faster
    assert line > 1.5 * each


def test_a_broken_link_sends_its_flows_over_the_others() -> None:
    """A ring of three without one link is a line: SIP 1 is between the other two."""
    ring = gather(system(3, "ring", 1, *SLOW))
    broken = gather(system(3, "ring", 1, *SLOW, "system.failed=[2-0]"))
    assert broken == gather(system(3, "mesh", 1, *SLOW)) > 1.5 * ring


def test_a_sip_that_no_link_reaches_is_refused() -> None:
    with pytest.raises(InputError) as error:
        gather(system(2, "ring", 1, "system.failed=[0-1]"))
    assert "there is no path" in str(error.value) or "no route" in str(error.value)


def test_a_switch_is_one_node_that_every_sip_has_a_link_with() -> None:
    topology = build_topology(system(3, "switch", 1, "system.link.mm=0", "system.link.cycles=10", "system.switch.cycles=7"))
    links = {(edge.source, edge.target): edge for edge in topology.edges if edge.kind is EdgeKind.SIP}
    ports = [f"sip{sip}.io0.io_noc" for sip in range(3)]
    assert set(links) == {pair for port in ports for pair in ((port, "switch0"), ("switch0", port))}
    assert {edge.cycles for pair, edge in links.items() if pair[1] == "switch0"} == {17}
    assert {edge.cycles for pair, edge in links.items() if pair[0] == "switch0"} == {10}
    assert topology.by_id["switch0"].kind == naming.parse_node("switch0").kind == naming.SWITCH


def test_a_fat_tree_has_a_leaf_a_row_and_uplinks_to_a_core() -> None:
    config = system(6, "fat_tree", 2, "system.link.bytes_per_cycle=40", "system.switch.oversubscription=2")
    links = {(edge.source, edge.target): edge for edge in build_topology(config).edges if edge.kind is EdgeKind.SIP}
    for sip in range(6):
        assert links[f"sip{sip}.io0.io_noc", f"switch{sip // 3}"].bytes_per_cycle == 40
    for leaf in ("switch0", "switch1"):
        assert links[leaf, "switch2"].bytes_per_cycle == links["switch2", leaf].bytes_per_cycle == 3 * 40 / 2
    assert len(links) == 2 * (6 + 2)


def test_one_sip_has_no_switch_and_a_switch_has_no_link_between_sips() -> None:
    assert not [node for node in build_topology(system(1, "switch")).nodes if node.kind == naming.SWITCH]
    with pytest.raises(InputError, match="there is no such link in a switch of 4 SIPs"):
        system(4, "switch", 1, "system.failed=[0-1]")
    with pytest.raises(InputError, match="a switch has one row"):
        system(4, "switch", 2)


def shift(config: SystemConfig, distance: int, nbytes: int = 1 << 17) -> int:
    """Cycles of an all-to-all of half the SIPs each with the one at a distance, as messages of a schedule of pairs."""
    entry = REGISTRY.find("send_recv", "ring")
    group = group_of(config, Shape(config.system.sips, 1, 1))
    order = [sip for first in range(distance) for sip in (first, first + distance)]
    moved = replace(group, pes=tuple(group.pes[sip] for sip in order), rows=tuple(group.rows[sip] for sip in order))
    made, _ = row(CclRequest(config, moved, entry, "f16", queues_of(REGISTRY, entry), False), nbytes // 2)
    assert made is not None
    return made.cycles


def test_an_oversubscribed_uplink_is_shared() -> None:
    """Four SIPs on two leaves, each sends to the next: with 4 : 1 the uplink of a leaf carries half of what one link does, and
    both SIPs of a leaf send over it.
    """
    nbytes = 1 << 17
    full = shift(system(4, "fat_tree", 2, *SLOW), 2)
    quarter = shift(system(4, "fat_tree", 2, *SLOW, "system.switch.oversubscription=4"), 2)
    assert nbytes / 8 < full < 1.6 * nbytes / 8
    assert 2 * 2 * nbytes / 8 / 2 * 2 <= quarter < 1.3 * (2 * nbytes / 4)


def test_links_of_a_switch_are_as_wide_as_those_between_every_two() -> None:
    """Blocks of two SIPs share the link from the switch; between every two SIPs, each block has a link of its own."""
    nbytes = 1 << 17
    switched, each = gather(system(3, "switch", 1, *SLOW)), gather(system(3, "all_to_all", 1, *SLOW))
    assert switched >= 2 * nbytes / 8 > each


def test_a_slow_pe_has_less_bandwidth_each_way() -> None:
    topology = build_topology(system(2, "ring", 1, "system.slow=[sip1.cube0.pe3:2.5]"))
    dma = "sip1.cube0.pe3.pe_dma"
    ends = [edge for edge in topology.edges if edge.kind is EdgeKind.PE_ROUTER and dma in (edge.source, edge.target)]
    assert len(ends) == 2 and {edge.bytes_per_cycle for edge in ends} == {Fraction(128 * 2, 5)}
    others = [edge for edge in topology.edges if edge.kind is EdgeKind.PE_ROUTER and edge not in ends]
    assert {edge.bytes_per_cycle for edge in others} == {128}


@pytest.mark.parametrize(
    ("slow", "said"),
    [
        ("sip0.cube0.pe9:2", 'system.slow.0 = "sip0.cube0.pe9:2", but there is no sip0.cube0.pe9'),
        ("sip0.cube0.pe1:2, sip0.cube0.pe1:3", "its PE is named twice"),
        ("sip0.cube0.pe1:0.5", 'it must be a PE and a factor of at least 1, like "sip0.cube0.pe3:2"'),
        ("sip0.cube0:2", "it must be a PE and a factor"),
        ("sip0.cube0.pe1:1/0", "it must be a PE and a factor"),
    ],
)
def test_slow_pes_that_are_refused(slow: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        system(2, "ring", 1, f"system.slow=[{slow}]")
    assert said in str(error.value)


def test_one_slow_rank_slows_a_ring_to_its_own_pace(kbsim: Kbsim) -> None:
    """Long messages: every chunk passes the slow rank, whose link has a quarter of the bandwidth."""
    run = ("ccl", "run", "all_reduce", "-a", "ring", "-g", "4", "-b", "1M", "--no-check", "--json")
    cycles = [json.loads(kbsim(*run, *more).out)["rows"][0]["cycles"] for more in ((), ("--slow", "2:4"))]
    assert 3 < cycles[1] / cycles[0] < 4.5
    said = kbsim(*run, "--slow", "4:2")
    assert said.code == 2 and '--slow = "4:2", but it must be a rank from 0 to 3 and a factor, like 3:2' in said.err
