"""Layers lowered part by part: bytes and MACs equal closed forms of the keys, accesses are ordered, shards add up."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq import check_program
from kernbench.cmdq.entries import DmaEntry
from kernbench.cmdq.footprint import transfer_of, work_of
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.document import data_document
from kernbench.workloads.blocks.batch import Batch, Sequences, first_key
from kernbench.workloads.blocks.programs import BlockPrograms, programs_of
from kernbench.workloads.blocks.work import layer_work
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.report import report_of
from kernbench.workloads.llm.run import run_llm, run_program
from kernbench.workloads.llm.steps import Job, Stage
from kernbench.workloads.models.files import load_model, model_of
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.routing import EVEN, Routing
from tests.model_cases import SMALL
from tests.oracles.ref_decoder import Cost, layer_cost
from tests.workload_programs import accesses_of, dram_accesses, scratchpad_accesses, tiny_machine, unordered

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "model_types" / "parameters.json").read_text(encoding="utf-8")
)
ENCODERS = ("bart", "t5", "whisper")
KINDS = sorted(set(RECORDED) - set(ENCODERS))


def read(config: dict[str, Any]) -> Model:
    return model_of(data_document(config, "config.json"), config["model_type"])


@pytest.mark.parametrize("kind", KINDS)
def test_work_of_every_type_equals_its_closed_form(kind: str) -> None:
    """A decode step after 5,000 tokens, and a prefill of 300: of each layer that differs, from `transformers`' tensors."""
    machine = load_config("npu_server")
    for case in RECORDED[kind]:
        programs = BlockPrograms(read(case["config"]), uniform_precision(), machine, Job(prompt=1, tokens=1))
        for layer, tensors in case["layers"].items():
            shape: Any = programs.shapes[int(layer)]
            for tokens, context in ((1, 5000), (300, 0), (1, 0)):
                work = layer_work(shape, Batch((Sequences(tokens, context),)), EVEN)
                want = layer_cost(case["config"], int(layer), tensors, tokens, context)
                assert (work.weights, work.kv) == (want.weights, want.kv), (layer, tokens)
                assert work.macs == want.seen <= want.macs


SHORT = {"chunks", "mamba2", "jamba", "delta", "lightning"}  #: their files leave out keys that the oracle reads


@cache
def small(name: str, phase: str) -> BlockPrograms:
    tokens = {"prefill": 37, "decode": 21}[phase]
    job = Job(prompt=tokens, tokens=1, phases=(phase,))  # type: ignore[arg-type]
    return BlockPrograms(read(SMALL[name]), uniform_precision(), load_config(tiny_machine(640)), job)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", SMALL)
def test_programs_move_and_compute_what_the_closed_form_says(name: str, phase: str) -> None:
    """Rows go through in one block: every weight is loaded once."""
    programs = small(name, phase)
    (step,) = programs.steps
    for segment in list(programs.segments(step))[1:-1]:
        program = programs.segment_program(segment)
        check_program(program, programs.target)
        found: Counter[str] = Counter()
        for entry in program.entries:
            if entry.engine == "te":
                found["macs"] += work_of(entry)
            elif isinstance(entry, DmaEntry):
                found[entry.tensor_role] += transfer_of(entry, programs.machine).bytes_total
        work = layer_work(segment.shape, programs.batch_of(step), EVEN)  # type: ignore[arg-type]
        assert (found["weight"], found["kv"]) == (work.weights, work.kv)
        assert found["activation"] + found["embedding"] == work.activations
        block = programs.description.blocks[segment.layer]
        split: Counter[str] = Counter()
        for weight in block.weights(programs.description.hidden):
            split["experts" if weight.copies > 1 else "matrices"] += weight.elements
        tensors = {"vectors": 0, "expert_vectors": 0, "experts": 0, "matrices": 0, **split}
        tokens, context = (37, 0) if phase == "prefill" else (1, 21)
        if name not in SHORT:
            assert found["macs"] == layer_cost(SMALL[name], segment.layer, tensors, tokens, context).macs
        assert found["macs"] == work.macs if phase == "decode" else found["macs"] >= work.macs
        assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []
        assert unordered(program, accesses_of(program, programs.machine, dram_accesses)) == []


