"""A controller of `row_buffer_v2` against figures of Ramulator 2, with equal device, address map, scheduler and load."""

from __future__ import annotations

import pytest

from kernbench.cmdq.controller_timing import controller_table
from kernbench.validate.ramulator import read_figures
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
def test_bandwidth_latency_and_row_hits_are_near_ramulator(machine: tuple[str, ...]) -> None:
    """Bandwidth within 3 % (5 % with refresh), p50 of reads within 5 %, row hits within 2 points."""
    for one in ROWS:
        if _machine(dict(one.row)) == machine:
            theirs, ours = one.expected, one.ours(controller_table(one.controller()))
            assert ours.gb_per_s == pytest.approx(theirs.gb_per_s, rel=0.05 if one.refresh else 0.03), one.name
            assert ours.p50_ns == pytest.approx(theirs.p50_ns, rel=0.05), one.name
            assert ours.row_hits == pytest.approx(theirs.row_hits, abs=2), one.name
