"""Laws of operations on chips: no time is below the roofline, and more work or wider elements never take less time.

The times are those of the planner. Another test compares them with simulations (tests/unit/test_operation_plans.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.config import NpuConfig, chip_names, load_config
from kernbench.config.runtime import load_runtime
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.collectives import sent_bytes
from kernbench.workloads.ops.decoder import SHAPES, step_operations
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences, Vector
from kernbench.workloads.ops.products import plan_product
from kernbench.workloads.ops.program import host_machine, launches_program
from kernbench.workloads.ops.step import decode_ns, prefill_ns
from kernbench.workloads.ops.timing import OperationTimer

PROFILES = {"gpu": "kernel_only", "systolic": "none", "tensix": "tt_transformers", "npu": "none"}
CHIPS = st.sampled_from(chip_names())
GPUS = [name for name in chip_names() if load_config(name).chip.kind == "gpu"]
#: Chips with links, adapters and memory of the same kind as those of the second, and at least as much of everything.
BETTER = [
    ("h200", "h100"), ("h100", "h100_pcie"), ("h100", "a100"), ("a100", "a100_40gb"), ("a100", "a100_pcie"), ("l40s", "l4"),
    ("l40s", "l40"), ("mi325x", "mi300x"), ("v100", "v100_pcie"), ("a40", "a10"), ("rtx5090", "rtx4090"), ("gaudi3", "gaudi2"),
    ("h100_pcie", "a100_pcie"), ("b200", "h200"), ("a6000", "a40"),
]  # fmt: skip
SIDES = st.sampled_from((1, 7, 64, 100, 128, 640, 1376, 4096, 4544, 11008, 28672))
ROWS = st.sampled_from((1, 2, 16, 17, 64, 129, 256, 300, 1024, 2049, 8192))
NIGHTLY = pytest.mark.nightly
NOISE = 0.995  #: a plan counts whole cycles, and the sustained rate of one chip is 1.002 of the rated one


@cache
def timer(chip: str, profile: str = "") -> OperationTimer:
    machine = load_config(chip)
    assert machine.chip is not None
    return OperationTimer(machine, load_runtime(profile or PROFILES[machine.chip.kind]), simulate=False)


def roofline_ns(chip: str, macs: float, nbytes: float, bits: int = 16) -> float:
    """[ns] at the vendor's rates."""
    section = timer(chip).view.chip
    rate = section.cores * float(section.macs(bits)) * float(section.rated_clock_ghz)
    return max(macs / rate, nbytes / float(section.rated_memory_gb_s))


def rising(chip: str, operations: Iterable[Operation], least: float = NOISE) -> bool:
    """Whether no operation is faster than the one before it, by more than so little."""
    times = [timer(chip).device_ns(op) for op in operations]
    return all(after >= least * before for before, after in pairwise(times))


@given(CHIPS, ROWS, SIDES, SIDES)
@settings(max_examples=60)
def test_no_product_is_faster_than_the_roofline_or_than_one_of_narrower_elements(chip: str, m: int, n: int, k: int) -> None:
    eight, four, half, plain, wide = (
        Product(m, n, k, left, right, 2.0, bits)
        for left, right, bits in ((1.0, 1.0, 8), (2.0, 0.5, 16), (2.0, 1.0, 16), (2.0, 2.0, 16), (4.0, 4.0, 32))
    )
    assert rising(chip, (eight, plain, wide)) and rising(chip, (four, half, plain))
    for op in (eight, four, plain):
        assert timer(chip).device_ns(op) >= NOISE * roofline_ns(chip, op.macs, op.nbytes, op.bits)


@given(st.sampled_from(GPUS), ROWS, SIDES, SIDES, st.floats(0, 1e7))
@settings(max_examples=40)
def test_a_pause_makes_a_product_no_slower_and_no_faster_than_rated(chip: str, m: int, n: int, k: int, pause: float) -> None:
    view, op = timer(chip).view, Product(m, n, k)
    plain, paused = (plan_product(view, op, None, ns).cycles(view.memory_rate) for ns in (0.0, pause))
    assert NOISE * roofline_ns(chip, op.macs, op.nbytes) <= paused / view.freq <= 1.01 * plain / view.freq


@given(st.sampled_from(GPUS), SIDES, SIDES)
@settings(max_examples=40)
def test_parts_of_a_matrix_take_no_longer_than_the_whole(chip: str, n: int, k: int) -> None:
    """Chips that share a matrix by columns or by rows do less work each."""
    for m in (1, 16, 256, 2048):
        whole = Product(m, 16 * n, 16 * k)
        assert rising(chip, (replace(whole, n=part * n) for part in (1, 2, 4, 8, 16)), 0.8)
        assert rising(chip, (replace(whole, k=part * k) for part in (1, 2, 4, 8, 16)), 0.8)


