"""An ONNX model computed from the tiles of its program, and compared with `onnx.reference`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.config.machine import MachineConfig
from kernbench.workloads.graphs.graph import Array
from kernbench.workloads.graphs.onnx.control import hoist_constants
from kernbench.workloads.graphs.onnx.file import read_onnx
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.verify import Verification, verify

SEED = 1  #: the seed of the inputs


def verify_file(
    path: Path, dims: Mapping[str, int], config: MachineConfig, *, w: int, a: int, bounds: Mapping[str, int | str] | None = None
) -> Verification:
    """Compare a model's outputs for random inputs with those that its tiles make. InputError if it cannot be computed."""
    graph = read_onnx(path, dims, w, a, bounds)  # it checks the file
    if graph.assumed:
        rule = f"its results depend on what its bounds leave open: {graph.assumed[0]}"
        raise InputError(Problem(str(path), rule, remedy="leave out --verify"))
    made = GraphProgram(graph, config, a)
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    stored = onnx.ModelProto()
    stored.CopyFrom(model)
    hoist_constants(stored)
    weights = {item.name: onnx.numpy_helper.to_array(item) for item in stored.graph.initializer}
    tensors = made.lowered.graph.tensors
    inputs = {
        item.name: _values(item, tensors[item.name].shape) for item in model.graph.input if item.name not in weights
    }
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception as error:  # any exception that the reference raises for ops that it does not implement
        raise InputError(Problem(str(path), f"onnx.reference cannot compute it: {error}")) from None
    expected = {item.name: np.asarray(value) for item, value in zip(model.graph.output, results, strict=True)}
    return verify(made, inputs, weights, expected)


def _values(item: Any, shape: tuple[int, ...]) -> Array:
    """Random values of an input: floats from -1 to 1, integers and truth values 0 or 1."""
    from onnx import helper

    kind = np.dtype(helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type))
    random = np.random.default_rng([SEED, *item.name.encode()])
    if kind.kind in "iub":
        return random.integers(0, 2, shape).astype(kind)
    return np.asarray(random.uniform(-1, 1, shape)).astype(kind)
