"""`kbsim probe` against closed forms: latency of the way, and bytes over what limits them."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.policy.routing import PathRouter
from kernbench.sim_engine.probe import ProbeRow, patterns, probe, probe_names, probe_sizes
from kernbench.topology.builder import build_topology

SIZES = (4096, 65536)
ALONE = {  # pattern: from and to, of the memory's slice where there is one
    "own_hbm": ("sip0.cube0.pe0.pe_dma", (0, 0, 0)),
    "neighbour_hbm": ("sip0.cube0.pe0.pe_dma", (0, 0, 1)),
    "across_ucie": ("sip0.cube0.pe0.pe_dma", (0, 1, 0)),
    "across_sips": ("sip0.cube0.pe0.pe_dma", (1, 0, 0)),
}


def rows_of(name: str, only: tuple[str, ...] = ()) -> list[ProbeRow]:
    return list(probe(load_config(name), SIZES, only))


@pytest.mark.parametrize("name", ["single_cube", "two_sips"])
def test_a_load_alone_takes_setup_links_and_bytes_over_the_narrowest(name: str) -> None:
    config = load_config(name)
    router = PathRouter(build_topology(config))
    hbm = config.cube.hbm
    slice_rate = config.slice_channels * min(hbm.peak_bw_bytes_per_cycle, Fraction(hbm.bus_width_bytes, hbm.dram_burst_cycles))
    found = {(row.pattern, row.bytes): row for row in rows_of(name, tuple(ALONE))}
    for (pattern, size), row in found.items():
        node, place = ALONE[pattern]
        edges = router.route(router.find_memory_path(node, router.resolver.address(*place), read=True)).edges
        rate = min([slice_rate, *(edge.bytes_per_cycle for edge in edges if edge.bytes_per_cycle is not None)])
        # Each channel's flow has half of the bytes and half of the narrowest link: where that is a whole number of cycles
        # for both, they end together; else the last to end decides.
        assert row.setup == hbm.t_setup_cycles
        assert row.links == sum(edge.cycles for edge in edges)
        assert row.transfer == ceil(Fraction(size, rate))
        assert row.cycles == row.setup + row.links + row.transfer
    assert {pattern for pattern, _ in found} == {one.name for one in patterns(config)} & set(ALONE)


def test_a_host_copy_alone_takes_the_way_over_pcie() -> None:
    config = load_config("single_cube")
    router = PathRouter(build_topology(config))
    inside = router.route(router.find_memory_path("sip0.io0.pcie_ep", router.resolver.address(0, 0, 0))).cycles
    outside = router.route(("host", "sip0.io0.pcie_ep")).cycles
    for row in rows_of("single_cube", ("host_to_device",)):
        assert row.setup == config.cube.hbm.t_setup_cycles + config.io.pcie.setup_cycles
        assert row.links == inside + outside
        assert row.transfer == ceil(Fraction(row.bytes, config.io.pcie.link.bytes_per_cycle))


def test_a_send_alone_has_no_memory_on_its_way() -> None:
    config = load_config("single_cube")
    router = PathRouter(build_topology(config))
    route = router.route(router.find_path("sip0.cube0.pe0.pe_dma", "sip0.cube0.pe1.pe_dma"))
    narrowest = min(edge.bytes_per_cycle for edge in route.edges if edge.bytes_per_cycle is not None)
    for row in rows_of("single_cube", ("pe_to_pe",)):
        assert (row.setup, row.links, row.transfer) == (0, route.cycles, ceil(row.bytes / narrowest))


def test_all_at_once_use_all_of_a_shared_bottleneck_and_no_more() -> None:
    for row in rows_of("single_cube", ("all_own_hbm", "all_one_slice")):
        assert row.transfers == 8
        assert row.utilisation <= 1
        assert row.bandwidth * row.transfer >= row.bytes
        if row.pattern == "all_own_hbm":
            assert row.utilisation == 1  # nobody shares: every channel runs at its rate
        else:  # all eight pass one slice; only while the last ones are on their way is less than all of it used
            assert row.utilisation > Fraction(99, 100)


def test_a_size_that_does_not_fit_is_left_out() -> None:
    config = load_config("single_cube", {"pe.spm.bank_size_bytes": "4 KiB"})
    assert {row.bytes for row in probe(config, only=("own_hbm",))} == {4096, 16384, 65536}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("4KiB,x", '--sizes: size = "x", but it must be a whole number of bytes or a size like "64 KiB"'),
        ("0", '--sizes: size = "0", but it must be from 1 byte to below 1 TiB'),
        ("3 parsecs", '--sizes: size = "3 parsecs", but the unit parsecs is not one of B, KiB, MiB, GiB, TiB'),
    ],
)
def test_sizes_are_refused_with_a_reason(text: str, line: str) -> None:
    with pytest.raises(InputError) as refused:
        probe_sizes(text)
    assert str(refused.value).startswith(line[:60])
    assert probe_sizes("4KiB, 1 MiB,100") == [4096, 1 << 20, 100]


def test_an_unknown_pattern_is_refused() -> None:
    with pytest.raises(InputError, match=r"single_cube\.yaml has no such pattern; it has host_to_device"):
        probe_names(load_config("single_cube"), "own_hbm,sideways")
