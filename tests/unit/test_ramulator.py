"""A controller of `row_buffer_v2` against figures of Ramulator 2, with equal device, address map, scheduler and load."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
from kernbench_core.standalone.dram_load import DramLoad

from kernbench.cmdq.controller_timing import controller_table
from kernbench.validate.ramulator import bursts_of, controller_of
from tests.meta.source import ROOT

DATA = ROOT.parent / "shared" / "data" / "dram"
THERE = (DATA / "ramulator2.csv").exists()
ROWS = list(csv.DictReader((DATA / "ramulator2.csv").read_text().splitlines())) if THERE else []
PRESETS: dict[str, Any] = json.loads((DATA / "presets.json").read_text()) if THERE else {}
MACHINES = sorted({(row["config"], row["mapping"], row["scheduler"], row["refresh"]) for row in ROWS})


@pytest.mark.skipif(not THERE, reason="../shared/data/dram, the figures of Ramulator 2, is not there")
def test_there_are_rows() -> None:
    assert len(ROWS) == 240 and len(MACHINES) == 12


@pytest.mark.parametrize(("config", "mapping", "scheduler", "refresh"), MACHINES)
def test_bandwidth_latency_and_row_hits_are_near_ramulator(config: str, mapping: str, scheduler: str, refresh: str) -> None:
    """Bandwidth within 3 % (5 % with refresh), p50 of reads within 5 %, row hits within 2 points."""
    preset, bandwidth = PRESETS[config], 0.03 if refresh == "none" else 0.05
    table = controller_table(controller_of(preset, mapping, scheduler, refresh != "none"))
    for row in ROWS:
        if (row["config"], row["mapping"], row["scheduler"], row["refresh"]) != (config, mapping, scheduler, refresh):
            continue
        warm, ticks = int(row["warmup_ticks"]), int(row["ticks"])
        bursts = bursts_of(preset, row["pattern"], int(row["read_pct"]), row["load_pct"], warm + ticks)
        found = DramLoad(table, bursts).run(warm, ticks)
        latencies = sorted(found["latencies"])
        achieved = (found["reads"] + found["writes"]) * preset["tx_bytes"] / (ticks * preset["tick_ps"]) * 1000
        p50 = latencies[(len(latencies) - 1) // 2] * preset["tick_ps"] / 1000
        hits, theirs = (
            100 * int(of["row_hits"]) / sum(int(of[name]) for name in ("row_hits", "row_misses", "row_conflicts"))
            for of in (found, row)
        )
        assert achieved == pytest.approx(float(row["achieved_GBps"]), rel=bandwidth), row
        assert p50 == pytest.approx(float(row["rd_lat_p50_ns"]), rel=0.05), row
        assert hits == pytest.approx(theirs, abs=2), row
