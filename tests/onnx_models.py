"""Small ONNX models for the tests of `kernbench.workloads.graphs`, built here: an MLP, transformer blocks, a ResNet block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

Shape = Sequence[int | str]


class Builder:
    """A model in the making. Weights are zeros: their values never matter."""

    def __init__(self, opset: int = 18) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.weights: list[Any] = []

    def input(self, name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, name: str, *shape: int) -> str:
        self.weights.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def constant(self, name: str, value: Any, kind: type = np.int64) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def node(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node; `outputs` and `domain` as onnx takes them. Its first output."""
        name = name or f"{op.lower()}{len(self.nodes)}"
        made = attributes.pop("outputs", [f"{name}_out"])
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, **attributes))
        return str(made[0])

    def output(self, *names: str) -> None:
        self.outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]

    def model(self) -> Any:
        graph = helper.make_graph(self.nodes, "main", self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])

    def save(self, path: Path) -> Path:
        path.write_bytes(self.model().SerializeToString())
        return path


def mlp(rows: int | str = 8) -> Builder:
    """[rows, 64] to 256 and to 10: a Gemm with bias and GELU, a MatMul with a bias added."""
    b = Builder(20)
    x = b.input("x", rows, 64)
    h = b.node("Gemm", x, b.weight("w1", 256, 64), b.weight("b1", 256), name="fc1", transB=1)
    h = b.node("Gelu", h, name="act")
    h = b.node("MatMul", h, b.weight("w2", 256, 10), name="fc2")
    b.output(b.node("Add", h, b.weight("b2", 10), name="bias2"))
    return b


def rms_norm(b: Builder, x: str, gain: str) -> str:
    """RMSNorm as exporters write it out."""
    square = b.node("Pow", x, b.constant(f"{gain}_two", 2.0, np.float32))
    mean = b.node("ReduceMean", square, b.constant(f"{gain}_axes", [-1]), keepdims=1)
    root = b.node("Sqrt", b.node("Add", mean, b.constant(f"{gain}_eps", 1e-5, np.float32)))
    normed = b.node("Mul", x, b.node("Reciprocal", root))
    return b.node("Mul", normed, b.weight(gain, 128), name=f"norm_{gain}")


def heads_of(b: Builder, x: str, tokens: str, heads: int, dim: int) -> str:
    """[batch, tokens, heads * dim] to [batch, heads, tokens, dim], the shape computed from that of the input."""
    batch = b.node("Slice", tokens, b.constant(f"{x}_0", [0]), b.constant(f"{x}_2", [2]))
    shape = b.node("Concat", batch, b.constant(f"{x}_heads", [heads, dim]), axis=0)
    return b.node("Transpose", b.node("Reshape", x, shape), perm=[0, 2, 1, 3])


def transformer_block(attention_op: bool = False) -> Builder:
    """A block of width 128 with 4 heads of 32, 2 key and value heads with the Attention operator; SwiGLU of 256."""
    b = Builder(23)
    ids = b.input("ids", "batch", "seq", kind=TensorProto.INT64)
    x = b.node("Gather", b.weight("embedding", 1000, 128), ids, name="embed")
    normed = rms_norm(b, x, "gain1")
    kv = 64 if attention_op else 128
    widths = {"q": 128, "k": kv, "v": kv}
    q, k, v = (b.node("MatMul", normed, b.weight(f"w{n}", 128, width), name=f"{n}_proj") for n, width in widths.items())
    if attention_op:
        out = b.node("Attention", q, k, v, name="attention", q_num_heads=4, kv_num_heads=2, is_causal=1)
    else:
        shape = b.node("Shape", x, name="shape")
        q, k, v = (heads_of(b, part, shape, 4, 32) for part in (q, k, v))
        scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2], name="k_turned"), name="scores")
        scaled = b.node("Mul", scores, b.constant("scale", 0.18, np.float32), name="scaled")
        mixed = b.node("MatMul", b.node("Softmax", scaled, axis=-1, name="softmax"), v, name="mixed")
        out = b.node("Reshape", b.node("Transpose", mixed, perm=[0, 2, 1, 3]), shape, name="merged")
    x = b.node("Add", x, b.node("MatMul", out, b.weight("wo", 128, 128), name="o_proj"), name="add1")
    normed = rms_norm(b, x, "gain2")
    gate = b.node("MatMul", normed, b.weight("w_gate", 128, 256), name="gate")
    up = b.node("MatMul", normed, b.weight("w_up", 128, 256), name="up")
    inner = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), up, name="swiglu")
    b.output(b.node("Add", x, b.node("MatMul", inner, b.weight("w_down", 256, 128), name="down"), name="add2"))
    return b


