"""Runs of the shipped layers: decode is bound by DRAM and near that bound, prefill by its tensor engines; nothing overlaps."""

from __future__ import annotations

from functools import cache

import pytest

from kernbench import Result, load_config, simulate
from kernbench.bounds import Bounds, lower_bounds
from tests.workload_programs import MACHINES, PRESETS, Phase, llama


@cache
def run(name: str, phase: Phase) -> tuple[Result, Bounds]:
    """A run that fails where jobs in flight overlap in the scratchpad, and its bounds."""
    config = load_config(MACHINES[name], {"spm.check_overlap": "error"})
    program = llama(name, phase)
    return simulate(program, config), lower_bounds(program, config)


@pytest.mark.parametrize("name", PRESETS)
def test_decode_is_near_the_dram_bound(name: str) -> None:
    result, bounds = run(name, "decode")
    assert result.status == "done"
    assert bounds.limit.startswith("dram.")
    assert bounds.cycles / result.cycles >= 0.98


@pytest.mark.parametrize("name", PRESETS)
def test_decode_keeps_every_channel_busy(name: str) -> None:
    result, bounds = run(name, "decode")
    least, most = min(bounds.dram.values()), max(bounds.dram.values())
    assert least / most >= 0.99  # bytes lie evenly on the channels
    counters = result.to_dict()["counters"]
    assert all(counters[channel]["busy"] / result.cycles >= 0.98 for channel in bounds.dram)


@pytest.mark.parametrize("name", PRESETS)
def test_prefill_is_near_the_mac_bound(name: str) -> None:
    result, bounds = run(name, "prefill")
    assert result.status == "done"
    assert bounds.limit.startswith("te")
    assert bounds.cycles / result.cycles >= 0.95


@pytest.mark.parametrize("name", [name for name in MACHINES if name not in PRESETS])
def test_decode_is_near_the_dram_bound_of_other_machines(name: str) -> None:
    result, bounds = run(name, "decode")
    assert result.status == "done"
    assert max(bounds.dram.values()) / result.cycles >= 0.98


def test_prefill_with_spilled_activations_runs() -> None:
    result, bounds = run("one_mib", "prefill")
    assert result.status == "done"
    assert bounds.limit.startswith("dram.") and bounds.cycles / result.cycles >= 0.9