@given(CHIPS, st.sampled_from((1, 2, 8, 64)), st.sampled_from((64, 128)), st.sampled_from(((32, 8), (8, 1), (16, 16))))
@settings(max_examples=40)
def test_longer_or_wider_attention_takes_longer(chip: str, batch: int, dim: int, heads: tuple[int, int]) -> None:
    def decode(cached: int, count: int = batch, many: int = 1) -> Attention:
        return Attention((Sequences(count, 1, cached),), heads[0] * many, heads[1] * many, dim)

    contexts = (0, 64, 127, 128, 1000, 4096, 16384)
    assert rising(chip, map(decode, contexts), 0.97)
    assert rising(chip, (decode(2048, count) for count in (2, 3, 8, 32, 128)), 0.97)
    assert rising(chip, (decode(2048, many=many) for many in (1, 2, 4)), 0.97)
    prompts = [Attention((Sequences(1, new, 0),), *heads, dim) for new in (16, 64, 65, 512, 2048, 8192)]
    assert rising(chip, prompts, 0.97)
    for op in (decode(16384, max(2, batch)), prompts[-1]):
        pairs = sum(one.pairs for one in op.groups)
        keys = sum(one.count * (one.cached + one.new) for one in op.groups)
        least = roofline_ns(chip, 2 * pairs * op.heads * dim, 2 * keys * op.kv_heads * dim * op.element_bytes)
        assert timer(chip).device_ns(op) >= NOISE * least


@given(CHIPS, st.sampled_from((2, 100, 2048)), st.sampled_from((256, 4096)))
@settings(max_examples=40)
def test_a_step_with_a_prompt_takes_at_least_as_long_as_its_prompt(chip: str, cached: int, new: int) -> None:
    """Decodes beside the prompt are read too, and are not cut into parts then. (Alone, they have another kernel.)"""
    prompt = (Sequences(1, new, cached),)
    steps = [Attention((*prompt, Sequences(many, 1, 1024)), 32, 8, 128) for many in (1, 8, 64)]
    assert rising(chip, (Attention(prompt, 32, 8, 128), *steps), 0.97)


@given(CHIPS, st.sampled_from((64, 1000, 4096, 11008)), st.sampled_from(("layernorm", "act_fn", "rotary_emb", "softmax")))
@settings(max_examples=40)
def test_more_rows_of_a_vector_operation_take_longer(chip: str, width: int, name: str) -> None:
    kind = "norm" if name in ("layernorm", "softmax") else "elementwise"
    rows = (1, 2, 16, 17, 128, 1000, 8192, 65536)
    assert rising(chip, (Vector(name, kind, many, width, 4.0 * many * width, 5.0 * many * width) for many in rows))


@given(st.sampled_from(GPUS), st.sampled_from((2, 3, 4, 8, 16)), st.sampled_from(("all_reduce", "all_gather", "send_recv")))
@settings(max_examples=60)
def test_no_collective_is_faster_than_its_links_or_than_a_shorter_one(chip: str, workers: int, name: str) -> None:
    messages = [Collective(name, workers, 1 << size) for size in range(3, 33, 2)]  # type: ignore[arg-type]
    assert rising(chip, messages)
    section = timer(chip).view.chip
    rated = max(section.links * float(section.link_gb_s), float(section.host_link_gb_s))
    for op in messages:  # if switches add up an all-reduce, a GPU sends its message, and the sum of its part
        sent = min(sent_bytes(op), op.nbytes * (workers + 1) / workers)
        assert timer(chip).device_ns(op) > sent / rated


@given(CHIPS, st.sampled_from(((2, 1), (8, 4), (16, 8), (32, 8), (64, 8))), st.sampled_from(("all_reduce", "all_gather")))
@settings(max_examples=60)
def test_no_collective_across_nodes_is_faster_than_a_shorter_one(chip: str, placed: tuple[int, int], name: str) -> None:
    workers, node = placed
    sizes = sorted({(1 << power) + more for power in range(6, 31) for more in (-1, 0, 1 << power - 1)})
    messages = [Collective(name, workers, size, node=node) for size in sizes]  # type: ignore[arg-type]
    assert rising(chip, messages, 1.0 - 1e-9)


