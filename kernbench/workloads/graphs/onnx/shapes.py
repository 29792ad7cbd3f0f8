"""Shapes of an ONNX graph: inference and the computation of values on which shapes depend, in alternation until no shape
changes."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import MAX_PROBLEMS_SHOWN, InputError, Problem
from kernbench.workloads.graphs.graph import SMALL, Array
from kernbench.workloads.graphs.onnx.check import FOLDED
from kernbench.workloads.graphs.onnx.control import Bounds, Writer
from kernbench.workloads.graphs.onnx.values import array_of

if TYPE_CHECKING:
    import onnx

_MADE = 1 << 23  # [element] of all constants that are made
_ROUNDS = 64
_LINE = 300  # [character] of another library's message
_SAME_SHAPE = frozenset((
    "BiasGelu", "FastGelu", "Gelu", "GroupNormalization", "GroupQueryAttention", "MultiHeadAttention", "QuickGelu",
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
))  # fmt: skip


Shapes = dict[str, tuple[int, ...] | None]


def infer(model: onnx.ModelProto, where: str, bounds: Bounds) -> dict[str, Array]:
    """Infers all shapes, in the model; nodes whose outputs are known become initializers. The known values by name.

    Nodes with graphs inside are written out.

    InputError if shapes do not fit together.
    """
    from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
    from onnx import shape_inference

    imported = {item.domain for item in model.opset_import}
    for domain in sorted({node.domain for node in model.graph.node} - imported - {"", "ai.onnx"}):
        model.opset_import.add(domain=domain, version=1)  # otherwise no shape is inferred
    known: dict[str, Array] = {}
    for item in model.graph.initializer:
        if prod(item.dims) <= SMALL:
            known[item.name] = array_of(item, where)
    given = sum(value.size for value in known.values())
    for _ in range(_ROUNDS):
        try:
            inferred = shape_inference.infer_shapes(model, strict_mode=False, data_prop=True).graph
        except (shape_inference.InferenceError, ValueError, RuntimeError, DecodeError, EncodeError) as error:
            raise InputError(Problem(where, f"the shapes of the model cannot be inferred: {first_line(error)}")) from None
        del model.graph.value_info[:]
        model.graph.value_info.extend(inferred.value_info)
        for mine, its in zip(model.graph.output, inferred.output, strict=True):
            mine.type.CopyFrom(its.type)
        room = _MADE + given - sum(value.size for value in known.values())
        if _keep_shapes(model) or _bound_shapes(model, known) or _fold(model, known, room):
            continue
        writer = Writer(model, known, shapes_of(model), bounds, where)
        if not writer.run(bounded=False) and not writer.run(bounded=True):
            break
    return known


def why_unknown(model: onnx.ModelProto) -> dict[int, str]:
    """The messages of onnx about nodes whose outputs have no shape although their inputs have, by number."""
    from onnx import TypeProto, helper, shape_inference

    graph, found = model.graph, dict[int, str]()
    values = {item.name: item for item in (*graph.value_info, *graph.output, *graph.input) if shape_of(item) is not None}
    stored = {item.name: item for item in graph.initializer}
    for number, node in enumerate(graph.node):
        inputs = [name for name in dict.fromkeys(node.input) if name]
        known = all(name in values or name in stored for name in inputs)
        if not known or all(not name or name in values for name in node.output) or node.domain not in ("", "ai.onnx"):
            continue
        feeds = [values[name] for name in inputs if name not in stored]
        results = [helper.make_value_info(name, TypeProto()) for name in node.output if name]
        small = helper.make_graph([node], "one", feeds, results, [stored[name] for name in inputs if name in stored])
        try:
            shape_inference.infer_shapes(
                helper.make_model(small, opset_imports=list(model.opset_import)), strict_mode=True, data_prop=True
            )
        except (shape_inference.InferenceError, ValueError, RuntimeError) as error:
            found[number] = first_line(error).rpartition("Error] ")[2].rstrip(".")
        if len(found) >= MAX_PROBLEMS_SHOWN:
            break
    return found


def _keep_shapes(model: onnx.ModelProto) -> bool:
    """Sets the shape of outputs that have that of the input but that onnx does not infer; returns whether there was one."""
    graph = model.graph
    types = {item.name: item.type for item in (*graph.value_info, *graph.output, *graph.input) if shape_of(item) is not None}
    outputs = {item.name: item for item in graph.output}
    found = False
    for node in graph.node:
        if node.op_type not in _SAME_SHAPE or node.domain not in ("", "ai.onnx", "com.microsoft"):
            continue
        out = node.output[0]
        if out and out not in types and node.input[0] in types:
            item = outputs.get(out)
            item = graph.value_info.add(name=out) if item is None else item
            item.type.CopyFrom(types[node.input[0]])
            types[out], found = item.type, True
    return found


def _bound_shapes(model: onnx.ModelProto, known: Mapping[str, Array]) -> bool:
    """Sets the largest size of outputs whose size depends on values; returns whether there was one."""
    graph = model.graph
    items = {item.name: item for item in (*graph.value_info, *graph.output)}
    shapes = shapes_of(model)
    found = False
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _BOUNDS:
            continue
        inputs = [shapes.get(name) for name in node.input]
        if not inputs or inputs[0] is None or any(shapes.get(name) is not None for name in node.output if name):
            continue
        sizes = _BOUNDS[node.op_type](node, inputs, known)
        for name, size in zip(node.output, sizes, strict=False):
            if not name or size is None:
                continue
            item = items[name] if name in items else graph.value_info.add(name=name)
            kind = item.type.tensor_type
            if not kind.elem_type:
                kind.elem_type = 7  # int64, of positions
            del kind.shape.dim[:]
            kind.shape.SetInParent()
            for each in size:
                kind.shape.dim.add(dim_value=each)
            shapes[name], found = size, True
    return found


Size = tuple[int, ...] | None


def _non_zeros(node: onnx.NodeProto, inputs: list[Size], known: Mapping[str, Array]) -> list[Size]:
    shape = inputs[0] or ()
    return [(len(shape), prod(shape))]


def _uniques(node: onnx.NodeProto, inputs: list[Size], known: Mapping[str, Array]) -> list[Size]:
    shape = inputs[0] or ()
    axis = next((item.i for item in node.attribute if item.name == "axis"), None)
    count = prod(shape) if axis is None else shape[axis]
    return [(count,) if axis is None else shape, (count,), (count,), (count,)]


def _compressed(node: onnx.NodeProto, inputs: list[Size], known: Mapping[str, Array]) -> list[Size]:
    shape = inputs[0] or ()
    axis = next((item.i for item in node.attribute if item.name == "axis"), None)
    kept = (inputs[1] or (0,))[0]
    if axis is None:
        return [(min(prod(shape), kept),)]
    axis %= len(shape)
    return [(*shape[:axis], min(shape[axis], kept), *shape[axis + 1 :])]


def _suppressed(node: onnx.NodeProto, inputs: list[Size], known: Mapping[str, Array]) -> list[Size]:
    boxes, scores = inputs[0], inputs[1]
    most = known.get(node.input[2]) if len(node.input) > 2 else None
    if boxes is None or scores is None or len(boxes) != 3 or len(scores) != 3:
        return [None]
    each = boxes[1] if most is None else min(int(most.reshape(-1)[0]), boxes[1])
    return [(scores[0] * scores[1] * max(each, 0), 3)]


#: Operators whose results have a size that depends on values, and the largest one.
_BOUNDS = {"NonZero": _non_zeros, "Unique": _uniques, "Compress": _compressed, "NonMaxSuppression": _suppressed}


def first_line(error: Exception) -> str:
    """The message of an error as one line."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."


