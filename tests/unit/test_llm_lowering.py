"""Every kind of language model, lowered and run: bytes and MACs from the shape alone, order of accesses, no overlaps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from kernbench.cmdq import check_program, load_program
from kernbench.cmdq.entries import DmaEntry, KvEntry
from kernbench.cmdq.footprint import transfer_of, work_of
from kernbench.config import load_config
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.run import LlmRun, run_llm
from kernbench.workloads.llm.steps import Job, LlmPrograms, Segment, Step
from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.models.precision import uniform_precision
from tests.llm_cases import CASES, programs_of
from tests.workload_programs import accesses_of, dram_accesses, scratchpad_accesses, unordered

each = pytest.mark.parametrize("name", CASES)
#: Every second case, and nightly all.
SOME = [name if i % 2 == 0 else pytest.param(name, marks=pytest.mark.nightly) for i, name in enumerate(CASES)]


@cache
def run_of(name: str) -> LlmRun:
    """Its run."""
    return run_llm(programs_of(name))


@pytest.mark.parametrize("name", SOME)
def test_whatever_touches_the_same_bytes_is_ordered(name: str) -> None:
    programs = programs_of(name)
    segments = {segment.key: segment for step in programs.steps for segment in programs.segments(step)}
    for segment in segments.values():
        program = programs.segment_program(segment)
        check_program(program, programs.machine)
        assert load_program(program.to_dict()) == program
        assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []
        assert unordered(program, accesses_of(program, programs.machine, dram_accesses)) == []


@each
def test_reuse_gives_the_same_cycles_and_nothing_overlaps(name: str) -> None:
    """The machines end a run as `failed` where jobs in flight overlap in the scratchpad."""
    once, whole = run_of(name), run_llm(programs_of(name), reuse=False)
    assert [step.total.cycles for step in once.steps] == [step.total.cycles for step in whole.steps]
    assert [step.total.bytes for step in once.steps] == [step.total.bytes for step in whole.steps]
    assert once.simulated <= whole.segments


@each
def test_the_floor_is_below_every_run(name: str) -> None:
    programs = programs_of(name)
    for run in run_of(name).steps:
        floor = floor_of(programs, run.step)
        assert 0 < floor.dram_cycles <= run.total.cycles and 0 < floor.mac_cycles <= run.total.cycles
        assert floor.macs <= run.total.macs
        assert floor.weights <= run.total.bytes["weights"] and floor.kv <= run.total.bytes["kv"]


@each
def test_every_entry_says_what_it_is_for(name: str) -> None:
    programs = programs_of(name)
    for entry in programs.whole_program().entries[:-1]:
        assert {"layer_id", "seq_len", "model_name", "precision"} <= entry.meta.keys()
        if entry.engine != "control":
            assert {"phase", "token_idx"} <= entry.meta.keys()
        if entry.meta.get("phase") in ("QKV_PROJ", "ATTENTION_SCORE", "ATTENTION_SOFTMAX", "ATTENTION_APPLY", "KV_STORE"):
            known = entry.head_id if isinstance(entry, KvEntry) else entry.meta.get("head_id")
            assert known is not None or entry.engine == "control"


# Closed forms of some presets. Nothing of the package takes part but the model's name: this is config.json by hand.
# hidden, ffn, heads, kv heads, head_dim, layers, vocabulary, norms a layer, experts, of them used, biases of a layer
SHAPES = {
    "llama2-7b": (4096, 11008, 32, 32, 128, 32, 32000, 2, 1, 1, 0),
    "llama3-8b": (4096, 14336, 32, 8, 128, 32, 128256, 2, 1, 1, 0),
    "llama3-70b": (8192, 28672, 64, 8, 128, 80, 128256, 2, 1, 1, 0),
    "mistral-7b": (4096, 14336, 32, 8, 128, 32, 32000, 2, 1, 1, 0),
    "qwen2.5-7b": (3584, 18944, 28, 4, 128, 28, 152064, 2, 1, 1, 28 * 128 + 2 * 4 * 128),
    "gemma2-9b": (3584, 14336, 16, 8, 256, 42, 256000, 4, 1, 1, 0),
    "mixtral-8x7b": (4096, 14336, 32, 8, 128, 32, 32000, 2, 8, 2, 0),
}
PARAMETERS = {  # as published with the weights
    "llama2-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-7b": 7_615_616_512,
    "gemma2-9b": 9_241_705_984,
    "mixtral-8x7b": 46_702_792_704,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "tinyllama-1.1b": 1_100_048_384,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "mixtral-8x22b": 140_620_634_112,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_404_352,  # without the 256 offsets of each router, which are no parameters
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "phi-4": 14_659_507_200,
    "gemma2-2b": 2_614_341_888,
    "gemma2-27b": 27_227_128_320,
    "gpt2": 124_439_808,
}
PREFILL, CONTEXT = 256, 1000  # [token]


def test_the_presets_are_those() -> None:
    assert preset_models() == sorted(PARAMETERS)
    assert {name: load_model(name).parameters for name in PARAMETERS} == PARAMETERS


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", SHAPES)
def test_bytes_and_macs_of_the_presets(name: str, phase: str) -> None:
    hidden, ffn, heads, kv_heads, dim, layers, vocab, norms, experts, used, biases = SHAPES[name]
    job = Job(prompt=PREFILL if phase == "prefill" else CONTEXT, tokens=1, phases=(phase,))  # type: ignore[arg-type]
    machine = load_config("npu_server", {"dram.capacity_bytes": "64 GiB"})
    programs = LlmPrograms(load_model(name), uniform_precision(), machine, job)
    rows, context = (PREFILL, 0) if phase == "prefill" else (1, CONTEXT)
    assert (programs.layers, programs.model.vocab) == (layers, vocab)

    # A layer. 256 tokens attend in two blocks of 128: to 128 and to 256 positions.
    attended = 128 * 128 + 128 * 256 if phase == "prefill" else CONTEXT + 1
    attention = 2 * hidden * heads * dim + 2 * hidden * kv_heads * dim
    macs = rows * (attention + used * 3 * hidden * ffn) + 2 * heads * dim * attended
    macs += rows * hidden * experts if experts > 1 else 0  # the router
    in_use = min(experts, rows * used)
    weights = (attention + in_use * 3 * hidden * ffn) // 2 + norms * hidden + biases  # 4 bits; gains and biases of 8
    weights += hidden * experts // 2 if experts > 1 else 0
    kv = 2 * kv_heads * dim * (context + rows) // 2
    check_segment(programs, programs.steps[0], 1, macs, weights, kv)

    # The last norm and the LM head, one row; 4 bits.
    check_segment(programs, programs.steps[0], -1, hidden * vocab, hidden * vocab // 2 + hidden, 0)


def check_segment(programs: LlmPrograms, step: Step, index: int, macs: int, weights: int, kv: int) -> None:
    """One segment's MACs and bytes before alignment."""
    segment: Segment = list(programs.segments(step))[index]
    found: Counter[str] = Counter()
    for entry in programs.segment_program(segment).entries:
        if entry.engine == "te":
            found["macs"] += work_of(entry)
        elif isinstance(entry, DmaEntry | KvEntry):
            role = "kv" if isinstance(entry, KvEntry) else entry.tensor_role
            found[role] += transfer_of(entry, programs.machine).bytes_total
    assert (found["macs"], found["weight"], found["kv"]) == (macs, weights, kv)


