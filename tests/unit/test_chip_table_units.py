"""Units, types, chips and networks as tables of whole models write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.analysis.chips.figures import figure_of, weight_bits
from kernbench.analysis.chips.leave_out import as_new
from kernbench.analysis.chips.tables import Table, read_tables
from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.networks import network_of, task_network
from kernbench.workloads.ops.timing import OperationTimer

STATIC = "id,chip,model,dtype,tp,batch,input_tokens,output_tokens,measured,unit"
GPT_FAST = "id,chip,model,weight_bits,gpus,batch,prompt_tokens,measured,unit"
NEURON = "id,chip,model,chips,tp,batch,input_tokens,output_tokens,weight_dtype,measured,unit"


def read(tmp_path: Path, name: str, head: str, *rows: str) -> list[Table]:
    """The tables of a file with these rows."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return list(read_tables(tmp_path))


def figures(tables: list[Table]) -> list[float]:
    """What the simulator says of each row."""
    found = []
    for table in tables:
        assert table.machine is not None and not table.notes, table
        timer = OperationTimer(table.machine, load_runtime(table.runtime), simulate=False)
        found += [case.ask(timer) for case in table.cases]
    return found


@pytest.mark.parametrize("each", ["tok/s/GPU", "tokens/s/GPU", "output tok/s a GPU", "tokens per second per GPU", "tok/s/chip"])
def test_a_rate_of_each_chip_is_a_share_of_the_rate_of_all(each: str, tmp_path: Path) -> None:
    rows = (f"{i},h100,Llama-2-70B,fp8,4,64,128,128,1000,{unit}" for i, unit in enumerate(("tok/s", each)))
    whole, one = figures(read(tmp_path, "llm/trtllm_throughput.csv", STATIC, *rows))
    assert one == pytest.approx(whole / 4)


@pytest.mark.parametrize("each", ["tok/s per user", "tok/s/user", "t/s/u", "tokens/sec per sequence"])
def test_a_rate_of_each_user_is_a_share_of_the_rate_of_the_batch(each: str, tmp_path: Path) -> None:
    head = "id,chip,model,chips,batch,weights,measured,unit"
    rows = (f"{i},wormhole,Llama-3.1-70B,8,32,bfp8,15,{unit}" for i, unit in enumerate(("tok/s", each)))
    whole, one = figures(read(tmp_path, "wormhole_n150/wormhole_llm_decode.csv", head, *rows))
    assert one == pytest.approx(whole / 32)


def test_a_time_of_a_token_is_the_inverse_of_the_rate_of_a_user(tmp_path: Path) -> None:
    rows = [
        f"{i},a100,Llama-2-7B,16,1,8,5,100,{unit}" for i, unit in enumerate(("tok/s/user", "ms per token", "us", "ms/token"))
    ]
    rate, ms, us, other = figures(read(tmp_path, "llm/gpt_fast.csv", GPT_FAST, *rows))
    assert ms == other == pytest.approx(1e3 / rate) and us == pytest.approx(1e3 * ms)


@pytest.mark.parametrize(("unit", "many"), [("ktok/s", 1e3), ("K tokens/s", 1e3), ("Mtok/s", 1e6), ("million tokens/s", 1e6)])
def test_a_rate_may_be_counted_in_thousands_or_millions(unit: str, many: float) -> None:
    one, scaled = figure_of("tok/s"), figure_of(unit)
    assert one is not None and scaled is not None
    assert scaled.value(1e6, made=64, sequences=8) * many == pytest.approx(one.value(1e6, made=64, sequences=8))


@pytest.mark.parametrize("unit", ["tokens/s/W", "tokens/s per W", "FPS/W", "samples/s/$", "tok/s per MHz", "tok/s/user/W"])
def test_a_rate_of_something_else_is_not_a_rate(unit: str) -> None:
    """Neither a chip nor a user: the figure would be wrong by any factor."""
    assert figure_of(unit) is None


def test_a_number_of_bits_in_the_name_of_a_model_is_that_of_its_method() -> None:
    assert weight_bits("Qwen2.5-7B-Instruct-GPTQ-Int8", name=True) == 8
    assert weight_bits("Qwen2.5-7B-Instruct-GPTQ", name=True) == 4


def test_a_rate_in_a_table_of_times_is_a_rate(tmp_path: Path) -> None:
    units = ("ms per output token (p50)", "output tok/s")
    rows = (f"{i},trainium1,Llama-3-70B,16,32,4,128,1024,bf16,25,{unit}" for i, unit in enumerate(units))
    ms, rate = figures(read(tmp_path, "trainium1/neuron_trn1_decode.csv", NEURON, *rows))
    assert rate == pytest.approx(4e3 / ms)