@pytest.mark.parametrize("name", ["qwen3", "deepseek", "mamba2", "delta"])
def test_reuse_gives_the_same_cycles(name: str) -> None:
    """The machine ends a run as `failed` where jobs in flight overlap in the scratchpad."""
    programs = small(name, "decode")
    once, whole = run_llm(programs), run_llm(programs, reuse=False)
    assert once.steps[0].total.cycles == whole.steps[0].total.cycles
    floor = report_of(once).phases["decode"].floor
    assert 0 < floor.dram_cycles <= once.steps[0].total.cycles and floor.macs <= once.steps[0].total.macs


def test_blocks_of_rows_load_weights_again() -> None:
    """On a scratchpad that does not hold all rows at a time, weights are loaded again: those of the network less often."""
    job = Job(prompt=64, tokens=1, phases=("prefill",))
    runs = []
    mixer, network = ("QKV_PROJ", "OUT_PROJ"), ("MLP_GATE_UP", "MLP_DOWN")
    for kib in (640, 160):
        programs = BlockPrograms(read(SMALL["qwen3"]), uniform_precision(), load_config(tiny_machine(kib)), job)
        segment = list(programs.segments(programs.steps[0]))[1]
        program = programs.segment_program(segment)
        parts = [weight_loads(program, *phases) for phases in (mixer, network)]
        runs.append([sum(transfer_of(load, programs.machine).bytes_total for load in loads) for loads in parts])
    times = [divmod(again, once) for once, again in zip(*runs, strict=True)]
    assert [rest for _, rest in times] == [0, 0] and times[0][0] > times[1][0] >= 1


def test_blocks_of_a_batch_hold_every_row_once() -> None:
    batch = Batch((Sequences(70, 5), Sequences(1, 40, 3), Sequences(20, 0)))
    blocks = batch.blocks(32)
    assert [sum(piece.rows for piece in block) for block in blocks] == [31, 31, 31]
    rows = Counter(dict.fromkeys(range(5), 0))
    for block in blocks:
        for piece in block:
            rows[piece.sequence] += piece.rows
    assert rows == {0: 70, 1: 1, 2: 1, 3: 1, 4: 20}
    assert [piece.cached for block in blocks for piece in block if piece.sequence == 0] == [5, 36, 67]
    assert first_key(0, 8, 21) == 16 and first_key(8, 0, 21) == 14 and first_key(8, 0, 3) == 0


def test_shards_of_a_layer_have_the_same_weights_together() -> None:
    """Two PEs: matrices are halved, gains are on both; both key and value heads of four PEs are there twice."""
    machine = load_config("single_cube")
    model = read(SMALL["qwen3"])
    work = {}
    for shards in (1, 2, 4):
        programs = BlockPrograms(model, uniform_precision(), machine, Job(prompt=8, tokens=1, shards=shards))
        shape: Any = programs.shapes[0]
        work[shards] = layer_work(shape, Batch((Sequences(1, 8),)), EVEN)
        assert run_llm(programs).steps[0].total.cycles > 0
    vectors = 2 * 256 + 2 * 64
    assert 2 * (work[2].weights - vectors) == work[1].weights - vectors
    assert work[4].kv * 4 == 2 * work[1].kv  # two heads, each on two PEs


def test_what_is_not_lowered_is_refused() -> None:
    machine, bits = load_config("npu_server"), uniform_precision()
    with pytest.raises(InputError, match=r"runs all of its layers on the same PEs; take --pp 1 and --dp 1"):
        staged = Job(prompt=8, tokens=1, stage=Stage(0, 1))
        programs_of(read(RECORDED["whisper"][0]["config"]), bits, machine, staged)
    with pytest.raises(InputError, match="source = 9, but llama2-7b has no encoder"):
        programs_of(load_model("llama2-7b"), bits, machine, Job(prompt=8, tokens=1, source=9))
    with pytest.raises(InputError, match="page = 1, but a head's part of a page, 32 bytes, must be a multiple of"):
        run_llm(programs_of(read(SMALL["qwen3"]), bits, machine, Job(prompt=8, tokens=1, page_tokens=1)))
    tensors = {"matrices": 4, "vectors": 0, "experts": 0, "expert_vectors": 0}
    assert layer_cost(SMALL["qwen3"], 0, tensors, 1, 0) == Cost(2, 128, 516, 516)