@pytest.mark.parametrize(("better", "chip"), BETTER)
def test_a_chip_is_no_slower_than_one_with_less_of_everything(better: str, chip: str) -> None:
    products = [Product(m, n, k) for m in (16, 512, 8192) for n, k in ((4096, 4096), (28672, 4096), (1024, 8192))]
    decodes = [Attention((Sequences(many, 1, 4096),), 32, 8, 128) for many in (1, 8, 128)]
    long = Vector("act_fn", "elementwise", 32768, 8192, 1.5e9, 1e9)
    for op in (*products, *decodes, long, Collective("all_reduce", 8, 1 << 28)):
        assert timer(better).device_ns(op) <= 1.05 * timer(chip).device_ns(op), op


@pytest.mark.parametrize(("better", "chip"), BETTER)
def test_steps_of_small_models_are_no_slower_on_a_chip_with_more_of_everything(better: str, chip: str) -> None:
    model = SHAPES["llama38b"].description
    times = []
    for name in (better, chip):
        one = timer(name, "cuda_graph" if name in GPUS else "")
        decodes = [decode_ns(one, model, many, 1024) for many in (1, 64)]
        times.append([*decodes, prefill_ns(one, model, 1, 2048)])
    assert all(fast <= 1.02 * slow for fast, slow in zip(*times, strict=True))
    gain = load_config(better).chip.rated_memory_gb_s / load_config(chip).chip.rated_memory_gb_s
    assert all(slow / fast > 1 + 0.3 * float(gain - 1) for fast, slow in zip(times[0][:2], times[1][:2], strict=True))


@pytest.mark.parametrize("chip", GPUS)
def test_operations_go_from_the_start_of_a_kernel_to_the_bandwidth_of_dram(chip: str) -> None:
    """The least operation takes the start of a kernel and a few latencies. The rows of the largest do not fit the cache."""
    one = timer(chip)
    section, latency = one.view.chip, one.view.latency / one.view.freq
    start = float(section.graph_start_ns)
    for name, kind in (("act_fn", "elementwise"), ("gelu", "elementwise"), ("layernorm", "norm"), ("softmax", "norm")):
        sizes = [Vector(name, kind, rows, 8192, 4.0 * rows * 8192, 5.0 * rows * 8192) for rows in (1, 16, 256, 4096, 65536)]
        least, *_, most = [one.device_ns(op) for op in sizes]
        assert start <= least < start + 20 * latency
        assert 0.3 < roofline_ns(chip, 0, sizes[-1].nbytes) / most < 0.97
        assert rising(chip, sizes)
    rows = (1, 16, 64, 256, 1024, 4096, 8192)
    products = [Product(many, 8192, 8192) for many in rows]
    times = [one.device_ns(op) for op in products]
    assert start < one.device_ns(Product(1, 64, 64)) < start + 20 * latency
    assert rising(chip, products) and times[1] < 1.1 * times[0]  # 16 rows read the same weights
    assert 0.6 < roofline_ns(chip, 0, products[0].nbytes) / times[0] < 0.97
    assert 1.7 < times[-1] / times[-2] < 2.1 and 0.5 < roofline_ns(chip, products[-1].macs, 0) / times[-1] < 1.003


MODELS = {
    "rtx4090": "llama38b", "h100": "qwen330ba3b", "mi300x": "mixtral8x7b", "a100": "llama27b", "tpuv6e": "gemma7b",
    "l4": "qwen253b",
}  # fmt: skip


@pytest.mark.parametrize("chip", MODELS)
def test_steps_of_models_follow_their_work(chip: str) -> None:
    """Larger batches, longer contexts and wider weights take longer; a batch takes less than its sequences one by one."""
    shape, one = SHAPES[MODELS[chip]], timer(chip, "" if chip == "tpuv6e" else "cuda_graph")
    model = shape.description
    batches = [decode_ns(one, model, many, 512) for many in (1, 2, 4, 16, 64, 256)]
    contexts = [decode_ns(one, model, 8, cached) for cached in (0, 128, 2048, 16384)]
    weights = [decode_ns(one, model, 1, 512, widths=Widths(size)) for size in (0.5, 1.0, 2.0)]
    prompts = [prefill_ns(one, model, 1, new) for new in (1, 64, 512, 4096)]
    for times in (batches, contexts, weights, prompts):
        assert times == sorted(times)
    assert batches[-1] < 256 * batches[0] and weights[-1] < 4.1 * weights[0]


