"""A PyTorch model computed from the tiles of its program, and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernbench.config.machine import MachineConfig
from kernbench.workloads.graphs.graph import Array
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.torch.program import export_module, import_torch, read_exported
from kernbench.workloads.graphs.verify import Verification, verify


def verify_module(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, config: MachineConfig, name: str, *, w: int, a: int
) -> Verification:
    """Compare a module's outputs for these inputs with those that its tiles make. The inputs and weights must have values."""
    torch = import_torch()
    from torch.utils._pytree import tree_leaves

    exported = export_module(module, args, kwargs, name)
    made = GraphProgram(read_exported(exported, name=name, weight_bits=w, activation_bits=a), config, a)
    signature = exported.graph_signature
    given = tree_leaves((tuple(args), dict(kwargs or {})))
    named = zip(signature.user_inputs, given, strict=True)
    inputs = {str(key): _array(value) for key, value in named if hasattr(value, "shape")}
    stored = {**exported.state_dict, **exported.constants}
    weights = {key: _array(value) for key, value in stored.items() if isinstance(value, torch.Tensor)}
    with torch.no_grad():
        results = [value for value in tree_leaves(module(*args, **dict(kwargs or {}))) if hasattr(value, "shape")]
    expected = dict(zip(made.lowered.graph.outputs, map(_array, results), strict=False))
    return verify(made, inputs, weights, expected)


def _array(value: Any) -> Array:
    """The values of the tensor; floats of 16 bits are converted to 32 bits."""
    values = value.detach().cpu()
    return np.asarray(values.float().numpy() if str(values.dtype) in ("torch.bfloat16", "torch.float16") else values.numpy())
