"""Networks between SIPs: who is linked with whom, what shares a link, and what a broken link does."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import Asked, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.common import naming
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.config.system.links import all_sip_pairs
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import EdgeKind
from kernbench.topology.sips import sip_pairs

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
        ("ring", 1, "sip0-sip1", 'it must be the numbers of two SIPs, like "0-1"'),
        ("all_to_all", 2, "", "all_to_all has one row"),
    ],
)
def test_refusals(kind: str, rows: int, failed: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        system(4, kind, rows, f"system.failed=[{failed}]")
    assert said in str(error.value)


def test_defaults_are_as_before() -> None:
    """A key that a file does not have is no part of what identifies the machine."""
    assert "failed" not in load_config("two_sips").to_dict()["system"]


def gather(config: SystemConfig, nbytes: int = 1 << 17) -> int:
    """Cycles until SIP 0 has a block of every other SIP."""
    entry = REGISTRY.find("gather", "direct")
    group = group_of(config, Shape(config.system.sips, 1, 1))
    asked = Asked(config, group, entry, "f16", queues_of(REGISTRY, entry), False)
    made, _ = row(asked, nbytes // 2)
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
