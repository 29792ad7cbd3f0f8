"""Transfers over routers (docs/model/flit_transfers.md): single packets by hand, what is refused, and where runs show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.common.errors import InputError
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.events import Record
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain

FIELDS = ("packets", "travel_cycles", "alone_cycles", "no_credit_cycles", "no_channel_cycles", "lost_cycles")
WIDTH = 64  # [byte] of a bank, of a flit and of a link


def machine(**flit: Any) -> dict[str, Any]:
    """Two routers, one link apart: a DRAM channel as fast as the link, and a DMA engine."""
    noc = {"rows": 1, "cols": 2, "dma_at": [[0, 1]], "dram_at": [[0, 0]]}
    noc |= {"link_bytes_per_cycle": WIDTH, "hop_latency_cycles": 4}
    dram = {"bus_width_bytes": WIDTH, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": WIDTH}
    return {
        "schema": "kernbench/npu/1",
        "noc": noc | {"model": "flit", "flit": flit},
        "dram": dram,
        "spm": {"bank_width_bytes": WIDTH, "bank_size_bytes": 1 << 12},
    }


def flits(**keys: Any) -> dict[str, Any]:
    return {"noc": machine(**keys)["noc"]}


def move(nbytes: int, *, store: bool = False) -> dict[str, Any]:
    opcode = "DMA_STORE_TILE" if store else "DMA_LOAD_TILE"
    entry = {"opcode": opcode, "tensor_role": "weight", "qbits": 8, "num_elements": nbytes, "dram_addr": 0}
    return {"metadata": {"version": "1.0", "name": "moves"}, "cmdq": [{**entry, "spm_bank": 0, "spm_offset": 0}]}


def run(given: dict[str, Any], program: dict[str, Any]) -> Machine:
    made = Machine(load_config(given), load_program(program))
    made.run()
    return made


@pytest.mark.parametrize("cycles", [None, 9])
def test_a_flit_may_be_larger_than_the_bytes_of_its_link_in_the_run(cycles: int | None) -> None:
    given = machine(flit_bytes=WIDTH)
    given["noc"]["link_bytes_per_cycle"] = 1
    if cycles is not None:
        given["max_cycles"] = cycles
    ran = run(given, move(WIDTH))
    link = ran.result().counters["noc.r0c0-r0c1"]
    assert (ran.status, ran.cycle) == (("done", ALONE + 2) if cycles is None else ("aborted", cycles))
    assert (link["flits"], link["busy"]) == (1, ran.cycle)  # the link is busy for 64 cycles, longer than the run


def cycles_of(packet: int, nbytes: int, *, store: bool = False) -> int:
    ran = run(machine(packet_flits=packet), move(nbytes, store=store))
    assert ran.status == "done"
    return ran.cycle


# A flit takes 1 (terminal) + 4 (one hop: channel, switch, 1 in the switch, 2 on the link) + 3 (to the terminal) cycles.
ALONE = 8


def test_a_load_of_one_flit_is_asked_for_in_the_cycle_behind_its_ejection() -> None:
    """Cycle 0: it enters. Cycle 8: it is ejected. Cycle 9: the scratchpad serves it."""
    assert cycles_of(1, WIDTH) == 0 + ALONE + 1 + 1


def test_a_store_of_one_flit_ends_with_its_ejection() -> None:
    """Cycle 0: the scratchpad serves it, and it enters. Cycle 8: it is ejected."""
    assert cycles_of(1, WIDTH, store=True) == 0 + ALONE + 1


def test_a_packet_waits_for_its_last_byte_and_its_tail() -> None:
    """Four flits of one packet: the fourth enters in cycle 3, and the tail is ejected 3 cycles behind the head."""
    assert cycles_of(4, 4 * WIDTH) == 3 + ALONE + 3 + 1 + 1
    assert cycles_of(1, 4 * WIDTH) == 3 + ALONE + 1 + 1


def test_a_window_holds_a_flow_back() -> None:
    """Two packets at a time, each of which comes back as room ALONE + 1 cycles after it entered."""
    wide, narrow = (run(machine(packet_flits=1, window_packets=n), move(64 * WIDTH)).cycle for n in (16, 2))
    assert wide == 63 + ALONE + 2
    assert narrow > 64 // 2 * (ALONE + 1)


@pytest.mark.parametrize("store", [False, True])
def test_a_short_last_packet_enters_a_window_with_less_room_than_a_packet(store: bool) -> None:
    """Window: 8 flits. They enter in the cycles 0 to 5. Before cycle 5 the window has room for 3 flits, and one is left."""
    wide, narrow = (
        run(machine(packet_flits=4, window_packets=windows), move(6 * WIDTH, store=store)).cycle for windows in (16, 2)
    )
    assert narrow == wide == 3 + ALONE + 5 + (1 if store else 2)


def test_a_link_of_half_a_flit_takes_twice_as_long() -> None:
    assert run(machine(packet_flits=1, flit_bytes=2 * WIDTH), move(128 * WIDTH)).cycle == pytest.approx(2 * 64, abs=2 * ALONE)


def test_fluid_is_the_default_and_says_nothing_of_it() -> None:
    given = machine()
    del given["noc"]["model"], given["noc"]["flit"]
    fluid = load_config(given)
    assert "model" not in fluid.to_dict()["noc"] and "flit" not in fluid.to_dict()["noc"]
    assert fluid == load_config(given, {"noc.model": "fluid"})
    assert fluid != load_config(given, {"noc.model": "flit"})


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ({"llc": {"capacity_bytes": 4096, "bw_bytes_per_cycle": 64, "at": [0, 0]}}, "with a last-level cache it must be fluid"),
        (flits(window_packets=2, packet_flits=1, flit_bytes=8), "spm.bank_width_bytes (64)"),
        (flits(channels=65), "it must be at most 64"),
    ],
)
def test_what_is_refused(sets: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as told:
        load_config(machine() | sets)
    assert text in str(told.value)


def test_rows_of_dram_are_refused() -> None:
    with pytest.raises(InputError) as told:
        load_config(machine() | {"allocation": "row_buffer_v2", "dram": {"device": "hbm2_2000"}})
    assert "it must be fluid: flits are for shared_bw_v1, max_min_v1, fifo_v1" in str(told.value)


def test_a_system_needs_two_channels() -> None:
    with pytest.raises(InputError) as told:
        load_config("single_cube", {"cube.mesh.model": "flit", "cube.mesh.flit.channels": 1})
    assert "it must be at least 2: packets that have turned have channels of their own" in str(told.value)


def test_a_run_with_flits_has_no_checkpoint() -> None:
    made = Machine(load_config(machine()), load_program(move(WIDTH)))
    made.step(3)
    with pytest.raises(InputError) as told:
        made.snapshot()
    assert "transfers move over routers" in str(told.value)


def test_a_trace_says_what_packets_did_and_why_parts_a_transfer_by_it(tmp_path: Path) -> None:
    """Two loads meet at one terminal: half of the time of each is the other's."""
    given = machine(packet_flits=2)
    given["noc"] |= {"dram_at": [[0, 0], [0, 1]], "dma_at": [[0, 1]]}
    given["dram"] |= {"channels": 2, "interleave_bytes": 4096}
    program = move(4096)
    program["cmdq"].append(program["cmdq"][0] | {"dram_addr": 4096, "spm_offset": 256})
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as sink:
        ran = Machine(load_config(given), load_program(program))
        tracing = ran.trace(sink, TraceOptions(level="full"))
        ran.run()
        tracing.close()
    assert not validate(open_trace(path)).total
    records = [record for batch in open_trace(path).batches(only={"NOC_FLITS": FIELDS}) for record in batch]
    done = [one for one in records if one.event.name == "NOC_FLITS"]
    assert len(done) == 2 and all(one.packets == 32 for one in done)
    assert all(one.travel_cycles > one.alone_cycles for one in done)
    assert sum(one.lost_cycles + one.no_channel_cycles + one.no_credit_cycles for one in done) > 0
    found = explain(open_trace(path))
    causes = {cost.cause for cost in found.costs}
    assert "congestion" in causes and sum(cost.cycles for cost in found.costs) == ran.cycle


