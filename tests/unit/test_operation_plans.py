"""Plans of operations on chips: waves, splits, caches, and estimates beside simulations."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.runtime import AttentionCost, OpCost, load_runtime
from kernbench.workloads.ops.attention import Block, _paged_splits, _times_read, block_of, plan_attention
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.named import DEFAULTS, operation_of
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences, Vector
from kernbench.workloads.ops.products import hindered_cycles, plan_product, product_plans
from kernbench.workloads.ops.schedule import makespan
from kernbench.workloads.ops.timing import OperationTimer
from kernbench.workloads.ops.vectors import plan_vector

RTX = load_config("rtx4090")
VIEW = ChipView.of(RTX)
JOBS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), max_size=6)


@given(JOBS, st.integers(1, 9))
def test_makespan_is_that_of_a_heap_of_cores(jobs: list[tuple[int, int]], cores: int) -> None:
    free = [0.0] * cores
    for cycles, count in jobs:
        for _ in range(count):
            heapq.heapreplace(free, free[0] + cycles)
    assert makespan([(float(cycles), count) for cycles, count in jobs], cores) == max(free)


def test_the_last_wave_of_a_product_counts_whole() -> None:
    one = ChipView.of(RTX.model_copy(update={"chip": RTX.chip.model_copy(update={"tiles": ((128, 128),)})}))
    plans = [plan for m in (256, 257) for plan in product_plans(one, Product(m, 64 * 128, 1024))]
    assert [plan.notes["waves"] for plan in plans if plan.notes["split"] == 1] == [1, 2]


def test_pauses_let_the_clock_rise_above_the_one_that_the_power_limit_allows() -> None:
    """Power is proportional to the cube of the clock: cores that are busy for 0.8 of the time run 0.8 ** (-1 / 3) as fast."""
    view, cost = ChipView.of(load_config("a100")), load_runtime("kernel_only").ops["matmul"]
    op = Product(4096, 4096, 4096)
    plain = plan_product(view, op, cost)
    took = plain.cycles(view.memory_rate)
    pauses = [(plain.body / busy - took) / view.freq for busy in (0.9, 0.8, 0.01)]
    rates = [plain.body / plan_product(view, op, cost, pause).body for pause in pauses]
    assert rates[:2] == pytest.approx([0.9 ** (-1 / 3), 0.8 ** (-1 / 3)], rel=5e-3)
    assert rates[2] == pytest.approx(1 / float(view.chip.power_share), rel=5e-3)
    assert plan_product(VIEW, op, cost, pauses[2]) == plan_product(VIEW, op, cost)  # an RTX 4090 is below its limit


def test_the_products_of_a_library_have_a_share_of_the_sustained_rate() -> None:
    op, half = Product(4096, 8192, 4096), OpCost.model_validate({"share": "0.5"})
    assert plan_product(VIEW, op, half).body == pytest.approx(2 * plan_product(VIEW, op).body, rel=0.02)


def test_a_product_takes_at_least_its_multiply_adds_and_its_bytes() -> None:
    for op in (Product(1, 4096, 4096), Product(272, 28672, 4096), Product(2048, 6144, 4096)):
        kernel = plan_product(VIEW, op)
        assert kernel.body >= op.macs / (VIEW.macs(16) * VIEW.chip.cores)
        assert kernel.nbytes == op.nbytes


def test_bytes_that_the_cache_keeps_do_not_come_from_memory() -> None:
    kept = int(VIEW.kept_bytes)
    small, large = (Vector("add", "elementwise", 1, 1, float(size), 0.0) for size in (kept, kept + 1000))
    assert plan_vector(VIEW, small, OpCost()).nbytes == 0
    assert plan_vector(VIEW, large, OpCost()).nbytes == pytest.approx(1000, abs=1)


def test_results_in_place_are_written_back_if_the_cache_cannot_hold_them() -> None:
    """A norm in place, twice the cache: half of the cache holds results, and the other bytes are read and written."""
    cache = int(VIEW.chip.cache_bytes or 0)
    cost = OpCost.model_validate({"resident": "0.5"})
    short, long = (Vector("norm", "norm", 1, 1, float(size), 0.0) for size in (cache // 2, 4 * cache))
    assert plan_vector(VIEW, short, cost).nbytes == pytest.approx(cache / 4 - VIEW.kept_bytes)
    assert plan_vector(VIEW, long, cost).nbytes == pytest.approx(3.5 * cache - VIEW.kept_bytes)
    rows_again = replace(long, kind="gather")
    assert plan_vector(VIEW, rows_again, cost).nbytes == pytest.approx(2 * cache - VIEW.kept_bytes)


@pytest.mark.parametrize("chip", ["a40", "h100", "mi300x", "rtxpro6000"])
@pytest.mark.parametrize("profile", ["kernel_only", "vidur_kernels", "torch_eager"])
def test_a_long_vector_operation_takes_at_least_its_bytes_over_the_rated_bandwidth(chip: str, profile: str) -> None:
    machine, runtime = load_config(chip), load_runtime(profile)
    timer = OperationTimer(machine, runtime, simulate=False)
    for name, kind, moved in (("layernorm", "norm", 8), ("act_fn", "elementwise", 6), ("rotary_emb", "elementwise", 4)):
        op = Vector(name, kind, 65536, 8192, 65536.0 * 8192 * moved, 0.0)
        assert timer.time(op).ns > 0.98 * op.nbytes / float(timer.view.chip.rated_memory_gb_s)


def test_bytes_in_flight_bound_the_rate_of_a_vector_kernel() -> None:
    """Little's law: half the bytes a thread, half the rate; above the cache's rate there is nothing to gain."""
    one = Vector("add", "elementwise", 64, 1024, 1e6, 0.0)
    few, more, many = (plan_vector(VIEW, one, OpCost(thread_bytes=count)).body for count in (1, 2, 1000))
    assert few == pytest.approx(2 * more) and many == plan_vector(VIEW, one, OpCost()).body < more
    threads = VIEW.chip.cores * VIEW.chip.core_threads
    assert few == pytest.approx(1e6 * 2 * float(VIEW.chip.cache_latency_cycles) / threads)


def test_loads_that_miss_the_cache_have_the_latency_of_dram_under_way() -> None:
    long = Vector("add", "elementwise", 4096, 65536, 1e9, 0.0)
    turn = 2 * (VIEW.chip.cache_latency_cycles + (1 - VIEW.kept_bytes / 1e9) * (VIEW.latency - VIEW.chip.cache_latency_cycles))
    body = plan_vector(VIEW, long, OpCost(thread_bytes=1)).body
    assert body == pytest.approx(1e9 * turn / (VIEW.chip.cores * VIEW.chip.core_threads))


def test_a_row_longer_than_its_block_takes_a_chain_a_turn_and_the_last_turn_wastes_threads() -> None:
    def plan(width: int, turn: int) -> Kernel:
        return plan_vector(VIEW, Vector("act", "elementwise", 64, width, 1e6, 0.0), OpCost(chain=2, turn_elements=turn))

    assert plan(1024, 1024).start == plan(11008, 0).start == 2 * VIEW.latency
    assert plan(11008, 1024).start == 11 * plan(1024, 1024).start
    assert plan(11264, 1024).body == plan(1024, 0).body
    assert plan(1376, 1024).body == pytest.approx(plan(1024, 1024).body * 2048 / 1376)


def test_few_rows_of_a_gather_follow_each_other() -> None:
    cost = OpCost(chain=1, serial_rows=16, row_chain=2)
    one, many, more = (plan_vector(VIEW, Vector("emb", "gather", rows, 4096, 1e6, 0.0), cost).start for rows in (1, 16, 17))
    assert many - one == 15 * 2 * VIEW.latency and more == VIEW.latency


def test_rows_are_read_again_from_the_cache_as_far_as_it_holds_those_of_running_blocks() -> None:
    cost = OpCost(again=1, block_threads=VIEW.chip.core_threads, held_elements=1024)
    cache = int(VIEW.chip.cache_bytes)
    fits = cache // 2 // VIEW.chip.cores  # bytes of a row in and out, a block on each core
    for nbytes, missed in ((fits, 0.0), (2 * fits, 0.5), (4 * fits, 0.75)):
        op = Vector("layernorm", "norm", 10 * VIEW.chip.cores, 2048, 10.0 * VIEW.chip.cores * nbytes, 0.0)
        assert plan_vector(VIEW, op, cost).nbytes == pytest.approx(op.nbytes * (1 + missed / 2) - VIEW.kept_bytes, rel=1e-3)
        assert plan_vector(VIEW, replace(op, width=1024), cost).nbytes == pytest.approx(op.nbytes - VIEW.kept_bytes)


@pytest.mark.parametrize(
    ("shape", "rows", "measured"),
    [((28672, 4096), (256, 272), (378, 605)), ((6144, 4096), (512, 528), (166, 211)), ((4096, 4096), (256, 272), (59, 86))],
)
def test_another_wave_of_a_product_takes_what_was_measured(
    shape: tuple[int, int], rows: tuple[int, int], measured: tuple[int, int]
) -> None:
    """Within 5 % on both sides of the end of a wave (LLMServingSim 5daddb21, in us)."""
    timer = OperationTimer(RTX, load_runtime("kernel_only"), simulate=False)
    for m, expected in zip(rows, measured, strict=True):
        assert timer.time(Product(m, *shape)).ns / 1e3 == pytest.approx(expected, rel=0.05)


def test_a_library_does_not_expect_that_tiles_of_few_rows_are_faster() -> None:
    timer = OperationTimer(RTX, load_runtime("kernel_only"), simulate=False)
    taken = timer.plan(Product(272, 28672, 4096))
    fastest = min(product_plans(timer.view, Product(272, 28672, 4096), every=True), key=lambda one: one.body)
    assert (taken.notes["tile"], taken.notes["waves"]) == ("128x64", 11)
    assert fastest.body < taken.body and str(fastest.notes["tile"]).startswith(("16x", "32x", "64x"))


def test_keys_of_one_repeated_sequence_come_from_the_cache_if_they_fit() -> None:
    """16,384 keys of 4 KiB are 67 MB, which the 72 MiB of an RTX 4090 hold; 57 us are measured (LLMServingSim 5daddb21)."""
    timer = OperationTimer(RTX, load_runtime("kernel_only"), simulate=False)
    one, two, long = (
        timer.time(Attention((Sequences(count, 1, keys),), 32, 8, 128)) for count, keys in ((1, 16384), (2, 8192), (1, 32768))
    )
    assert one.kernel.read_bytes == 0 and one.ns / 1e3 == pytest.approx(57, rel=0.06)
    assert two.kernel.read_bytes > 60e6 and long.kernel.read_bytes > 130e6
    other = OperationTimer(RTX, load_runtime("vllm"), simulate=False).plan(Attention((Sequences(1, 1, 16384),), 32, 8, 128))
    assert other.read_bytes > 60e6


@pytest.mark.parametrize(("workers", "steps"), [(2, 2), (4, 6), (8, 14)])
def test_a_short_all_reduce_is_the_start_of_its_kernel_and_the_steps_of_a_ring(workers: int, steps: int) -> None:
    """NCCL's tuner assumes 6.6 us and 0.6 us a step of a ring over NVLink. A graph saves the launch alone."""
    op = Collective("all_reduce", workers, 8)
    graph, stream = (
        OperationTimer(load_config("a100"), load_runtime(name), simulate=False) for name in ("cuda_graph", "nccl_tests")
    )
    assert graph.device_ns(op) == pytest.approx(1340 + 6600 + 600 * steps, rel=1e-3)
    assert stream.time(op).ns == pytest.approx(graph.device_ns(op) + 2620 - 1340)
    gather = OperationTimer(load_config("a100"), load_runtime("none"), simulate=False).device_ns(replace(op, name="all_gather"))
    assert gather == pytest.approx(6600 + 600 * steps / 2, rel=1e-3)


