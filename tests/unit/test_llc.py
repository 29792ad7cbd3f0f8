"""The last-level cache of docs/model/llc.md: single cycles, lines, write-backs, what is refused, and where results show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.analysis.case import Demand
from kernbench.analysis.whatif import free
from kernbench.common.errors import InputError
from kernbench.config import MachineConfig
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.property.test_trace import Lines
from tests.unit.test_row_buffers import TIMES

LINE = 128
DRAM, CACHE = 16, 64  # [byte/cycle] of the channel, and of the cache
WALKS = (("plain", False), ("fast", False), ("fast", True))


def machine(llc: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A machine whose cache has two lines in one set, where `llc` does not say another one."""
    cache = {"capacity_bytes": 2 * LINE, "ways": 0, "bw_bytes_per_cycle": CACHE, **(llc or {})}
    return {"schema": "kernbench/npu/1", "llc": cache, "spm": {"ports": 16}, **more}


def move(address: int, nbytes: int, *, store: bool = False, place: int = 0, **more: Any) -> dict[str, Any]:
    """A transfer; each waits for the one before it, unless it says otherwise."""
    opcode = "DMA_STORE_TILE" if store else "DMA_LOAD_TILE"
    return {"opcode": opcode, "tensor_role": "weight", "qbits": 8, "num_elements": nbytes, "dram_addr": address,
            "spm_bank": 0, "spm_offset": place, **more}  # fmt: skip


def program(*moves: dict[str, Any], together: bool = False) -> dict[str, Any]:
    """Transfers one after the other."""
    chained = [one if together or not k else {"deps_before": [k - 1], **one} for k, one in enumerate(moves)]
    return {"metadata": {"version": "1.0", "name": "llc"}, "cmdq": chained}