@pytest.mark.parametrize("chip", [name for name in chip_names() if load_config(name).chip.kind != "npu"])
def test_a_large_model_reaches_a_believable_share_of_the_rated_rates(chip: str) -> None:
    """A token of a 70B model on one chip is bound by DRAM, which no chip reads at its rated bandwidth. Products and attention
    limit a long prompt. Eight chips take less time than one, with weights of any width."""
    one, model = timer(chip, "cuda_graph" if chip in GPUS else "none"), SHAPES["llama370b"].description
    section, weights = one.view.chip, 2 * 70.5e9
    tokens = 4096
    token, prompt = decode_ns(one, model, 1, 512), prefill_ns(one, model, 1, tokens)
    rate = section.cores * float(section.macs(16)) * float(section.rated_clock_ghz)
    assert 0.6 < weights / float(section.rated_memory_gb_s) / token < 0.95
    assert 0.35 < 70e9 * tokens / rate / prompt < (1 if chip in ("rtx3090", "rtx4090", "rtx5090") else 0.95)
    for size in (2.0, 1.0, 0.625):
        widths = Widths(size)
        assert decode_ns(one, model, 1, 512, tp=8, widths=widths) < 0.8 * decode_ns(one, model, 1, 512, widths=widths)
    assert prefill_ns(one, model, 1, tokens, tp=8) < 0.9 * prompt


@pytest.mark.parametrize("chip", [name for name in chip_names() if load_config(name).chip.kind != "npu"])
@pytest.mark.parametrize("model", ["llama38b", *(pytest.param(name, marks=NIGHTLY) for name in ("llama27b", "llama213b"))])
def test_a_small_model_reaches_a_believable_share_of_the_rated_rates(chip: str, model: str) -> None:
    """A step reads all weights and keys. A GPU with much bandwidth spends up to half of a token on starts of kernels; arrays
    take weights as fast as DRAM has them.
    """
    one, shape = timer(chip, "cuda_graph" if chip in GPUS else ""), SHAPES[model].description

    def least_ns(group: Sequences) -> float:
        steps = list(step_operations(shape, (group,)))
        products = [(op, times) for op, times in steps if isinstance(op, Product)]
        read = sum(times * op.count * op.k * op.n * op.right_bytes for op, times in products)
        attention = [(op, times) for op, times in steps if isinstance(op, Attention)]
        keys = sum(times * 2 * op.kv_heads * op.head_dim * op.element_bytes for op, times in attention)
        cached = group.count * group.cached if group.count > 1 else 0  # the keys of one sequence may be in the cache
        return roofline_ns(chip, sum(times * op.macs for op, times in products), read + keys * cached)

    token = decode_ns(one, shape, 1, 128)
    assert (0.4 if chip in GPUS else 0.75) < least_ns(Sequences(1, 1, 128)) / token < 0.96
    assert 0.3 < least_ns(Sequences(1, 4096, 0)) / prefill_ns(one, shape, 1, 4096) < 0.96
    batches = {many: decode_ns(one, shape, many, 512) for many in (1, 2, 4, 16, 64, 256)}
    times = list(batches.values())
    assert times == sorted(times)
    assert all(took > least_ns(Sequences(many, 1, 512)) for many, took in batches.items())
    assert batches[64] < 8 * batches[1]  # weights are read once for all sequences


OPERATIONS = (
    Vector("act_fn", "elementwise", 4096, 4096, 4.0 * 4096 * 4096, 5.0 * 4096 * 4096),
    Vector("layernorm", "norm", 16, 4096, 2.0e5, 4.0e5),
    Product(256, 4096, 4096),
    Product(16, 11008, 4096),
    Product(2049, 640, 1376),
)
SEQUENCES = st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=3)


@given(st.sampled_from(("a100", "b200", "mi210", "wormhole_n150")), SEQUENCES)
@settings(max_examples=12)
def test_the_number_of_transfers_in_flight_changes_no_sequence_of_operations(chip: str, operations: list[Operation]) -> None:
    """Operations have no latency of DRAM between transfers, so 64 transfers in flight take as long as one at a time."""
    many, launches = host_machine(load_config(chip)), tuple(timer(chip).launch(op) for op in operations)
    assert many.dma.max_concurrent_transfers == 64
    data = many.to_dict()
    one = NpuConfig.model_validate({**data, "dma": {**data["dma"], "max_concurrent_transfers": 1}})
    ends = []
    for machine in (one, many):
        run = Machine(machine, launches_program("operations", machine, launches))
        run.run()
        ends.append(run.cycle)
    assert ends[0] == ends[1]