def test_short_all_reduces_of_four_gpus_take_the_measured_time() -> None:
    """12.4 us for 8 to 128 bytes, 28.7 us for 128 KiB between four A100 (LLMCompass 2e015fd2)."""
    timer = OperationTimer(load_config("a100"), load_runtime("nccl_tests"), simulate=False)
    for size, measured in ((8, 12.52), (128, 12.35), (1 << 17, 28.66)):
        assert timer.time(Collective("all_reduce", 4, size)).ns / 1e3 == pytest.approx(measured, rel=0.07)


def test_chips_that_are_no_gpus_add_their_parts_in_a_tree() -> None:
    timer = OperationTimer(load_config("tpuv5e"), load_runtime("none"), simulate=False)
    assert timer.device_ns(Collective("all_reduce", 8, 8)) == pytest.approx(3 * 1000, rel=1e-3)


def test_long_messages_of_trainium_use_its_links_and_short_ones_do_not() -> None:
    """16 chips: 64 KiB as in a decode step, where its table was measured, and 1 GiB."""
    chip = load_config("trainium1").chip
    assert chip is not None and chip.links_short_share is not None
    timer = OperationTimer(load_config("trainium1"), load_runtime("none"), simulate=False)
    rated = chip.links * float(chip.link_gb_s)  # [byte/ns]
    for size, slower, share in ((1 << 16, 1, float(chip.links_short_share)), (1 << 30, 4, 0.75)):
        sent = size * 2 * 15 / 16
        wanted = 4 * slower * float(chip.link_latency_ns) + sent / (rated * share)
        assert timer.device_ns(Collective("all_reduce", 16, size)) == pytest.approx(wanted)


