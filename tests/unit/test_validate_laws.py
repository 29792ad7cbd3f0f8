"""The laws that every run is held against: runs keep them, and each notices what it is there for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from kernbench.bounds import laws
from kernbench.bounds.laws import LAWS, BrokenLaw, Ran, broken_laws, what_ran
from kernbench.cmdq import Program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine

MOVED = 4096  #: [B] of each of two loads
PLACE = {"spm_bank": 0, "spm_offset": 0}


def some_program() -> Program:
    """Two loads one after the other, then a product and a sum."""
    program = Program("some")
    load = {"tensor_role": "weight", "qbits": 8, "num_elements": MOVED, **PLACE}
    first = program.dma_load(dram_addr=0, **load)
    second = program.dma_load(dram_addr=8192, **load, deps_before=[first])
    tiles = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    product = program.te_gemm(m=32, n=32, k=32, qbits_weight=8, qbits_activation=8, **tiles, deps_before=[second])
    inout = {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0}
    program.ve_sum(length=100, batch=1, qbits_activation=8, **inout, deps_before=[product])
    return program


def machine(**given: Any) -> Machine:
    return Machine(load_config(given), some_program())


def ran(**given: Any) -> Ran:
    run = machine(**given)
    run.run()
    return what_ran(run.plan, run.cycle, run.status, run._core, [])


def changed(table: np.ndarray, row: int, column: int, by: int) -> np.ndarray:
    copy = table.copy()
    copy[row, column] += by
    return copy


def found(one: Ran) -> set[str]:
    return {law for law, _ in broken_laws(one)}


@pytest.mark.parametrize("allocation", ["shared_bw_v1", "max_min_v1", "fifo_v1"])
@pytest.mark.parametrize("noc", [None, {"rows": 2, "cols": 4}])
def test_a_run_keeps_them(allocation: str, noc: dict[str, Any] | None) -> None:
    assert not list(broken_laws(ran(allocation=allocation, **({} if noc is None else {"noc": noc}))))


def entries(one: Ran, which: int, entry: int, to: int) -> Ran:
    columns = [column.copy() for column in one.entries]
    columns[which][entry] = to
    return replace(one, entries=tuple(columns))


#: What a mistake of the simulator would leave behind, and the law that notices it.
MISTAKES: dict[str, tuple[str, Any]] = {
    "a negative stall": ("time", lambda one: replace(one, dma=changed(one.dma, 0, 1, -1))),
    "a cycle counted twice": ("time", lambda one: replace(one, compute=changed(one.compute, 0, 1, one.cycles))),
    "issued too early": ("order", lambda one: entries(one, 0, 1, one.entries[2][0] - 1)),
    "ended before it started": ("order", lambda one: entries(one, 2, 1, one.entries[1][1] - 1)),
    "never ended": ("order", lambda one: entries(one, 2, 3, -1)),
    "a line lost by an engine": ("bytes", lambda one: replace(one, dma=changed(one.dma, 0, 3, -16))),
    "a line too many on a channel": ("bytes", lambda one: replace(one, resources=changed(one.resources, 0, 0, 16))),
    "a product that was too fast": ("work", lambda one: replace(one, compute=changed(one.compute, 0, 0, -1))),
    "operations that were left out": ("work", lambda one: replace(one, work=[one.work[0] - 1, *one.work[1:]])),
    "a channel that was too fast": ("capacity", lambda one: replace(one, resources=changed(one.resources, 0, 2, -1))),
    "a bank with a port too many": ("ports", lambda one: replace(one, banks=one.banks + np.array([[one.cycles], [0]]))),
    "a channel that idled": ("conserving", lambda one: replace(one, resources=idled(one))),
}


def idled(one: Ran) -> np.ndarray:
    """A tenth of its time with members that moved nothing."""
    table = changed(one.resources, 0, 2, int(one.resources[0, 2]) // 10)
    return changed(table, 0, 3, int(one.resources[0, 2]) // 10)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_noticed(mistake: str) -> None:
    law, make = MISTAKES[mistake]
    assert law in found(make(ran()))


def test_every_law_has_a_mistake() -> None:
    assert {law for law, _ in MISTAKES.values()} == set(LAWS)


class Doctored:
    """A core whose channel says that it moved a line more."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def totals(self) -> tuple[Any, ...]:
        dma, compute, resources, *more = self._core.totals()
        return dma, compute, changed(resources, 0, 0, 16), *more


def test_a_broken_law_ends_the_run_with_a_message() -> None:
    """512 cycles of 16 B for the two loads."""
    run = machine()
    run._core = Doctored(run._core)
    with pytest.raises(BrokenLaw) as broken:
        run.run()
    assert str(broken.value) == (
        "the run broke a law, which is a mistake of the simulator: "
        "bytes: channels moved 8208 bytes, and transfers have 8192 there; "
        "capacity: dram.ch0 moved 8208 bytes in 512 cycles, and can move 16 in each"
    )
    assert broken.value.exit_code == 5


