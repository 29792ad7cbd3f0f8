"""Shapes of an ONNX graph: inference, and the computation of what shapes depend on, in turns until nothing is new."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.graphs.graph import Array

if TYPE_CHECKING:
    import onnx

SMALL = 1 << 16  # [element] of a constant that is computed with
_MADE = 1 << 22  # [element] of a constant that is made
_ROUNDS = 64
_NOT_FOLDED = frozenset({
    "If", "Loop", "Scan", "SequenceMap", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
    "Multinomial", "Bernoulli", "DequantizeLinear", "QuantizeLinear",
})  # fmt: skip


def infer(model: onnx.ModelProto, where: str) -> dict[str, Array]:
    """Infers all shapes, in the model; nodes whose outputs are known become initializers. The known values by name.

    InputError where shapes do not fit together.
    """
    from onnx import numpy_helper, shape_inference

    imported = {item.domain for item in model.opset_import}
    for domain in sorted({node.domain for node in model.graph.node} - imported - {"", "ai.onnx"}):
        model.opset_import.add(domain=domain, version=1)  # else nothing at all is inferred
    known: dict[str, Array] = {}
    for item in model.graph.initializer:
        if prod(item.dims) <= SMALL:
            known[item.name] = numpy_helper.to_array(item)
    for _ in range(_ROUNDS):
        try:
            inferred = shape_inference.infer_shapes(model, strict_mode=False, data_prop=True).graph
        except (shape_inference.InferenceError, ValueError, RuntimeError) as error:
            raise InputError(Problem(where, f"its shapes cannot be inferred: {first_line(error)}")) from None
        del model.graph.value_info[:]
        model.graph.value_info.extend(inferred.value_info)
        for mine, its in zip(model.graph.output, inferred.output, strict=True):
            mine.type.CopyFrom(its.type)
        if not _fold(model, known):
            break
    return known


def first_line(error: Exception) -> str:
    """What an error says, as one line."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def shape_of(item: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The shape of a tensor; None where it is not known whole."""
    kind = item.type.tensor_type
    if not item.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    dims = tuple(dim.dim_value for dim in kind.shape.dim if dim.HasField("dim_value"))
    return dims if len(dims) == len(kind.shape.dim) and all(dim > 0 for dim in dims) else None


def _fold(model: onnx.ModelProto, known: dict[str, Array]) -> bool:
    """Computes the nodes that can be, and takes them out of the graph; whether there was one."""
    from onnx import numpy_helper

    graph = model.graph
    shapes = {item.name: shape_of(item) for item in (*graph.value_info, *graph.output, *graph.input)}
    shapes.update({item.name: tuple(item.dims) for item in graph.initializer})
    left, made = [], dict[str, Array]()
    for node in graph.node:
        values = _value(node, model, {**known, **made} if made else known, shapes)
        if values is None:
            left.append(node)
        made.update(values or {})
    for name, value in made.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    known.update(made)
    if made:
        del graph.node[:]
        graph.node.extend(left)
    return bool(made)


def _value(
    node: onnx.NodeProto, model: onnx.ModelProto, known: dict[str, Array], shapes: dict[str, tuple[int, ...] | None]
) -> dict[str, Array] | None:
    """The outputs of a node that depends on no input, by name; None of others."""
    import numpy as np

    if node.domain not in ("", "ai.onnx") or node.op_type in _NOT_FOLDED:
        return None
    inputs = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size") and shapes.get(node.input[0]) is not None:
        of = shapes[node.input[0]]
        return _run(node, model, {node.input[0]: np.broadcast_to(np.float32(0), of or ())})
    if not all(name in known for name in inputs):
        return None
    sizes = [shapes.get(name) for name in node.output if name]
    if any(size is None or prod(size) > _MADE for size in sizes) and node.op_type != "Constant":
        return None
    return _run(node, model, {name: known[name] for name in inputs})


def _run(node: onnx.NodeProto, model: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Array] | None:
    """What the reference implementation makes of a node; None where it has none, or the node is not valid."""
    from onnx import TypeProto, helper
    from onnx.reference import ReferenceEvaluator

    feeds = [helper.make_value_info(name, TypeProto()) for name in inputs]
    results = [helper.make_value_info(name, TypeProto()) for name in node.output if name]
    small = helper.make_model(helper.make_graph([node], "one", feeds, results), opset_imports=list(model.opset_import))
    try:
        values = ReferenceEvaluator(small).run(None, inputs)
    except Exception:  # whatever is wrong with the node, its lowering says so
        return None
    import numpy as np

    if not all(isinstance(value, np.ndarray | np.generic) for value in values):
        return None
    return {item.name: np.asarray(value) for item, value in zip(results, values, strict=True)}