def test_floats_of_8_bits_are_expanded_where_no_multiplier_takes_them() -> None:
    """An A100 has multipliers for integers of 8 bits alone, an H100 also for floats."""
    took = {}
    for name in ("a100", "h100"):
        timer = OperationTimer(load_config(name), load_runtime("none"), simulate=False)
        for dtype in ("f16", "i8", "f8e4m3"):
            values = {"m": 8192, "n": 8192, "k": 8192, "dtype": dtype}
            took[name, dtype] = timer.device_ns(operation_of("matmul", DEFAULTS | values, "x"))
    assert took["a100", "i8"] < 0.55 * took["a100", "f16"] and took["a100", "f8e4m3"] > 0.9 * took["a100", "f16"]
    assert took["h100", "i8"] == took["h100", "f8e4m3"] < 0.55 * took["h100", "f16"]


def test_a_message_that_the_cache_does_not_hold_is_sent_more_slowly() -> None:
    """31 and 37 MB take 115 and 170 us between two A100 (Vidur 7d47513)."""
    timer = OperationTimer(load_config("a100"), load_runtime("nccl_events"), simulate=False)
    for size, measured in ((31_064_064, 115), (37_355_520, 170)):
        assert timer.time(Collective("send_recv", 2, size)).ns / 1e3 == pytest.approx(measured, rel=0.05)


def test_a_library_leaves_a_small_result_to_one_core() -> None:
    timer = OperationTimer(load_config("wormhole_n150"), load_runtime("ttnn_trace"), simulate=False)
    default, by_hand = (timer.time(Product(512, 512, 512, name=name)).ns for name in ("matmul", "matmul_by_hand"))
    assert default > 10 * by_hand
    assert timer.time(Product(544, 544, 512)).ns < 2 * by_hand


def test_one_core_multicasts_the_operand_that_a_row_of_blocks_shares() -> None:
    """512 x 2048 x 1024 takes longer than twice the rows: 142 us and 115 us are measured (tt-metal 14eb2fbc)."""
    timer = OperationTimer(load_config("wormhole_n150"), load_runtime("ttnn_trace"), simulate=False)
    row, column, both, by_hand = (
        timer.time(Product(m, n, 1024, passes=2, name=name)).ns / 1e3
        for m, n, name in ((512, 2048, "matmul"), (2048, 512, "matmul"), (1024, 2048, "matmul"), (512, 2048, "matmul_by_hand"))
    )
    assert row == pytest.approx(142, rel=0.1) and row == pytest.approx(column) and row > both > by_hand