def test_a_window_bounds_what_is_loaded() -> None:
    """Token 300 of a window of 40 attends to 40 positions, 39 of them cached; in every second layer to all 300 before it."""
    programs = programs_of("long_window")
    step = programs.steps[-1]
    cached = []
    for segment in list(programs.segments(step))[1:3]:
        loads = [entry for entry in programs.segment_program(segment).entries if entry.opcode == "KV_LOAD_TILE"]
        cached.append(sum(entry.t_len for entry in loads if isinstance(entry, KvEntry)))
    assert cached == [2 * 2 * 39, 2 * 2 * 300]


def test_a_batch_multiplies_kv_and_not_weights() -> None:
    job = Job(prompt=40, tokens=1, phases=("decode",))
    one, four = (run_llm(replace(CASES["plain"], job=replace(job, batch=n)).programs()).steps[0].total for n in (1, 4))
    assert four.bytes["weights"] == one.bytes["weights"]
    assert four.bytes["kv"] == 4 * one.bytes["kv"]
    assert four.macs == 4 * one.macs


def test_experts_share_the_tokens_evenly() -> None:
    from kernbench.workloads.routing import parts

    shape = CASES["experts"].model.shape
    for rows in (1, 2, 3, 7, 16, 33):
        rows_of: Counter[int] = Counter()
        seen: set[tuple[int, int]] = set()
        for part in parts(shape, rows):
            assert part.expert is not None
            rows_of[part.expert] += part.count
            for row in range(part.start, part.start + part.count):
                assert (part.expert, row) not in seen
                seen.add((part.expert, row))
        assert Counter(row for _, row in seen) == Counter(dict.fromkeys(range(rows), 2))
        assert max(rows_of.values()) - min(rows_of[expert] for expert in range(4)) <= 1


def test_experts_are_loaded_when_it_is_known_which() -> None:
    programs = programs_of("experts")
    program = programs.segment_program(list(programs.segments(programs.steps[0]))[1])
    router = {e.id for e in program.entries if e.opcode == "VE_SOFTMAX_TILE" and e.meta["phase"] == "MLP_ROUTER"}
    loads = [e for e in program.entries if e.opcode == "DMA_LOAD_TILE" and e.meta["phase"] in ("MLP_GATE_UP", "MLP_DOWN")]
    assert router and loads and all(router & set(load.deps_before) for load in loads)


def test_the_output_of_experts_is_stored_when_all_have_added_to_it() -> None:
    programs = programs_of("experts")
    assert "residual" in programs.plan(programs.shapes[0], programs.steps[0]).resident
    program = programs.segment_program(list(programs.segments(programs.steps[0]))[1])
    entries = [entry for entry in program.entries if entry.meta.get("phase") == "RESIDUAL"]
    stores = [entry for entry in entries if entry.opcode == "DMA_STORE_TILE"]
    assert sum(transfer_of(entry, programs.machine).bytes_total for entry in stores) == 37 * 192
    for store in stores:
        ((start, end, _),) = scratchpad_accesses(store, programs.machine)
        later = [e for e in entries if e.opcode == "VE_ADD_TILE" and e.index > store.index]
        writes = [access for e in later for access in scratchpad_accesses(e, programs.machine) if access[2]]
        assert all(b <= start or end <= a for a, b, _ in writes)
