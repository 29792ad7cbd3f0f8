"""Small ONNX models that have every operator with a lowering between them, for searches over damaged files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.onnx_models import Builder, TensorProto, cached_attention, helper, mlp, moves, resnet_block, transformer_block

ELEMENTWISE = (
    "Relu", "LeakyRelu", "Clip", "Neg", "Abs", "Floor", "Ceil", "Round", "Sign", "Exp", "Log", "Sqrt", "Reciprocal", "Sin",
    "Cos", "Elu", "Celu", "Selu", "Gelu", "Sigmoid", "Tanh", "Erf", "Softplus", "Mish", "HardSigmoid", "HardSwish",
    "Identity", "Dropout",
)  # fmt: skip
TWO_INPUTS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "PRelu", "Mod")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL2")


def elementwise() -> Builder:
    """One after the other."""
    b = Builder(24)
    x = b.input("x", "n", 24)
    for op in ELEMENTWISE:
        x = b.node(op, x)
    b.output(b.node("Swish", x))
    return b


def contributed() -> Builder:
    """Operators of com.microsoft, and one that opset 9 had last."""
    b = Builder(9)
    x = b.input("x", 3, 24)
    x = b.node("Upsample", x, b.constant("scales", [1, 2], np.float32))
    x = b.node("QuickGelu", b.node("FastGelu", x, domain="com.microsoft"), domain="com.microsoft")
    b.output(b.node("SimplifiedLayerNormalization", x, b.weight("gain", 48), domain="com.microsoft"))
    return b


def broadcasts() -> Builder:
    """Two inputs of each kind: of the same size, a row, a constant, and both smaller than the result."""
    b = Builder(18)
    x, y = b.input("x", 6, 20), b.input("column", 6, 1)
    row = b.weight("row", 20)
    for op in TWO_INPUTS:
        attributes = {"fmod": 1} if op == "Mod" else {}
        x = b.node(op, x, b.node(op, y, row, **attributes), **attributes)
    x = b.node("Pow", b.node("Pow", x, b.constant("three", 3.0, np.float32)), b.constant("odd", 1.7, np.float32))
    tests = [b.node(op, x, row) for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")]
    both = b.node("Xor", b.node("Or", b.node("And", tests[0], tests[1]), tests[2]), b.node("Not", tests[3]))
    both = b.node("Or", both, b.node("Or", b.node("IsNaN", x), b.node("IsInf", x)))
    b.output(b.node("Where", b.node("And", both, tests[4]), x, row))
    return b


def reductions() -> Builder:
    """Over the last and over other dimensions, with axes as inputs, attributes and left out."""
    b = Builder(18)
    x = b.input("x", 3, 4, 8)
    parts = []
    for number, op in enumerate(REDUCTIONS):
        axes = b.constant(f"axes{number}", [[-1], [0], [0, 2], [1], [-1, -2], [0, 1, 2]][number])
        parts.append(b.node("ReduceSum", b.node(op, x, axes, keepdims=number % 2), keepdims=0))
    for op in ("ArgMax", "ArgMin"):
        parts.append(b.node("Cast", b.node("ReduceMax", b.node(op, x, axis=1, keepdims=0), keepdims=0), to=TensorProto.FLOAT))
    b.output(b.node("Sum", *parts), b.node("Softmax", x), b.node("LogSoftmax", x, axis=-1))
    return b


def norms() -> Builder:
    """Norms and quantised tensors over an image."""
    b = Builder(23)
    x = b.input("x", 2, 8, 6, 6)
    x = b.node("InstanceNormalization", x, b.weight("g1", 8), b.weight("s1", 8))
    x = b.node("BatchNormalization", x, *(b.weight(f"bn{i}", 8) for i in range(4)))
    x = b.node("LayerNormalization", x, b.weight("g3", 6), b.weight("s3", 6), axis=-1)
    x = b.node("RMSNormalization", x, b.weight("g4", 6, 6), axis=2)
    scale, zero = b.constant("scale", 0.1, np.float32), b.constant("zero", 0, np.int8)
    b.output(b.node("DequantizeLinear", b.node("QuantizeLinear", x, scale, zero), scale, zero))
    b.output(b.node("GroupNormalization", x, b.weight("g2", 8), b.weight("s2", 8), num_groups=4))
    return b


def images() -> Builder:
    """Pools, convolutions in one dimension and with computed weights, and what moves pixels."""
    b = Builder(22)
    x, w = b.input("x", 1, 4, "h", 8), b.input("w", 4, 1, 3, 3)
    x = b.node("Conv", x, w, b.weight("bias", 4), group=4, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    x = b.node("AveragePool", x, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], dilations=[1, 1], pads=[1, 1, 1, 1])
    x = b.node("DepthToSpace", b.node("SpaceToDepth", x, blocksize=2), blocksize=2, mode="CRD")
    x = b.node("Resize", x, "", b.constant("scales", [1, 1, 2, 2], np.float32), mode="nearest")
    pad = b.constant("pad", [0, 0, 1, 1, 0, 0, 1, 1])
    x = b.node("Pad", x, pad)
    flat = b.node("Reshape", b.node("GlobalMaxPool", x), b.constant("shape", [1, 4]))
    line = b.node("Unsqueeze", flat, b.constant("axis", [2]))
    line = b.node("Tile", line, b.constant("times", [1, 1, 9]))
    line = b.node("Conv", line, b.input("line_w", 4, 1, 3), group=4, strides=[2], dilations=[2], auto_pad="VALID")
    b.output(b.node("Squeeze", line), b.node("GlobalAveragePool", x))
    return b


def tables() -> Builder:
    """Rows of tables, rotary embeddings, parts of tensors, triangles."""
    b = Builder(23)
    ids = b.input("ids", 1, 5, kind=TensorProto.INT64)
    x = b.node("Gather", b.weight("embedding", 50, 32), ids)
    x = b.node("Add", x, b.node("Gather", b.weight("positions", 9, 32), b.constant("places", [0, 1, 2, 3, -1])))
    x = b.node("Expand", b.node("Trilu", x), b.constant("larger", [2, 5, 32]))
    x = b.node("Slice", x, b.constant("starts", [1]), b.constant("ends", [2]), b.constant("axes", [0]))
    heads = b.node("Transpose", b.node("Reshape", x, b.constant("split", [1, 5, 2, 16])), perm=[0, 2, 1, 3])
    position = b.input("position", 1, 5, kind=TensorProto.INT64)
    turned = b.node("RotaryEmbedding", heads, b.weight("cosines", 64, 8), b.weight("sines", 64, 8), position)
    y = b.node("CastLike", b.node("Gather", turned, b.constant("last", 4), axis=2), turned)
    b.output(b.node("Concat", b.node("Flatten", y), b.node("Cast", b.node("Flatten", y), to=TensorProto.FLOAT16), axis=0))
    b.output(b.node("MatMul", turned, b.node("Transpose", turned, perm=[0, 1, 3, 2])))
    b.output(b.node("Gemm", b.input("a", 6, 4), b.input("c", 5, 6), b.input("d", 5), transA=1, transB=1, alpha=0.5))
    return b


def nested() -> Any:
    """A local function, a branch with a graph inside, a sparse constant, metadata."""
    b = Builder(18)
    x = b.input("x", 4, 8)
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["inner"])], "then", [], [helper.make_tensor_value_info("inner", 1, [4, 8])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["outer"])], "else", [], [helper.make_tensor_value_info("outer", 1, [4, 8])]
    )
    chosen = b.node("If", b.constant("yes", True, np.bool_), then_branch=inner, else_branch=other)
    b.output(b.node("Scaled", b.node("Tanh", x), b.node("Constant", value_float=0.5), domain="local"), chosen)
    model = b.model()
    body = [helper.make_node("Mul", ["a", "b"], ["c"]), helper.make_node("Exp", ["c"], ["y"])]
    model.functions.append(helper.make_function("local", "Scaled", ["a", "b"], ["y"], body, [helper.make_opsetid("", 18)]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: mlp("rows").model(),
    "block": lambda: transformer_block().model(),
    "attention": lambda: transformer_block(attention_op=True).model(),
    "cache": lambda: cached_attention().model(),
    "resnet": lambda: resnet_block().model(),
    "moves": lambda: moves().model(),
    "elementwise": lambda: elementwise().model(),
    "contributed": lambda: contributed().model(),
    "broadcasts": lambda: broadcasts().model(),
    "reductions": lambda: reductions().model(),
    "norms": lambda: norms().model(),
    "images": lambda: images().model(),
    "tables": lambda: tables().model(),
    "nested": nested,
}
#: The sizes of their dynamic dimensions.
DIMS: dict[str, tuple[str, ...]] = {
    "mlp": ("rows=4",),
    "block": ("batch=1", "seq=4"),
    "attention": ("batch=1", "seq=4"),
    "resnet": ("n=1",),
    "elementwise": ("n=3",),
    "images": ("h=8",),
}
