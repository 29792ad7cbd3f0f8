"""Packets on a mesh: against a slow mesh, and against hand-worked latencies."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from kernbench.analysis.noc.fluid import FluidTraffic, fluid_latency
from kernbench.analysis.noc.mesh import Load, MeshTraffic, Pattern, mean_latency, run_mesh
from kernbench.noc.routers import Ints
from tests.oracles.ref_mesh import ends

SHORT = Load(pattern="uniform", rate=0.3, warmup=0, until=60, tail=0)


def hops(side: int, source: Ints, target: Ints) -> Ints:
    """Links between routers."""
    links: Ints = abs(source % side - target % side) + abs(source // side - target // side)
    return links


@pytest.mark.parametrize(
    ("pattern", "rate", "channels", "depth"), [("uniform", 0.7, 2, 2), ("transpose", 0.6, 1, 3), ("uniform", 0.2, 8, 8)]
)
def test_packets_arrive_when_those_of_the_slow_mesh_do(pattern: Pattern, rate: float, channels: int, depth: int) -> None:
    load = replace(SHORT, pattern=pattern, rate=rate)
    traffic = MeshTraffic(load, side=4, channels=channels, depth=depth)
    run_mesh(traffic, load)
    packets = list(zip(*(column.tolist() for column in load.packets(4)), strict=True))
    assert traffic.ends.tolist() == ends(4, packets, channels=channels, depth=depth)


def test_alone_a_packet_takes_what_its_pipeline_says() -> None:
    """Four cycles a router and link, of H + 1 routers, and two: 4 * (H + 1) + 2; no two of these meet."""
    load = Load(pattern="uniform", rate=0.0004, warmup=0, until=1500, tail=0, seed=3)
    _, source, target = load.packets(8)
    for traffic in (MeshTraffic(load), FluidTraffic(load)):
        run_mesh(traffic, load)
        assert (traffic.ends - traffic.born).tolist() == (4 * (hops(8, source, target) + 1) + 2).tolist()
    assert len(source) == 44


def test_transpose_sends_to_the_mirrored_node() -> None:
    _, source, target = replace(SHORT, pattern="transpose").packets(8)
    assert np.array_equal(source // 8, target % 8) and np.array_equal(source % 8, target // 8)


def test_a_seed_is_one_load() -> None:
    assert mean_latency(replace(SHORT, until=30)) == mean_latency(replace(SHORT, until=30))
    assert mean_latency(replace(SHORT, until=30)) != mean_latency(replace(SHORT, until=30, seed=2))


def test_flows_over_whole_ways_meet_earlier_than_packets() -> None:
    load = replace(SHORT, until=300)
    assert fluid_latency(load) > 1.2 * mean_latency(load)


def test_a_slower_hop_is_seen() -> None:
    """5 cycles a hop for 4 (4.4 rounded up): a quarter more at low load."""
    load = replace(SHORT, rate=0.02, until=200)
    assert mean_latency(load, slower=Fraction(11, 10)) == pytest.approx(1.23 * mean_latency(load), rel=0.02)