def depths(path: Path) -> list[Record]:
    """The samples of buffers in a trace without violations."""
    assert not validate(open_trace(path)).total
    fields = ("t_cycle", "unit", "window_cycles", "depth", "flit_cycles", "packets")
    records = [one for batch in open_trace(path).batches(only={"NOC_QUEUE_DEPTH": fields}) for one in batch]
    return [one for one in records if one.event.name == "NOC_QUEUE_DEPTH"]


def traced(path: Path, given: dict[str, Any], program: dict[str, Any], window: int, level: str = "full") -> Path:
    with path.open("wb") as sink:
        ran = Machine(load_config(given), load_program(program))
        tracing = ran.trace(sink, TraceOptions(level=level, window=window))
        ran.run()
        tracing.close()
    return path


def test_a_trace_has_the_flits_of_each_buffer_by_channel_at_the_end_of_each_window(tmp_path: Path) -> None:
    """One flit: it reaches the first buffer in cycle 1, gets a channel there, and leaves in cycle 2. It spends 3 cycles in the
    switch and on the link, and reaches the second buffer in cycle 5."""
    found = depths(traced(tmp_path / "t.jsonl", machine(packet_flits=1), move(WIDTH), 1))
    seen = [(one.t_cycle, one.unit, sum(one.depth), one.flit_cycles, one.packets) for one in found]
    assert seen == [(1, "dram.ch0", 1, 1, 0), (5, "noc.r0c0-r0c1", 1, 1, None)]
    assert all(len(one.depth) == 8 and max(one.depth) == 1 for one in found)