def run(config: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    """The result, which is the same by all walks."""
    found = []
    for walk, skip in WALKS:
        one = Machine(load_config(config), load_program(work), walk=walk)
        one.run(skip=skip)
        found.append(one.result().to_dict())
    assert found[0] == found[1] == found[2]
    return found[0]


def ends(result: dict[str, Any]) -> list[int]:
    """[cycle] of the entries."""
    return [entry["end"] for entry in result["entries"]]


def test_a_second_load_hits_and_takes_the_bandwidth_of_the_cache() -> None:
    result = run(machine(), program(move(0, 256), move(0, 256)))
    assert ends(result) == [256 // DRAM, 256 // DRAM + 256 // CACHE]
    assert result["counters"]["dram.ch0"]["bytes"] == 256
    llc = result["counters"]["llc"]
    assert (llc["bytes"], llc["hits"], llc["misses"], llc["hit_bytes"], llc["miss_bytes"]) == (512, 2, 2, 256, 256)


def test_the_oldest_line_makes_room_and_a_hit_makes_a_line_the_youngest() -> None:
    moves = [move(0, LINE), move(LINE, LINE), move(0, LINE), move(2 * LINE, LINE), move(0, LINE), move(LINE, LINE)]
    result = run(machine(), program(*moves))
    llc = result["counters"]["llc"]
    assert (llc["hits"], llc["misses"], llc["evictions"], llc["write_backs"]) == (2, 4, 2, 0)
    hit, miss = LINE // CACHE, LINE // DRAM
    assert [b - a for a, b in zip([0, *ends(result)], ends(result), strict=False)] == [miss, miss, hit, miss, hit, miss]


def test_lines_of_one_set_evict_each_other_where_others_are_empty() -> None:
    config = machine({"capacity_bytes": 4 * LINE, "ways": 1})
    result = run(config, program(move(0, LINE), move(4 * LINE, LINE), move(LINE, LINE), move(0, LINE), move(LINE, LINE)))
    assert (result["counters"]["llc"]["hits"], result["counters"]["llc"]["evictions"]) == (1, 2)


def test_a_transfer_larger_than_the_cache_never_hits_when_it_is_read_again() -> None:
    result = run(machine(), program(move(0, 3 * LINE), move(0, 3 * LINE)))
    assert (result["counters"]["llc"]["hits"], result["counters"]["llc"]["evictions"]) == (0, 4)


def test_a_load_waits_for_the_larger_head_latency_of_its_flows() -> None:
    config = machine({"latency_cycles": 5}, dram={"t_setup_cycles": 9})
    result = run(config, program(move(0, LINE), move(0, LINE), move(0, 2 * LINE)))
    hit, both = 5 + LINE // CACHE, 9 + LINE // DRAM
    assert ends(result) == [9 + LINE // DRAM, 9 + LINE // DRAM + hit, 9 + LINE // DRAM + hit + both]


def test_dirty_lines_are_written_back_from_the_next_cycle_on_and_share_the_channel() -> None:
    store, load = move(0, 256, store=True), move(4096, 256)
    result = run(machine(), program(store, load))
    stored = 256 // CACHE
    alone = DRAM  # in its first cycle; then the queue has half of the channel
    assert ends(result) == [stored, stored + 1 + (256 - alone) // (DRAM // 2)]
    llc, channel = result["counters"]["llc"], result["counters"]["dram.ch0"]
    assert (llc["misses"], llc["evictions"], llc["write_backs"]) == (4, 2, 2)
    assert channel["bytes"] == 256 + (256 - alone), "what is in the queue at the end is not written"
    assert channel["member_cycles"] == 2 * channel["busy"] - 1
    assert llc["bytes"] == 256 + channel["bytes"]


def test_the_bytes_of_a_line_are_written_back_to_their_channels() -> None:
    """Half of each line is in each of two channels; the second load gives the queues time to become empty."""
    config = machine(dram={"channels": 2, "interleave_bytes": LINE // 2})
    counters = run(config, program(move(0, 256, store=True), move(4096, 256), move(8192, 4096)))["counters"]
    assert counters["llc"]["write_backs"] == 2
    assert [counters[f"dram.ch{k}"]["bytes"] for k in range(2)] == [(256 + 256 + 4096) // 2] * 2


def test_write_backs_belong_to_no_job() -> None:
    result = run(machine(), program(move(0, 256, store=True), move(4096, 256), move(8192, 256)))
    assert result["counters"]["dma0"]["bytes"] == 3 * 256
    assert result["counters"]["dram.ch0"]["bytes"] == 3 * 256


@pytest.mark.parametrize(
    ("llc", "stored", "read"),
    [
        ({"write": "back"}, 256 // CACHE, 256 // CACHE),
        ({"write": "back", "write_allocate": False}, 256 // DRAM, 256 // DRAM),
        ({"write": "through"}, 256 // DRAM, 256 // CACHE),
        ({"write": "through", "write_allocate": False}, 256 // DRAM, 256 // DRAM),
    ],
)
def test_write_policies(llc: dict[str, Any], stored: int, read: int) -> None:
    result = run(machine(llc), program(move(0, 256, store=True), move(0, 256)))
    assert ends(result) == [stored, stored + read]


def test_a_store_through_a_line_that_is_there_keeps_it_clean() -> None:
    moves = [move(0, 256), move(0, 256, store=True), move(4096, 256)]
    assert run(machine({"write": "through"}), program(*moves))["counters"]["llc"]["write_backs"] == 0
    assert run(machine(), program(*moves))["counters"]["llc"]["write_backs"] == 2


@pytest.mark.parametrize("write", ["through", "back"])
def test_a_store_to_a_line_that_is_there_makes_it_the_youngest(write: str) -> None:
    moves = [move(0, LINE), move(LINE, LINE), move(0, LINE, store=True), move(2 * LINE, LINE), move(0, LINE)]
    llc = run(machine({"write": write}), program(*moves))["counters"]["llc"]
    assert (llc["hits"], llc["misses"]) == (2, 3)


def test_a_line_that_two_rows_touch_is_looked_up_twice() -> None:
    rows = {**move(0, 1), "rows": 2, "row_elements": 64, "stride_bytes": 64}
    del rows["num_elements"]
    llc = run(machine(), program(rows))["counters"]["llc"]
    assert (llc["hits"], llc["misses"], llc["hit_bytes"], llc["miss_bytes"]) == (1, 1, 64, 64)


def test_hits_and_misses_of_one_transfer_share_the_cache_by_weight() -> None:
    config = machine({"capacity_bytes": 4 * LINE, "bw_bytes_per_cycle": 24})
    result = run(config, program(move(0, LINE), move(0, 2 * LINE)))
    # 12 B/cycle each, until the hit and the miss of 128 B are over in the same cycle
    assert ends(result) == [LINE // DRAM, LINE // DRAM + -(-LINE // 12)]


def test_a_system_cache_is_a_node_of_the_mesh() -> None:
    noc = {"rows": 1, "cols": 3, "hop_latency_cycles": 4, "dram_at": [[0, 0]], "dma_at": [[0, 2]]}
    config = machine({"at": [0, 1], "latency_cycles": 1}, noc=noc)
    result = run(config, program(move(0, LINE), move(0, LINE)))
    miss, hit = 2 * 4 + LINE // DRAM, 1 + 4 + LINE // CACHE
    assert ends(result) == [miss, miss + hit]
    assert result["counters"]["noc.r0c0-r0c1"]["bytes"] == LINE
    assert result["counters"]["noc.r0c1-r0c2"]["bytes"] == 2 * LINE


def test_without_the_key_nothing_is_said_of_a_cache() -> None:
    config = load_config({"schema": "kernbench/npu/1"})
    assert isinstance(config, MachineConfig)
    assert "llc" not in config.to_dict()
    result = run({"schema": "kernbench/npu/1"}, program(move(0, 256), move(0, 256)))
    assert ends(result) == [16, 32]
    assert "llc" not in result["counters"]


@pytest.mark.parametrize(
    ("config", "path", "rule"),
    [
        (machine({"capacity_bytes": 200}), "llc.capacity_bytes", "it must be a multiple of line_bytes (128), which is 128"),
        (machine({"ways": 3}), "llc.capacity_bytes", "it must be a multiple of line_bytes (128) times ways (3), which is 384"),
        (machine({"capacity_bytes": 2**32, "line_bytes": 1}), "llc.capacity_bytes", "it must be at most 2^24 lines"),
        (machine({"at": [0, 0]}), "llc.at", "it may stand only with a noc"),
        (machine(noc={}), "llc.at", "it is required with a noc"),
        (machine({"at": [9, 0]}, noc={}), "llc.at", "it must lie in the mesh of 2 rows and 4 columns"),
        (machine({"write": "later"}), "llc.write", ""),
    ],
)
def test_refusals(config: dict[str, Any], path: str, rule: str) -> None:
    with pytest.raises(InputError) as error:
        load_config(config)
    assert path in str(error.value)
    assert rule in str(error.value)


def test_dram_controllers_take_no_write_backs() -> None:
    rows = {**TIMES, "t_refi": 0}
    config = machine(allocation="row_buffer_v1", dram={"bus_width_bytes": 32, "dram_burst_cycles": 2, "row_buffer": rows})
    with pytest.raises(InputError, match=r"llc.write = .back.*under row_buffer_v1 it must be through"):
        load_config(config)
    config["llc"]["write"] = "through"
    result = run(config, program(move(0, 256), move(0, 256)))
    assert ends(result)[1] - ends(result)[0] == 256 // CACHE


def traced(config: dict[str, Any], work: dict[str, Any], path: Path) -> Any:
    """A trace at level full, and its run."""
    lines, one = Lines(), Machine(load_config(config), load_program(work))
    tracing = one.trace(lines, TraceOptions("full"))
    one.run()
    tracing.close()
    path.write_bytes(b"".join(lines))
    return one


def test_a_trace_tells_lookups_and_write_backs_and_why_names_them(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    moves = [move(0, 256, store=True), move(4096, 2048), move(4096 + 1792, 256)]
    traced(machine(), program(*moves), path)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    looked = [event for event in events if event["event_type"] == "CACHE_LOOKUP"]
    found = [tuple(one[name] for name in ("hits", "misses", "evictions", "write_backs")) for one in looked]
    assert found == [(0, 2, 0, 0), (0, 16, 16, 2), (2, 0, 0, 0)]
    back = [(event["event_type"], event["t_cycle"]) for event in events if event["event_type"].startswith("WRITE_BACK")]
    assert back == [("WRITE_BACK_START", 5), ("WRITE_BACK_END", 37)]
    trace = open_trace(path)
    assert not validate(trace).total
    why = explain(open_trace(path))
    named = {"DRAM bandwidth for cache misses", "cache bandwidth", "write-backs of the cache"}
    assert {group.name for group in why.groups} >= named
    assert sum(cost.cycles for cost in why.costs) == why.history.cycles


def test_what_if_frees_the_cache() -> None:
    changed, changes = free(load_config(machine()), ["llc"], Demand(transfers=2, pairs=0))
    assert list(changes) == ["llc.bw_bytes_per_cycle"]
    assert changed.cache.bw_bytes_per_cycle > CACHE


@pytest.mark.parametrize("allocation", ["shared_bw_v1", "max_min_v1", "fifo_v1"])
def test_a_run_resumes_in_every_cycle_of_a_write_back(allocation: str) -> None:
    """Where a queue becomes a member of its channel in P7, it has no rate before P4 of the next cycle."""
    config, work = load_config(machine(allocation=allocation)), load_program(program(move(0, 256, store=True), move(4096, 256)))
    whole = Machine(config, work)
    whole.run()
    for cut in range(whole.cycle):
        for (walk, skip), (other, then) in zip(WALKS, reversed(WALKS), strict=True):
            begun, resumed = Machine(config, work, walk=walk), Machine(config, work, walk=other)
            begun.step(cut, skip=skip)
            resumed.restore(begun.snapshot())
            resumed.run(skip=then)
            assert resumed.result().to_dict() == whole.result().to_dict(), f"cut at {cut}"
