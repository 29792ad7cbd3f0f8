"""Why, on runs small enough to be counted by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.trace.events import Record
from kernbench.trace.reader import open_trace
from kernbench.trace.why import Why, explain, names
from kernbench.trace.why.json import story_to_dict, why_to_dict
from kernbench.trace.why.shares import max_min
from tests.oracles.ref_trace import reference_trace
from tests.trace_samples import lawful, meta, record, write_trace

Parts = list[tuple[str, str, Fraction, tuple[int, ...]]]


def of_run(folder: Path, machine: dict[str, Any], *entries: dict[str, Any]) -> Why:
    """The explanation of a program's run on a machine."""
    program = {"metadata": {"version": "1.0", "name": "few"}, "cmdq": list(entries)}
    file = folder / "run.jsonl"
    lines = reference_trace({"schema": "kernbench/npu/1", **machine}, program, level="full")
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return explain(open_trace(file))


def spans(why: Why, op: int) -> list[tuple[int, int, Parts]]:
    """A command's spans as plain tuples."""
    return [(s.start, s.end, [(p.cause, p.resource, p.cycles, p.by) for p in s.parts]) for s in why.story(op).spans]


def whole(start: int, end: int, cause: str, resource: str, *by: int) -> tuple[int, int, Parts]:
    return start, end, [(cause, resource, Fraction(end - start), by)]


def load(address: int, nbytes: int, **more: Any) -> dict[str, Any]:
    entry = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": address, "num_elements": nbytes}
    return {**entry, "spm_bank": 0, "spm_offset": 0, **more}


def copy(length: int, **more: Any) -> dict[str, Any]:
    """A vector job of 8 + ceil(length / 64) + 4 cycles on the default machine."""
    entry = {"opcode": "VE_COPY_TILE", "length": length, "qbits_activation": 8}
    return {**entry, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0, **more}


def test_a_run_by_hand(tmp_path: Path) -> None:
    why = explain(open_trace(write_trace(tmp_path / "hand.jsonl", lawful())))
    assert spans(why, 0) == [whole(0, 4, "head", "dma0"), whole(4, 8, "transfer", "dram.ch0")]
    assert spans(why, 1) == [
        whole(8, 11, "work", "te0"),
        whole(11, 12, "bank", "spm"),
        whole(12, 17, "work", "te0"),
    ]
    assert why.story(1).spans[1].parts[0].bank == 1
    assert [(s.command.id, s.after, s.start, s.end) for s in why.path if s.command is not None] == [
        (0, "start", 0, 8),
        (1, "dependency", 8, 17),
        (2, "dependency", 17, 23),
        (3, "dependency", 23, 29),
        (4, "dependency", 29, 29),
    ]
    assert {(cost.cause, cost.resource): cost.cycles for cost in why.costs} == {
        ("head", "dma0"): 8,
        ("work", "te0"): 8,
        ("transfer", "dram.ch0"): 6,
        ("work", "ve0"): 6,
        ("bank", "spm"): 1,
    }
    assert (
        why.sentence
        == "28% of the run is TE work: te0; 28% head latency: dma0; 21% VE work: ve0; 21% DRAM bandwidth: dram.ch0; 3% all else"
    )


