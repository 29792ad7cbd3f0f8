"""A controller of `row_buffer_v2` against figures of Ramulator 2, with equal device, address map, scheduler and load."""

from __future__ import annotations

import csv
import json

import pytest

from kernbench.cmdq.controller_timing import controller_table
from kernbench.config.dram_controller import complete
from kernbench.sim_engine.machine import run_dram_load
from kernbench.validate.ramulator import bursts_of, controller_of, read_figures
from tests.meta.source import ROOT

DATA = ROOT.parent / "shared" / "data" / "dram"
ROWS = read_figures(DATA) if (DATA / "ramulator2.csv").exists() else []


def _machine(row: dict[str, str]) -> tuple[str, ...]:
    return row["config"], row["mapping"], row["scheduler"], row["refresh"]


MACHINES = sorted({_machine(dict(one.row)) for one in ROWS})


@pytest.mark.skipif(not ROWS, reason="../shared/data/dram, the figures of Ramulator 2, is not there")
def test_there_are_rows() -> None:
    assert len(ROWS) == 240 and len(MACHINES) == 12


#: Each device, map, scheduler and kind of refresh is in one of these machines; nightly all machines are compared.
DAILY = (1, 3, 8, 10)
SOME = [one if i in DAILY else pytest.param(one, marks=pytest.mark.nightly) for i, one in enumerate(MACHINES)]


@pytest.mark.parametrize("machine", SOME, ids=" ".join)
def test_bandwidth_latency_and_row_hits_are_those_of_ramulator(machine: tuple[str, ...]) -> None:
    """Up to the rounding of the figures, which have three digits for GB/s and one for ns."""
    for one in ROWS:
        if _machine(dict(one.row)) == machine:
            theirs, ours = one.expected, one.ours(controller_table(one.controller()))
            assert ours.gb_per_s == pytest.approx(theirs.gb_per_s, abs=6e-4), one.name
            assert ours.p50_ns == pytest.approx(theirs.p50_ns, abs=0.051), one.name
            assert ours.row_hits == pytest.approx(theirs.row_hits), one.name


DEPTHS = DATA / "queue_depth.csv"


@pytest.mark.skipif(not DEPTHS.exists(), reason="../shared/data/dram, the figures of Ramulator 2, is not there")
def test_bandwidth_by_the_size_of_the_queues_is_that_of_ramulator() -> None:
    """Queues of 32, 64 and 128 bursts, saturated: a queue of 128 gives up to 2.7 times the bandwidth of one of 32."""
    presets = json.loads((DATA / "presets.json").read_text())
    rows = list(csv.DictReader(DEPTHS.read_text().splitlines()))
    assert len(rows) == 72
    for row in rows:
        preset = presets[row["config"]]
        values = controller_of(preset, row["mapping"], "FRFCFS", refresh=True)
        del values["write_high"], values["write_low"]
        values = complete(values | {"read_queue": int(row["queue_entries"]), "write_queue": int(row["queue_entries"])})
        bursts = bursts_of(preset, row["pattern"], int(row["read_pct"]), "sat", 220_000)
        bursts[:, 2] += 1  # the first tick is tick 1
        found = run_dram_load(controller_table(values), bursts, 20_000, 200_000, first=1)
        moved = (found["reads"] + found["writes"]) * preset["tx_bytes"]
        gb_per_s = moved / (200_000 * preset["tick_ps"]) * 1000
        assert gb_per_s == pytest.approx(float(row["achieved_GBps"]), abs=6e-4), row