def test_a_tensix_streams_weights_while_it_computes_one_row_of_tiles() -> None:
    timer = OperationTimer(load_config("wormhole_n150"), load_runtime("ttnn_trace"), simulate=False)
    one, two = (timer.plan(Product(rows, 4096, 4096, 1.0, 1.0, 1.0, 8)) for rows in (32, 33))
    assert two.serial and not one.serial


def test_the_channels_of_a_depthwise_convolution_share_the_array_of_an_npu() -> None:
    """16 channels on 8 columns, one element of the window a cycle. A full one does 16 times the work in twice the time."""
    chip = {"te.macs_per_cycle": "64", "chip.core_macs": "{8: 64}"}
    timer = OperationTimer(load_config("ethos_u55", chip), load_runtime("none"), simulate=False)
    near = (True, False, True)
    depthwise = timer.plan(Product(100, 1, 9, 1 / 9, 1.0, 1.0, 8, count=16, near=near)).body
    assert depthwise == 2 * 100 * 9
    assert timer.plan(Product(100, 16, 16 * 9, 1 / 9, 1.0, 1.0, 8, near=near)).body == pytest.approx(2 * depthwise, rel=0.02)


def test_maps_in_the_chip_cross_the_memory_that_its_cores_share() -> None:
    timer = OperationTimer(load_config("ethos_u55"), load_runtime("none"), simulate=False)
    plan = timer.plan(Product(1000, 8, 8, 1.0, 1.0, 1.0, 8, near=(True, False, True)))
    assert plan.body == 2 * 8000 / 8 and plan.nbytes == 64


def test_nodes_exchange_data_over_their_network_adapters() -> None:
    """46 MB a GPU take 6.0 ms between two A100 of different nodes, 0.26 ms in one node (Vidur 7d47513)."""
    lab = {"chip.nic_gb_s": "7.8"}
    timer = OperationTimer(load_config("a100", lab), load_runtime("nccl_events"), simulate=False)
    across, within, four = (
        timer.time(Collective("send_recv", workers, 47_185_920, node=node)).ns / 1e6
        for workers, node in ((2, 1), (2, 2), (8, 4))
    )
    assert across == pytest.approx(6.08, rel=0.02) and within < 0.3 and four < across / 3


def test_a_prefill_in_the_step_ends_the_split_of_keys() -> None:
    timer = OperationTimer(RTX, load_runtime("kernel_only"))
    decode = Attention((Sequences(1, 1, 16384),), 32, 8, 128)
    mixed = replace(decode, groups=(*decode.groups, Sequences(1, 16, 0)))
    assert timer.time(mixed).ns > 5 * timer.time(decode).ns


def test_each_block_of_attention_without_a_mask_reads_all_keys() -> None:
    timer = OperationTimer(RTX, load_runtime("none"), simulate=False)
    rows = VIEW.chip.attention_rows
    masked = Attention((Sequences(1, 8 * rows, 0),), VIEW.chip.cores, 1, 128)
    late = replace(masked, groups=(Sequences(1, rows, 7 * rows),))
    assert timer.plan(replace(masked, causal=False)).body == pytest.approx(8 * timer.plan(late).body)
    assert timer.plan(masked).body < 6 * timer.plan(late).body


def test_heads_that_share_keys_read_them_again_where_sequences_fill_the_cores() -> None:
    timer = OperationTimer(RTX, load_runtime("kernel_only"))
    few, many = (timer.plan(Attention((Sequences(count, 1, 4096), Sequences(1, 16, 0)), 32, 8, 128)) for count in (8, 128))
    assert many.read_bytes / few.read_bytes == pytest.approx(4 * 128 / 8, rel=0.05)


def test_keys_are_read_again_by_blocks_that_start_long_after_others() -> None:
    """Two jobs of each head: one for each of two sequences, and one without keys. Two heads share keys."""
    starts = [[0.0, 9.0], [1.0], [14.0, 5.0], [2.0], [0.0, 0.0], [3.0], [0.0, 100.0], [4.0]]
    assert _times_read(starts, [0, -1], 2, 10.0) == [(1 + 1 + 1 + 2) / 4]  # gaps of 5 (twice), 0 and 100
    assert _times_read(starts, [0, -1], 2, 5.0) == [(1.5 + 1.5 + 1 + 2) / 4]
    assert _times_read(starts, [0, -1], 2, 4.0) == [(1.75 + 1.75 + 1 + 2) / 4]
    assert _times_read(starts, [0, -1], 4, 1e3) == [1]
    assert _times_read(starts, [0, -1], 4, 0.5) == [(2 + 4) / 2]


def test_a_long_prompt_separates_heads_that_share_keys() -> None:
    """Decodes of 32 sequences of 16,384 keys take 4.1 ms beside a short prompt, and 8.8 ms beside one of 2,048 tokens after
    1,024 keys: measured (LLMServingSim 5daddb21). Four heads run at a time, and a long prompt delays blocks of some of them."""
    timer = OperationTimer(RTX, load_runtime("kernel_only"), simulate=False)
    short, long = (
        timer.time(Attention((Sequences(32, 1, 16384), prompt), 32, 8, 128)).ns / 1e6
        for prompt in (Sequences(1, 16, 0), Sequences(1, 2048, 1024))
    )
    assert short == pytest.approx(4.1, rel=0.05) and long == pytest.approx(8.8, rel=0.05)