def test_checks_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> None:
        raise AssertionError("checked")

    monkeypatch.setattr("kernbench.sim_engine.machine.check_laws", never)
    run = machine()
    run.checks = False
    run.run()
    assert run.status == "done"


def test_a_run_that_is_not_over_is_not_judged() -> None:
    run = machine()
    run.step(5)
    assert run.status == "running"
    laws.check_laws(run.plan, run.cycle, run.status, None, [])


@pytest.mark.parametrize("cycles", [0, 1, 200, 520])
def test_an_aborted_run_keeps_them(cycles: int) -> None:
    one = ran(max_cycles=cycles)
    assert not one.done and not list(broken_laws(one))


@pytest.mark.parametrize(("channels", "interleave", "cycles"), [(8, 32, 256), (1, 32, 656)])
def test_a_flow_that_meets_itself_is_no_broken_law(channels: int, interleave: int, cycles: int) -> None:
    """Eight channels of 100 B/cycle, 32 B each in turn: a flow's next lines are on the banks of its last two, so it moves 32 B
    a cycle, 8192 in 256. From one channel it moves 100, 65536 in 656."""
    dram = {"channels": channels, "interleave_bytes": interleave, "bus_width_bytes": 4096, "dram_burst_cycles": 1}
    config = load_config({"dram": {**dram, "peak_bw_bytes_per_cycle": 100}, "spm": {"ports": 64}})
    program = Program("one")
    program.dma_load(dram_addr=0, num_elements=1 << 16, tensor_role="weight", qbits=8, **PLACE)
    run = Machine(config, program)
    run.run()
    assert run.status == "done" and run.cycle == cycles


#: A channel of two ranks whose bursts take four clocks; a WR to another rank may begin five clocks after an RD, so its data
#: may be on the bus at the same time.
TWO_RANKS = {
    "burst_bytes": 8,
    "row_bytes": 32,
    "rows": 64,
    "clock": 1,
    "ranks": 2,
    "bank_groups": 1,
    "banks_per_group": 1,
    "t_bl": 4,
    "t_cl": 7,
    "t_cwl": 1,
    "t_rtrs": 1,
    "t_rcd": 1,
    "t_rp": 1,
    "t_ras": 1,
    "t_wr": 1,
    "t_rtp": 1,
    "t_faw": 1,
    "t_rrd_s": 1,
    "t_rrd_l": 1,
    "t_ccd_s": 1,
    "t_ccd_l": 1,
    "t_wtr_s": 1,
    "t_wtr_l": 1,
    "t_rfc": 5,
    "t_refi": 1000,
    "refresh": "none",
    "scheduler": "fr_fcfs_cap",
    "cap": 1,
    "write_queue": 1,
    "map": "row bank stack rank column group pseudo",
}


def load_beside_store(**controller: Any) -> Machine:
    """A load and a store of 400 bytes each at the same time, on one channel of 2 B/cycle."""
    dram = {"channels": 1, "interleave_bytes": 8, "capacity_bytes": "256 KiB", "t_setup_cycles": 0}
    given = {"allocation": "row_buffer_v2", "dma": {"alignment_bytes": 1}, "control": {"issue_width": 0}}
    config = load_config({**given, "dram": {**dram, "controller": {**TWO_RANKS, **controller}}})
    program, tile = Program("both"), {"tensor_role": "activation", "qbits": 8, "num_elements": 400, "spm_offset": 0}
    program.dma_load(dram_addr=0, spm_bank=0, **tile)
    program.dma_store(dram_addr=1024, spm_bank=1, **tile)
    return Machine(config, program)


def test_data_to_a_rank_beside_data_of_another_rank_are_no_broken_law() -> None:
    run = load_beside_store()
    run.run()
    assert run.status == "done" and 2 * run.cycle < 792


@pytest.mark.parametrize("controller", [{"ranks": 1}, {"t_rtrs": 7}])
def test_data_of_a_channel_in_both_directions_share_its_bus_if_times_exclude_both_at_once(controller: dict[str, Any]) -> None:
    run = load_beside_store(**controller)
    run.run()
    one = what_ran(run.plan, run.cycle, run.status, run._core, [])
    assert not list(broken_laws(one))
    assert "capacity" in found(replace(one, resources=changed(one.resources, 0, 0, 2 * run.cycle - 700)))


def test_data_of_a_channel_in_one_direction_are_limited_beside_those_of_the_other() -> None:
    run = load_beside_store()
    run.run()
    one = what_ran(run.plan, run.cycle, run.status, run._core, [])
    for direction in (0, 1):
        assert "capacity" in found(replace(one, resources=changed(one.resources, 0, direction, 2 * run.cycle)))