def test_a_share_is_lost_to_the_others_by_weight(tmp_path: Path) -> None:
    channels = {"act_weight": {"weight": 1}, "kv_load": {"weight": 3}}
    kv = {"opcode": "KV_LOAD_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 1 << 16, "qbits_kv": 8}
    kv |= {"kv_range": {"t_start": 0, "t_len": 3}, "spm_bank": 8, "spm_offset": 0}
    why = of_run(tmp_path, {"dma": {"channels": channels}, "spm": {"ports": 9}}, load(0, 384), load(4096, 384), kv)
    # 16 B/cycle by weights 1, 1, 3: the KV tile ends after 384 * 5 / (16 * 3) = 40 cycles, the loads have moved 128 B each
    assert spans(why, 2) == [
        (0, 40, [("transfer", "dram.ch0", Fraction(24), ()), *((("share", "dram.ch0", Fraction(8), (i,))) for i in (0, 1))])
    ]
    assert spans(why, 0)[0] == (
        0,
        40,
        [
            ("transfer", "dram.ch0", Fraction(8), ()),
            ("share", "dram.ch0", Fraction(8), (1,)),
            ("share", "dram.ch0", Fraction(24), (2,)),
        ],
    )
    assert spans(why, 0)[1] == (40, 72, [("transfer", "dram.ch0", Fraction(16), ()), ("share", "dram.ch0", Fraction(16), (1,))])


def test_what_lines_round_is_granularity(tmp_path: Path) -> None:
    dram = {"peak_bw_bytes_per_cycle": 12}  # a line of 16 B takes 4/3 cycles: 64 B take 16/3, so 6
    why = of_run(tmp_path, {"dram": dram}, load(0, 64))
    parts = [("transfer", "dram.ch0", Fraction(16, 3), ()), ("granularity", "spm", Fraction(2, 3), ())]
    assert spans(why, 0) == [(0, 6, parts)]


def test_fifo_gives_the_whole_channel_to_the_oldest(tmp_path: Path) -> None:
    why = of_run(tmp_path, {"allocation": "fifo_v1"}, load(0, 64), load(4096, 64))
    assert spans(why, 1) == [whole(0, 4, "share", "dram.ch0", 0), whole(4, 8, "transfer", "dram.ch0")]
    assert why.sentence == "100% of the run is DRAM bandwidth: dram.ch0"


def test_queues_of_engines_and_the_issue_width(tmp_path: Path) -> None:
    machine = {"control": {"issue_width": 1}, "ve": {"engines": 2, "spm_traffic": False}}
    why = of_run(tmp_path, machine, copy(64), copy(64), copy(64, ve_id=1))
    assert spans(why, 0) == [whole(0, 13, "work", "ve0")]
    assert spans(why, 1) == [
        whole(0, 1, "issue", "control"),
        whole(1, 13, "queue", "ve0", 0),
        whole(13, 26, "work", "ve0"),
    ]
    assert spans(why, 2) == [whole(0, 2, "issue", "control"), whole(2, 15, "work", "ve1")]
    assert [(s.command.id, s.after) for s in why.path if s.command is not None] == [(0, "start"), (1, "engine")]


def test_an_engine_with_a_period(tmp_path: Path) -> None:
    machine = {"ve": {"engines": 1, "period": 5, "spm_traffic": False}, "control": {"issue_width": 1}}
    why = of_run(tmp_path, machine, load(0, 16), copy(64))
    assert spans(why, 1) == [
        whole(0, 1, "issue", "control"),
        whole(1, 5, "period", "ve0"),
        whole(5, 66, "work", "ve0"),
    ]
    assert [span.parts[0].cause for s in why.path for span in s.spans] == ["issue", "period", "work"]


def test_slots_of_a_dma_engine(tmp_path: Path) -> None:
    limits = {"max_concurrent_transfers": 2, "queue_depth_per_master": 1}
    kv = {"opcode": "KV_LOAD_TILE", "head_id": 0, "kv_kind": "k", "dram_base_addr": 1 << 16, "qbits_kv": 8}
    kv |= {"kv_range": {"t_start": 0, "t_len": 1}, "spm_bank": 8, "spm_offset": 0}
    slow = {"dma": {**limits, "kv_load_bonus": 0}, "spm": {"ports": 9}}
    why = of_run(tmp_path, slow, load(0, 64), load(4096, 64), kv)
    # 1 finds its queue full and stops the engine at itself; 2 stands behind it
    assert spans(why, 1)[0] == whole(0, 4, "queue_full", "dma0", 0)
    assert spans(why, 2)[0] == whole(0, 4, "head_of_line", "dma0", 0)
    why = of_run(tmp_path, {"dma": {"max_concurrent_transfers": 1, "kv_load_bonus": 3}}, load(0, 64), load(4096, 64), kv)
    assert spans(why, 0)[0] == whole(0, 8, "priority_deferred", "dma0", 2)
    assert spans(why, 1)[0] == whole(0, 12, "priority_deferred", "dma0", 2)
    assert [(s.command.id, s.after) for s in why.path if s.command is not None] == [(2, "start"), (0, "slot"), (1, "slot")]


def test_the_slot_is_that_of_the_transfer_that_ended(tmp_path: Path) -> None:
    machine = {"dma": {"max_concurrent_transfers": 2}, "spm": {"ports": 9}}
    why = of_run(tmp_path, machine, load(0, 640), load(4096, 64), load(8192, 640))
    assert spans(why, 2)[0] == whole(0, 8, "concurrency", "dma0", 0, 1)
    assert [(s.command.id, s.after, s.start) for s in why.path if s.command is not None] == [(1, "start", 0), (2, "slot", 8)]


def test_who_fills_the_queue_that_stops_the_engine(tmp_path: Path) -> None:
    kv = {"head_id": 0, "kv_kind": "k", "dram_base_addr": 1 << 16, "qbits_kv": 8, "spm_bank": 8, "spm_offset": 0}
    stores = [{"opcode": "KV_STORE_TILE", "t_start": t, "t_len": 1, **kv} for t in (0, 1)]
    read = {"opcode": "KV_LOAD_TILE", "kv_range": {"t_start": 8, "t_len": 1}, **kv}
    channels = {"kv_store": {"priority": 9}, "act_weight": {"priority": 5}}
    machine = {"dma": {"queue_depth_per_master": 1, "channels": channels}, "spm": {"ports": 9}}
    why = of_run(tmp_path, machine, *stores, load(0, 64), read)
    assert spans(why, 1)[0] == whole(0, 8, "queue_full", "dma0", 0)
    for op in (2, 3):
        assert spans(why, op)[0] == whole(0, 8, "head_of_line", "dma0", 0)


def test_of_equal_limits_the_channel_is_named(tmp_path: Path) -> None:
    noc = {"rows": 1, "cols": 2, "link_bytes_per_cycle": 16, "hop_latency_cycles": 0, "dma_at": [[0, 0]], "dram_at": [[0, 1]]}
    why = of_run(tmp_path, {"noc": noc, "spm": {"ports": 9}}, load(0, 64), load(4096, 64))
    parts = [("transfer", "dram.ch0", Fraction(4), ()), ("share", "dram.ch0", Fraction(4), (1,))]
    assert spans(why, 0) == [(0, 8, parts)]
    why = of_run(tmp_path, {"noc": {**noc, "link_bytes_per_cycle": 8}, "spm": {"ports": 9}}, load(0, 64))
    assert spans(why, 0) == [whole(0, 8, "transfer", "noc.r0c1-r0c0")]
    assert why.sentence == "100% of the run is link bandwidth: noc.r0c1-r0c0"


def test_max_min_fills_the_slowest_first() -> None:
    capacity = {"a": Fraction(2), "b": Fraction(10), "c": Fraction(100)}
    both, one, far = (1, ("b", "a")), (1, ("b",)), (3, ("c",))
    assert max_min({both: 2, one: 1, far: 1}, capacity) == {
        both: (Fraction(1), "a"),
        one: (Fraction(8), "b"),
        far: (Fraction(100), "c"),
    }
    long = Fraction(2**31 - 1, 2**31 - 5)
    assert max_min({(1, ("a",)): 3}, {"a": long})[1, ("a",)] == (Fraction(int(long / 3 * 2**31), 2**31), "a")


def test_the_path_goes_through_control(tmp_path: Path) -> None:
    why = of_run(
        tmp_path,
        {"ve": {"spm_traffic": False}},
        copy(64),
        {"opcode": "NOP", "deps_before": [0]},
        {"opcode": "BARRIER", "wait_for": [1]},
        copy(64, ve_id=1),
        {"opcode": "END"},
    )
    assert [(s.command.id, s.after, s.start, s.end) for s in why.path if s.command is not None] == [
        (0, "start", 0, 13),
        (1, "dependency", 13, 13),
        (2, "dependency", 13, 13),
        (3, "barrier", 13, 26),
        (4, "dependency", 26, 26),
    ]
    story = why.story(3)
    assert story.ready == 13 and story.after is not None and story.after.opcode == "BARRIER" and story.critical == 13


def test_a_run_that_was_stopped(tmp_path: Path) -> None:
    why = of_run(tmp_path, {"max_cycles": 10}, load(0, 64), load(4096, 4096, deps_before=[0]), copy(64, deps_before=[1]))
    assert spans(why, 1) == [whole(4, 10, "transfer", "dram.ch0")]
    assert why.story(2).ready is None and spans(why, 2) == []
    assert [(s.command.id, s.start, s.end) for s in why.path if s.command is not None] == [(0, 0, 4), (1, 4, 10)]
    assert story_to_dict(why, why.story(1))["end"] is None


def test_a_run_without_commands_on_their_way(tmp_path: Path) -> None:
    stuck = {"opcode": "BARRIER", "wait_for": [2]}
    why = of_run(tmp_path, {}, load(0, 64), stuck, copy(64))
    assert why.history.status == "deadlock" and why.story(1).ready is None
    assert sum(s.end - s.start for s in why.path) == why.history.cycles


def test_a_file_that_breaks_off(tmp_path: Path) -> None:
    upto = next(i for i, one in enumerate(lawful()) if one.event.name == "STALL_EVENT")
    file = write_trace(tmp_path / "cut.jsonl", lawful()[: upto + 1])
    why = explain(open_trace(file))
    assert why.history.status == "cut off" and why.history.broken
    assert why_to_dict(why)["broken"] == why.history.broken
    assert why.path[-1].end == why.history.cycles == 11


def test_plain_json_holds_the_same_numbers(tmp_path: Path) -> None:
    why = explain(open_trace(write_trace(tmp_path / "hand.jsonl", lawful())))
    plain = why_to_dict(why)
    assert plain["sentence"] == why.sentence and plain["cycles"] == 29
    assert sum(cost["cycles"] for cost in plain["costs"]) == sum(group["cycles"] for group in plain["groups"]) == 29
    assert [step["id"] for step in plain["path"]] == [0, 1, 2, 3, 4]
    assert plain["path"][1]["parts"][1] == {"cause": "bank", "resource": "spm", "cycles": 1, "bank": 1}
    story = story_to_dict(why, why.story(1))
    assert (story["ready"], story["after"], story["issue"], story["start"], story["end"]) == (8, 0, 8, 8, 17)
    assert [total["cycles"] for total in story["totals"]] == [8, 1]
    control = story_to_dict(why, why.story(4))
    assert (control["ready"], control["after"], control["start"], control["spans"]) == (29, 3, 29, [])


IN_META: dict[str, dict[str, Any]] = {
    "it is of level summary, and why needs every flow and every conflict; record it with --trace-level full": {
        "level": "summary"
    },
    "it omits events, but `why` needs all of them; record it without --trace-cycles and --trace-only": {
        "filter": {"cycles": [0, 9]}
    },
    "the machine in its first line cannot be read: machine: te.engines = 0, but it must be at least 1": {
        "sim_config": {"te": {"engines": 0}}
    },
    "a capacity in its first line: it must be a decimal number": {"units": [{"unit": "dram.ch0", "capacity": "many"}]},
    "dram.ch0 has no capacity; kbsim trace validate says what is wrong with it": {
        "units": [{"unit": "dram.ch0", "capacity": 0}]
    },
}


@pytest.mark.parametrize("message", IN_META)
def test_what_cannot_be_explained_is_refused(tmp_path: Path, message: str) -> None:
    file = write_trace(tmp_path / "t.jsonl", [meta(**IN_META[message]), *lawful()[1:]])
    with pytest.raises(InputError) as error:
        explain(open_trace(file))
    assert str(error.value) == f"{file}: {message}"


def without(name: str) -> list[Record]:
    """The run by hand, events of a type left out."""
    return [one for one in lawful() if one.event.name != name]


def enqueue(cmd_id: int, opcode: str, unit: str, deps: list[int]) -> Record:
    return record("CMD_ENQUEUE", 0, cmd_id=cmd_id, cmd_type=opcode, unit=unit, deps=deps)


def nops(*deps: list[int]) -> list[Record]:
    """NOPs that all end in cycle 5, of a run that ends then."""
    queue = [enqueue(i, "NOP", "control", d) for i, d in enumerate(deps)]
    ends = [record("CMD_END", 5, cmd_id=i, unit="control", status="OK") for i in range(len(deps))]
    return [meta(), *queue, *ends, record("TRACE_END", 5, status="done", cycles=5, events=4, counters={})]


OF_NO_RUN = {
    "command 0 ends, and its job does not": without("JOB_DONE"),
    "job 1 is not issued, started and ended in this order inside the run": without("TE_START"),
    "the flow of job 0 on channel 0 is not inside its transfer": without("DRAM_TX_END"),
    "command 3 ends without a job": without("JOB_ISSUE"),
    "command 1 is in flight before it is ready": [
        one if one.event.name != "CMD_ENQUEUE" or one.cmd_id != 1 else enqueue(1, "TE_GEMM_TILE", "te0", [2])
        for one in lawful()
    ],
    "the dependencies of command 0 form a cycle": nops([1], [0]),
}


@pytest.mark.parametrize("message", OF_NO_RUN)
def test_traces_of_no_run_are_refused(tmp_path: Path, message: str) -> None:
    file = write_trace(tmp_path / "t.jsonl", OF_NO_RUN[message])
    with pytest.raises(InputError) as error:
        explain(open_trace(file))
    assert str(error.value) == f"{file}: {message}; kbsim trace validate says what is wrong with it"


def test_a_trace_of_level_access_says_the_same(tmp_path: Path) -> None:
    full = explain(open_trace(write_trace(tmp_path / "a.jsonl", lawful())))
    access = explain(open_trace(write_trace(tmp_path / "b.jsonl", [meta(level="access"), *lawful()[1:]])))
    assert why_to_dict(full) == why_to_dict(access)


def test_an_unknown_command(tmp_path: Path) -> None:
    why = explain(open_trace(write_trace(tmp_path / "hand.jsonl", lawful())))
    with pytest.raises(InputError, match="op = 99, but the trace has no command with this id"):
        why.story(99)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], ""),
        (["dram.ch1", "dram.ch0", "dram.ch2"], "dram.ch0..2"),
        (["te2", "te0", "ve7"], "te0, te2, ve7"),
        (["noc.r0c0-r0c1", "noc.r0c1-r0c2"], "noc.r0c0-r0c1, noc.r0c1-r0c2"),
        (["noc.r0c0-r0c1", "noc.r0c1-r0c2", "noc.r1c0-r0c0"], "3 links, most noc.r0c0-r0c1"),
        (["a1", "a3", "a5", "a7", "a9"], "5 resources, most a1"),
    ],
)
def test_names_in_few_words(given: list[str], text: str) -> None:
    assert names(given) == text