def test_a_mixed_step_on_a_tpu_reads_keys_once_and_has_no_empty_blocks() -> None:
    """Blocks hold all heads that share keys, so decodes beside a prefill cost about what they cost alone."""
    timer = OperationTimer(load_config("tpuv5e"), load_runtime("kernel_only"), simulate=False)
    decodes, prefill = Sequences(128, 1, 4096), Sequences(1, 512, 0)
    alone, first, both = (timer.plan(Attention(groups, 32, 8, 128)) for groups in ((decodes,), (prefill,), (decodes, prefill)))
    assert both.read_bytes == pytest.approx(alone.read_bytes + first.read_bytes, rel=0.01)
    assert both.notes["idle_blocks"] == 0
    assert timer.time(Attention((decodes, prefill), 32, 8, 128)).ns < 1.3 * timer.time(Attention((decodes,), 32, 8, 128)).ns


def test_heads_narrower_than_an_array_leave_a_part_of_it_idle() -> None:
    timer = OperationTimer(load_config("tpuv6e"), load_runtime("kernel_only"), simulate=False)
    narrow, wide = (timer.plan(Attention((Sequences(1, 4096, 0),), 8, 8, dim)).body for dim in (128, 256))
    assert narrow == wide


OPERATIONS: list[Operation] = [
    Product(1, 4096, 4096),
    Product(512, 6144, 4096),
    Product(4096, 28672, 4096),
    Vector("act_fn", "elementwise", 1024, 14336, 8.8e7, 0.0),
    Attention((Sequences(8, 1, 1024),), 32, 8, 128),
    Attention((Sequences(1, 512, 512),), 32, 8, 128),
    Collective("all_reduce", 4, 1 << 24),
]


@pytest.mark.parametrize("profile", ["none", "kernel_only", "torch_eager", "ttnn"])
@pytest.mark.parametrize("chip", ["rtx4090", "a100", "tpuv6e", "wormhole_n150"])
def test_the_estimate_of_a_plan_is_near_its_simulation(chip: str, profile: str) -> None:
    machine, runtime = load_config(chip), load_runtime(profile)
    simulated, estimated = (OperationTimer(machine, runtime, simulate=flag) for flag in (True, False))
    for op in OPERATIONS:
        assert math.isclose(simulated.time(op).ns, estimated.time(op).ns, rel_tol=0.04, abs_tol=20), op


def test_an_operation_is_planned_once_and_the_same_each_time() -> None:
    first, second = (OperationTimer(RTX, load_runtime("kernel_only")) for _ in range(2))
    for op in OPERATIONS:
        assert first.time(op) is first.time(op)
        assert first.time(op).ns == second.time(op).ns


@pytest.mark.parametrize(
    "op",
    [
        Product(10**9, 10**9, 10**6),
        Collective("all_reduce", 4, 10**21),
        Attention((Sequences(10**6, 1, 10**9),), 32, 8, 128),
        Vector("gelu", "elementwise", 1, 1, 1e20, 0.0),
    ],
)
def test_an_operation_that_cannot_be_simulated_is_refused(op: Operation) -> None:
    with pytest.raises(InputError, match=r"the simulation of an operation takes at most .*; take a smaller shape"):
        OperationTimer(RTX, load_runtime("none")).time(op)


def test_work_and_loads_of_equal_length_hinder_each_other() -> None:
    assert hindered_cycles(0, 100) == hindered_cycles(100, 0) == 0
    assert hindered_cycles(100, 100) == pytest.approx(19)
    assert hindered_cycles(50, 100) == pytest.approx(19 / 16)
    assert hindered_cycles(200, 100) < 0.001
    below, above = hindered_cycles(99.9, 100), hindered_cycles(100.1, 100)
    assert below == pytest.approx(above, rel=0.05)  # no step where the longer of the two changes


@pytest.mark.parametrize(
    ("chip", "kernel", "causal", "width", "block"),
    [
        ("rtx4090", "paged", True, 128, (64, 128, 1)),
        ("a100", "paged", True, 128, (64, 128, 2)),
        ("a100", "paged", True, 64, (64, 256, 2)),
        ("a6000", "flash", False, 128, (128, 32, 2)),
        ("a6000", "flash", True, 128, (64, 64, 2)),
        ("a100", "flash", True, 128, (128, 64, 2)),
        ("h100", "paged", True, 128, (128, 128, 1)),
        ("mi210", "paged", True, 128, (128, 128, 1)),
        ("a100", "chip", True, 128, (128, 128, 2)),
        ("a100", "paged", True, 80, (64, 128, 2)),
        ("a6000", "flash", False, 80, (128, 64, 2)),
        ("a6000", "flash", False, 192, (128, 64, 1)),
        ("a6000", "flash", True, 256, (64, 64, 1)),
        ("a100", "flash", True, 256, (128, 64, 1)),
    ],
)
def test_blocks_of_attention_are_those_of_the_softwares_kernel(
    chip: str, kernel: str, causal: bool, width: int, block: tuple[int, int, int]
) -> None:
    """FlashAttention's code chooses rows and keys by the instruction set, and shared memory limits the blocks on a core."""
    op = Attention((Sequences(1, 512, 0),), 32, 8, width, causal=causal)
    cost = AttentionCost(kernel=kernel)
    assert block_of(load_config(chip).chip, op, cost) == Block(*block, ahead=chip == "h100")


