"""Patterns of traffic, loads and the saturation point of networks of routers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernbench.analysis.noc.load import Window, idle_latency, run_load, saturation
from kernbench.common.errors import InputError
from kernbench.noc.network import MeshSpec
from kernbench.noc.traffic import PATTERNS, Traffic
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import read_suite_data
from kernbench.validate.suites import noc

SHORT = Window(500, 1500, 3000)
#: Targets of nodes 1, 4 and 7 of a 4x4 network.
TARGETS = {"transpose": (4, 1, 13), "bitcomp": (14, 11, 8), "bitrev": (8, 2, 14), "shuffle": (2, 8, 14)}
TARGETS |= {"tornado": (6, 9, 8), "neighbor": (6, 9, 8)}


LIMITS = {"switch_cycles": (0, 2**16), "link_cycles": (1, 2**16), "credit_cycles": (0, 2**16), "depth": (1, 2**16)}


@pytest.mark.parametrize("name", LIMITS)
def test_a_network_takes_each_value_up_to_its_limits(name: str) -> None:
    for value in LIMITS[name]:
        assert getattr(MeshSpec(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in (LIMITS[name][0] - 1, LIMITS[name][1] + 1):
        with pytest.raises(InputError, match=f"{name} = .{value}., but it must be from {LIMITS[name][0]} to {LIMITS[name][1]}"):
            MeshSpec(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", TARGETS)
def test_a_pattern_has_the_targets_of_its_definition(pattern: str) -> None:
    net = MeshSpec(columns=4, rows=4)
    found = Traffic(pattern=pattern).targets(net, np.array([1, 4, 7]), np.random.default_rng(0))  # type: ignore[arg-type]
    assert tuple(found.tolist()) == TARGETS[pattern]


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name not in ("uniform", "hotspot")])
def test_a_permutation_is_one(pattern: str) -> None:
    net = MeshSpec()
    found = Traffic(pattern=pattern).targets(net, np.arange(64), np.random.default_rng(0))  # type: ignore[arg-type]
    assert sorted(found.tolist()) == list(range(64))


def test_the_rate_is_that_of_flits() -> None:
    net = MeshSpec(columns=4, rows=4)
    born, _, _ = Traffic(rate=0.4, flits=4).births(net, 0, 5000)
    assert len(born) * 4 / 5000 / 16 == pytest.approx(0.4, rel=0.05)


def test_what_goes_in_comes_out_below_saturation() -> None:
    point = run_load(MeshSpec(columns=4, rows=4), Traffic(rate=0.3, flits=2), SHORT)
    assert point.drained and point.accepted == pytest.approx(0.3, rel=0.03)
    assert point.latency > idle_latency(MeshSpec(columns=4, rows=4), Traffic(flits=2))


def test_a_hot_node_saturates_at_one_flit_a_clock() -> None:
    """16 nodes send to one, which takes one flit a clock: 1/16 each."""
    net = MeshSpec(columns=4, rows=4)
    assert saturation(net, Traffic(pattern="hotspot", hotspots=(5,)), SHORT) == pytest.approx(1 / 16, rel=0.15)


def test_a_link_that_every_packet_crosses_saturates_near_its_bandwidth() -> None:
    """Of four routers in a row under bitcomp two senders share the middle link."""
    net = MeshSpec(columns=4, rows=1)
    assert saturation(net, Traffic(pattern="bitcomp"), SHORT) == pytest.approx(1 / 2, rel=0.15)


def test_adaptive_routing_carries_more_of_a_transpose() -> None:
    xy, adaptive = (MeshSpec(columns=4, rows=4, routing=routing) for routing in ("xy", "adaptive"))  # type: ignore[arg-type]
    traffic = Traffic(pattern="transpose")
    assert saturation(adaptive, traffic, SHORT) > 1.2 * saturation(xy, traffic, SHORT)


def test_figures_of_booksim_are_met_and_a_slower_network_is_noticed() -> None:
    data = read_suite_data("noc")
    quick = Options(quick=True)
    assert {row.verdict for row in noc.rows(data, Runner(quick))} == {"pass"}
    from fractions import Fraction

    assert "fail" in {row.verdict for row in noc.rows(data, Runner(quick, {"noc": Fraction(5, 4)}))}


def test_a_folder_of_figures_is_read(tmp_path: Path) -> None:
    table = tmp_path / noc.TABLE
    table.write_text("k,traffic,num_vcs,packet_size,injection_rate,latency\n4,uniform,2,1,0.1,16.2\n")
    assert noc.read_figures(tmp_path) == [
        {"k": 4, "traffic": "uniform", "num_vcs": 2, "packet_size": 1, "injection_rate": 0.1, "latency": 16.2}
    ]
    for text, message in (
        ("k,traffic\n4,uniform\n", "it has no column num_vcs"),
        ("k,traffic,num_vcs,packet_size,injection_rate,latency\n4,uniform,2.5,1,0.1,16\n", "must be integers"),
        ("k,traffic,num_vcs,packet_size,injection_rate,latency\n4,random,2,1,0.1,16\n", 'traffic = "random"'),
    ):
        table.write_text(text)
        with pytest.raises(InputError, match=message):
            noc.read_figures(tmp_path)
    table.unlink()
    with pytest.raises(InputError, match="the file does not exist"):
        noc.read_figures(tmp_path)
