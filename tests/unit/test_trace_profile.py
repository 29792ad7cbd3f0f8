"""A recorded profile with another naming beside a run: rules, proposals that need approval, and errors by class."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.trace.compare.profile import (
    Alignment,
    Rule,
    align_profile,
    operations,
    profile_to_dict,
    read_profile,
    read_rules,
    rules_text,
)
from kernbench.trace.reader import Trace, open_trace
from tests.trace_samples import meta, record, write_trace

#: As a vendor's profiler writes them: a row an operation, in microseconds, with more columns than are read.
RECORDED = """\
op_id,op_name,name,type,start_us,duration_us
1,MatMulV2,blk.0/attn_qkv/MatMul,AI_CORE,0,2.0
2,BatchMatMul,blk.0/attn_qk_scores/BatchMatMul,AI_CORE,2,0.4
3,Softmax,blk.0/softmax,AI_VECTOR_CORE,3,0.5
4,MatMulV2,blk.1/attn_qkv/MatMul,AI_CORE,4,1.0
5,MatMulV2,blk.1/attn_qkv/MatMul,AI_CORE,5,1.0
6,MemcpyAsync,h2d_copy,SDMA,6,3
"""
PHASES = [(0, "QKV_PROJ", "TE", 1000), (0, "ATTENTION_SCORE", "TE", 500), (0, "ATTENTION_SOFTMAX", "VE", 500)]
PHASES += [(1, "QKV_PROJ", "TE", 1000)]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Four operations, one after the other, at 1 GHz."""
    records, now = [], 0
    for number, (layer, phase, kind, _) in enumerate(PHASES):
        opcode = "TE_GEMM_TILE" if kind == "TE" else "VE_SOFTMAX_TILE"
        unit = f"{kind.lower()}0"
        records.append(record("CMD_ENQUEUE", 0, cmd_id=number, cmd_type=opcode, unit=unit, layer_id=layer, phase=phase))
    for number, (_, _, kind, cycles) in enumerate(PHASES):
        at = {"job_id": number, "cmd_id": number, "unit": f"{kind.lower()}0"}
        records.append(record("CMD_START", now, cmd_id=number, unit=at["unit"]))
        if kind == "TE":
            shape = dict.fromkeys(("m", "n", "k", "tile_m", "tile_n", "tile_k"), 1)
            records.append(record("TE_START", now, **at, **shape, body_cycles=cycles, total_cycles=cycles))
            records.append(record("TE_END", now + cycles, **at, mac_count=1, latency_cycles=cycles, stall_cycles=0))
        else:
            about = {"op_type": "SOFTMAX", "len": 1, "batch": 1, "body_cycles": cycles, "total_cycles": cycles}
            records.append(record("VE_START", now, **at, **about))
            records.append(record("VE_END", now + cycles, **at, op_count=1, latency_cycles=cycles, stall_cycles=0))
        now += cycles
        records.append(record("CMD_END", now, cmd_id=number, unit=at["unit"], status="OK"))
    end = record("TRACE_END", now, status="done", cycles=now, events=len(records), counters={})
    return open_trace(write_trace(tmp_path / "t.jsonl", [meta(freq_ghz="1"), *records, end]))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    (tmp_path / "board.csv").write_text(RECORDED)
    return tmp_path / "board.csv"


QKV = Rule("blk.{n}/attn_qkv/*", "{n} QKV_PROJ", "")


def aligned(trace: Trace, profile: Path, rules: list[Rule], *approved: str) -> tuple[Alignment, list[Rule]]:
    return align_profile(trace, str(profile), read_profile(profile), rules, approved)


def test_operations_are_layers_and_phases(trace: Trace) -> None:
    found = operations(trace)
    assert {name: (one.cycles, one.kind) for name, one in found.items()} == {
        "0 QKV_PROJ": (1000, "product"), "0 ATTENTION_SCORE": (500, "product"),
        "0 ATTENTION_SOFTMAX": (500, "vector"), "1 QKV_PROJ": (1000, "product"),
    }  # fmt: skip