@pytest.mark.parametrize("name", ["qwen3", "deepseek", "window", "jamba"])
def test_pages_of_a_cache_move_the_same_bytes_and_the_page_table(name: str) -> None:
    """Two sequences of 90 tokens in pages of 16: every transfer stays in a page, and no byte of the cache is of two pages."""
    page, model, machine = 16, read(SMALL[name]), load_config(tiny_machine(640))

    def made(page_tokens: int) -> BlockPrograms:
        job = Job(prompt=90, tokens=1, batch=2, page_tokens=page_tokens)
        return BlockPrograms(model, uniform_precision(), machine, job)

    plain, paged = made(0), made(page)
    for step in plain.steps:
        for segment in plain.segments(step):
            if segment.kind != "layer":
                continue
            moved = [run_program(programs.segment_program(segment), programs) for programs in (plain, paged)]
            shape: Any = segment.shape
            table = 0 if not shape.cached else sum(
                transfer_of(entry, machine).bytes_aligned
                for entry in paged.segment_program(segment).entries
                if entry.meta.get("phase") == "PAGE_TABLE" and isinstance(entry, DmaEntry)
            )
            assert moved[1].macs == moved[0].macs and moved[1].bytes["kv"] == moved[0].bytes["kv"] + table
            assert bool(shape.cached) == (table > 0)
            for entry in paged.segment_program(segment).entries:
                if not (isinstance(entry, DmaEntry) and entry.tensor_role == "kv" and entry.meta["phase"] != "PAGE_TABLE"):
                    continue
                if shape.cached:
                    _, heads, dim = shape.cached[0]
                    region = next(base for base in sorted(paged._memories[segment.layer].caches.values(), reverse=True)
                                  if base <= entry.dram_addr)  # fmt: skip
                    size = heads * page * dim // 2
                    first, rows = entry.dram_addr - region, entry.rows or 1
                    last = first + (rows - 1) * (entry.stride_bytes or 0) + transfer_of(entry, machine).bytes_total // rows - 1
                    assert first // size == last // size


