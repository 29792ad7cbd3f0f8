"""Layers compute the right thing in any order their dependencies allow: waits, data flow, and runs that check overlaps."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from kernbench import simulate
from kernbench.bounds import summarise
from kernbench.cmdq import Program, check_program, load_program
from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry
from kernbench.cmdq.footprint import transfer_of
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.kv import kv_tiles
from kernbench.workloads.layer.layer import Layer
from kernbench.workloads.planner import plan_layer
from tests.oracles import reference
from tests.workload_programs import (
    TINY_CASES,
    Case,
    accesses_of,
    dram_accesses,
    llama,
    machine,
    scratchpad_accesses,
    tiny_machine,
    unordered,
)

each = pytest.mark.parametrize("name", TINY_CASES)
@each
def test_whatever_touches_the_same_bytes_is_ordered(name: str) -> None:
    case = TINY_CASES[name]
    program, config = case.program(), case.config
    assert unordered(program, accesses_of(program, config, scratchpad_accesses)) == []
    assert unordered(program, accesses_of(program, config, dram_accesses)) == []


def test_whatever_touches_the_same_bytes_is_ordered_in_the_shipped_program() -> None:
    program, config = llama("npu_mobile", "decode"), machine("npu_mobile")
    assert unordered(program, accesses_of(program, config, scratchpad_accesses)) == []


def test_a_missing_dependency_would_be_seen() -> None:
    case = TINY_CASES["prefill_spilled"]
    raw, config = case.program().to_dict(), case.config
    victim = next(e for e in raw["cmdq"] if e["opcode"] == "TE_AV_TILE")
    del victim["deps_before"]
    program = load_program(raw)
    assert unordered(program, accesses_of(program, config, scratchpad_accesses))


#: What may have written each operand: (opcode, phase) by (opcode, phase, operand).
SOURCES: dict[tuple[str, str, int], set[tuple[str, str]]] = {
    ("VE_RMSNORM_TILE", "NORM", 0): {("DMA_LOAD_TILE", "NORM"), ("DMA_LOAD_TILE", "LAYER_INPUT"), ("VE_ADD_TILE", "RESIDUAL")},
    ("TE_GEMM_TILE", "QKV_PROJ", 0): {("VE_RMSNORM_TILE", "NORM")},
    ("TE_GEMM_TILE", "QKV_PROJ", 1): {("DMA_LOAD_TILE", "QKV_PROJ")},
    ("VE_ADD_TILE", "ROPE", 0): {("VE_MUL_TILE", "ROPE")},
    ("VE_ADD_TILE", "ROPE", 1): {("VE_MUL_TILE", "ROPE")},
    ("VE_MUL_TILE", "ROPE", 0): {("TE_GEMM_TILE", "QKV_PROJ")},
    ("VE_MUL_TILE", "ROPE", 1): {("DMA_LOAD_TILE", "ROPE")},
    ("VE_COPY_TILE", "KV_STORE", 0): {("VE_ADD_TILE", "ROPE"), ("TE_GEMM_TILE", "QKV_PROJ")},  # K, V
    ("KV_STORE_TILE", "KV_STORE", 0): {("VE_COPY_TILE", "KV_STORE")},
    ("TE_QKT_TILE", "ATTENTION_SCORE", 0): {("VE_ADD_TILE", "ROPE")},
    ("TE_QKT_TILE", "ATTENTION_SCORE", 1): {("KV_LOAD_TILE", "ATTENTION_SCORE"), ("VE_COPY_TILE", "KV_STORE")},
    ("VE_SOFTMAX_TILE", "ATTENTION_SOFTMAX", 0): {("TE_QKT_TILE", "ATTENTION_SCORE")},
    ("TE_AV_TILE", "ATTENTION_APPLY", 0): {("VE_SOFTMAX_TILE", "ATTENTION_SOFTMAX")},
    ("TE_AV_TILE", "ATTENTION_APPLY", 1): {("KV_LOAD_TILE", "ATTENTION_APPLY"), ("VE_COPY_TILE", "KV_STORE")},
    ("VE_ADD_TILE", "ATTENTION_APPLY", 0): {("TE_AV_TILE", "ATTENTION_APPLY"), ("VE_ADD_TILE", "ATTENTION_APPLY")},
    ("VE_ADD_TILE", "ATTENTION_APPLY", 1): {("TE_AV_TILE", "ATTENTION_APPLY")},
    ("DMA_STORE_TILE", "ATTENTION_APPLY", 0): {("TE_AV_TILE", "ATTENTION_APPLY"), ("VE_ADD_TILE", "ATTENTION_APPLY")},
    ("TE_GEMM_TILE", "OUT_PROJ", 0): {
        ("TE_AV_TILE", "ATTENTION_APPLY"),
        ("VE_ADD_TILE", "ATTENTION_APPLY"),
        ("DMA_LOAD_TILE", "OUT_PROJ"),
    },
    ("TE_GEMM_TILE", "OUT_PROJ", 1): {("DMA_LOAD_TILE", "OUT_PROJ")},
    ("VE_ADD_TILE", "RESIDUAL", 0): {
        ("DMA_LOAD_TILE", "LAYER_INPUT"),
        ("DMA_LOAD_TILE", "RESIDUAL"),
        ("VE_ADD_TILE", "RESIDUAL"),
    },
    ("VE_ADD_TILE", "RESIDUAL", 1): {("TE_GEMM_TILE", "OUT_PROJ"), ("TE_GEMM_TILE", "MLP_DOWN")},
    ("DMA_STORE_TILE", "RESIDUAL", 0): {("VE_ADD_TILE", "RESIDUAL")},
    ("TE_GEMM_TILE", "MLP_GATE_UP", 0): {("VE_RMSNORM_TILE", "NORM")},
    ("TE_GEMM_TILE", "MLP_GATE_UP", 1): {("DMA_LOAD_TILE", "MLP_GATE_UP")},
    ("VE_SILU_TILE", "MLP_ACTIVATION", 0): {("TE_GEMM_TILE", "MLP_GATE_UP")},
    ("VE_MUL_TILE", "MLP_ACTIVATION", 0): {("VE_SILU_TILE", "MLP_ACTIVATION")},
    ("VE_MUL_TILE", "MLP_ACTIVATION", 1): {("TE_GEMM_TILE", "MLP_GATE_UP")},
    ("DMA_STORE_TILE", "MLP_ACTIVATION", 0): {("VE_MUL_TILE", "MLP_ACTIVATION")},
    ("TE_GEMM_TILE", "MLP_DOWN", 0): {("VE_MUL_TILE", "MLP_ACTIVATION"), ("DMA_LOAD_TILE", "MLP_DOWN")},
    ("TE_GEMM_TILE", "MLP_DOWN", 1): {("DMA_LOAD_TILE", "MLP_DOWN")},
}
#: Operands that belong to one head: theirs and their writers' heads agree, KV heads shared by a group apart.
OF_A_HEAD = {"VE_COPY_TILE", "KV_STORE_TILE", "VE_SOFTMAX_TILE", "TE_AV_TILE", "TE_QKT_TILE"}


def head_of(entry: Entry) -> int | None:
    return entry.head_id if isinstance(entry, KvEntry) else entry.meta.get("head_id")


def check_operand(case: Case, entry: Entry, operand: int, writers: list[Entry]) -> None:
    kinds = {(writer.opcode, writer.meta["phase"]) for writer in writers}
    allowed = SOURCES[entry.opcode, entry.meta["phase"], operand]
    assert kinds <= allowed, (entry.where, operand, kinds)
    if entry.opcode == "TE_GEMM_TILE" and operand == 1:
        assert len(writers) == 1 and writers[0].meta["tile_id"] == entry.meta["tile_id"], entry.where
        assert writers[0].meta.get("head_id") == entry.meta.get("head_id")
    elif entry.meta["phase"] == "ROPE" and operand == 1 and entry.opcode == "VE_MUL_TILE":
        assert {writer.meta["block_id"] for writer in writers} == {entry.meta["block_id"]}
    elif entry.opcode in OF_A_HEAD or entry.meta["phase"] == "ROPE":
        shared = entry.opcode in ("TE_AV_TILE", "TE_QKT_TILE") and operand == 1
        head = head_of(entry)
        assert head is not None
        wanted = head // case.model.group if shared else head
        assert {head_of(writer) for writer in writers} == {wanted}, entry.where
        assert len({(w.opcode, w.meta.get("tile_id")) for w in writers if w.opcode == "KV_LOAD_TILE"}) <= 1


def writers_of(last: npt.NDArray[np.int32], program: Program, start: int, end: int) -> list[Entry]:
    found = np.unique(last[start:end])
    assert found[0] >= 0, "bytes that nothing has written"
    return [program.entries[i] for i in found]


#: The matrix, table or cache that an operand comes from, by (opcode, phase, operand).
ORIGINS: dict[tuple[str, str, int], set[str]] = {
    ("VE_ADD_TILE", "ROPE", 0): {"cos"},
    ("VE_ADD_TILE", "ROPE", 1): {"sin"},
    ("TE_QKT_TILE", "ATTENTION_SCORE", 0): {"wq"},
    ("TE_QKT_TILE", "ATTENTION_SCORE", 1): {"k_cache", "wk"},
    ("TE_AV_TILE", "ATTENTION_APPLY", 1): {"v_cache", "wv"},
    ("VE_SILU_TILE", "MLP_ACTIVATION", 0): {"w_gate"},
    ("VE_MUL_TILE", "MLP_ACTIVATION", 1): {"w_up"},
    ("TE_GEMM_TILE", "OUT_PROJ", 1): {"wo"},
    ("TE_GEMM_TILE", "MLP_DOWN", 1): {"w_down"},
}


class Origins:
    """Which matrix, table or cache each job's result comes from: a matrix product's from its weights."""

    def __init__(self, case: Case) -> None:
        plan = plan_layer(case.model, case.config, case.tokens, case.context)
        self.regions = Layer(case.model, case.config, plan, Emitter("", case.config, {})).dram.regions
        self.config = case.config
        self.of: dict[int, str] = {}
        self.table: dict[int, str] = {}  # of the products of RoPE: cos or sin

    def check(self, entry: Entry, sources: dict[int, list[Entry]]) -> None:
        """`sources`: the writers of each operand."""
        if entry.engine == "dma":
            if isinstance(entry, KvEntry) and entry.opcode == "KV_STORE_TILE":
                assert {self.of[w.index] for w in sources[0]} == {f"w{entry.kv_kind}"}, entry.where
            start = transfer_of(entry, self.config).dram_start
            self.of[entry.index] = next(r.name for r in self.regions if r.base <= start < r.end)
            return
        rope = entry.meta["phase"] == "ROPE"
        for operand, writers in sources.items():
            found = {self.of[w.index] for w in writers}
            if rope and entry.opcode == "VE_ADD_TILE":
                assert found in ({"wq"}, {"wk"})
                found = {self.table[w.index] for w in writers}
            wanted = ORIGINS.get((entry.opcode, entry.meta["phase"], operand))
            assert wanted is None or found <= wanted, (entry.where, operand, found)
        if rope and entry.opcode == "VE_MUL_TILE":
            self.table[entry.index] = self.of[sources[1][0].index].removeprefix("rope_")
        self.of[entry.index] = self.of[sources[1 if entry.engine == "te" else 0][0].index]


@each
def test_every_operand_is_what_the_layer_needs(name: str) -> None:
    """In file order: every byte that a job reads was last written by the job that makes that operand."""
    case = TINY_CASES[name]
    program, config = case.program(), case.config
    last = np.full(config.spm.size_bytes, -1, dtype=np.int32)
    seen, origins = set(), Origins(case)
    exact = config.dma.alignment_bytes == 64  # wider transfers also read what lies around the tile
    for entry in program.entries:
        accesses = scratchpad_accesses(entry, config)
        sources = {}
        for operand, (start, end, written) in enumerate(accesses):
            if not written and (exact or not isinstance(entry, DmaEntry | KvEntry)):
                sources[operand] = writers_of(last, program, start, end)
                if exact:
                    check_operand(case, entry, operand, sources[operand])
                seen.add((entry.opcode, entry.meta["phase"], operand))
        if exact and entry.engine != "control":
            origins.check(entry, sources)
        for start, end, written in accesses:
            if written:
                last[start:end] = entry.index
    if exact:
        assert {key for key in SOURCES if key[0] != "DMA_STORE_TILE" and key[:2] != ("VE_ADD_TILE", "ATTENTION_APPLY")} <= seen


@each
def test_norms_wait_for_their_gains(name: str) -> None:
    """The gains are no operand of a norm, so only a dependency says that they have come."""
    program = TINY_CASES[name].program()
    gains = [
        e.id for e in program.entries if isinstance(e, DmaEntry) and e.tensor_role == "weight" and e.meta["phase"] == "NORM"
    ]
    norms = [e for e in program.entries if e.opcode == "VE_RMSNORM_TILE"]
    second = next(e.index for e in program.entries if e.meta.get("phase") == "OUT_PROJ")
    assert len(gains) == 2 and norms[0].index < second < norms[-1].index
    for norm in norms:
        assert gains[norm.index > second] in norm.deps_before


@pytest.mark.parametrize("name", [name for name in TINY_CASES if name != "wide_alignment"])
def test_dram_bytes_are_stored_once_and_before_they_are_loaded(name: str) -> None:
    case = TINY_CASES[name]
    program, config = case.program(), case.config
    accesses = accesses_of(program, config, dram_accesses)
    stores = sorted((start, end, job) for job, start, end, written in accesses if written)
    assert all(end <= start for (_, end, _), (start, _, _) in itertools.pairwise(stores))
    back = 0
    for job, start, end, written in accesses:
        if not written:
            hits = [(min(end, e) - max(start, s), other) for s, e, other in stores if s < end and start < e]
            assert all(other < job for _, other in hits)
            own = sum(nbytes for nbytes, _ in hits)  # a load is of what the layer stored, or not; only KV tiles mix
            assert own in (0, end - start) or program.entries[job].opcode == "KV_LOAD_TILE"
            back += own
    plan = plan_layer(case.model, config, case.tokens, case.context)
    width = {"residual": 2 * case.model.hidden, "attention": case.model.attention_width, "ffn": case.model.ffn}
    spilled = sum(case.tokens * cols for tensor, cols in width.items() if tensor not in plan.resident)
    earlier = sum(t_start for t_start, _ in plan.blocks(0)) * 2 * case.model.kv_heads * case.model.kv_token_bytes
    assert back == spilled + earlier


@each
def test_bytes_and_macs_of_any_plan(name: str) -> None:
    case = TINY_CASES[name]
    program, config, model = case.program(), case.config, case.model
    check_program(program, config)
    assert load_program(program.to_dict()) == program
    plan = plan_layer(model, config, case.tokens, case.context)
    summary = summarise(program, config)
    assert summary.asked_bytes == plan.dram_bytes
    weights = {m.name: m.rows * m.cols for m in model.matrices}
    rows = sum(t_len * (case.context + t_start + t_len) for t_start, t_len in plan.blocks(0))
    assert sum(summary.macs.values()) == case.tokens * sum(weights.values()) + 2 * model.heads * model.head_dim * rows


def test_the_cases_cover_what_they_are_for() -> None:
    plans = {name: plan_layer(c.model, c.config, c.tokens, c.context) for name, c in TINY_CASES.items()}
    assert plans["decode"].resident == plans["prefill"].resident == {"residual", "attention", "ffn"}
    assert not plans["prefill_spilled"].resident and plans["chunk_grouped"].resident == {"ffn"}
    assert len(set(plans["prefill_spilled"].block_tokens)) > 1 and 20 % plans["chunk_grouped"].granule
    assert len(kv_tiles(200, 1, plans["decode_small"].kv_tile_tokens)) > 1
    assert len(plans["chunk_grouped"].blocks(0)) > 1


@each
def test_no_jobs_in_flight_overlap(name: str) -> None:
    """Under `check_overlap: error` the run ends."""
    case = TINY_CASES[name]
    assert case.config.spm.check_overlap == "error"
    assert simulate(case.program(), case.config).status == "done"


@pytest.mark.parametrize("name", ["decode", "prefill", "wide_alignment"])
def test_the_reference_agrees(name: str) -> None:
    case = TINY_CASES[name]
    program = case.program()
    want = reference.simulate(case.machine, program.to_dict())
    got = simulate(program, case.config).to_dict()
    assert want["status"] == "done"
    assert {key: got[key] for key in want} == want


@pytest.mark.parametrize("engines", [1, 4])
def test_any_number_of_engines(engines: int) -> None:
    machine_dict = tiny_machine(128, dma={"engines": engines}, te={"engines": engines}, ve={"engines": engines})
    case = Case(TINY_CASES["decode"].model, machine_dict, 70, 5)
    result = simulate(case.program(), case.config)
    assert result.status == "done"


def test_a_slot_without_its_waits_fails() -> None:
    """The overlap check sees a tile that is loaded before the last reader of its place is done."""
    case = TINY_CASES["decode_small"]
    raw = case.program().to_dict()
    for entry in raw["cmdq"]:
        if entry["opcode"] == "DMA_LOAD_TILE" and entry["tensor_role"] == "weight":
            entry.pop("deps_before", None)
    assert simulate(load_program(raw), case.config).status == "failed"