def test_whole_requests_may_be_counted_or_timed(tmp_path: Path) -> None:
    units = ("tok/s", "requests/s", "s", "ms per output token")
    rows = (f"{i},h100,Llama-2-7B,fp16,1,8,128,64,1000,{unit}" for i, unit in enumerate(units))
    tokens, requests, seconds, each = figures(read(tmp_path, "llm/lmdeploy_static.csv", STATIC, *rows))
    assert requests == pytest.approx(tokens / 64) and seconds == pytest.approx(8 / requests)
    assert each == pytest.approx(seconds * 1e3 / 64)


@pytest.mark.parametrize("unit", ["tok/s", "ms per output token"])
def test_a_figure_of_tokens_needs_their_number(unit: str, tmp_path: Path) -> None:
    rows = (f"{i},h100,Llama-2-7B,fp16,1,8,128,{made},1000,{unit}" for i, made in enumerate(("", "0", "64")))
    (table,) = read(tmp_path, "llm/lmdeploy_static.csv", STATIC, *rows)
    assert len(table.cases) == 1
    assert all("output_tokens = nothing, but" in note for note in table.notes) and len(table.notes) == 2


def test_a_rate_of_tokens_in_an_unknown_table_needs_a_phase_or_a_number(tmp_path: Path) -> None:
    """It was read as one token of each prompt."""
    head = "id,chip,model,phase,batch,input_tokens,output_tokens,measured,unit"
    rows = (f"{i},h100,Llama-2-7B,{some},1000,tok/s" for i, some in enumerate((",8,128,", "decode,8,128,", ",8,128,64")))
    (table,) = read(tmp_path, "h100/own.csv", head, *rows)
    (note,) = table.notes
    assert len(table.cases) == 2 and "row 0" in note and "column phase" in note


def test_the_time_of_a_network_may_be_given_for_its_rate(tmp_path: Path) -> None:
    head = "id,chip,model,batch,gmacs,measured,unit"
    rows = (f"{i},rk3588,yolov8n,1,,40,{unit}" for i, unit in enumerate(("frames/s", "FPS", "ms", "ms per inference")))
    rate, fps, ms, other = figures(read(tmp_path, "rk3588/rknn_zoo.csv", head, *rows))
    assert fps == rate and ms == other == pytest.approx(1e3 / rate)


def test_an_unknown_unit_is_noted(tmp_path: Path) -> None:
    (table,) = read(tmp_path, "llm/gpt_fast.csv", GPT_FAST, "0,a100,Llama-2-7B,16,1,1,5,100,GB/s")
    assert "unit = 'GB/s', but it must be one of tokens/s, tokens/s/GPU" in table.notes[0] and not table.cases


def test_what_is_counted_and_of_whom() -> None:
    tokens = figure_of("output tokens/s")
    assert tokens is not None and (tokens.rate, tokens.what, tokens.user, tokens.chip) == (True, "tokens", False, False)
    for unit, what in (("requests/s", "requests"), ("qps", "requests"), ("samples/sec", "samples"), ("fps", "samples")):
        found = figure_of(unit)
        assert found is not None and found.rate and found.what == what
    for unit in ("cycles", "NPU cycles", "GB/s", "", "%"):
        assert figure_of(unit) is None


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("bf16", 16), ("bfloat16", 16), ("FP8", 8), ("fp8_e4m3", 8), ("e5m2", 8), ("int8", 8), ("w8a8", 8), ("w4a16", 4),
        ("NVFP4", 4), ("MXFP4", 4), ("awq", 4), ("GPTQ-Int4", 4), ("float32", 32), ("4-bit", 4), ("half", 0), ("", 0),
    ],
)  # fmt: skip
def test_types_of_weights_have_bits(text: str, bits: int) -> None:
    assert weight_bits(text) == bits


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("Llama-2-13B", 0), ("Llama-2-13B-w4", 4), ("Qwen2.5-7B-Instruct-AWQ", 4), ("Llama-3.1-8B-FP8", 8), ("Mixtral-8x7B", 0),
        ("phi-4", 0), ("Phi-3-mini-4k-instruct", 0), ("mistral-7b-q4", 4),
    ],
)  # fmt: skip
def test_names_of_models_may_have_the_bits_of_their_weights(name: str, bits: int) -> None:
    assert weight_bits(name, name=True) == bits


def test_a_decode_with_narrower_weights_is_faster(tmp_path: Path) -> None:
    """By the column, or by the name of the model; weights of 4 bits have scales beside them."""
    models = ("Llama-2-13B,fp32", "Llama-2-13B,bf16", "Llama-2-13B,int8", "Llama-2-13B,w4a16", "Llama-2-13B-w4,")
    head = "chip,model,dtype,batch,input_tokens,output_tokens,phase,measured,unit"
    rows = (f"a100,{model},1,128,64,decode,10,ms" for model in models)
    times = figures(read(tmp_path, "misc/own.csv", head, *rows))
    assert times[0] > times[1] > times[2] > times[3] == times[4]