def test_products_of_attention_take_less_on_cores_with_more_multipliers() -> None:
    """With 64 rows, an RTX 4090 (256 products of 16 bits a core and cycle) takes 64 cycles of products for a key, and an A100
    and an RTX PRO 6000 (512) take less. Softmax and loads take the same number of cycles. On an A6000, blocks of 128 rows take
    86 cycles for a key if they have a core to themselves, and 77 if two share it: measured (LLMServingSim 5daddb21)."""

    def cycles(chip: str, kernel: str, heads: int, rows: int, *, causal: bool) -> float:
        view, cost = ChipView.of(load_config(chip)), AttentionCost(kernel=kernel)
        short, long = (
            plan_attention(view, Attention((Sequences(1, rows, keys),), heads, heads, 128, causal=causal), cost).body
            for keys in (4096, 8192)
        )
        return (long - short) / 4096

    assert cycles("rtx4090", "paged", 32, 64, causal=True) == pytest.approx(64 + 7 + 6.5)
    assert cycles("rtxpro6000", "paged", 32, 64, causal=True) == pytest.approx(32 + 7 + 6.5)
    assert cycles("a100", "paged", 32, 64, causal=True) == pytest.approx(16 + 7 + 6.5, rel=0.02)  # near its power limit
    assert cycles("a6000", "flash", 32, 128, causal=False) == pytest.approx(86, rel=0.03)
    assert cycles("a6000", "flash", 2 * 84, 128, causal=False) == pytest.approx(2 * 77, rel=0.03)


def test_heads_are_padded_to_the_width_of_a_kernel() -> None:
    timer = OperationTimer(RTX, load_runtime("kernel_only"), simulate=False)
    plans = [timer.plan(Attention((Sequences(1, 64, 8192),), 32, 32, dim)) for dim in (65, 80, 96, 97, 128)]
    assert plans[0].body < plans[1].body < plans[2].body < 1.05 * plans[0].body  # a wider head has only longer loads
    assert plans[2].body < 0.9 * plans[3].body
    assert [plan.read_bytes for plan in plans] == sorted({plan.read_bytes for plan in plans})


def test_a_short_prompt_on_a_hopper_gpu_hardly_slows_decodes_down() -> None:
    """FlashAttention 3 packs the heads that share keys into one block, and cuts keys beside a short prompt too."""
    timer = OperationTimer(load_config("h100"), load_runtime("kernel_only"), simulate=False)
    for count, keys in ((1, 16384), (8, 1024), (64, 4096), (128, 1024)):
        decodes = Attention((Sequences(count, 1, keys),), 32, 8, 128)
        mixed = replace(decodes, groups=(*decodes.groups, Sequences(1, 16, 0)))
        assert timer.time(mixed).ns == pytest.approx(timer.time(decodes).ns, rel=0.05)
        assert timer.plan(mixed).read_bytes == pytest.approx(timer.plan(decodes).read_bytes, rel=0.01)
    long = Attention((Sequences(1, 1, 16384), Sequences(1, 4096, 0)), 32, 8, 128)  # fills the cores, so no keys are cut
    assert timer.plan(long).start < timer.plan(replace(long, groups=(long.groups[0], Sequences(1, 16, 0)))).start


def test_decodes_on_a_hopper_gpu_are_bound_by_dram() -> None:
    """Its kernels load keys ahead, so a block of one query does not wait for each tile of keys."""
    timer = OperationTimer(load_config("h100"), load_runtime("vllm"), simulate=False)
    causes = timer.causes(Attention((Sequences(128, 1, 1025),), 32, 8, 128))
    assert causes["te"] < causes["memory"]


def all_reduce(chip: str, workers: int, nbytes: int, runtime: str = "nccl_tests", node: int = 0) -> tuple[float, str, int]:
    """[us] of the kernel of an all-reduce, how it is done, and its steps."""
    timer = OperationTimer(load_config(chip), load_runtime(runtime), simulate=False)
    kernel = timer.plan(Collective("all_reduce", workers, nbytes, node=node))
    return kernel.body / timer.view.freq / 1e3, str(kernel.notes["protocol"]), int(kernel.notes["steps"])


def test_an_all_reduce_over_nodes_is_a_ring_or_a_tree() -> None:
    """As NCCL's tuner counts: a ring has steps for all GPUs, a tree for the levels of nodes and the GPUs of a node."""
    short, way, many = all_reduce("a100", 256, 8, node=8)
    assert (way, many) == ("tree, low latency", 2 * (7 + 5))
    assert short == pytest.approx(6.6 + 2 * (7 * 0.6 + 5 * (5 + 10)), rel=1e-3)
    long, way, many = all_reduce("a100", 16, 1 << 30, node=8)
    assert (way, many) == ("ring, simple", 30)
    latency, rate = 1.4 * (28 * 6 + 2 * (14 + 20)), 8 * 25 * 0.8
    assert long == pytest.approx(8.4 + latency + 2 * 15 / 16 * (1 << 30) / rate / 1e3, rel=1e-3)
    assert all_reduce("a100", 2, 8, node=1)[0] == pytest.approx(6.6 + 2 * (5 + 10), rel=1e-3)  # one GPU a node


