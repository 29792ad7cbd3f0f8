"""`kbsim llm --runtime`: the kernels of a chip in sequence, and what the command refuses."""

from __future__ import annotations

import json

import pytest

from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.serving import generate
from kernbench.workloads.models.files import load_model
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.step import decode_ns, prefill_ns
from kernbench.workloads.ops.timing import OperationTimer
from tests.cli.conftest import Kbsim

LLM = ("llm", "-c", "a100", "--model", "llama2-7b")


@pytest.mark.parametrize(("runtime", "tp", "bits"), [("cuda_graph", 1, 16), ("torch_eager", 1, 16), ("vllm", 2, 8)])
def test_a_run_is_the_sum_of_its_steps(runtime: str, tp: int, bits: int) -> None:
    run = generate("llama2-7b", "a100", runtime, prompt=100, tokens=3, batch=2, tp=tp, weight_bits=bits)
    timer, model, widths = OperationTimer(load_config("a100"), load_runtime(runtime)), load_model("llama2-7b"), Widths(bits / 8)
    assert model.description is not None
    steps = [decode_ns(timer, model.description, 2, 100 + i, tp=tp, widths=widths) for i in range(3)]
    assert run.ttft_ns == pytest.approx(prefill_ns(timer, model.description, 2, 100, tp=tp, widths=widths), rel=1e-4)
    assert run.tpot_ns == pytest.approx(sum(steps) / 3, rel=1e-4)
    assert run.tokens_per_s == pytest.approx(2 * 3 / sum(steps) * 1e9, rel=1e-4)
    decode = run.phases[-1]
    assert (decode.context, decode.steps, decode.tokens) == (101, 3, 6)
    launches = sum(op.count * float(timer.runtime.step_launch(op.name, op.kind)) for op in decode.operations)
    assert decode.launches_ns == pytest.approx(3 * launches)


def test_the_tables_show_the_numbers_of_the_json(kbsim: Kbsim) -> None:
    given = (*LLM, "--runtime", "cuda_graph", "--tokens", "2", "--phase", "decode")
    plain, text = json.loads(kbsim(*given, "--json").out), kbsim(*given).out
    assert (plain["model"], plain["machine"], plain["runtime"], plain["w"]) == ("llama2-7b", "a100.yaml", "cuda_graph", 16)
    decode = plain["phases"]["decode"]
    assert set(plain["phases"]) == {"decode"} and plain["ttft_ns"] is None and "TTFT" not in text
    assert plain["tpot_ns"] == pytest.approx(decode["ns"] / 2)
    kernels = sum(op["count"] * op["ns"] for op in decode["operations"])
    assert decode["ns"] / 2 == pytest.approx(kernels + decode["steps_ns"] / 2, rel=0.01)
    assert f"{plain['tokens_per_s']:.0f} tokens/s" in text and "1 x 22016 x 4096" in text


def test_runs_are_compared(kbsim: Kbsim) -> None:
    given = (*LLM, "--runtime", "cuda_graph", "--tokens", "1", "--compare", "prompt=128,2k", "--compare", "w=4,16")
    runs = json.loads(kbsim(*given, "--json").out)["runs"]
    assert [run["case"] for run in runs] == [{"prompt": p, "w": w} for p in (128, 2048) for w in (4, 16)]
    assert runs[1]["tpot_ns"] > 2 * runs[0]["tpot_ns"] and runs[3]["ttft_ns"] > 4 * runs[1]["ttft_ns"]
    table = kbsim(*given).out
    assert table.count("2,048") == 2 and "matmul: DRAM" in table


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("--pp", "2", "--plan"), "--pp: with --runtime, the steps of a chip are its kernels in sequence"),
        (("--kv", "4"), "--kv = 4, but on a chip, keys and values have 8 or 16 bits"),
        (("--a", "4"), "--a = 4, but on a chip, activations have 8 or 16 bits"),
        (("--compare", "pp=1,2"), 'runs cannot be compared by "pp"; choose one of w, a, kv, prompt, batch, tp'),
        (("-m", "mixtral-8x7b"), "take fewer bits of weights (--w 8) or more chips (--tp 2)"),
        (("-m", "llama3-70b", "--w", "4", "--batch", "64", "--prompt", "8k"), "(--tp 4), a smaller batch (--batch 18)"),
        (("-m", "llama3.1-405b", "-c", "a100_8x", "--tp", "8"), "take fewer bits of weights (--w 8)"),
        (("-m", "llama3.1-405b", "--w", "4"), "take more chips (--tp 4)"),
        (("-m", "llama3.1-405b", "-c", "a100_8x", "--tp", "1", "--w", "4", "--prompt", "4m"), "take a chip with more memory"),
    ],
)
def test_what_kernels_do_not_take_is_refused(given: tuple[str, ...], rule: str, kbsim: Kbsim) -> None:
    model = () if "-m" in given else ("-m", "llama2-7b")
    chip = () if "-c" in given else ("-c", "a100")
    said = kbsim("llm", *chip, *model, "--runtime", "vllm", *given)
    assert said.code == 2 and rule in said.err


def test_a_machine_that_is_no_chip_is_refused(kbsim: Kbsim) -> None:
    for name in ("npu_server", "pod_8sip"):
        said = kbsim("llm", "-c", name, "--runtime", "vllm")
        assert said.code == 2 and f"error: {name}.yaml: a runtime profile times the kernels of a chip" in said.err


def test_without_a_runtime_a_note_names_the_option(kbsim: Kbsim) -> None:
    given = (*LLM, "--phase", "decode", "--tokens", "1", "--layers", "1")
    assert "--runtime NAME" in kbsim(*given).err and "--runtime" not in kbsim(*given, "-q").err
