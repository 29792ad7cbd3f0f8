"""More bandwidth never slows a fixed schedule; where that is not so, the smallest case stands here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cmdq import Program
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import simulate

Transfer = tuple[int, int, int]  #: start [cycle], [64 B], address [256 B]
RATES = [1, 2, 3, 5, 8, 10, 12.8, 16, 21.5, 32, 64]  #: [byte/cycle] of a channel
LINKS = [2, 3, 5, 8, 16, 32]
#: Nobody waits for a bank, and no transfer for a place in its engine: only bandwidth decides.
FREE: dict[str, Any] = {
    "dma": {
        "engines": 2,
        "max_concurrent_transfers": 64,
        "queue_depth_per_master": 64,
        "channels": {"act_weight": {"max_concurrent": 64}},
    },
    "spm": {"num_banks": 64, "ports": 64},
    "ve": {"engines": 8, "lanes": 1, "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False},
}


def ends(transfers: Sequence[Transfer], allocation: str, channels: int, rate: float, link: int) -> list[int]:
    """When each ends that starts in its own cycle, whatever the others do: a vector job is its clock."""
    dram = {"channels": channels, "bus_width_bytes": 4096, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": rate}
    noc: dict[str, Any] = {"rows": 1, "cols": 3, "link_bytes_per_cycle": link, "hop_latency_cycles": 1}
    noc |= {"dma_at": [[0, 0], [0, 1]], "dram_at": [[0, 2]] * channels}
    config: NpuConfig = load_config({**FREE, "allocation": allocation, "dram": dram, **({"noc": noc} if link else {})})
    program, loads = Program("fixed"), []
    for i, (start, size, place) in enumerate(transfers):
        inout = {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0, "ve_id": i}
        clock = [program.ve_copy(length=start, batch=1, qbits_activation=8, **inout)] if start else []
        load = {"tensor_role": "weight", "qbits": 8, "spm_bank": 0, "spm_offset": 1024 * i, "dma_id": i % 2}
        loads.append(program.dma_load(dram_addr=256 * place, num_elements=64 * size, **load, deps_before=clock))
    result = simulate(program, config)
    return [end for load in loads if (end := result.entry(load).end) is not None]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=4),
    st.sampled_from(["shared_bw_v1", "fifo_v1"]),
    st.integers(1, 2),
    st.tuples(st.sampled_from(RATES), st.sampled_from(RATES)).map(sorted),
    st.just([0, 0]) | st.tuples(st.sampled_from(LINKS), st.sampled_from(LINKS)).map(sorted),
)
def test_more_bandwidth_never_slows_a_fixed_schedule(
    transfers: list[Transfer], allocation: str, channels: int, rates: list[float], links: list[int]
) -> None:
    slow, fast = (ends(transfers, allocation, channels, rates[i], links[i]) for i in (0, 1))
    assert all(later >= sooner for later, sooner in zip(slow, fast, strict=True))


def test_max_min_gives_one_transfer_what_another_can_now_use() -> None:
    """The anomaly of max_min_v1. Two loads from channel 0, a third from channel 1, all over one link of 32 bytes a cycle.

    While channel 0 gives 12.8, its two loads have 6.4 each and the third what is left of the link, as far as its own channel
    gives it: 12.8. At 21.5 the first two have 10.7 each and the third 10.6: it pays for what the others gained.
    """
    transfers = [(0, 1, 0), (0, 1, 0), (0, 1, 1)]
    assert ends(transfers, "max_min_v1", 2, 12.8, 32) == [11, 10, 7]
    assert ends(transfers, "max_min_v1", 2, 21.5, 32) == [8, 6, 8]
    assert ends(transfers, "shared_bw_v1", 2, 12.8, 32)[2] >= ends(transfers, "shared_bw_v1", 2, 21.5, 32)[2]


def chained(rate: int) -> tuple[int | None, ...]:
    """Ends of A on channel 0, C on channel 1 from cycle 80 on, the product that needs C, and B on channel 1 after A."""
    dram = {"channels": 2, "interleave_bytes": 4096, "bus_width_bytes": 4096, "dram_burst_cycles": 1}
    config = load_config({**FREE, "dram": {**dram, "peak_bw_bytes_per_cycle": rate}, "te": {"spm_traffic": False}})
    program, load = Program("chained"), {"tensor_role": "weight", "qbits": 8, "spm_bank": 0, "spm_offset": 0}
    a = program.dma_load(dram_addr=0, num_elements=1600, **load)
    inout = {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0}
    clock = program.ve_copy(length=80, batch=1, qbits_activation=8, **inout)
    c = program.dma_load(dram_addr=4096, num_elements=320, **load, deps_before=[clock])
    tiles = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    product = program.te_gemm(m=64, n=64, k=64, qbits_weight=8, qbits_activation=8, **tiles, deps_before=[c])
    b = program.dma_load(dram_addr=12288, num_elements=320, **load, deps_before=[a])
    result = simulate(program, config)
    return tuple(result.entry(entry).end for entry in (a, c, product, b))


def test_a_transfer_that_begins_sooner_gets_into_the_way_of_another() -> None:
    """The anomaly of a schedule that is not fixed. The product takes 8 + 64 + 4 = 76 cycles, C has 320 bytes.

    At 16 bytes a cycle A ends at 100, just when C does: 80 + 20. At 20 A ends at 80, and B shares the channel with C: 80 + 32.
    The product ends 12 cycles later with more bandwidth.
    """
    assert chained(16) == (100, 100, 176, 120)
    assert chained(20) == (80, 112, 188, 112)


@pytest.mark.nightly
@settings(max_examples=3000, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 16), st.integers(0, 7)), min_size=1, max_size=6),
    st.sampled_from(["shared_bw_v1", "fifo_v1"]),
    st.tuples(st.sampled_from(RATES), st.sampled_from(RATES)).map(sorted),
    st.tuples(st.sampled_from(LINKS), st.sampled_from(LINKS)).map(sorted),
)
def test_monotone_at_length(transfers: list[Transfer], allocation: str, rates: list[float], links: list[int]) -> None:
    slow, fast = (ends(transfers, allocation, 2, rates[i], links[i]) for i in (0, 1))
    assert all(later >= sooner for later, sooner in zip(slow, fast, strict=True))