def test_gpus_without_links_of_their_own_use_pcie() -> None:
    assert all_reduce("l40", 4, 8)[0] == pytest.approx(6.6 + 6 * 1.0, rel=1e-2)
    assert all_reduce("l40", 4, 8, "vllm")[1] != "one kernel"
    (pair, *_), (four, *_) = (all_reduce("a40", workers, 64 << 20) for workers in (2, 4))
    assert four > 1.5 * 56.25 / 25 * pair * 0.9  # a bridge joins two cards, and four use PCIe


def test_servers_reduce_short_messages_in_one_kernel() -> None:
    """The sizes are those of vLLM and TensorRT-LLM; a message of all GPUs is read whole, or reduced in parts first."""
    for runtime, workers, whole, parts in (("vllm", 4, 512 << 10, 8 << 20), ("vllm", 8, 256 << 10, 8 << 20),
                                           ("trtllm", 8, 500_000, 8_000_000), ("trtllm", 4, 1_000_000, 8_000_000)):  # fmt: skip
        found = [all_reduce("a100", workers, nbytes, runtime)[1:] for nbytes in (whole - 1, whole, parts - 1, parts)]
        assert found[:3] == [("one kernel", 2), ("one kernel", 3), ("one kernel", 3)] and found[3][0] != "one kernel"
    assert all_reduce("a100", 8, 8)[1] == "low latency" == all_reduce("a100", 16, 8, "vllm")[1]
    assert all_reduce("a100", 8, 1024, "vllm")[0] == pytest.approx(2 * 3.4 + 7 * 1024 / 300e3, rel=1e-2)


def test_switches_reduce_long_messages_of_more_than_two_gpus() -> None:
    assert all_reduce("h100", 8, 256 << 20)[1] == "in the switches" == all_reduce("b200", 8, 256 << 20)[1]
    assert all_reduce("h100", 2, 256 << 20)[1] == "simple" == all_reduce("a100", 8, 256 << 20)[1]
    assert all_reduce("b200", 4, 256 << 20)[1] == "simple"  # 5/4 at 0.74 of the bandwidth is more than 3/2
    assert all_reduce("h100_pcie", 8, 256 << 20)[1] == "simple"  # a bridge joins two cards


def test_a_gpu_sends_its_whole_message_and_one_sum_if_the_switches_reduce() -> None:
    took, nbytes = all_reduce("h100", 8, 4 << 30)[0], 4 << 30
    assert took * 1e3 == pytest.approx(25_000 + nbytes * 9 / 8 / (18 * 25 * 0.75 * 0.85), rel=1e-3)


def test_a_long_message_over_pcie_does_not_wait_for_dram() -> None:
    """Loads from DRAM slow down messages over NVLink, not those over PCIe, which is slower than the loads."""
    for chip, rate in (("l40", 25.0), ("a100", 12 * 25 * 0.76)):
        timer = OperationTimer(load_config(chip), load_runtime("none"), simulate=False)
        short, long = (timer.device_ns(Collective("send_recv", 2, size << 20)) for size in (256, 512))
        assert long - short == pytest.approx((256 << 20) / rate, rel=1e-3)


def test_parts_of_keys_are_combined_only_where_keys_were_cut() -> None:
    """64 sequences occupy all cores, so their keys stay whole; those of one sequence are cut."""
    view, cost = VIEW, AttentionCost.model_validate({"kernel": "paged", "start_ns": 0, "split_ns": 5000})
    many, one = (plan_attention(view, Attention((Sequences(count, 1, 1024),), 32, 8, 128), cost) for count in (64, 1))
    assert many.notes["splits"] == 1 and many.start == view.cycles(4 * float(view.chip.graph_start_ns))
    assert one.notes["splits"] > 1 and one.start == view.cycles(5000)


def test_heads_that_share_keys_are_copied_into_another_order_if_a_decode_step_has_several_sequences() -> None:
    """FlashAttention 2 alone copies them; a step with a prompt has another kernel."""

    def start(heads: int, *groups: Sequences, chip: str = "rtx4090") -> float:
        cost = AttentionCost.model_validate({"kernel": "paged", "start_ns": 0, "split_ns": 0})
        return plan_attention(ChipView.of(load_config(chip)), Attention(groups, heads, 8, 128), cost).start

    two, prompt = Sequences(2, 1, 64), Sequences(1, 16, 0)
    assert start(32, two) > 0
    assert start(8, two) == start(32, Sequences(1, 1, 64)) == start(32, two, prompt) == start(32, two, chip="h100") == 0


def test_keys_are_cut_into_the_fewest_parts_that_nearly_fill_the_waves() -> None:
    """256 slots, nine tiles: 64 blocks fill 0.75 of a wave in three parts, and no number is better. 204 blocks fill 0.996
    of four waves in five parts."""
    assert [_paged_splits(blocks, 256, 9) for blocks in (8, 64, 128, 204, 205)] == [9, 3, 2, 5, 1]
    assert _paged_splits(64, 256, 1) == 1


