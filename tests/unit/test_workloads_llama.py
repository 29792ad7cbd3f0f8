"""The shipped layers of Llama-2-7B: bytes, MACs and ops from the model's shape alone, places, metadata, catalogue."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import pytest

from kernbench.bounds import summarise
from kernbench.cmdq import Program, check_program, load_program
from kernbench.cmdq.entries import KvEntry
from kernbench.cmdq.footprint import service_cycles, transfer_of, work_of
from kernbench.config import NpuConfig, load_config
from kernbench.workloads import LLAMA_2_7B, decoder_layer
from kernbench.workloads.catalogue import WORKLOADS
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.layer import Layer
from kernbench.workloads.planner import plan_layer
from tests.workload_programs import KIB, MACHINES, PRESETS, Phase, llama, machine, moves

PHASES: tuple[Phase, ...] = ("decode", "prefill")
HIDDEN, HEADS, HEAD_DIM, FFN = 4096, 32, 128, 11008
WEIGHTS = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN
CONTEXT = {"decode": 1024, "prefill": 0}
TOKENS = {"decode": 1, "prefill": 128}
#: `one_mib` has no room for the input of the down projection of all 128 tokens: two blocks, so its weights twice.
EXTRA_WEIGHTS = {("one_mib", "prefill"): HIDDEN * FFN}
#: What is spilled: x in to add, x1 out, in to norm, in to add; attention and ffn out and in.
SPILLED = {("one_mib", "prefill"): 128 * (4 * HIDDEN + 2 * HIDDEN + 2 * FFN), ("odd", "prefill"): 128 * 4 * HIDDEN}

each = pytest.mark.parametrize(("name", "phase"), [(name, phase) for name in MACHINES for phase in PHASES])


def bytes_of_moves(program: Program, config: NpuConfig, opcode: str, **fields: Any) -> int:
    """Bytes of those transfers."""
    return sum(nbytes for _, nbytes in moves(program, config, opcode, **fields))


@each
def test_every_weight_byte_is_loaded_once_a_block(name: str, phase: Phase) -> None:
    program, config = llama(name, phase), machine(name)
    weights = (WEIGHTS + EXTRA_WEIGHTS.get((name, phase), 0)) // 2
    assert bytes_of_moves(program, config, "DMA_LOAD_TILE", tensor_role="weight", qbits=4) == weights
    tiles = [transfer_of(entry, config) for entry, _ in moves(program, config, "DMA_LOAD_TILE", tensor_role="weight", qbits=4)]
    spans = sorted({(tile.dram_start, tile.dram_end) for tile in tiles})
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert sum(tile.bytes_total for tile in {tile.dram_start: tile for tile in tiles}.values()) == WEIGHTS // 2
    assert all(32 * KIB <= tile.bytes_total <= 256 * KIB for tile in tiles)
    assert len(tiles) == len(spans) or (name, phase) in EXTRA_WEIGHTS


@each
def test_kv_bytes(name: str, phase: Phase) -> None:
    program, config = llama(name, phase), machine(name)
    loaded = 2 * HEADS * CONTEXT[phase] * HEAD_DIM * 4 // 8
    assert bytes_of_moves(program, config, "KV_LOAD_TILE", qbits_kv=4) == loaded
    stored = 2 * HEADS * TOKENS[phase] * HEAD_DIM * 4 // 8
    assert bytes_of_moves(program, config, "KV_STORE_TILE", qbits_kv=4) == stored


@each
def test_kv_tokens_go_once_and_in_order(name: str, phase: Phase) -> None:
    ranges: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for entry in llama(name, phase).entries:
        if isinstance(entry, KvEntry):
            ranges[entry.opcode, entry.kv_kind, entry.head_id].append((entry.t_start, entry.t_start + entry.t_len))
    first, last = CONTEXT[phase], CONTEXT[phase] + TOKENS[phase]
    for kind in "kv":
        for head in range(HEADS):
            assert ranges["KV_STORE_TILE", kind, head] == [(first, last)]
            loads = ranges["KV_LOAD_TILE", kind, head]
            assert [t for start, end in loads for t in range(start, end)] == list(range(first))
    assert len({key for key in ranges if key[0] == "KV_STORE_TILE"}) == 2 * HEADS


@each
def test_the_other_bytes(name: str, phase: Phase) -> None:
    program, config, tokens = llama(name, phase), machine(name), TOKENS[phase]
    assert bytes_of_moves(program, config, "DMA_LOAD_TILE", tensor_role="weight", qbits=8) == 2 * HIDDEN  # norm gains
    assert bytes_of_moves(program, config, "DMA_LOAD_TILE", tensor_role="embedding") == 2 * tokens * HEAD_DIM  # cos, sin
    activations = sum(bytes_of_moves(program, config, f"DMA_{way}_TILE", tensor_role="activation") for way in ("LOAD", "STORE"))
    assert activations == 2 * tokens * HIDDEN + SPILLED.get((name, phase), 0)


@each
def test_the_plan_knows_the_traffic(name: str, phase: Phase) -> None:
    config = machine(name)
    plan = plan_layer(LLAMA_2_7B, config, TOKENS[phase], CONTEXT[phase])
    summary = summarise(llama(name, phase), config)
    assert summary.asked_bytes == plan.dram_bytes
    if name != "odd":  # its alignment widens some transfers
        assert summary.moved_bytes == plan.dram_bytes


@each
def test_a_layer_has_the_macs_of_its_products(name: str, phase: Phase) -> None:
    macs: Counter[str] = Counter()
    for entry in llama(name, phase).entries:
        if entry.engine == "te":
            macs[entry.op] += work_of(entry)
    tokens, row = TOKENS[phase], CONTEXT[phase] + TOKENS[phase]
    square = HEADS * tokens * row * HEAD_DIM  # all positions of a row, masked ones included
    assert macs == {"gemm": tokens * WEIGHTS, "qkt": square, "av": square}


@each
def test_vector_ops(name: str, phase: Phase) -> None:
    ops: Counter[str] = Counter()
    for entry in llama(name, phase).entries:
        if entry.engine == "ve":
            ops[entry.op] += work_of(entry)
    tokens, row = TOKENS[phase], CONTEXT[phase] + TOKENS[phase]
    rope = 2 * tokens * HIDDEN  # elements of Q and K
    assert ops == {
        "rmsnorm": 2 * tokens * HIDDEN,
        "softmax": HEADS * tokens * row,
        "silu": tokens * FFN,
        "mul": tokens * FFN + 2 * rope,
        "add": 2 * tokens * HIDDEN + rope,
        "copy": 2 * tokens * HIDDEN,  # K and V are quantised
    }


@each
def test_work_is_spread_evenly(name: str, phase: Phase) -> None:
    config, load, largest = machine(name), Counter[tuple[str, int]](), Counter[str]()
    for entry in llama(name, phase).entries:
        if entry.engine == "control":
            continue
        work = transfer_of(entry, config).bytes_aligned if entry.engine == "dma" else service_cycles(entry, config).total
        load[entry.engine, entry.engine_id] += work
        largest[entry.engine] = max(largest[entry.engine], work)
    for kind in ("dma", "te", "ve"):
        loads = [load[kind, i] for i in range(getattr(config, kind).engines)]
        assert max(loads) - min(loads) <= largest[kind]


@each
def test_the_program_is_valid_and_reads_back(name: str, phase: Phase) -> None:
    program = llama(name, phase)
    check_program(program, machine(name))
    assert load_program(program.to_dict()) == program
    assert [entry.id for entry in program.entries] == list(range(len(program)))
    assert all(other < entry.id for entry in program.entries for other in entry.deps_before)  # and so no circle


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("phase", "most"), [("decode", 1500), ("prefill", 2000)])
def test_the_number_of_entries(name: str, phase: Phase, most: int) -> None:
    assert len(llama(name, phase)) <= most


@pytest.mark.parametrize("phase", PHASES)
def test_the_same_program_every_time(phase: Phase) -> None:
    again = decoder_layer(LLAMA_2_7B, load_config("npu_mobile"), phase)
    assert again.to_dict() == llama("npu_mobile", phase).to_dict()


@each
def test_entries_say_layer_model_precision_and_phase(name: str, phase: Phase) -> None:
    phases = set()
    for entry in llama(name, phase).entries:
        assert entry.meta["layer_id"] == 0
        assert entry.meta["model_name"] == "llama2_7b"
        assert entry.meta["precision"] == "W4A8KV4"
        assert entry.meta["seq_len"] == CONTEXT[phase] + TOKENS[phase]
        if entry.opcode == "END":
            continue
        phases.add(entry.meta["phase"])
        if entry.meta["phase"] in ("QKV_PROJ", "ROPE", "ATTENTION_SCORE", "ATTENTION_SOFTMAX", "KV_STORE"):
            head = entry.head_id if isinstance(entry, KvEntry) else entry.meta.get("head_id")
            assert head in range(HEADS) or (entry.engine == "dma" and entry.meta["phase"] == "ROPE")
        if entry.engine == "te":
            assert {"tile_id", "token_idx", "block_id"} <= entry.meta.keys()
    expected = {
        "NORM", "QKV_PROJ", "ROPE", "KV_STORE", "ATTENTION_SCORE", "ATTENTION_SOFTMAX", "ATTENTION_APPLY", "OUT_PROJ",
        "RESIDUAL", "MLP_GATE_UP", "MLP_ACTIVATION", "MLP_DOWN",
    }  # fmt: skip
    assert phases - {"LAYER_INPUT"} == expected


@each
def test_dram_regions(name: str, phase: Phase) -> None:
    config = machine(name)
    plan = plan_layer(LLAMA_2_7B, config, TOKENS[phase], CONTEXT[phase])
    regions = Layer(LLAMA_2_7B, config, plan, Emitter("", config, {})).dram.regions
    assert len({region.name for region in regions}) == len(regions)
    assert regions[0].base == 0
    assert regions[-1].end <= config.dram.capacity_bytes
    assert all(a.end == b.base and a.nbytes > 0 for a, b in itertools.pairwise(regions))
    for entry in llama(name, phase).entries:
        if entry.engine == "dma":
            transfer = transfer_of(entry, config)
            home = [region for region in regions if region.base <= transfer.dram_start < region.end]
            assert len(home) == 1 and transfer.dram_end <= home[0].end, entry.where


@each
def test_buffers_that_live_together_do_not_overlap(name: str, phase: Phase) -> None:
    config = machine(name)
    places = plan_layer(LLAMA_2_7B, config, TOKENS[phase], CONTEXT[phase]).scratchpad
    buffers = list(places.buffers.values())
    for i, a in enumerate(buffers):
        assert a.start >= 0 and a.end <= config.spm.size_bytes
        for b in buffers[:i]:
            assert a.last < b.first or b.last < a.first or a.end <= b.start or b.end <= a.start, (a, b)
    largest = max(nbytes for _, nbytes in moves(llama(name, phase), config, "DMA_LOAD_TILE", qbits=4))
    assert places["weights"].nbytes >= 2 * largest  # double-buffered


def test_a_quarter_mebibyte_is_enough() -> None:
    config = load_config({"spm": {"bank_size_bytes": 16 * KIB}})
    for phase in PHASES:
        plan = plan_layer(LLAMA_2_7B, config, TOKENS[phase], CONTEXT[phase])
        assert plan.scratchpad.peak_bytes <= 256 * KIB
    program = decoder_layer(LLAMA_2_7B, config)
    check_program(program, config)
    assert bytes_of_moves(program, config, "DMA_LOAD_TILE", tensor_role="weight", qbits=4) == WEIGHTS // 2
    assert len(program) <= 8000


def test_the_catalogue() -> None:
    assert list(WORKLOADS) == ["llama2-7b-decode", "llama2-7b-prefill"]
    for name, make in WORKLOADS.items():
        assert make(machine("npu_mobile")) == llama("npu_mobile", "decode" if "decode" in name else "prefill")
        assert make.__doc__ and "\n" not in make.__doc__
