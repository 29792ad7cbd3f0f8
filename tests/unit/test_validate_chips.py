"""Tables of measurements against the simulator: reading, baselines, tables left out, and the goals on the given tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernbench.analysis.chips.baselines import three_number_errors, three_numbers
from kernbench.analysis.chips.calibrate import calibrate
from kernbench.analysis.chips.columns import class_of
from kernbench.analysis.chips.leave_out import as_new, left_out
from kernbench.analysis.chips.tables import Table, other_tables, read_tables
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.datasheet import constants_of, memory_share, product_share
from kernbench.config.runtime import load_runtime
from kernbench.validate.chips import FOLDER, Target, validate_chips
from kernbench.validate.run import Options, Runner
from kernbench.validate.suite import Skipped, read_suite_data
from kernbench.validate.suites import chips
from kernbench.workloads.ops.operation import Attention, Collective, Product, Sequences
from kernbench.workloads.ops.timing import OperationTimer

HEAD = "id,class,op,m,n,k,flops,bytes,measured,unit,roofline,sample"
TINY = "id,chip,task,batch,measured,unit,roofline\n0,syntiant_ndp9120_30.7MHz,vww,1,78.6,inferences/s,\n"


def folder_of(tmp_path: Path, chip: str = "h100", name: str = "some_tp1_ops") -> Path:
    """A table of products whose times are 4 us and twice the roofline."""
    rows = [HEAD]
    for i, m in enumerate((1, 16, 128, 256, 512, 1000, 1024, 2000, 2048, 3000, 4000, 4096)):
        flops, moved = 2 * m * 4096 * 4096, 2 * (m * 4096 * 2 + 4096 * 4096)
        bound = max(flops / 989.4e6, moved / 3350e3)
        rows.append(f"{i},matmul,o_proj,{m},4096,4096,{flops},{moved},{4 + 2 * bound},us,{bound},1")
    (tmp_path / chip).mkdir(exist_ok=True)
    (tmp_path / chip / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_a_table_of_another_chip_is_read_and_compared(tmp_path: Path) -> None:
    (one,) = validate_chips(folder_of(tmp_path), [Target("*_ops.csv", 0.08, 0.15)])
    assert (one.chip, one.cases, one.rows, one.calibrated) == ("h100", 12, 12, False)
    assert one.three is not None and one.three < 0.01 and 0.5 < one.roofline < 1
    assert one.median <= one.worst_error and one.worst[0].causes


def test_a_table_must_be_nearer_than_three_numbers_unless_rows_were_left_out(tmp_path: Path) -> None:
    """The table of this test is made of three numbers, so they are nearer than any simulation."""
    folder = folder_of(tmp_path)
    for quick, verdict in ((False, "fail"), (True, "info")):
        found = chips.rows(read_suite_data("chips"), Runner(Options(chip_tables=folder, quick=quick)))
        (row,) = (one for one in found if one.case.endswith("three numbers"))
        assert row.verdict == verdict


def test_three_numbers_find_what_made_the_table(tmp_path: Path) -> None:
    (table,) = read_tables(folder_of(tmp_path))
    numbers = three_numbers(table.cases)
    assert numbers.kernel == pytest.approx(4, rel=0.02)
    assert max(three_number_errors(table.cases, numbers)) < 0.02


def test_a_table_left_out_is_simulated_with_what_its_kin_on_the_chip_determines(tmp_path: Path) -> None:
    folder_of(tmp_path, "a100", "first_ops")
    for one in validate_chips(folder_of(tmp_path, "a100", "second_ops"), []):
        assert one.median > 0.3  # the chip's file is not made for these times
        assert one.left_out is not None and one.left_out < 0.6 * one.median and one.left_out_mean < 0.6 * one.mean


def test_the_kin_of_a_table_left_out_keeps_its_own_profile(tmp_path: Path) -> None:
    folder_of(tmp_path, name="some_tp1_ops")
    folder_of(tmp_path, name="llmcompass_matmul")  # the host's clock around a call: 25 us of other software
    events, clock = read_tables(tmp_path)
    assert (events.runtime, clock.runtime) == ("torch_eager", "kernel_only")
    machine, runtime = left_out(clock, [events, clock])
    assert runtime.ops["norm"].thread_bytes != load_runtime("kernel_only").ops["norm"].thread_bytes  # that table alone has it
    again, _ = left_out(clock, [events, clock])
    assert again == machine != load_config("h100")


def test_a_table_of_operations_left_out_is_fitted_to_its_own_laboratory(tmp_path: Path) -> None:
    (tmp_path / "a100").mkdir()
    for name, us in (("llmcompass_matmul", 0), ("llmcompass_gpt3_layer_tp4", 3000), ("vidur_llama2_7b_ops", 30000)):
        rows = [f"{m},matmul,matmul,{m},8192,8192,{2 * m * 8192**2},0,{us + m},us,1,1" for m in range(512, 4608, 512)]
        (tmp_path / "a100" / f"{name}.csv").write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")
    layer, matmul, vidur = read_tables(tmp_path)
    assert left_out(matmul, [layer, matmul, vidur])[0] == left_out(matmul, [layer, matmul])[0]
    assert left_out(matmul, [matmul, vidur])[0] != left_out(matmul, [matmul])[0]  # another laboratory is better than none


def test_keys_of_a_batch_of_attention_include_those_of_its_new_tokens(tmp_path: Path) -> None:
    head = "id,batch,prefill_chunk,kv_cache,class,op,measured,unit,roofline"
    rows = [f"{i},{one},attention,any,20,us,1" for i, one in enumerate(("1,32,512", "1,512,512", "2,0,512"))]
    (tmp_path / "a6000").mkdir()
    (tmp_path / "a6000" / "some_attention.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    (table,) = read_tables(tmp_path)
    operations = [one.operation for one in table.cases]
    assert [one.groups for one in operations if isinstance(one, Attention)] == [
        (Sequences(1, 32, 480),), (Sequences(1, 512, 0),), (Sequences(2, 1, 511),),
    ]  # fmt: skip
    assert not any(one.causal for one in operations if isinstance(one, Attention))


def test_columns_say_how_attention_of_any_chip_was_measured(tmp_path: Path) -> None:
    """A row of batches read as a step with one prefill would lose every decode."""
    heads = {
        "batches": "id,batch,prefill_chunk,kv_cache,class,op,measured,unit,roofline\n0,4,0,512,attention,decode,20,us,1\n",
        "steps": "id,prefill_chunk,kv_prefill,n_decode,kv_decode,class,op,measured,unit,roofline\n"
        "0,0,0,4,511,attention,decode,20,us,1\n",
    }
    (tmp_path / "h100").mkdir()
    for name, text in heads.items():
        (tmp_path / "h100" / f"{name}_attention.csv").write_text(text, encoding="utf-8")
    batches, steps = read_tables(tmp_path)
    assert (batches.runtime, steps.runtime) == ("flash_attention", "kernel_only")
    ((batch,), (step,)) = ([one.operation for one in table.cases] for table in (batches, steps))
    assert isinstance(batch, Attention) and isinstance(step, Attention)
    assert batch.groups == step.groups == (Sequences(4, 1, 511),)


def test_a_table_of_operations_needs_no_known_name(tmp_path: Path) -> None:
    (table,) = read_tables(folder_of(tmp_path, "rtxpro6000", "another_model"))
    assert (table.chip, table.runtime, len(table.cases)) == ("rtxpro6000", "kernel_only", 12)


def launches(tmp_path: Path, *operations: tuple[str, str]) -> Iterator[Table]:
    """A table under `torch_eager` for each operation, given by name and class, in order of names."""
    (tmp_path / "a100").mkdir()
    for name, kind in operations:
        text = f"{HEAD}\n0,{kind},{name},4096,1024,{1024 if kind == 'matmul' else ''},0,16777216,50,us,8,1\n"
        (tmp_path / "a100" / f"llmcompass_{name}.csv").write_text(text, encoding="utf-8")
    return read_tables(tmp_path)


def test_what_only_the_table_left_out_looks_up_is_removed_from_its_profile(tmp_path: Path) -> None:
    matmul, softmax = launches(tmp_path, ("matmul", "matmul"), ("softmax", "norm"))
    profile = load_runtime("torch_eager")
    _, without = left_out(matmul, [matmul, softmax])
    assert "matmul" not in without.launch_ns
    assert without.launch("matmul", "matmul") == profile.launch_ns["softmax"]
    assert without.behind("matmul", "matmul") == profile.behind_ns["softmax"]
    assert without.launch_ns["softmax"] == profile.launch_ns["softmax"]


def test_a_table_left_out_takes_the_launch_of_what_the_host_calls_in_the_same_way(tmp_path: Path) -> None:
    gelu, layernorm, softmax = launches(tmp_path, ("gelu", "elementwise"), ("layernorm", "norm"), ("softmax", "norm"))
    profile = load_runtime("torch_eager")
    _, without = left_out(gelu, [gelu, layernorm, softmax])
    assert without.launch("gelu", "elementwise") == profile.launch("layernorm", "norm")
    assert without.behind("gelu", "elementwise") == profile.behind("layernorm", "norm") != profile.behind("gelu", "elementwise")


def test_calls_of_collectives_say_nothing_of_other_operations(tmp_path: Path) -> None:
    operations = [("all_reduce", "collective"), ("matmul", "matmul"), ("softmax", "norm")]
    reduce, matmul, softmax = launches(tmp_path, *operations)
    _, without = left_out(replace(matmul, family="operations"), [replace(reduce, family="operations"), softmax])
    assert without.launch("matmul", "matmul") == load_runtime("torch_eager").launch_ns["softmax"]


def test_a_table_of_models_left_out_loses_what_only_models_determine(tmp_path: Path) -> None:
    files = {
        "tpuv5e/jetstream_x": "id,model,chips,dtype,batch,cache_length,max_input,max_output,measured\n"
        "0,Llama 3 - 8B,8,bfloat16,128,2048,1024,1024,8249\n",
        "wormhole_n150/wormhole_llm_decode": "id,model,chips,batch,measured\n0,Llama-3.1-8B,1,1,28.3\n",
        "edge/mlperf_tiny_x": TINY,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    tables = list(read_tables(tmp_path))
    (chip, tiny), (_, jetstream), (_, decode) = (left_out(one, tables) for one in tables)
    assert tiny == load_runtime("none") and float(chip.freq_ghz) == 0.0307  # the clock is a fact
    own = load_runtime("jetstream")
    assert jetstream.sequence_ns != own.sequence_ns and jetstream.step_ns == own.step_ns == 0
    assert jetstream.attention == own.attention  # how the software works is known without the table
    ttnn = load_runtime("tt_transformers")
    assert ttnn.vocabulary_ns > 0 == decode.vocabulary_ns and ttnn.ops["collective"].start_ns > 0
    assert decode.ops["collective"].start_ns == 0  # no other profile of models has a start of collectives
    assert decode.ops["matmul"].kernels == ttnn.ops["matmul"].kernels > 1  # counted in the code of the software


def test_shares_of_other_chips_are_compared_beside_their_limits_of_power(tmp_path: Path) -> None:
    folder_of(tmp_path, "a100")
    a100, rtx = read_tables(folder_of(tmp_path, "rtx4090"))
    machine, _ = left_out(rtx, [a100, rtx])
    chip, other = load_config("rtx4090").chip, load_config("a100")
    assert chip is not None and other.chip is not None and other.chip.power_share < 1 == chip.power_share
    share = other.te.macs_per_cycle / (other.chip.cores * other.chip.macs(8)) / other.chip.power_share
    assert float(machine.te.macs_per_cycle / (chip.cores * chip.macs(8))) == pytest.approx(float(share))


def test_a_chip_left_out_has_the_dram_of_chips_with_the_same_kind(tmp_path: Path) -> None:
    """The only other chip with a table has GDDR, and takes its products to the chip that is left out."""
    folder_of(tmp_path, "rtx4090")
    a100, rtx = read_tables(folder_of(tmp_path, "a100"))
    machine, _ = left_out(a100, [a100, rtx])
    assert memory_share(machine) == pytest.approx(memory_share(load_config("mi210")), rel=1e-4)
    assert memory_share(left_out(rtx, [a100, rtx])[0]) == pytest.approx(memory_share(load_config("a6000")), rel=1e-4)


def test_a_table_left_out_keeps_the_clock_that_its_laboratory_states(tmp_path: Path) -> None:
    """A fitted value of the laboratory is lost, and the rate of products follows from other chips and this clock."""
    (table,) = read_tables(folder_of(tmp_path, "mi210", "llmcompass_matmul"))
    assert table.elsewhere is not None and table.elsewhere.chip is not None and table.machine is not None
    assert table.elsewhere.te.macs_per_cycle == load_config("mi210").te.macs_per_cycle > table.machine.te.macs_per_cycle
    machine, _ = left_out(table, [table])
    clock = float(table.elsewhere.chip.rated_clock_ghz / machine.freq_ghz)
    assert clock == pytest.approx(1.4 / 1.7)
    others = [constants_of(load_config(name)).product_share for name in ("a100", "a6000", "rtx4090")]
    assert float(product_share(machine)) == pytest.approx(clock * float(sorted(others)[1]), rel=1e-4)
    new = as_new(table)
    assert new is not None and float(product_share(new)) == pytest.approx(clock * float(sorted(others)[1]), rel=1e-4)


def test_a_table_of_a_chip_without_a_machine_is_skipped(tmp_path: Path) -> None:
    (one,) = validate_chips(folder_of(tmp_path, "abacus"), [])
    assert one.skipped == "there is no machine for abacus" and one.cases == 0


def test_every_file_is_named_with_what_became_of_it(tmp_path: Path) -> None:
    for name in ("microbench/load_latency", "rtx4090/served_requests", "rtx4090/unknown"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.csv").write_text("id,measured\n0,1\n1,2\n", encoding="utf-8")
    found = {one.name: (one.rows, one.cases, one.skipped) for one in validate_chips(folder_of(tmp_path), [])}
    assert found == {
        "h100/some_tp1_ops.csv": (12, 12, ""),
        "microbench/load_latency.csv": (2, 0, 'this table belongs to another suite, "caches"'),
        "rtx4090/served_requests.csv": (2, 0, 'this table belongs to another suite, "serving"'),
        "rtx4090/unknown.csv": (2, 0, "no reader is known for its name or its columns"),
    }


def test_a_clock_at_the_end_of_a_name_is_that_of_the_chip(tmp_path: Path) -> None:
    (tmp_path / "edge").mkdir()
    file = tmp_path / "edge" / "mlperf_tiny_v12.csv"
    file.write_text(TINY, encoding="utf-8")
    (slow,) = validate_chips(tmp_path, [])
    file.write_text(TINY.replace("30.7MHz", "61.4MHz"), encoding="utf-8")
    (fast,) = validate_chips(tmp_path, [])
    assert (slow.chip, slow.skipped, slow.cases) == ("ndp120", "", 1) and slow.median < 0.1
    assert fast.points[0][1] == pytest.approx(2 * slow.points[0][1], rel=0.001)


def test_rows_across_nodes_are_a_table_of_their_own(tmp_path: Path) -> None:
    head = "id,workers,devices_per_node,size_bytes,class,op,bytes,measured,unit,roofline"
    size = 1 << 24
    rows = [f"{node},2,{node},{size},collective,send_recv,{size},{us},us,56" for node, us in ((2, 70), (1, 2200))]
    (tmp_path / "a100").mkdir()
    (tmp_path / "a100" / "vidur_send_recv.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    within, across = read_tables(tmp_path)
    assert (within.name, across.name) == ("a100/vidur_send_recv.csv", "a100/vidur_send_recv.csv, across nodes")
    assert [(len(one.cases), one.family) for one in (within, across)] == [(1, "collective"), (1, "network")]
    for one in validate_chips(tmp_path, []):
        assert one.median < 0.1, one.name


def test_a_folder_that_is_not_there_skips_the_suite(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="name one with --data"):
        chips.results(read_suite_data("chips"), Runner(Options(chip_tables=tmp_path / "no")))


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the measured tables are not there: {FOLDER}")
def test_goals_are_reached_on_the_given_tables() -> None:
    targets = [Target(**one) for one in read_suite_data("chips").fact("targets")]
    for one in validate_chips(FOLDER, targets, quick=True):
        if one.skipped:
            continue
        goal = one.target or Target("")
        assert one.median <= (goal.median or 1) and one.mean <= (goal.mean or 1), one.name
        assert goal.each is None or one.worst_error <= goal.each, one.name
        assert one.roofline is None or one.median < one.roofline, one.name


def test_times_of_operations_may_have_other_units_and_types(tmp_path: Path) -> None:
    """The same product in us and ms has one error; FP8 halves the bytes and doubles the rate."""
    head = "id,class,op,dtype,m,n,k,measured,unit\n"
    rows = "".join(
        f"{i},matmul,up,{dtype},4096,8192,8192,{took}\n"
        for i, (dtype, took) in enumerate((("bf16", "900,us"), ("fp16", "0.9,ms"), ("fp8", "500,us")))
    )
    wrong = "3,matmul,up,fp7,64,64,64,1,us\n4,matmul,up,bf16,64,64,64,1,cycles\n"
    (tmp_path / "h100").mkdir()
    (tmp_path / "h100" / "own.csv").write_text(head + rows + wrong, encoding="utf-8")
    (table,) = read_tables(tmp_path)
    timer = OperationTimer(load_config("h100"), load_runtime("kernel_only"), simulate=False)
    micro, milli, narrow = (case.ask(timer) for case in table.cases)
    assert milli == pytest.approx(micro / 1e3) and 0.45 < narrow / micro < 0.6
    assert table.cases[1].compute_us == pytest.approx(table.cases[0].compute_us / 1e3)
    assert [note.split(", but")[0] for note in table.notes] == [
        "row 3 cannot be read: dtype = 'fp7'", "row 4 cannot be read: unit = 'cycles'",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "runtime"), [("vidur_dgx_all_gather", "nccl_events"), ("own_collectives", "nccl_tests")])
def test_a_table_of_collectives_is_recognised_by_its_columns(name: str, runtime: str, tmp_path: Path) -> None:
    (tmp_path / "h100").mkdir()
    text = "id,workers,size_bytes,class,op,bytes,measured,unit\n0,8,67108864,collective,all_gather,58720256,300,us\n"
    (tmp_path / "h100" / f"{name}.csv").write_text(text, encoding="utf-8")
    (table,) = read_tables(tmp_path)
    assert (table.runtime, table.family) == (runtime, "collective")
    assert table.cases[0].operation == Collective("all_gather", 8, 64 << 20)


def test_a_name_with_the_number_of_multipliers_is_a_variant_of_its_chip(tmp_path: Path) -> None:
    (tmp_path / "edge").mkdir()
    head = "id,chip,model,macs,measured,unit,roofline\n"
    names = ("u55_64", "u55_256", "u65_256")
    rows = "".join(f"{i},ethos_{name},MobileNet v2,3e8,7e6,NPU cycles,2e6\n" for i, name in enumerate(names))
    (tmp_path / "edge" / "ethos_fvp.csv").write_text(head + rows, encoding="utf-8")
    machines = [table.machine for table in read_tables(tmp_path)]
    rates = [machine and (machine.chip.array, machine.te.macs_per_cycle) for machine in machines]
    assert rates == [(8, 64), (8, 256), (16, 256)]


@pytest.mark.parametrize("given", ["768,2048", "2048,", "2048,2048"])
def test_the_experts_of_a_layer_are_one_product_for_each_that_is_used(given: str, tmp_path: Path) -> None:
    """Qwen3-30B-A3B chooses 8 of 128 experts, of three matrices of 768 x 2048: the row's work and traffic are kept."""
    lines, tokens, used = [HEAD], (1, 16, 128, 4096), (8, 82, 128, 128)
    weights = 3 * 768 * 2048
    for i, (m, experts) in enumerate(zip(tokens, used, strict=True)):
        moved = 2 * (experts * weights + m * (768 + 2048))
        lines.append(f"{i},moe,moe,{m},{given},{2 * m * 8 * weights},{moved},60,us,1,1")
    (tmp_path / "rtxpro6000").mkdir()
    (tmp_path / "rtxpro6000" / "qwen3_tp1_ops.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (table,) = read_tables(tmp_path)
    timer = OperationTimer(load_config("rtxpro6000"), load_runtime("kernel_only"), simulate=False)
    for case, m, experts in zip(table.cases, tokens, used, strict=True):
        op = case.operation
        assert isinstance(op, Product)
        assert op.parts[1] == pytest.approx(2 * experts * weights, rel=0.02 if m < 4096 else 0.1)
        assert 0.99 <= op.macs / (8 * m * weights) < 1.5  # whole rows for each expert
        assert case.ask(timer) > timer.time(replace(op, name="matmul", kind="matmul")).ns / 1e3 + 5  # five more kernels


def test_nvlink_joins_two_cards_in_nodes_of_pairs(tmp_path: Path) -> None:
    """Four cards then exchange data over PCIe, which takes several times as long as over NVLink."""
    (tmp_path / "h100").mkdir()
    text = "id,workers,devices_per_node,size_bytes,class,op,bytes,measured,unit\n"
    text += "".join(f"{i},{many},{many},67108864,collective,all_reduce,1,1000,us\n" for i, many in enumerate((2, 4)))
    for name in ("dgx", "pairwise_nvlink"):
        (tmp_path / "h100" / f"vidur_{name}_all_reduce.csv").write_text(text, encoding="utf-8")
    found = []
    for table in read_tables(tmp_path):
        assert table.machine is not None
        timer = OperationTimer(table.machine, load_runtime(table.runtime), simulate=False)
        found.append([case.ask(timer) for case in table.cases])
    (joined, all_joined), (pair, four) = found
    assert pair == joined and four > 5 * all_joined


def rows_read(tmp_path: Path, text: str, chip: str = "h100") -> Table:
    """The table that a file with this text is read as."""
    (tmp_path / chip).mkdir(exist_ok=True)
    (tmp_path / chip / "own.csv").write_text(text, encoding="utf-8")
    (table,) = read_tables(tmp_path)
    return table


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Time (us)", "us"), ("latency_ms", "ms"), ("measured [ns]", "ns"), ("kernel time µs", "us"), ("us", "us"),
        ("Duration (s)", "s"),
    ],
)  # fmt: skip
def test_a_column_of_times_may_have_its_unit_in_its_name(name: str, unit: str, tmp_path: Path) -> None:
    table = rows_read(tmp_path, f"Kernel Name,M,N,K,DType,notes,{name}\ngemm,64,4096,4096,bf16,first,12\n")
    (case,) = table.cases
    assert (case.measured, case.unit) == (12, unit)
    assert case.operation == Product(64, 4096, 4096, name="gemm", floats=True)