def test_a_rule_matches_and_its_numbers_choose_the_layer(trace: Trace, profile: Path) -> None:
    found, _ = aligned(trace, profile, [QKV])
    assert {pair.operation.name: (pair.measured_us, pair.error) for pair in found.pairs} == {
        "0 QKV_PROJ": (2, F(-1, 2)), "1 QKV_PROJ": (2, F(-1, 2))}  # fmt: skip  # two rows of one name are added
    (one,) = found.classes()
    assert (one.kind, one.pairs, one.measured_us, one.simulated_us, one.error) == ("product", 2, 4, 2, F(-1, 2))


def test_proposals_count_only_when_approved(trace: Trace, profile: Path) -> None:
    found, added = aligned(trace, profile, [QKV])
    proposed = {one.name: one.operation for one in found.proposals}
    assert proposed == {
        "blk.0/attn_qk_scores/BatchMatMul": "0 ATTENTION_SCORE", "blk.0/softmax": "0 ATTENTION_SOFTMAX"}  # fmt: skip
    assert added == [] and len(found.unknown) == 3 and len(found.missing) == 2
    found, added = aligned(trace, profile, [QKV], "blk.0/softmax")
    assert added == [Rule("blk.0/softmax", "0 ATTENTION_SOFTMAX", "", exact=True)]
    by_class = {one.kind: one.error for one in found.classes()}
    assert by_class == {"product": F(-1, 2), "vector": 0} and [one.name for one in found.missing] == ["0 ATTENTION_SCORE"]


def test_errors_of_a_class_are_of_the_sums_and_of_each_operation(trace: Trace, profile: Path) -> None:
    found, _ = aligned(trace, profile, [QKV], "*")
    product = next(one for one in found.classes() if one.kind == "product")
    assert product.error == F(1000 + 500 + 1000, 4400) - 1
    assert product.mean == (F(1, 2) + F(1, 2) + F(1, 4)) / 3
    assert [row.name for row in found.unknown] == ["h2d_copy"] and not found.proposals and not found.missing
    made = profile_to_dict(found)
    assert made["unknown"] == ["h2d_copy"] and len(made["operations"]) == 4


def test_saved_rules_give_the_same_without_approval(trace: Trace, profile: Path, tmp_path: Path) -> None:
    found, added = aligned(trace, profile, [QKV], "*")
    (tmp_path / "rules.yaml").write_text(rules_text([QKV, *added]))
    again, more = aligned(trace, profile, read_rules(tmp_path / "rules.yaml"))
    assert profile_to_dict(again) == profile_to_dict(found) and more == []


def test_a_rule_may_name_the_class_and_exact_names_have_no_patterns(trace: Trace, profile: Path) -> None:
    rules = [Rule("blk.{n}/attn_qkv/*", "{n} QKV_PROJ", "attention"), Rule("*", "0 ATTENTION_SCORE", "", exact=True)]
    found, _ = aligned(trace, profile, rules)
    assert [one.kind for one in found.classes()] == ["attention"]


@pytest.mark.parametrize(("text", "message"), [
    ("rules: [{match: a}]", r"rules\[0\].*it must be \{match: PATTERN, means: OPERATION\}"),
    ("rules: [{match: 'a*b*c*d*', means: x}]", r"at most 1000 characters and 3 stars"),
    ("rules: [{match: 'a{n}', means: '{m} x'}]", r"it names a number \{m\} that the pattern does not have"),
    ("other: 1", r"it must be \{rules"),
])  # fmt: skip
def test_wrong_rules_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_rules(tmp_path / "rules.yaml")


def test_what_does_not_fit_is_refused(trace: Trace, profile: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"means = .0 QKV_PRJ.*did you mean 0 QKV_PROJ"):
        aligned(trace, profile, [Rule("blk.0/attn_qkv/MatMul", "0 QKV_PRJ", "", exact=True)])
    with pytest.raises(InputError, match=r"there is no proposal for this name"):
        aligned(trace, profile, [], "blk.0/sofmax")
    (tmp_path / "bad.csv").write_text("name,duration_us\na,-1\nb,x\nc\n")
    with pytest.raises(InputError, match=r"bad.csv:2: duration_us = .-1") as caught:
        read_profile(tmp_path / "bad.csv")
    assert len(caught.value.problems) == 3
    (tmp_path / "bad.csv").write_text("name,duration\na,1\n")
    with pytest.raises(InputError, match=r"there is no column duration_us.*did you mean duration"):
        read_profile(tmp_path / "bad.csv")
