"""Laws of steps of language models on chips: what no software does, whatever the model, the chip and the batch.

The times are those of the planner, for the kernels of a step in sequence, without the host.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernbench.config import chip_names, load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.decoder import SHAPES, step_operations
from kernbench.workloads.ops.operation import Attention, Operation, Product, Sequences
from kernbench.workloads.ops.timing import OperationTimer

PROFILES = {"gpu": ("vllm", "trtllm", "cuda_graph"), "systolic": ("none",), "tensix": ("tt_transformers",)}
CHIPS = [name for name in chip_names() if load_config(name).chip.kind in PROFILES]
GPUS = [name for name in CHIPS if load_config(name).chip.kind == "gpu"]
PLACES = st.sampled_from([(name, profile) for name in CHIPS for profile in PROFILES[load_config(name).chip.kind]])
#: Heads of 64, 80, 128 and 256 elements; one KV head, shared ones and one for each head; dense and with experts.
MODELS = st.sampled_from(("llama321b", "phi2", "llama38b", "llama270b", "gptj6b", "gemma2b", "mixtral8x7b", "qwen330ba3b"))
DECODES = st.sampled_from([Sequences(count, 1, cached) for count in (1, 8, 64, 200) for cached in (17, 1024, 8192)])
PROMPTS = st.sampled_from([Sequences(1, new, before) for new in (16, 65, 512, 2048) for before in (0, 1024)])
WIDTHS = (Widths(), Widths(1.0), Widths(0.5))  #: weights of 16, 8 and 4 bits
EDGES = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1024, 1025, 4096)
FEW = settings(max_examples=25)


@cache
def timer(place: tuple[str, str]) -> OperationTimer:
    return OperationTimer(load_config(place[0]), load_runtime(place[1]), simulate=False)


def operations(model: str, *groups: Sequences, tp: int = 1, widths: Widths | None = None) -> list[tuple[Operation, int]]:
    return list(step_operations(SHAPES[model].description, groups, tp=tp, widths=widths))


def step_ns(
    place: tuple[str, str], model: str, *groups: Sequences, tp: int = 1, widths: Widths | None = None
) -> float:  # fmt: skip
    """[ns] of the kernels of a step."""
    one = timer(place)
    found = operations(model, *groups, tp=tp, widths=widths)
    return sum(times * one.device_ns(op) for op, times in found if op.name not in one.runtime.fused)


@given(PLACES, MODELS, st.one_of(DECODES, PROMPTS))
@FEW
def test_no_step_is_faster_than_its_weights_or_its_products(place: tuple[str, str], model: str, group: Sequences) -> None:
    """At the vendor's rates. A repeated step of one sequence finds keys in the cache, so that only weights count."""
    chip = timer(place).view.chip
    products = [(op, times) for op, times in operations(model, group) if isinstance(op, Product)]
    moved = sum(times * op.count * op.k * op.n * op.right_bytes for op, times in products)
    macs = sum(times * op.macs for op, times in products)
    rate = chip.cores * float(chip.macs(16)) * float(chip.rated_clock_ghz)
    assert step_ns(place, model, group) >= 0.99 * max(moved / float(chip.rated_memory_gb_s), macs / rate)


@given(PLACES, MODELS, DECODES, PROMPTS)
@FEW
def test_a_step_takes_at_least_as_long_as_its_decodes_or_its_prompt(
    place: tuple[str, str], model: str, decodes: Sequences, prompt: Sequences
) -> None:
    """Decodes alone may have one more kernel, which combines or copies their results: a few percent of a step."""
    parts = [step_ns(place, model, group) for group in (decodes, prompt)]
    both = step_ns(place, model, decodes, prompt)
    assert both >= 0.95 * max(parts)
    if load_config(place[0]).chip.kind != "gpu":  # a mixed step on a GPU has kernels that do not cut keys
        assert both <= 1.2 * sum(parts)


@given(PLACES, MODELS)
@FEW
def test_more_tokens_or_sequences_take_longer(place: tuple[str, str], model: str) -> None:
    """Another tile may be a little faster than the one for fewer rows."""
    prompts = [step_ns(place, model, Sequences(1, new, 0)) for new in EDGES]
    batches = [step_ns(place, model, Sequences(count, 1, 1024)) for count in EDGES[:15]]
    contexts = [step_ns(place, model, Sequences(4, 1, cached)) for cached in EDGES]
    for times in (prompts, batches, contexts):
        assert all(after >= 0.95 * before for before, after in pairwise(times))


@given(PLACES, MODELS, st.one_of(DECODES, PROMPTS))
@FEW
def test_narrower_weights_and_activations_take_no_longer(place: tuple[str, str], model: str, group: Sequences) -> None:
    times = [step_ns(place, model, group, widths=one) for one in WIDTHS]
    assert all(narrow <= 1.005 * wide for wide, narrow in pairwise(times))
    assert step_ns(place, model, group, widths=Widths(1.0, 1.0, 8)) <= 1.005 * times[0]


@given(PLACES, MODELS, st.one_of(DECODES, PROMPTS))
@FEW
def test_chips_that_share_a_model_gain_at_most_their_number(place: tuple[str, str], model: str, group: Sequences) -> None:
    """With half of the heads, blocks of attention may take a wave less, and their keys may be cut: a decode of 64 sequences of
    8,192 keys on an RTX 3090 takes 4 waves for 256 blocks."""
    times = [step_ns(place, model, group, tp=tp) for tp in (1, 2, 4, 8)]
    assert all(2.6 * fewer >= more for more, fewer in pairwise(times))


@given(st.sampled_from(GPUS), st.lists(st.one_of(DECODES, PROMPTS), min_size=1, max_size=3), st.sampled_from((1, 2, 4, 8)))
@FEW
def test_keys_are_read_once_to_once_by_each_head_that_shares_them(chip: str, groups: list[Sequences], share: int) -> None:
    assume(any(one.new > 1 for one in groups))
    op = Attention(tuple(groups), 32, 32 // share, 128)
    keys = sum(one.count * (one.cached + one.new) for one in groups) * 2 * op.kv_heads * op.head_dim * op.element_bytes
    queries = sum(one.count * one.new for one in groups) * op.heads * op.head_dim * op.element_bytes
    read = timer((chip, "vllm")).plan(op).read_bytes - queries
    assert 0.999 * keys <= read <= 1.001 * share * keys
