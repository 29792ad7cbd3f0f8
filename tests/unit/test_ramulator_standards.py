"""Presets of DDR3, DDR5, LPDDR5 and HBM3 in Ramulator 2's form: the controllers that are made of them, and closed forms.

The folder of figures that the project compares with has DDR4 and HBM2 only. The times here are those of `configs/dram`. The
closed forms are those that the README of the figures states: without refresh, requests to one bank take `nRC` each, and
requests that each need another row take a quarter of `nFAW` in each pseudo-channel; an idle row hit takes the read latency and
one tick.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.cmdq.controller_timing import controller_table
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import run_dram_load
from kernbench.validate.ramulator import TIMES, Figures, Measured, controller_of

STANDARDS = {"ddr5_4800": "DDR5", "lpddr5_6400": "LPDDR5", "hbm3_6400": "HBM3"}
LEVELS = {
    "PseudoChannel": "pseudo_channels", "Rank": "ranks", "Sid": "stacks", "BankGroup": "bank_groups", "Bank": "banks_per_group",
    "Row": "rows",
}  # fmt: skip


def values_of(device: str, **changes: Any) -> dict[str, Any]:
    dram = {"device": device, "channels": 1, "capacity_bytes": "1 GiB"}
    controller = load_config({"allocation": "row_buffer_v2", "dram": dram}, kind=NpuConfig).dram.controller
    assert controller is not None
    return controller.values() | changes


def preset_of(device: str, in_clocks: bool = False, **changes: Any) -> dict[str, Any]:
    """A preset of the form of presets.json; `in_clocks`: commands are counted in clocks of the device, not in ticks."""
    values = values_of(device, **changes)
    parts = 2 if values["t_aad"] else 1
    activate = ["ACT1", "ACT2"] if parts == 2 else ["ACT"]
    columns = values["row_bytes"] // values["burst_bytes"]
    written = values["t_cwl"] + values["t_bl"]
    turns = [("RD", "WR", "Rank", values["t_rtw"]), ("WR", "RD", "Rank", written + values["t_wtr_s"])]
    turns.append(("WR", "RD", "BankGroup", written + values["t_wtr_l"]))
    held = {
        activate[0]: "act_clocks",
        "PREpb": "pre_clocks",
        "RD": "column_clocks",
        "WR": "column_clocks",
        "REFab": "refresh_clocks",
    }
    cycles = {command: values[key] / (values["phases"] if in_clocks else 1) for command, key in held.items()}
    levels = {level: values[key] for level, key in LEVELS.items()}
    banks = int(np.prod([levels[level] for level in levels if level != "Row"]))
    ticks = {names[-1 if key == "t_bl" and parts == 2 else 0]: values[key] for key, names in TIMES.items()}
    return {
        "standard": STANDARDS[device],
        "levels": levels,
        "tx_bytes": values["burst_bytes"],
        "row_lines": columns,
        "bank_stride_lines": columns * banks,
        "lines": columns * banks * levels["Row"],
        "peak_bytes_per_tick": values["pseudo_channels"] * values["burst_bytes"] / values["t_bl"],
        "tick_ps": 1000,
        "tick_multiplier": values["phases"],
        "timing_ticks": ticks | ({"nAAD": values["t_aad"]} if parts == 2 else {}),
        "command_cycles": cycles,
        "constraints": [
            {"preceding": [after], "following": [before], "sibling": False, "level": level, "ticks_nominal": count}
            for after, before, level, count in turns
        ],
    }


def figures(preset: dict[str, Any], pattern: str, load: str, refresh: str = "none", ticks: int = 40_000) -> Figures:
    row = {"mapping": "RoBaRaCoCh", "scheduler": "FRFCFS", "refresh": refresh, "pattern": pattern, "read_pct": "100"}
    measured = Measured(preset, row | {"load_pct": load, "warmup_ticks": "20000", "ticks": str(ticks)})
    return measured.ours(controller_table(measured.controller()))


@pytest.mark.parametrize("in_clocks", [False, True])
@pytest.mark.parametrize("device", STANDARDS)
def test_the_controller_of_a_preset_has_the_times_of_the_device(device: str, in_clocks: bool) -> None:
    found, device_values = controller_of(preset_of(device, in_clocks), "RoBaRaCoCh", "FRFCFS", True), values_of(device)
    rules = ("clock", "map", "hash", "scheduler", "refresh", "page", "cap")
    assert {key: value for key, value in found.items() if key not in rules} == {
        key: value for key, value in device_values.items() if key not in rules
    }


def test_a_preset_without_bank_groups_has_one_group() -> None:
    """As DDR3, whose times have no suffix."""
    preset = preset_of("ddr5_4800")
    del preset["levels"]["BankGroup"]
    preset["constraints"].pop()
    for short in ("nCCD", "nRRD", "nWTR"):
        preset["timing_ticks"][short] = preset["timing_ticks"].pop(f"{short}S")
        preset["timing_ticks"].pop(f"{short}L", None)
    found = controller_of(preset, "RoBaRaCoCh", "FRFCFS", True)
    assert found["bank_groups"] == 1
    for key in ("t_ccd", "t_rrd", "t_wtr"):
        assert found[f"{key}_s"] == found[f"{key}_l"] == values_of("ddr5_4800")[f"{key}_s"]


@pytest.mark.parametrize("device", STANDARDS)
def test_rows_of_one_bank_take_t_rc_each(device: str) -> None:
    preset = preset_of(device, t_rc=140)
    expected = preset["tx_bytes"] / 140  # [B/tick], a tick is 1 ns
    assert figures(preset, "stride_bank", "sat", ticks=300 * 140).gb_per_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("device", STANDARDS)
def test_rows_of_all_banks_take_a_quarter_of_t_faw_each(device: str) -> None:
    preset = preset_of(device, t_faw=96)
    expected = preset["levels"]["PseudoChannel"] * 4 * preset["tx_bytes"] / 96
    assert figures(preset, "stride_row", "sat").gb_per_s == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("device", STANDARDS)
def test_refresh_takes_its_share(device: str) -> None:
    preset = preset_of(device, t_refi=5000, t_rfc=1000)
    without = figures(preset, "stride_bank", "sat")
    assert figures(preset, "stride_bank", "sat", "AllBank").gb_per_s == pytest.approx(without.gb_per_s * 0.8, rel=0.03)


@pytest.mark.parametrize(("device", "more"), [("ddr5_4800", 1), ("lpddr5_6400", 2), ("hbm3_6400", 1)])
def test_an_idle_row_hit_takes_the_read_latency_and_its_command(device: str, more: int) -> None:
    """LPDDR5 at a load of 5 %: the data clock has stopped, and a CAS comes first."""
    values = values_of(device)
    found = figures(preset_of(device), "stream", "5")
    assert found.row_hits > 90
    assert found.p50_ns - values["t_cl"] - values["t_bl"] == pytest.approx(more, abs=1 if values["phases"] == 2 else 0)


@pytest.mark.parametrize(("first", "clocks", "refreshes"), [(0, 400, 0), (0, 401, 1), (1, 399, 0), (1, 400, 1)])
def test_refreshes_are_counted_from_the_number_of_the_first_clock(first: int, clocks: int, refreshes: int) -> None:
    """A refresh of an idle channel is issued in the clock in which it is due."""
    table = controller_table(values_of("ddr5_4800", t_refi=400, t_rfc=100))
    late = np.array([[0, 0, 10_000]], dtype=np.int64)
    assert run_dram_load(table, late, 0, clocks, first)["refreshes"] == refreshes