def shape_of(item: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The shape of a tensor; None if it is not completely known."""
    kind = item.type.tensor_type
    if not item.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    dims = tuple(dim.dim_value for dim in kind.shape.dim if dim.HasField("dim_value"))
    return dims if len(dims) == len(kind.shape.dim) and all(dim >= 0 for dim in dims) else None


def shapes_of(model: onnx.ModelProto) -> Shapes:
    """The shapes of all tensors of the main graph, by name."""
    graph = model.graph
    shapes: Shapes = {item.name: shape_of(item) for item in (*graph.value_info, *graph.output, *graph.input)}
    shapes.update({item.name: tuple(item.dims) for item in graph.initializer})
    return shapes


def _fold(model: onnx.ModelProto, known: dict[str, Array], room: int) -> bool:
    """Computes the nodes that can be, of `room` elements together, and takes them out; whether there was one."""
    from onnx import numpy_helper

    graph = model.graph
    shapes = shapes_of(model)
    left, made = [], dict[str, Array]()
    for node in graph.node:
        values = _value(node, model, ChainMap(made, known), shapes, room)
        if values is None:
            left.append(node)
        made.update(values or {})
        room -= sum(value.size for value in (values or {}).values())
    for name, value in made.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    known.update(made)
    if made:
        del graph.node[:]
        graph.node.extend(left)
    return bool(made)


def _value(
    node: onnx.NodeProto, model: onnx.ModelProto, known: Mapping[str, Array], shapes: Shapes, room: int
) -> dict[str, Array] | None:
    """The outputs of a node that depends on no input, by name; None of others."""
    import numpy as np

    if node.domain not in ("", "ai.onnx") or node.op_type not in FOLDED:
        return None
    inputs = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size") and shapes.get(node.input[0]) is not None:
        of = shapes[node.input[0]]
        return _run(node, model, {node.input[0]: np.broadcast_to(np.float32(0), of or ())})
    if not all(name in known for name in inputs):
        return None
    sizes = [shapes.get(name) for name in node.output if name]
    if node.op_type != "Constant" and any(size is None or prod(size) > room for size in sizes):
        return None
    return _run(node, model, {name: known[name] for name in inputs})


def _run(node: onnx.NodeProto, model: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Array] | None:
    """The result of the reference implementation for a node; None if it has none, or the node is not valid."""
    from onnx import TypeProto, helper
    from onnx.reference import ReferenceEvaluator

    feeds = [helper.make_value_info(name, TypeProto()) for name in inputs]
    results = [helper.make_value_info(name, TypeProto()) for name in node.output if name]
    small = helper.make_model(helper.make_graph([node], "one", feeds, results), opset_imports=list(model.opset_import))
    try:
        with warnings.catch_warnings(action="ignore"):  # numpy's, of divisions by zero and the like
            values = ReferenceEvaluator(small).run(None, inputs)
    except Exception:  # whatever is wrong with the node, its lowering says so
        return None
    import numpy as np

    if not all(isinstance(value, np.ndarray | np.generic) for value in values):
        return None
    return {item.name: np.asarray(value) for item, value in zip(results, values, strict=True)}
