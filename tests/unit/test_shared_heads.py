"""More PEs than heads or experts: several PEs share each of them. Bytes, MACs and messages equal closed forms."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.document import data_document
from kernbench.workloads.blocks.memory import place_blocks
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.run import segment_tally
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.files import load_model, model_of
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.fitting import cache_bytes, least_bytes
from kernbench.workloads.parallel.layout import Layout, layout_in_ranks
from kernbench.workloads.parallel.run import job_programs
from tests.model_cases import SMALL
from tests.oracles import ref_holders as oracle
from tests.unit.test_llm_contexts import layer_of, sent_bytes

BITS = Precision(w=8, a=8, kv=8)
MACHINE = load_config("single_cube", ["pe.spm.check_overlap=error"])
PES, CONTEXT, SEQUENCES = 8, 21, 8
#: Attention without biases and norms of heads; each part of a value is a whole number of aligned lines of 64 bytes.
PLAIN = {**SMALL["qwen3"], "model_type": "llama", "head_dim": 256}
MIXTURE = {**PLAIN, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
CASES = {
    "half a head": PLAIN,
    "a quarter of a head": {**PLAIN, "num_attention_heads": 2, "num_key_value_heads": 1},
    "a whole head": {**PLAIN, "num_attention_heads": 8},
    "half an expert": MIXTURE,
    "a quarter of an expert": {**MIXTURE, "num_local_experts": 2},
    "two experts": {**MIXTURE, "num_local_experts": 16},
}


def read(keys: dict[str, Any]) -> Model:
    return model_of(data_document(keys, "config.json"), "m")


def programs_of(keys: dict[str, Any], layout: Layout = Layout(PES), **changes: Any) -> Any:  # noqa: B008
    bits = Precision(w=8, a=8, kv=changes.pop("kv", 8))
    job = Job(**{
        "prompt": CONTEXT, "tokens": 1, "batch": SEQUENCES, "layers": 1, "phases": ("decode",),
        "expert_parallel": "num_local_experts" in keys, **changes,
    })  # fmt: skip
    return job_programs(read(keys), bits, MACHINE, job, layout)


@pytest.mark.parametrize("name", CASES)
def test_a_decode_step_has_the_bytes_macs_and_messages_of_the_closed_forms(name: str) -> None:
    keys, programs = CASES[name], programs_of(CASES[name])
    experts, hidden = keys.get("num_local_experts", 0), keys["hidden_size"]
    segment = layer_of(programs, "decode")
    tally = segment_tally(programs, segment)
    matrices = PES * (oracle.attention_weights(keys, PES) + oracle.network_weights(keys, PES) + experts * hidden)
    vectors = PES * 2 * hidden
    assert tally.bytes["weights"] == matrices + vectors  # 16 rows go to all experts
    assert tally.bytes["kv"] == oracle.kv_bytes(keys, PES, CONTEXT, SEQUENCES)
    one = 3 * hidden * keys["intermediate_size"]
    chosen = keys["num_experts_per_tok"] if experts else 1
    network = SEQUENCES * (chosen * one + PES * experts * hidden)
    assert tally.macs == oracle.attention_macs(keys, PES, CONTEXT, SEQUENCES) + network
    assert sum(sent_bytes(programs, segment).values()) == oracle.sent_by_all_reduces(keys, PES, SEQUENCES)
    floor = floor_of(programs, programs.steps[0])
    ends = floor_of(programs_of(keys, layers=2), programs.steps[0])  # both layers
    assert ends.weights - floor.weights == matrices + vectors
    assert ends.kv == 2 * floor.kv == 2 * oracle.kv_bytes(keys, PES, CONTEXT, SEQUENCES)


@pytest.mark.parametrize("name", CASES)
def test_memory_of_a_pe_is_its_part(name: str) -> None:
    """Regions that begin at multiples of 1 byte have no gaps."""
    keys = CASES[name]
    shape = programs_of(keys).shapes[0]
    if not isinstance(programs_of(keys), BlockPrograms):  # whole heads of a plain decoder: the planner of layers
        assert name == "a whole head"
        return
    experts, hidden = keys.get("num_local_experts", 0), keys["hidden_size"]
    weights = oracle.attention_weights(keys, PES) + oracle.network_weights(keys, PES) + experts * hidden + 2 * hidden
    cache = oracle.kv_bytes(keys, PES, 63, SEQUENCES) // PES
    assert place_blocks(shape, 0, 1, 64, SEQUENCES).end == weights + cache
    job = Job(prompt=63, tokens=1, batch=SEQUENCES)
    assert cache_bytes(read(keys), BITS, job, Layout(PES)) == cache
    assert least_bytes(read(keys), BITS, job, Layout(PES)) < programs_of(keys, prompt=63, layers=2).dram.end


def test_a_prefill_with_and_without_rows_of_their_own_has_the_macs_of_the_closed_form() -> None:
    """Scores are computed whole on each PE, outputs and the output projection by parts."""
    keys = CASES["half a head"]
    for layout in (Layout(PES), Layout(PES, sp=True)):
        programs = programs_of(keys, layout, phases=("prefill",))
        tally = segment_tally(programs, layer_of(programs, "prefill"))
        _, _, key, value = oracle.heads_of(keys, PES)
        projections = PES * oracle.attention_weights(keys, PES) + 3 * keys["hidden_size"] * keys["intermediate_size"]
        scores = PES * SEQUENCES * CONTEXT * CONTEXT * (key + value)
        assert tally.macs == SEQUENCES * CONTEXT * projections + scores


def test_layouts_of_the_pod_whose_cubes_share_heads_and_experts() -> None:
    """Llama 3 70B has 64 heads for 128 PEs. Mixtral 8x7B has 32 heads and 8 experts for 64 PEs."""
    pod, bits = load_config("pod_8sip"), Precision()
    for name, tp, expert in (("llama3-70b", 16, False), ("mixtral-8x7b", 8, True)):
        model = load_model(name)
        job = Job(prompt=128, tokens=1, phases=("decode",), expert_parallel=expert)
        layout = layout_in_ranks(Layout(tp), "cube", pod)
        programs = job_programs(model, bits, pod, job, layout)
        shape = programs.shapes[0]
        assert (shape.block.mixer.heads, shape.block.mixer.holders) == (1, 2)
        assert programs.dram.end < programs.machine.dram.capacity_bytes
        hidden = model.shape.hidden
        dims = {"num_attention_heads": model.shape.heads, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": hidden}
        weights = sum(one.elements for one in shape.block.mixer.weights(hidden))
        assert weights == oracle.attention_weights(dims, layout.tp)
    assert shape.local_experts == (0, 1) and shape.block.ffn.expert.width == 14336 // 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 3, "num_key_value_heads": 3}, "tp = 8, but it must divide 3, the number of heads"),
        ({"head_dim": 258, "num_attention_heads": 2}, "tp = 8, but it must divide 516 (heads * head_dim in the model)"),
        (
            {"head_dim": 4, "num_attention_heads": 2},
            "kv_bits = 4, but 4 PEs share each head, and the 1 elements of a value that each has must be whole bytes",
        ),
        (
            {**MIXTURE, "num_local_experts": 3},
            "tp = 8, but it must divide 3 (experts in the model)",
        ),
        (
            {**MIXTURE, "num_local_experts": 2, "intermediate_size": 6},
            "tp = 8, but it must divide 12 (experts * their width in the model); use --tp 6",
        ),
    ],
)
def test_parts_that_are_not_equal_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        programs_of({**PLAIN, **changes}, kv=4)
    assert message in str(caught.value)
