"""Sizes of transfers where few are in flight, and what planners count for their setups."""

from __future__ import annotations

import pytest

from kernbench.config import NpuConfig, load_config
from kernbench.config.kinds import as_npu
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import read_suite_data
from kernbench.validate.suites.plans import largest_prefill, product_share
from kernbench.workloads.transfers import MAX_PART, SETUPS, load_cycles, setup_bytes, tile_sizes

DATA = read_suite_data("plans")
LEAST = DATA.fact("least")


def machine(name: str) -> NpuConfig:
    return load_config(name, kind=NpuConfig)


def in_turn(name: str) -> NpuConfig:
    """A chip whose transfers wait for each other."""
    return load_config(name, {"dma.max_concurrent_transfers": 1}, kind=NpuConfig)


def test_a_setup_is_what_memory_could_have_moved_meanwhile() -> None:
    h100 = in_turn("h100")
    assert setup_bytes(h100) == pytest.approx(h100.dram.t_setup_cycles * h100.dram.capacity, abs=1)
    setups = load_cycles(h100, 1 << 24, 1 << 22) - load_cycles(h100, 1 << 24)
    assert setups == pytest.approx(4 * h100.dram.t_setup_cycles, abs=2)


def test_many_transfers_in_flight_hide_their_setups() -> None:
    server = machine("npu_server")
    assert setup_bytes(server) == 0 and tile_sizes(server, (256, 64)) == (256, 64)
    assert load_cycles(server, 1 << 24, 1 << 10) == load_cycles(server, 1 << 24)


def test_no_more_is_moved_meanwhile_than_the_links_at_the_dma_engines_take() -> None:
    """DRAM of twice the bandwidth behind the same links has the same tiles: larger ones take 4.6 % longer."""
    wide = {"dram.peak_bw_bytes_per_cycle": "204.8", "dram.bus_width_bytes": 256}
    faster = load_config("npu_server", wide, kind=NpuConfig)
    assert setup_bytes(faster) == 0 and setup_bytes(load_config("npu_server", {**wide, "noc": None}, kind=NpuConfig)) > 0


def test_tiles_are_larger_where_setups_count_and_the_scratchpad_has_room() -> None:
    for name in ("h100", "mi300x", "tpuv6e"):
        config = machine(name)
        sizes = tile_sizes(config, (256, 128))
        assert sizes[-2:] == (256, 128) and list(sizes) == sorted(sizes, reverse=True)
        assert (sizes[0] << 10) * MAX_PART <= config.spm.size_bytes
        assert sizes[0] << 10 >= SETUPS * setup_bytes(config) or (sizes[0] << 11) * MAX_PART > config.spm.size_bytes


def test_no_more_transfers_hide_their_setups_than_rings_of_tiles_have_places_for() -> None:
    board, chip = as_npu(load_config("h100_8x")), machine("h100")
    assert board.dma.max_concurrent_transfers == chip.dma.max_concurrent_transfers == 64
    assert setup_bytes(board) == setup_bytes(chip) == pytest.approx(setup_bytes(in_turn("h100")) / 2, abs=1)


@pytest.mark.parametrize("name", ["h100_8x", "tpuv6e_2x4"])
def test_products_reach_their_share_of_the_bound_where_many_transfers_are_in_flight(name: str) -> None:
    """0.54 of the first with tiles of 256 KiB; 0.847 of the second where later blocks delay the first one."""
    assert product_share(name, DATA.fact("size"), 16, Runner(Options())) > LEAST


@pytest.mark.parametrize("name", ["h100", pytest.param("tpuv6e", marks=pytest.mark.nightly), "npu_server"])
def test_plans_reach_their_share_of_the_bound(name: str) -> None:
    """0.66, 0.33 and 0.92 of a prefill, 0.67 of the product on the last, before setups and results in flight were counted."""
    runner = Runner(Options())
    assert product_share(name, DATA.fact("size"), 16, runner) > LEAST
    found = largest_prefill(name, DATA, runner)
    assert found is not None and found.share > LEAST