def test_the_type_of_the_cache_may_have_a_column(tmp_path: Path) -> None:
    head = "chip,model,kv_dtype,batch,input_tokens,output_tokens,phase,measured,unit"
    rows = (f"a100,Llama-2-13B,{kind},16,4096,64,decode,10,ms" for kind in ("", "fp16", "fp8"))
    plain, wide, narrow = figures(read(tmp_path, "misc/own.csv", head, *rows))
    assert plain == wide > 1.3 * narrow


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("NVIDIA H100 80GB SXM5", "h100"), ("A100-SXM4-80GB", "a100"), ("A100 40GB", "a100_40gb"), ("H100 PCIe", "h100_pcie"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"), ("rtx_pro_6000", "rtxpro6000"), ("RTX A6000", "a6000"), ("Tesla T4", "t4"),
        ("AMD Instinct MI300X", "mi300x"), ("TPU v5e", "tpuv5e"), ("Trillium", "tpuv6e"), ("trn2", "trainium2"),
        ("n150", "wormhole_n150"), ("Ethos-U55", "ethos_u55"), ("Jetson AGX Orin 64GB", "jetson_agx_orin"),
        ("Gaudi 3", "gaudi3"),
    ],
)  # fmt: skip
def test_chips_have_the_names_that_tables_give_them(name: str, chip: str, tmp_path: Path) -> None:
    (table,) = read(tmp_path, "llm/own.csv", "chip,class,op,m,n,k,measured", f"{name},matmul,mm,64,4096,4096,40")
    assert table.chip == chip and table.cases


def test_a_chip_that_has_no_file_is_skipped(tmp_path: Path) -> None:
    (table,) = read(tmp_path, "llm/own.csv", "chip,class,op,m,n,k,measured", "GH200 480GB,matmul,mm,64,4096,4096,40")
    assert table.skipped == "there is no machine for gh200 480gb"


def test_a_clock_follows_the_name_that_a_vendor_gives_a_chip(tmp_path: Path) -> None:
    head = "id,chip,task,batch,measured,unit"
    rows = (f"{i},syntiant_ndp120_{mhz}MHz,Keyword Spotting,1,100,inferences/s" for i, mhz in enumerate((30, 60)))
    slow, fast = figures(read(tmp_path, "edge/mlperf_tiny_v10.csv", head, *rows))
    assert load_config("ndp120").chip is not None and fast == pytest.approx(2 * slow, rel=0.01)


def test_a_chip_with_another_clock_is_no_faster_a_cycle_by_its_datasheet(tmp_path: Path) -> None:
    head, row = "id,chip,task,batch,measured,unit", "0,syntiant_ndp120_{mhz}MHz,vww,1,100,inferences/s"
    rates = []
    for mhz in (30, 90):
        (table,) = read(tmp_path, "edge/mlperf_tiny_v10.csv", head, row.format(mhz=mhz))
        new = as_new(table)
        assert new is not None and new.chip is not None
        assert new.te.macs_per_cycle <= new.chip.cores * new.chip.macs(8)
        rates.append(new.te.macs_per_cycle)
    assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("name", "task"),
    [("Visual Wake Words", "vww"), ("Person Detection", "vww"), ("Keyword Spotting (DS-CNN)", "kws"),
     ("Anomaly Detection", "ad"), ("Image Classification", "ic")],
)  # fmt: skip
def test_tasks_have_their_networks(name: str, task: str) -> None:
    assert task_network(name) == network_of(task) and task_network("speech") is None


@pytest.mark.parametrize(
    ("name", "millions"),  # of multiply-adds, as published with the weights
    [("mobilenet_v1_0.25_128_quant", 14), ("mobilenet_v1_1.0_224", 569), ("MobileNetV2 0.35 96", 11),
     ("MobileNet v2 1.4 224", 582), ("mobilenetv2-12", 300)],
)  # fmt: skip
def test_names_of_mobilenet_have_its_width_and_its_input(name: str, millions: int) -> None:
    net = network_of(name)
    assert net is not None and net.macs / 1e6 == pytest.approx(millions, rel=0.1)


def test_a_network_whose_layers_are_not_known_has_the_multiply_adds_of_its_row(tmp_path: Path) -> None:
    head = "id,chip,use_case,model,macs,measured,unit"
    rows = (f"{i},ethos_u55_256,asr,Wav2Letter,{macs},1e6,NPU cycles" for i, macs in enumerate((1e9, 2e9)))
    one, two = figures(read(tmp_path, "edge/ethos_fvp.csv", head, *rows))
    assert two == pytest.approx(2 * one, rel=0.01)


def test_the_memory_of_a_stream_of_weights_follows_from_the_parameters(tmp_path: Path) -> None:
    head = "id,chip,model,size,dtype,memory_mb,measured,unit"
    rows = ("0,rk3588,Own,2B,w8a8,2000,10,tok/s", "1,rk3588,Own,2B,w8a8,,10,tok/s", "2,rk3588,Own,2B,w4a16,,10,ms per token")
    given, derived, ms = figures(read(tmp_path, "rk3588/rkllm.csv", head, *rows))
    assert given == derived and 1e3 / ms > 1.3 * given