def test_a_gpu_starts_the_blocks_of_a_prompt_head_by_head() -> None:
    """A prompt of 512 tokens has 8 blocks a head, which read 1 to 4 tiles of keys. The last heads start late, and their longest
    blocks last: 41 us are measured (LLMServingSim 5daddb21). In the order of their lengths, the blocks would take 32 us."""
    timer = OperationTimer(RTX, load_runtime("kernel_only"), simulate=False)
    prompt = Attention((Sequences(1, 512, 0),), 32, 8, 128)
    body = timer.plan(prompt).body
    assert timer.time(prompt).ns / 1e3 == pytest.approx(41, rel=0.08)
    block = float(VIEW.chip.attention_block_cycles)
    key = 64 * 2 * 128 / 256 + 1.75 * 64 / 16 + float(VIEW.chip.attention_key_cycles)  # products, softmax, waiting
    blocks = [block + tiles * 128 * key for tiles in (1, 1, 2, 2, 3, 3, 4, 4)]
    free = [0.0] * 128
    for cycles in blocks * 32:
        heapq.heapreplace(free, free[0] + cycles)
    assert body == max(free)
    assert makespan([(cycles, 32) for cycles in blocks], 128) < 0.8 * body


def test_the_last_job_of_a_core_is_faster_if_the_core_has_no_other() -> None:
    """Two cores take two jobs each. Of five jobs of 10 cycles, the fifth has a core to itself from cycle 10 on."""
    assert makespan([(10.0, 5)], 2, 2, 0.6) == 16
    assert makespan([(10.0, 5)], 2, 2) == makespan([(10.0, 5)], 4) == 20
    assert makespan([(10.0, 7)], 2, 2, 0.6) == 20  # one core has two jobs at the end
    assert makespan([(10.0, 4)], 2, 2, 0.6) == 10
    starts: list[list[float]] = []
    assert makespan([(10.0, 3), (4.0, 30)], 4, starts=starts) == 38
    assert starts[0] == [0.0] * 3 and len(starts[1]) == 30 and max(starts[1]) == 34


def test_kernels_that_load_keys_ahead_start_the_longest_blocks_first_and_no_empty_ones() -> None:
    step = Attention((Sequences(4, 1, 8192), Sequences(1, 1024, 0)), 32, 8, 128)
    cost = load_runtime("vllm").attention
    h100, a100 = (ChipView.of(load_config(chip)) for chip in ("h100", "a100"))
    ahead, grid = (plan_attention(view, step, cost) for view in (h100, a100))
    assert ahead.notes["idle_blocks"] == 0 < grid.notes["idle_blocks"]
    assert plan_attention(h100, replace(step, groups=step.groups[::-1]), cost).body == ahead.body


@pytest.mark.parametrize("profile", ["none", "neuron", "jetstream"])
def test_attention_without_kernels_of_its_own_has_no_start_of_its_own(profile: str) -> None:
    """`none` has no software, and compilers put attention into the graph of a whole step."""
    timer = OperationTimer(load_config("tpuv5e"), load_runtime(profile), simulate=False)
    start = timer.launch(Product(1, 128, 128)).kernel.start
    assert timer.launch(Attention((Sequences(1, 1, 1024),), 32, 8, 128)).kernel.start == start


def attention_share(chip: str, tokens: int = 8192) -> float:
    """Work of a long causal prompt, as a share of the rated products."""
    timer = OperationTimer(load_config(chip), load_runtime("kernel_only"), simulate=False)
    op, section = Attention((Sequences(1, tokens, 0),), 32, 8, 128), timer.view.chip
    rate = section.cores * float(section.macs(16)) * float(section.rated_clock_ghz)
    return 2 * op.groups[0].pairs * op.heads * op.head_dim / timer.time(op).ns / rate


def test_attention_of_amd_gpus_follows_their_multipliers() -> None:
    """Blocks multiply and compute the softmax one after the other, as on NVIDIA GPUs: more multipliers take less time, and the
    softmax, which does not, takes a larger share of it."""
    old, middle, new = (attention_share(chip) for chip in ("mi210", "mi300x", "mi355x"))
    assert old > middle > new > 0.35


def test_a_head_of_half_an_arrays_width_uses_half_of_it() -> None:
    """A TPU v6e's array has 256 rows and columns, and multiplies eight times as much in a cycle as a TPU v5e's."""
    assert attention_share("tpuv6e") == pytest.approx(attention_share("tpuv5e") / 2, rel=0.1)


def test_one_more_decode_than_there_are_cores_does_not_double_the_time() -> None:
    """Keys are cut so that waves are nearly full, whoever made the GPU."""
    timer = OperationTimer(load_config("mi210"), load_runtime("kernel_only"), simulate=False)
    times = [timer.time(Attention((Sequences(many, 1, 1024),), 32, 8, 128)).ns for many in (13, 14)]
    assert times[1] < 1.2 * times[0]


def test_chains_of_loads_and_turns_of_threads_are_those_of_gpus() -> None:
    """A kernel of another chip starts with the latency of its first load, whatever the profile says of GPUs."""
    profile = load_runtime("kernel_only")
    ops = {name: cost.model_copy(update={"chain": None, "turn_elements": 0}) for name, cost in profile.ops.items()}
    plain = profile.model_copy(update={"ops": ops})
    for op in (Product(1, 4096, 4096), Vector("act_fn", "elementwise", 65536, 14336, 6e9, 1e9)):
        for chip, same in (("tpuv5e", True), ("rtx4090", False)):
            first, second = (OperationTimer(load_config(chip), one, simulate=False).device_ns(op) for one in (profile, plain))
            assert (first == second) == same