@pytest.mark.parametrize(("most", "matrices"), [(1, 3), (8, 1)])
def test_one_transfer_loads_an_expert_if_no_other_transfer_hides_its_set_up(most: int, matrices: int) -> None:
    """Two tokens choose 16 experts of three matrices. With several transfers in flight, each matrix has its own transfer."""
    dma = {"engines": 1, "max_concurrent_transfers": most, "channels": {"act_weight": {"max_concurrent": most}}}
    machine = load_config("tpuv5e", {"dma": dma, "dram.t_setup_cycles": 4000})
    job = Job(prompt=2, tokens=1, phases=("prefill",))
    programs = BlockPrograms(load_model("qwen3-30b-a3b"), uniform_precision(), machine, job)
    (step,) = programs.steps
    segment = next(one for one in programs.segments(step) if one.kind == "layer")
    program = programs.segment_program(segment)
    weights = [entry for entry in program.entries if isinstance(entry, DmaEntry) and entry.tensor_role == "weight"]
    experts = [entry.num_elements for entry in weights if str(entry.meta["phase"]) in ("MLP_GATE_UP", "MLP_DOWN")]
    assert experts == [matrices * 2048 * 768] * (16 * 3 // matrices)
    work = layer_work(segment.shape, programs.batch_of(step), EVEN)  # type: ignore[arg-type]
    assert sum(transfer_of(entry, programs.machine).bytes_total for entry in weights) == work.weights
    assert sum(work_of(entry) for entry in program.entries if entry.engine == "te") >= work.macs
    assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []


@cache
def mixture(*, prefetch: bool, bank: int = 65536, most: int = 1) -> BlockPrograms:
    """A prefill of 512 tokens, which all choose the first of two experts."""
    sizes = {"hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    experts = {"intermediate_size": 256, "moe_intermediate_size": 16, "num_experts": 2, "num_experts_per_tok": 1}
    config = {"model_type": "qwen3_moe", "vocab_size": 512, "max_position_embeddings": 4096, **sizes, **experts}
    dma = {"engines": 1, "max_concurrent_transfers": most, "channels": {"act_weight": {"max_concurrent": most}}}
    machine = load_config("tpuv5e", {"dma": dma, "dram.t_setup_cycles": 4000, "spm.bank_size_bytes": bank})
    job = Job(prompt=512, tokens=1, phases=("prefill",), routing=Routing("file", shares=(1.0, 0.0)), prefetch_experts=prefetch)
    return BlockPrograms(model_of(data_document(config, "m.json"), "m"), uniform_precision(), machine, job)


def layer_of(programs: BlockPrograms) -> Program:
    (step,) = programs.steps
    return programs.segment_program(next(one for one in programs.segments(step) if one.kind == "layer"))


def weight_loads(program: Program, *phases: str) -> list[DmaEntry]:
    loads = [entry for entry in program.entries if isinstance(entry, DmaEntry) and entry.tensor_role == "weight"]
    return [load for load in loads if load.meta["phase"] in phases]


def test_each_block_of_tokens_loads_the_expert_that_all_tokens_choose() -> None:
    """The tiles of the next block take the place of the expert in the scratchpad."""
    program = layer_of(mixture(prefetch=False, bank=40960))
    assert len(weight_loads(program, "MLP_ROUTER")) == len(weight_loads(program, "MLP_GATE_UP")) == 2  # two blocks of tokens


@pytest.mark.parametrize(("bank", "mixer", "network"), [(1 << 20, 1, 1), (65536, 2, 1), (40960, 4, 2)])
def test_the_network_has_larger_blocks_than_the_mixer_if_they_fit(bank: int, mixer: int, network: int) -> None:
    """Weights are loaded once a block. The mixer has more buffers than the network."""
    programs = mixture(prefetch=False, bank=bank)
    program = layer_of(programs)
    assert len(weight_loads(program, "OUT_PROJ")) == mixer and len(weight_loads(program, "MLP_ROUTER")) == network
    products = [entry for entry in program.entries if entry.engine == "te" and entry.meta["phase"] == "MLP_DOWN"]
    assert sum(work_of(entry) for entry in products) == 512 * 256 * 16
    check_program(program, programs.target)
    assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []


def test_a_network_with_larger_blocks_writes_the_stream_twice_and_reads_it_three_times() -> None:
    programs = mixture(prefetch=False)
    moved = {"read": 0, "write": 0}
    for entry in layer_of(programs).entries:
        if isinstance(entry, DmaEntry) and entry.tensor_role == "activation":
            transfer = transfer_of(entry, programs.machine)
            moved["write" if transfer.write else "read"] += transfer.bytes_total
    assert moved == {"read": 3 * 512 * 256, "write": 2 * 512 * 256}


@pytest.mark.parametrize("most", [1, 8])
def test_experts_that_are_prefetched_do_not_depend_on_the_router(most: int) -> None:
    """All experts are loaded, also the one that no token chooses, and no load waits for the router. With several transfers in
    flight, each of the three matrices of an expert has its own transfer."""
    phases = "MLP_GATE_UP", "MLP_DOWN"
    for prefetch, experts in ((False, 1), (True, 2)):
        programs = mixture(prefetch=prefetch, most=most)
        program = layer_of(programs)
        router = {e.id for e in program.entries if e.opcode == "VE_SOFTMAX_TILE" and e.meta["phase"] == "MLP_ROUTER"}
        loads = weight_loads(program, *phases)
        blocks = len(weight_loads(program, "MLP_ROUTER"))
        assert sum(transfer_of(load, programs.machine).bytes_total for load in loads) == blocks * experts * 3 * 256 * 16 // 2
        assert [bool(router & set(load.deps_before)) for load in loads] == [not prefetch] * len(loads)
        assert sum(work_of(e) for e in program.entries if e.engine == "te" and e.meta["phase"] in phases) == 512 * 3 * 256 * 16
        check_program(program, programs.target)
        assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []


def test_prefetched_experts_fill_half_of_the_scratchpad_unless_fewer_rows_would_fit() -> None:
    """The first buffer behind the weights is the input of the layer."""
    begins = {}
    for prefetch, bank in product((False, True), (65536, 1 << 20)):
        programs = mixture(prefetch=prefetch, bank=bank)
        inputs = [e for e in layer_of(programs).entries if isinstance(e, DmaEntry) and e.meta["phase"] == "LAYER_INPUT"]
        begins[prefetch, bank] = transfer_of(inputs[0], programs.machine).spm_addr / programs.machine.spm.size_bytes
    assert begins[True, 65536] == begins[False, 65536] < 0.4  # two blocks of rows, as without prefetching
    assert begins[False, 1 << 20] < 0.4 < begins[True, 1 << 20] <= 0.5


def test_a_model_without_experts_has_none_to_prefetch() -> None:
    job = Job(prompt=8, tokens=1, prefetch_experts=True)
    with pytest.raises(InputError, match="no experts whose weights could be loaded ahead of the router; leave out"):
        programs_of(read(SMALL["qwen3"]), uniform_precision(), load_config(tiny_machine(640)), job)
