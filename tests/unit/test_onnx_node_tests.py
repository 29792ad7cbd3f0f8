"""ONNX's own node tests on the simulator: how many run, and for which reasons the others are refused.

    python -m tests.unit.test_onnx_node_tests    # a table of reasons
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.node import collect_testcases

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.graphs.onnx.backend import KernbenchBackend, outcome_of, with_constants
from kernbench.workloads.graphs.onnx.file import read_onnx
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.verify import verify

LEAST = 1_700  #: of the cases that run or are without work
#: Operators of the sample: making all cases takes as long as running them.
SAMPLE = ("matmul", "conv", "convtranspose", "einsum", "topk", "gathernd", "scatternd", "cumsum", "rnn", "reshape", "det")


def cases() -> list[Any]:
    with warnings.catch_warnings(action="ignore"):
        found: list[Any] = collect_testcases(None)
    return found


def sample() -> list[Any]:
    """The cases of some operators, each made when its module is imported."""
    with warnings.catch_warnings(action="ignore"):
        for name in SAMPLE:
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
    return [case for case in node._NodeTestCases if case.name.removeprefix("test_").startswith(SAMPLE)]


def outcomes(chosen: list[Any]) -> Iterator[tuple[str, str]]:
    """Name and outcome of each; whatever but a refusal is raised."""
    for case in chosen:
        inputs = case.data_sets[0][0] if case.data_sets else []
        yield case.name, outcome_of(case.model, inputs)


def verified(case: Any) -> str:
    """Whether the outputs that the tiles of a case make are those that ONNX states: `equal`, `differs` or `refused`."""
    inputs, outputs = case.data_sets[0]
    try:
        model, dims = with_constants(case.model, inputs)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            made = GraphProgram(read_onnx(path, dims, 8, 8), load_config("npu_mobile"), 8)
        given = {item.name: array_of(value) for item, value in zip(case.model.graph.input, inputs, strict=False)}
        weights = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
        expected = {item.name: array_of(value) for item, value in zip(case.model.graph.output, outputs, strict=False)}
        return "equal" if verify(made, given, weights, expected).passed else "differs"
    except InputError:
        return "refused"


def array_of(value: Any) -> Any:
    """The values of an input or output: of types that numpy does not have, a case has a TensorProto."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def reason_of(outcome: str) -> str:
    """An outcome without the names of the case."""
    return re.sub(r"^\S+: \S+ ", "", re.sub(r"the shape of \S+ is", "the shape of a tensor is", outcome))


def test_a_sample_runs_or_is_refused_by_name() -> None:
    chosen = sample()
    assert len(chosen) > 40
    found = dict(outcomes(chosen[::3]))
    refused = {name: outcome for name, outcome in found.items() if outcome not in ("runs", "no work")}
    assert all("there is no lowering of Det" in outcome for outcome in refused.values()) and len(refused) <= 1


@pytest.mark.nightly
def test_all_run_or_are_refused_by_name() -> None:
    found = dict(outcomes(cases()))
    counted = Counter(outcome if outcome in ("runs", "no work") else "refused" for outcome in found.values())
    assert len(found) > 1_800 and counted["runs"] + counted["no work"] >= LEAST
    assert all(len(outcome) > 20 for outcome in found.values() if outcome not in ("runs", "no work"))


def test_the_backend_computes_and_times() -> None:
    case = next(case for case in sample() if case.name == "test_matmul_2d")
    made = KernbenchBackend.prepare(case.model)
    inputs, outputs = case.data_sets[0]
    (found,) = made.run(inputs)
    np.testing.assert_allclose(found, outputs[0], rtol=1e-5)
    assert made.timed is not None and made.timed.macs == 3 * 4 * 3 and made.timed.cycles > 0
    assert KernbenchBackend.supports_device("CPU") and not KernbenchBackend.supports_device("CUDA")


if __name__ == "__main__":
    table = Counter(reason_of(outcome) for _, outcome in outcomes(cases()))
    for reason, count in table.most_common():
        print(f"{count:6}  {reason}")
