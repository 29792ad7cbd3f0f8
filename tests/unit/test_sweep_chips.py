"""Sweeps over real chips: operations and language models under runtime profiles are those of the other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.serving import generate
from kernbench.sweep.targets.target import target_of
from kernbench.workloads.ops.operation import Product
from kernbench.workloads.ops.timing import OperationTimer

LLM = {"llm": "llama3-8b", "label": "llama", "params": {"runtime": "vllm", "prompt": 64, "tokens": 2, "tp": 2}}


def op(**params: Any) -> dict[str, Any]:
    return {"op": "matmul", "label": "product", "params": params}


def test_an_operation_takes_the_time_of_its_kernel() -> None:
    row = target_of(op(m=64, runtime="torch_eager")).simulate(load_config("a100"), {"dtype": "i8", "w": 4})
    wanted = OperationTimer(load_config("a100"), load_runtime("torch_eager")).time(Product(64, 4096, 4096, 1.0, 0.5, 2.0, 8))
    assert row["ns"] == pytest.approx(wanted.ns, abs=1e-3) and row["status"] == "done"
    assert row["metrics"]["tflop_per_s"] == pytest.approx(2 * 64 * 4096 * 4096 / wanted.ns / 1e3)


def test_a_model_takes_the_time_of_its_kernels() -> None:
    row = target_of(LLM).simulate(load_config("h100"), {"batch": 4, "w": 8, "a": 8, "kv": 8})
    run = generate(
        "llama3-8b", "h100", "vllm", prompt=64, tokens=2, batch=4, tp=2, weight_bits=8, activation_bits=8, kv_bits=8
    )
    assert row["metrics"]["tokens_per_s"] == pytest.approx(run.tokens_per_s)
    assert (row["metrics"]["ttft_ns"], row["metrics"]["tpot_ns"]) == (run.ttft_ns, run.tpot_ns)
    assert row["ns"] == pytest.approx(sum(phase.ns for phase in run.phases), abs=1e-3)


@pytest.mark.parametrize(
    ("plain", "params", "rule"),
    [
        (op(), {"rows": 4}, "there is no such parameter"),
        (op(), {"m": 0}, "it must be at least 1"),
        (op(), {"m": "16"}, "it must be an integer"),
        (op(), {"dtype": "fp8"}, "it must be one of f32"),
        (op(), {"w": 32}, "at most 16, the bits of f16"),
        (op(runtime="nothing"), {}, "nothing"),
        ({"op": "gemm", "label": "x", "params": {}}, {}, "did you mean matmul"),
        (LLM, {"page": 4}, "with a runtime profile, a run has only the parameters"),
        (LLM, {"kv": 4}, "keys and values have 8 or 16 bits"),
        (LLM, {"runtime": "mine.yaml"}, "an axis of runtime profiles takes names"),
        (LLM | {"params": {}}, {"runtime": "vllm"}, "an axis replaces values of a target"),
    ],
)
def test_a_wrong_parameter_is_named(plain: dict[str, Any], params: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        target_of(plain).checked(params)


def test_a_machine_that_is_no_chip_is_refused() -> None:
    for plain in (op(), LLM):
        target = target_of(plain)
        with pytest.raises(InputError, match="this machine is no chip"):
            target.simulate(load_config("npu_server"), target.checked({}))


def test_a_changed_profile_changes_the_target(tmp_path: Path) -> None:
    """Results are kept by the content of what ran; the profile is a part of it."""
    path = tmp_path / "mine.yaml"
    path.write_text("schema: kernbench/runtime/1\nabout: mine\nstart: stream\nsync_ns: 1000\n")
    first = target_of(op(runtime=str(path))).fingerprint()
    path.write_text("schema: kernbench/runtime/1\nabout: mine\nstart: stream\nsync_ns: 2000\n")
    assert target_of(op(runtime=str(path))).fingerprint() != first