def test_a_class_that_is_missing_follows_from_the_name_of_the_operation(tmp_path: Path) -> None:
    names = {
        "rms_norm": "norm", "SiluAndMul": "elementwise", "softmax": "norm", "rotary_embedding": "elementwise",
        "q_proj": "matmul", "ncclAllReduce": "collective", "embedding": "gather", "topk_sampler": "other", "fused_moe": "moe",
    }  # fmt: skip
    assert {name: class_of({"op": name}) for name in names} == names
    assert class_of({"op": "qkv", "k": "64"}) == "matmul" and class_of({"op": "any", "n_decode": "4"}) == "attention"
    table = rows_read(tmp_path, "op,measured\nmystery,5\n")
    assert table.notes[0].startswith("line 2 cannot be read: class = '', but it must be one of matmul")


def test_collectives_may_have_the_columns_of_other_benchmarks(tmp_path: Path) -> None:
    table = rows_read(tmp_path, "op,ranks,size (B),time (us)\nAllReduce,8,1048576,40\nall-gather,8,1048576,40\n")
    found = [case.operation for case in table.cases]
    assert found == [Collective("all_reduce", 8, 1 << 20), Collective("all_gather", 8, 1 << 20)]


def test_a_table_of_two_times_names_both(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("class,op,m,n,k,mean_us,median_us\nmatmul,mm,1,2,3,4,5\n", encoding="utf-8")
    with pytest.raises(InputError, match="measured is not there; rename one of mean_us, median_us to measured"):
        calibrate(file, load_config("h100"), load_runtime("kernel_only"))


HEADS = "class,op,batch,kv_cache,heads,kv_heads,n_decode,n_big,kv_small,kv_big,measured"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "op,tokens,rows,time_us\nrms_norm,64,64,5\n",
            "m = nothing, but it must be at least 1; rename one of tokens, rows to m",
        ),
        ("op,time_us\nsilu,5\n", "m = nothing, but it must be at least 1"),
        ("op,m,n,time_us\ngemm,64,64,5\n", "k = nothing, but a product needs at least 1"),
        ("op,ranks,time_us\nAllReduce,8,40\n", "size_bytes = nothing, but it must be at least 1"),
        ("op,ranks,size,bytes,time_us\nAllReduce,8,64,128,40\n", "rename one of size, bytes to size_bytes"),
        ("op,size,time_us\nAllGather,64,40\n", "workers = nothing, but a collective needs the number of chips"),
        ("op,batch,time_us\nflash_attn,4,5\n", "kv_cache = nothing, but attention of 4 sequences needs their keys"),
        (f"{HEADS}\nattention,decode,4,512,7,3,,,,,5\n", "kv_heads = 3, but it must divide heads = 7"),
        (f"{HEADS}\nattention,decode,,,,,1,9,4,4,5\n", "n_big = 9, but it must be at most n_decode = 1"),
        ("op,m,n,k,time_us\ngemm,1,1,1,1e-300\n", "measured = 1e-300, but it must be above 0"),
    ],
)
def test_a_row_that_says_too_little_is_not_guessed(text: str, said: str, tmp_path: Path) -> None:
    table = rows_read(tmp_path, text)
    assert said in table.notes[0] and not table.cases


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("class,op,m,n,k,measured,measured", "own.csv:1: two columns have the name measured; remove or rename one of them"),
        ("class,op,m,n,k,unit,time_us", "own.csv:1: time_us names a unit, and so does the column unit; remove that column"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(head: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        rows_read(tmp_path, f"{head}\n")
    with pytest.raises(InputError, match=re.escape(said)):
        calibrate(tmp_path / "h100" / "own.csv", load_config("h100"), load_runtime("none"))


@pytest.mark.parametrize(("separator", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_values_that_are_not_separated_by_commas_are_named(separator: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "h100" / "own.csv"
    file.parent.mkdir()
    file.write_text(separator.join(("class", "op", "measured\nmatmul", "mm", "4\n")), encoding="utf-8")
    said = f"separate the values by commas instead of {name}"
    assert list(other_tables(tmp_path)) == [("h100/own.csv", 1, said)]
    with pytest.raises(InputError, match=said):
        calibrate(file, load_config("h100"), load_runtime("none"))


def test_a_table_without_rows_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("class,op,m,n,k,measured\n", encoding="utf-8")
    assert list(other_tables(tmp_path)) == [("own.csv", 0, "it has no rows")]


def test_a_length_is_no_time(tmp_path: Path) -> None:
    """A column `s` may have the length of a sequence."""
    (tmp_path / "h100").mkdir()
    (tmp_path / "h100" / "own.csv").write_text("op,b,s,h,time\nrms_norm,1,2048,4096,12\n", encoding="utf-8")
    assert not list(read_tables(tmp_path)) and len(list(other_tables(tmp_path))) == 1


def test_lines_are_counted_as_in_an_editor(tmp_path: Path) -> None:
    """Empty lines and lines within a cell count."""
    text = 'class,op,m,n,k,measured,note\n\nmatmul,mm,64,64,64,5,"two\nlines"\n\nmatmul,mm,64,64,x,6,\n'
    assert rows_read(tmp_path, text).notes[0].startswith("line 6 cannot be read: k = 'x'")
    with pytest.raises(InputError, match=re.escape("own.csv:6: the row cannot be read: k = 'x'")):
        calibrate(tmp_path / "h100" / "own.csv", load_config("h100"), load_runtime("none"))


def test_a_rate_of_whole_requests_without_a_batch_is_that_of_one(tmp_path: Path) -> None:
    head = "model,batch,input_tokens,output_tokens,measured,unit"
    table = rows_read(tmp_path, f"{head}\nLlama-3.1-8B,1,64,8,10,tokens/s\nLlama-3.1-8B,,64,8,10,tokens/s\n")
    timer = OperationTimer(load_config("h100"), load_runtime("vllm"), simulate=False)
    one, other = (case.ask(timer) for case in table.cases)
    assert one == other > 0


def test_columns_give_the_heads_of_attention(tmp_path: Path) -> None:
    head = "class,op,batch,prefill_chunk,kv_cache,num_heads,num_kv_heads,head_size,measured,unit"
    table = rows_read(tmp_path, f"{head}\nattention,decode,4,0,512,48,4,64,20,us\n")
    (op,) = (case.operation for case in table.cases)
    assert isinstance(op, Attention) and (op.heads, op.kv_heads, op.head_dim) == (48, 4, 64)


def test_the_heads_of_a_table_of_prefills_follow_from_work_and_traffic(tmp_path: Path) -> None:
    heads, kv_heads, new, before = 24, 4, 256, 512
    flops = 4 * heads * 128 * Sequences(1, new, before).pairs
    moved = 4 * new * heads * 128 + 4 * (new + before) * kv_heads * 128
    head = "prefill_chunk,kv_prefill,n_decode,kv_decode,class,op,flops,bytes,measured,unit"
    table = rows_read(tmp_path, f"{head}\n{new},{before},0,0,attention,prefill,{flops:.6g},{moved},20,us\n")
    (op,) = (case.operation for case in table.cases)
    assert isinstance(op, Attention) and (op.heads, op.kv_heads, op.head_dim) == (heads, kv_heads, 128)


def test_heads_of_each_model_and_division_are_its_own(tmp_path: Path) -> None:
    head = "model,tp,prefill_chunk,kv_prefill,n_decode,kv_decode,class,op,flops,bytes,measured,unit"
    rows = []
    for model, tp, heads in (("a", 1, 64), ("a", 2, 32), ("b", 1, 16)):
        moved = 4 * 8 * heads * 128 + 4 * 8 * 1024 * 4 * 128
        rows.append(f"{model},{tp},0,0,8,1024,attention,decode,{4 * heads * 128 * 8 * 1024},{moved},20,us")
    found = [case.operation for case in rows_read(tmp_path, "\n".join([head, *rows]) + "\n").cases]
    assert [(op.heads, op.kv_heads) for op in found if isinstance(op, Attention)] == [(64, 4), (32, 4), (16, 4)]


SIZES = "32,4096,32,8,128,14336,128256"  # of Llama-3.1-8B


def test_a_model_that_nobody_knows_is_described_by_its_columns(tmp_path: Path) -> None:
    """The columns have the names of config.json; the figures are those of the model that has these sizes."""
    head = "model,num_hidden_layers,hidden_size,num_attention_heads,num_key_value_heads,head_dim,intermediate_size,vocab_size"
    text = f"{head},phase,batch,input_tokens,output_tokens,measured,unit\n"
    for model, sizes in (("Own-8B", SIZES), ("Llama-3.1-8B", ",,,,,,")):
        for phase, unit in (("decode", "tokens/s"), ("prefill", "ms"), ("", "tokens/s"), ("tpot", "ms"), ("", "s")):
            text += f"{model},{sizes},{phase},4,1024,128,10,{unit}\n"
    text += "Own-9B,,,,,,,,decode,1,1024,128,10,ms\nOwn-9B,32,4096,,8,128,14336,128256,decode,1,1024,128,10,ms\n"
    table = rows_read(tmp_path, text)
    assert (table.family, table.runtime, len(table.cases)) == ("model", "vllm", 10)
    timer = OperationTimer(load_config("h100"), load_runtime("vllm"), simulate=False)
    found = [case.ask(timer) for case in table.cases]
    assert found[:5] == found[5:]
    decode, prefill, both, token, whole = found[:5]
    assert decode == pytest.approx(4 / (token / 1e3)) and both < decode
    assert whole == pytest.approx((prefill + 128 * token) / 1e3)
    assert whole == pytest.approx(4 * 128 / both, rel=0.01)  # which processes 2,048 tokens of prompts at a time
    assert table.notes[0].startswith("line 12 cannot be read: model = 'Own-9B', but the shape of that model is not known; give")
    assert table.notes[1] == "line 13 cannot be read: heads = nothing, but it must be at least 1"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("decode,1,1024,128,10,cycles", "unit = 'cycles', but it must be tokens/s"),
        (",1,1024,,10,ms", "unit = 'ms', but it must be tokens/s, or a time with prefill or decode in a column phase"),
        ("decode,1,,128,10,ms", "input_tokens = nothing, but the tokens of a prompt must be given"),
    ],
)
def test_rows_of_models_that_say_too_little_are_noted(cells: str, said: str, tmp_path: Path) -> None:
    table = rows_read(tmp_path, f"model,phase,batch,input_tokens,output_tokens,measured,unit\nLlama-3.1-8B,{cells}\n")
    assert said in table.notes[0] and not table.cases


def test_a_column_names_the_profile(tmp_path: Path) -> None:
    text = "runtime,class,op,m,n,k,measured\ntorch_eager,matmul,mm,64,4096,4096,40\nmagic,matmul,mm,64,4096,4096,40\n"
    (tmp_path / "h100").mkdir()
    (tmp_path / "h100" / "own.csv").write_text(text, encoding="utf-8")
    eager, magic = read_tables(tmp_path)
    assert eager.runtime == "torch_eager" and len(eager.cases) == 1
    assert magic.skipped.startswith("there is no runtime profile magic; the profiles are cuda_graph")


def test_a_row_that_is_too_long_to_simulate_does_not_stop_the_others(tmp_path: Path) -> None:
    head = "id,prefill_chunk,kv_prefill,n_decode,kv_decode,class,op,measured,unit"
    rows = "0,0,0,1,16,attention,decode,100,us\n1,65536,1048576,0,0,attention,prefill,1e9,us\n"
    (tmp_path / "ethos_u55").mkdir()
    (tmp_path / "ethos_u55" / "own.csv").write_text(f"{head}\n{rows}", encoding="utf-8")
    (one,) = validate_chips(tmp_path, [])
    assert (one.cases, one.rows) == (1, 2)
    assert "is skipped: ethos_u55.yaml" in one.notes[0] and "take a smaller shape" in one.notes[0]


def test_a_small_table_without_a_roofline_is_compared_with_that_of_its_shapes(tmp_path: Path) -> None:
    table = rows_read(tmp_path, "class,op,m,n,k,measured\nmatmul,mm,4096,4096,4096,200\n")
    assert table.cases[0].roofline == pytest.approx(2 * 4096**3 / 989.4e6, rel=0.01)
    found = list(chips.rows(read_suite_data("chips"), Runner(Options(chip_tables=tmp_path))))
    assert [row.case for row in found] == ["h100/own.csv: median, roofline"]


def test_a_folder_without_a_table_that_can_be_compared_skips_the_suite(tmp_path: Path) -> None:
    (tmp_path / "full" / "h100").mkdir(parents=True)
    (tmp_path / "full" / "h100" / "own.csv").write_text("id,measured\n1,2\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    said = {"empty": "the folder has no .csv file", "full": "no table can be compared: h100/own.csv: no reader is known"}
    for name, text in said.items():
        with pytest.raises(Skipped, match=re.escape(text)):
            list(chips.rows(read_suite_data("chips"), Runner(Options(chip_tables=tmp_path / name))))


def test_rows_of_models_without_a_roofline_are_reported(tmp_path: Path) -> None:
    rows_read(tmp_path, "model,phase,batch,input_tokens,measured,unit\nLlama-3.1-8B,prefill,1,1024,20,ms\n")
    (row,) = chips.rows(read_suite_data("chips"), Runner(Options(chip_tables=tmp_path)))
    assert (row.case, row.verdict) == ("h100/own.csv: median", "info")