def resnet_block() -> Builder:
    """A stem, a block of 3 x 3 convolutions with stride 2 and its 1 x 1 shortcut, a depthwise convolution, a classifier."""
    b = Builder(17)
    x = b.input("image", "n", 3, 32, 32)

    def conv(source: str, name: str, filters: int, channels: int, size: int, **attributes: Any) -> str:
        made = b.node("Conv", source, b.weight(f"{name}_w", filters, channels, size, size), name=name, **attributes)
        parts = [b.weight(f"{name}_{part}", filters) for part in ("gain", "shift", "mean", "var")]
        return b.node("BatchNormalization", made, *parts, name=f"{name}_bn")

    x = b.node("Relu", conv(x, "stem", 16, 3, 7, strides=[2, 2], pads=[3, 3, 3, 3]))
    x = b.node("MaxPool", x, name="pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = b.node("Relu", conv(x, "conv1", 32, 16, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    y = conv(y, "conv2", 32, 32, 3, pads=[2, 2, 2, 2], dilations=[2, 2])
    x = b.node("Relu", b.node("Add", y, conv(x, "shortcut", 32, 16, 1, strides=[2, 2]), name="add"))
    x = conv(x, "depthwise", 32, 1, 3, group=32, pads=[1, 1, 1, 1])
    x = conv(x, "pointwise", 64, 32, 1)
    x = b.node("Flatten", b.node("GlobalAveragePool", x, name="mean"), name="flat")
    b.output(b.node("Gemm", x, b.weight("fc_w", 10, 64), b.weight("fc_b", 10), name="fc", transB=1))
    return b


def moves() -> Builder:
    """Parts of a tensor, one of them turned, put together again in another order and multiplied by a matrix of its own."""
    b = Builder()
    x = b.input("x", 24, 96)
    parts = b.node("Split", x, b.constant("sizes", [64, 32]), name="split", axis=1, outputs=["left", "right"])
    turned = b.node("Transpose", b.node("Relu", parts), perm=[1, 0], name="turned")
    back = b.node("Transpose", b.node("Tanh", turned), perm=[1, 0])
    whole = b.node("Concat", "right", back, "right", axis=1, name="whole")
    product = b.node("MatMul", whole, b.node("Transpose", whole, perm=[1, 0], name="whole_turned"), name="square")
    where = b.node("Where", b.node("Greater", product, b.constant("zero", 0.0, np.float32)), product, b.weight("else", 24, 24))
    b.output(b.node("Softmax", where), whole)
    return b


def cached_attention() -> Builder:
    """One token of 2 sequences, 4 heads over 2 key and value heads of 32, behind 15 earlier tokens, with a mask."""
    b = Builder(23)
    q, k, v = b.input("q", 2, 4, 1, 32), b.input("k", 2, 2, 1, 32), b.input("v", 2, 2, 1, 32)
    past = [b.input("past_k", 2, 2, 15, 32), b.input("past_v", 2, 2, 15, 32)]
    mask = b.input("mask", 1, 16)
    made = ["y", "present_k", "present_v"]
    b.node("Attention", q, k, v, mask, *past, name="attention", outputs=made, softcap=30.0)
    b.output(*made)
    return b


def depthwise_lines(weight: str = "input") -> Builder:
    """Depthwise convolutions of 16 lines of 40 by 3: filters that are an input or stored, then filters that are computed."""
    b = Builder(17)
    x = b.input("x", 2, 16, 40)
    w = b.input("w", 16, 1, 3) if weight == "input" else b.weight("w", 16, 1, 3)
    x = b.node("Conv", x, w, name="first", group=16, pads=[1, 1])
    made = b.node("Tanh", b.input("v", 16, 1, 5), name="made")
    b.output(b.node("Conv", x, made, name="second", group=16, strides=[2], pads=[2, 2]))
    return b