def test_flit_cycles_of_windows_add_up_whatever_their_length(tmp_path: Path) -> None:
    given, sums = machine(packet_flits=2, depth=2, channels=2), []
    for window in (1, 5, 64):
        found = depths(traced(tmp_path / f"{window}.jsonl", given, move(64 * WIDTH), window))
        sums.append({unit: sum(one.flit_cycles for one in found if one.unit == unit) for unit in {one.unit for one in found}})
    assert sums[0] == sums[1] == sums[2] and min(sums[0].values()) >= 64


def test_a_link_may_be_busy_for_longer_than_a_window_if_its_last_flit_occupies_it_in_the_next_one(tmp_path: Path) -> None:
    """At 2/3 flits per clock, three flits leave in some windows of four cycles: they occupy the link for 4.5 clocks."""
    given = machine(packet_flits=1, flit_bytes=WIDTH)
    given["noc"] |= {"link_bytes_per_cycle": "128/3"}
    path = traced(tmp_path / "t.jsonl", given, move(64 * WIDTH), 4)
    assert not validate(open_trace(path)).total
    fields = {"BANDWIDTH_SAMPLE": ("busy_cycles", "window_cycles")}
    samples = [one for batch in open_trace(path).batches(only=fields) for one in batch if one.event.name in fields]
    assert max(one.busy_cycles - one.window_cycles for one in samples) == 1


def test_only_traces_with_accesses_have_depths_of_buffers(tmp_path: Path) -> None:
    assert not depths(traced(tmp_path / "t.jsonl", machine(packet_flits=1), move(WIDTH), 1, "summary"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"depth":[1,0', '"depth":[9,0', "holds [9, 0, 0, 0, 0, 0, 0, 0] flits, but has 8 channels of 8 flits"),
        ('"flit_cycles":1,', '"flit_cycles":65,', "has 65 flit-cycles in 1 cycles, but room for 64 flits"),
        ('"flit_cycles":1,', '"flit_cycles":0,', "has 1 flits at the end of a window in which it had none"),
    ],
)
def test_laws_of_a_buffer_see_wrong_depths(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = traced(tmp_path / "t.jsonl", machine(packet_flits=1), move(WIDTH), 1)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert any(said in str(violation) for violation in validate(open_trace(path)).violations)
