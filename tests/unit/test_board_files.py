"""Systems of several real chips: what a chip of theirs has, and what their links reach."""

from __future__ import annotations

import pytest

from kernbench.ccl.call import Call, Queues, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import tuner_of
from kernbench.config import NpuConfig, SystemConfig, board_names, chip_names, load_config
from kernbench.config.load import chip_of_board

#: Board, its chip, [GB/s] that a chip sends to a neighbour at most.
BOARDS = {
    "a100_8x": ("a100", 12 * 25 * 0.78),
    "h100_8x": ("h100", 18 * 25 * 0.78),
    "h200_8x": ("h200", 18 * 25 * 0.78),
    "b200_8x": ("b200", 18 * 50 * 0.78),
    "mi300x_8x": ("mi300x", 64 * 0.78),
    "tpuv5e_2x4": ("tpuv5e", 45),
    "tpuv6e_2x4": ("tpuv6e", 90),
    "wormhole_n300": ("wormhole_n150", 25),
}


def all_reduce_us(config: SystemConfig, ranks: int, nbytes: int, message: int = 256 << 10) -> float:
    entry, collective = read_registry().find("all_reduce", "ring"), COLLECTIVES["all_reduce"]
    queues = Queues(32, message)
    call = Call("board", entry.load(), group_of(config, Shape(ranks, 1, 1)), nbytes // 2, "f16", message)
    outcome = run_call(config, call, collective, queues, check=False)
    assert outcome.status == "done"
    return outcome.cycles / float(config.freq_ghz) / 1e3


def test_every_board_is_tested() -> None:
    assert set(board_names()) == set(BOARDS)
    assert not set(board_names()) & set(chip_names())


@pytest.mark.parametrize("name", board_names())
def test_a_board_names_its_chip(name: str) -> None:
    chip = chip_of_board(load_config(name))
    assert chip in chip_names(), f"{name}: there is no chip {chip!r}; kernbench/config/load.py lists other names"
    assert chip == BOARDS[name][0]


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_chip_of_a_board_has_the_rates_of_its_own_file(name: str) -> None:
    board, chip = load_config(name, kind=SystemConfig), load_config(BOARDS[name][0], kind=NpuConfig)
    assert board.freq_ghz == chip.freq_ghz
    one_tree = chip.ve.model_copy(update={"reduction_trees": 1})  # which hardly matters for a share of the rows
    assert (board.pe.te, board.pe.ve, board.pe.spm) == (chip.te, one_tree, chip.spm)
    for key in ("channels", "capacity_bytes", "peak_bw_bytes_per_cycle", "t_setup_cycles", "bus_width_bytes"):
        assert getattr(board.cube.hbm, key) == getattr(chip.dram, key), key


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_large_all_reduce_of_two_chips_reaches_the_links(name: str) -> None:
    board, rate = load_config(name, kind=SystemConfig), BOARDS[name][1]
    assert float(board.system.link.bytes_per_cycle * board.freq_ghz) == pytest.approx(rate, rel=0.01)
    longer = 1 if rate < 600 else 4  # faster links need longer messages, because steps and sums take as long
    nbytes = longer << 23
    assert 0.8 * rate < nbytes / all_reduce_us(board, 2, nbytes, longer << 18) / 1e3 <= rate


def test_four_a100_take_what_was_measured_for_the_shortest_messages() -> None:
    """12.5 us for 8 bytes and 13.1 us for 512 (LLMCompass 2e015fd2): the latency of a step is fitted to the first."""
    board = load_config("a100_8x", kind=SystemConfig)
    assert all_reduce_us(board, 4, 8) == pytest.approx(12.52, rel=0.02)
    assert all_reduce_us(board, 4, 512) == pytest.approx(13.12, rel=0.06)


def test_a_chip_sends_to_several_at_most_what_its_links_carry() -> None:
    """All to all among four takes as long as three messages over one link: the port of a chip is shared."""
    board = load_config("a100_8x", kind=SystemConfig)
    nbytes = 8 << 20
    entry, collective = read_registry().find("all_to_all", "direct"), COLLECTIVES["all_to_all"]
    call = Call("board", entry.load(), group_of(board, Shape(4, 1, 1)), nbytes // 2, "f16", 256 << 10)
    outcome = run_call(board, call, collective, Queues(32, 256 << 10), check=False)
    rate = float(board.system.link.bytes_per_cycle)
    assert outcome.cycles > 3 / 4 * nbytes / rate


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        *(pytest.param(name, 64, marks=pytest.mark.nightly) for name in ("a100_8x", "tpuv5e_2x4", "tpuv6e_2x4")),
        ("h100_8x", 64),
        ("tpuv6e_2x4", 16),
    ],
)
def test_a_long_all_reduce_without_options_reaches_the_links(name: str, mib: int) -> None:
    """Within 5 % of the bandwidth of a link; on a torus, both directions of a link may be used."""
    board, rate, registry = load_config(name, kind=SystemConfig), BOARDS[name][1], read_registry()
    group, nbytes = group_of(board, Shape(8, 1, 1)), mib << 20
    request = CclRequest(board, group, registry.find("all_reduce"), "f16", Queues(), check=False)
    made, _ = row(request, nbytes // 2)
    assert made is not None and made.busbw > 0.95 * rate
    ring = registry.find("all_reduce", "ring")
    usual = queues_of(registry, ring, config=board, group=group)
    assert usual.slots is not None and usual.slot_bytes is not None
    assert queues_of(registry, ring, 4, 1024, "hbm", config=board, group=group) == Queues(4, 1024, "hbm")
    assert queues_of(registry, ring, slot_bytes=1024, config=board, group=group).slots == 36
    shared = queues_of(registry, ring, config=board, group=group, shares=True)
    assert shared.slots is not None and shared.slot_bytes is not None
    assert 2 * 8 * shared.slots * shared.slot_bytes <= board.pe.spm.size_bytes  # two queues, of one eighth


@pytest.mark.parametrize(("name", "collective", "least"), [("h200_8x", "all_to_all", 0.75), ("mi300x_8x", "all_reduce", 3.5)])
def test_a_direct_exchange_keeps_the_port_of_a_chip_busy(name: str, collective: str, least: float) -> None:
    """With NVLink, the port of a chip has the bandwidth of one link of the file. An MI300X has a link to each other chip."""
    board, rate, registry = load_config(name, kind=SystemConfig), BOARDS[name][1], read_registry()
    group, entry = group_of(board, Shape(8, 1, 1)), registry.find(collective, "direct")
    queues = queues_of(registry, entry, config=board, group=group)
    count = COLLECTIVES[collective].count_of(16 << 20, 8, 2)
    made, _ = row(CclRequest(board, group, entry, "f16", queues, check=False), count)
    assert made is not None and made.size == 16 << 20
    assert made.busbw > least * rate


def test_queues_of_other_machines_have_the_sizes_of_the_list_of_algorithms() -> None:
    registry = read_registry()
    for machine, shape in (("single_cube", (1, 1, 8)), ("pod_8sip", (8, 1, 1))):
        config = load_config(machine, kind=SystemConfig)
        group = group_of(config, Shape(*shape))
        for entry in registry.entries:
            assert queues_of(registry, entry, config=config, group=group) == queues_of(registry, entry), entry.full_name


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["a100_8x", "h100_8x"])
def test_the_tuner_chooses_well_on_a_board(name: str) -> None:
    """At sizes without simulated times in the package."""
    board, registry = load_config(name, kind=SystemConfig), read_registry()
    group = group_of(board, Shape(8, 1, 1))
    tuner = tuner_of(board, group, registry)
    for nbytes in (3 << 20, 30 << 20):
        chosen, times = tuner.choose("all_reduce", nbytes // 2, "f16").name, {}
        for one in ("ring", "bidirectional", "halving_doubling", "torus", "direct"):
            entry = registry.find("all_reduce", one)
            made, _ = row(CclRequest(board, group, entry, "f16", tuner.queues(entry), check=False), nbytes // 2)
            assert made is not None
            times[one] = made.cycles
        times["hierarchical"] = times["ring"]  # with one rank a SIP, it is a ring
        assert times[chosen] <= 1.1 * min(times.values()), (nbytes, chosen, times)
