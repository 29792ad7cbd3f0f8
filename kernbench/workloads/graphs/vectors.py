"""Rules of elementwise operators, norms, softmax, reductions and pools.

A vector engine has a table of a few functions. Operators without their own op take the time of another: a comparison that of
an addition; a root, a reciprocal, a logarithm or a sine that of `exp`; the error function that of `tanh`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kernbench.workloads.graphs.graph import Copy, Node, Pool, Vector, Window, number_of
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule
from kernbench.workloads.graphs.products import volume, window_of

_COPY, _EXP = ("copy",), ("exp",)
#: The ops of a vector engine for an operator of one input, in sequence.
UNARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "Clip", "Neg", "Abs", "Not", "Floor", "Ceil", "Round", "Sign"), _COPY),
    **dict.fromkeys(("Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Elu", "Celu", "Selu", "IsNaN", "IsInf"), _EXP),
    **dict.fromkeys(("BitwiseNot", "ThresholdedRelu", "Shrink"), _COPY),
    **dict.fromkeys(("Tan", "Asin", "Acos", "Atan", "RandomNormalLike", "RandomUniformLike", "Bernoulli"), _EXP),
    **dict.fromkeys(("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"), ("exp", "add")),
    **dict.fromkeys(("Gelu", "FastGelu"), ("gelu",)),
    **dict.fromkeys(("Swish", "QuickGelu"), ("silu",)),
    "Sigmoid": ("sigmoid",),
    "Tanh": ("tanh",),
    "Erf": ("tanh",),
    "Softsign": ("copy", "exp", "mul"),
    "Softplus": ("exp", "exp"),
    "Mish": ("exp", "tanh", "mul"),
    "HardSigmoid": ("mul", "copy"),
    "HardSwish": ("mul", "copy", "mul"),
    "QuantizeLinear": ("mul",),
    "DequantizeLinear": ("mul",),
}
#: The same for an operator of two inputs; `b`: of the second input, before.
BINARY: dict[str, str] = {
    **dict.fromkeys(("Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual"), "add"),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "PRelu", "Mod", "Sum", "BitShift"), "add"),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), "add"),
    "Mul": "mul",
}
_REDUCTIONS: dict[str, tuple[str, str, str]] = {  # before, the reduction, after
    "ReduceSum": ("", "sum", ""),
    "ReduceMean": ("", "sum", "mul"),
    "ReduceMax": ("", "max", ""),
    "ReduceMin": ("", "min", ""),
    "ReduceSumSquare": ("mul", "sum", ""),
    "ReduceL1": ("copy", "sum", ""),
    "ReduceL2": ("mul", "sum", "exp"),
    "ReduceLogSum": ("", "sum", "exp"),
    "ReduceLogSumExp": ("exp", "sum", "exp"),
    "ReduceProd": ("", "sum", ""),
    "ArgMax": ("", "max", ""),
    "ArgMin": ("", "min", ""),
}


def chain(at: Lowering, operators: tuple[str, ...], a: str, out: str) -> None:
    """Elementwise operators in sequence, from `a` to `out`."""
    shape = at.shape(out)
    length = shape[-1] if shape else 1
    for number, op in enumerate(operators):
        target = out if number == len(operators) - 1 else at.temporary(*shape, like=out)
        at.add(Vector(op, a, target, length, prod(shape) // length))
        a = target


@rule(*UNARY)
def unary(at: Lowering, node: Node) -> None:
    """Clip's limits and other constants are part of the operator. Copies of windows compute a function that takes the time of a
    copy.
    """
    reader = at.patterns.copied.get(node.outputs[0])
    if reader is not None:
        at.view(at.out(node).name, at.operand(node.inputs[0]), f"part of the copies of {reader}")
        return
    chain(at, UNARY[node.op], at.operand(node.inputs[0]), at.out(node).name)


@rule(*BINARY)
def binary(at: Lowering, node: Node) -> None:
    """An operator of any number of inputs, which are added one after another. If it ends a norm or function of several nodes,
    it computes this norm or function."""
    out = at.out(node).name
    if _written_out(at, out):
        return
    names = [at.operand(name) for name in node.inputs if name]
    for number, b in enumerate(names[1:]):
        target = out if number == len(names) - 2 else at.temporary(*at.shape(out), like=out)
        combine(at, BINARY[node.op], names[0], b, target)
        names[0] = target
    if len(names) == 1:
        at.view(out, names[0])


def combine(at: Lowering, op: str, a: str, b: str, out: str) -> None:
    """`out` from two tensors, of which one or both are broadcast."""
    elements, shape = at.tensor(out).elements, at.shape(out)
    if at.tensor(a).elements < elements and at.tensor(b).elements == elements:
        a, b = b, a
    if at.tensor(a).elements < elements:  # both: the first is spread out
        wide = at.temporary(*shape, like=a)
        at.add(Copy((a,), wide))
        a = wide
    length = shape[-1] if shape else 1
    whole = at.tensor(b).elements == elements
    constant = at.tensor(b).source == "weight" and at.tensor(b).elements == 1  # part of the instruction
    params = () if whole or constant else (b,)
    at.add(Vector(op, a, out, length, elements // length, b=b if whole else "", params=params))


def _written_out(at: Lowering, out: str) -> bool:
    """Whether a node is part of weights, or ends a group that is a norm or a function, which is then the work of the node."""
    scaled = at.patterns.scaled.get(out)
    if scaled is not None:
        at.view(out, at.operand(scaled[0]), f"part of the weights of {scaled[1]}")
        return True
    function = at.patterns.functions.get(out)
    if function is not None:
        chain(at, (function.op,), at.operand(function.x), out)
        return True
    norm = at.patterns.norms.get(out)
    if norm is None:
        return False
    shape = at.shape(norm.x)
    params = (at.operand(norm.gain),) if norm.gain else ()
    at.add(Vector("rmsnorm", at.operand(norm.x), out, shape[-1], prod(shape[:-1]), params=params))
    return True


@rule("Div")
def div(at: Lowering, node: Node) -> None:
    """A product with the reciprocal, which of a constant is known."""
    a, b = node.inputs
    out = at.out(node).name
    if _written_out(at, out):
        return
    divisor = at.operand(b)
    if at.tensor(b).source != "weight":
        divisor = at.temporary(*at.shape(b), like=b)
        chain(at, ("exp",), b, divisor)
    combine(at, "mul", at.operand(a), divisor, out)


@rule("Pow")
def power(at: Lowering, node: Node) -> None:
    """A square is a product; any other power a logarithm, a product and `exp`."""
    known = at.graph.known.get(node.inputs[1])
    if known is not None and known.dtype.kind not in "iufb":
        raise CannotLower(f"its exponent is of type {known.dtype}, and must be numbers")
    value = number_of(known)
    if value is None:
        logarithm, product = at.temporary(*at.shape(node.inputs[0])), at.temporary(*at.shape(node.outputs[0]))
        chain(at, ("exp",), at.operand(node.inputs[0]), logarithm)
        combine(at, "mul", logarithm, at.operand(node.inputs[1]), product)
        chain(at, ("exp",), product, at.out(node).name)
        return
    operators = {2.0: ("mul",), 3.0: ("mul", "mul"), 0.5: ("exp",), 1.0: ("copy",)}.get(value, ("exp", "mul", "exp"))
    chain(at, operators, at.operand(node.inputs[0]), at.out(node).name)


@rule("Where")
def where(at: Lowering, node: Node) -> None:
    """One input times the condition, plus the other input."""
    condition, x, y = (at.operand(name) for name in node.inputs)
    out = at.out(node)
    chosen = at.temporary(*out.shape, like=out.name)
    combine(at, "mul", x, condition, chosen)
    combine(at, "add", chosen, y, out.name)


@rule("Softmax", "LogSoftmax")
def softmax(at: Lowering, node: Node) -> None:
    """Over the last dimension; before opset 13 over all from `axis` on."""
    shape = at.shape(node.inputs[0])
    old = node.opset < 13
    axis = at.axis(node, 1 if old else -1, len(shape))
    if not shape:
        chain(at, ("exp",), at.operand(node.inputs[0]), at.out(node).name)
        return
    length = prod(shape[axis:]) if old else shape[axis]
    a, out = at.operand(node.inputs[0]), at.out(node).name
    turned = not old and prod(shape[axis + 1 :]) > 1
    if turned:
        a = _moved(at, a)
    last = at.temporary(*shape, like=out) if turned else out
    place = at.temporary(*shape, like=out) if node.op == "LogSoftmax" else last
    at.add(Vector("softmax", a, place, length, prod(shape) // length))
    if place != last:
        chain(at, ("exp",), place, last)
    if turned:
        at.add(Copy((last,), out))


def _moved(at: Lowering, a: str) -> str:
    """A copy of a tensor whose dimensions are in another order."""
    turned = at.temporary(*at.shape(a), like=a)
    at.add(Copy((a,), turned))
    return turned


@rule("Hardmax")
def hardmax(at: Lowering, node: Node) -> None:
    """The largest of each row, and a comparison of each element with it."""
    shape, a, out = at.shape(node.inputs[0]), at.operand(node.inputs[0]), at.out(node).name
    axis = at.axis(node, 1 if node.opset < 13 else -1, len(shape))
    length = prod(shape[axis:]) if node.opset < 13 else shape[axis]
    largest = at.temporary(prod(shape) // length, like=a)
    if node.opset >= 13 and prod(shape[axis + 1 :]) > 1:
        a = _moved(at, a)
    at.add(Vector("max", a, largest, length, prod(shape) // length, reduces=True))
    at.add(Vector("add", a, out, length, prod(shape) // length, params=(largest,)))


@rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def norm(at: Lowering, node: Node) -> None:
    """Over all dimensions from `axis` on."""
    shape = at.shape(node.inputs[0])
    axis = at.axis(node, -1, len(shape))
    op = "layernorm" if node.op == "LayerNormalization" else "rmsnorm"
    params = tuple(at.operand(name) for name in node.inputs[1:] if name)
    length = prod(shape[axis:])
    x, batch = at.operand(node.inputs[0]), prod(shape) // length
    at.add(Vector(op, x, node.outputs[0], length, batch, params=params))
    statistics = [name for name in node.outputs[1:] if name and (name in at.graph.outputs or at.patterns.consumers(name))]
    for number, name in enumerate(statistics):
        summed = at.temporary(*at.shape(name))
        if number:
            squares = at.temporary(*shape)
            chain(at, ("mul",), x, squares)
            x = squares
        at.add(Vector("sum", x, summed, length, batch, reduces=True))
        chain(at, ("exp",) if number else ("mul",), summed, name)


@rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(at: Lowering, node: Node) -> None:
    """The sum with the residual input, then the norm. The sum may also be an output."""
    shape = at.shape(node.inputs[0])
    names = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3] else at.temporary(*shape)
    combine(at, "add", at.operand(node.inputs[0]), at.operand(node.inputs[1]), names)
    bias = node.input(4 if node.op == "SkipLayerNormalization" else 3)
    if bias:
        biased = at.temporary(*shape)
        combine(at, "add", names, at.operand(bias), biased)
        names = biased
    op = "layernorm" if node.op == "SkipLayerNormalization" else "rmsnorm"
    gains = node.inputs[2:4] if op == "layernorm" else node.inputs[2:3]
    params = tuple(at.operand(name) for name in gains if name)
    at.add(Vector(op, names, node.outputs[0], shape[-1], prod(shape[:-1]), params=params))


@rule("BiasGelu")
def bias_gelu(at: Lowering, node: Node) -> None:
    """A sum, then the function."""
    total = at.temporary(*at.shape(node.outputs[0]))
    combine(at, "add", at.operand(node.inputs[0]), at.operand(node.inputs[1]), total)
    chain(at, ("gelu",), total, at.out(node).name)


@rule("Mean")
def mean(at: Lowering, node: Node) -> None:
    """The sum of all inputs, times a constant."""
    out, place = at.out(node), at.operand(node.inputs[0])
    for name in node.inputs[1:]:
        target = at.temporary(*out.shape, like=out.name)
        combine(at, "add", place, at.operand(name), target)
        place = target
    chain(at, ("mul",), place, out.name)


@rule("Atan2")
def atan2(at: Lowering, node: Node) -> None:
    """The arc tangent of a ratio, and a correction by the signs."""
    inverse, ratio = at.temporary(*at.shape(node.inputs[1])), at.temporary(*at.shape(node.outputs[0]))
    chain(at, ("exp",), at.operand(node.inputs[1]), inverse)
    combine(at, "mul", at.operand(node.inputs[0]), inverse, ratio)
    chain(at, ("exp", "add"), ratio, at.out(node).name)


@rule("DynamicQuantizeLinear")
def dynamic_quantize(at: Lowering, node: Node) -> None:
    """The largest and the smallest element, the scale from both, and a product with it."""
    x = at.operand(node.inputs[0])
    shape = at.shape(x)
    ends = at.temporary(1)
    at.add(Vector("max", x, ends, prod(shape), 1, reduces=True))
    for name in node.outputs[1:]:
        if name:
            chain(at, ("mul",), ends, name)
    length = shape[-1] if shape else 1
    at.add(Vector("mul", x, node.outputs[0], length, prod(shape) // length, params=(ends,)))


@rule("MeanVarianceNormalization", "LpNormalization")
def whole_norm(at: Lowering, node: Node) -> None:
    """A norm without gain, over rows of the axes' elements."""
    shape = at.shape(node.inputs[0])
    default = [0, 2, 3] if node.op == "MeanVarianceNormalization" else [int(node.attributes.get("axis", -1))]
    axes = {at.dimension("axes", int(axis), len(shape)) for axis in node.attributes.get("axes", default)}
    length, a = prod(shape[axis] for axis in axes), at.operand(node.inputs[0])
    last, out = node.outputs[0], at.out(node).name
    others = axes != set(range(len(shape) - len(axes), len(shape)))
    if others:
        a, last = _moved(at, a), at.temporary(*shape)
    op = "layernorm" if node.op == "MeanVarianceNormalization" else "rmsnorm"
    at.add(Vector(op, a, last, length, prod(shape) // length))
    if others:
        at.add(Copy((last,), out))


@rule("SwiGLU")
def swiglu(at: Lowering, node: Node) -> None:
    """Half of the elements through the function, times the other half."""
    out = at.out(node)
    halves = at.temporary(*out.shape), at.temporary(*out.shape), at.temporary(*out.shape)
    x = at.operand(node.inputs[0])
    at.add(Copy((x,), halves[0]))
    chain(at, ("silu",), halves[0], halves[1])
    at.add(Copy((x,), halves[2]))
    combine(at, "mul", halves[1], halves[2], out.name)


@rule("InstanceNormalization", "GroupNormalization")
def group_norm(at: Lowering, node: Node) -> None:
    """A layernorm over each group of channels, then gain and shift of each channel."""
    shape = at.shape(node.inputs[0])
    if len(shape) < 2:
        raise CannotLower("its input has no channels")
    groups = int(node.attributes.get("num_groups", shape[1]))
    if groups < 1 or shape[1] % groups:
        raise CannotLower(f"num_groups = {groups}, but it must divide the {shape[1]} channels of the input")
    length = prod(shape) // (shape[0] * groups)
    params = tuple(at.operand(name) for name in node.inputs[1:3])
    at.add(Vector("layernorm", at.operand(node.inputs[0]), at.out(node).name, length, shape[0] * groups, params=params))


@rule("BatchNormalization")
def batch_norm(at: Lowering, node: Node) -> None:
    """Lower the batch norm of a trained model: a multiplication and an addition with numbers for each channel."""
    out = at.tensor(node.outputs[0])
    training = bool(node.attributes.get("training_mode", 0))
    at.only(node, 3 if training else 1)
    if len(out.shape) < 2:
        raise CannotLower("its input has no channels")
    channels = out.shape[1]
    if training:
        _statistics(at, node, channels)
    scaled, rows = at.temporary(*out.shape), out.elements // channels
    gain, shift = (at.operand(name) for name in node.inputs[1:3])
    at.add(Vector("mul", at.operand(node.inputs[0]), scaled, channels, rows, params=(gain,)))
    at.add(Vector("add", scaled, out.name, channels, rows, params=(shift,)))


def _statistics(at: Lowering, node: Node, channels: int) -> None:
    """The mean and the variance of each channel, and the running ones from them."""
    x = at.operand(node.inputs[0])
    length, squares = at.tensor(x).elements // channels, at.temporary(*at.shape(x))
    chain(at, ("mul",), x, squares)
    for number, place in enumerate((x, squares)):
        summed = at.temporary(channels)
        at.add(Vector("sum", place, summed, length, channels, reduces=True))
        running = node.outputs[number + 1] if number + 1 < len(node.outputs) else ""
        if running:
            combine(at, "add", summed, at.operand(node.inputs[3 + number]), running)


@rule(*_REDUCTIONS)
def reduction(at: Lowering, node: Node) -> None:
    """Over other dimensions than the last ones behind a copy that makes them so."""
    shape = at.shape(node.inputs[0])
    single = node.op.startswith("Arg")
    axes = (int(node.attributes.get("axis", 0)),) if single else at.integers(node, "axes", 1)
    a = at.operand(node.inputs[0])
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        chain(at, ("copy",), a, at.out(node).name)
        return
    chosen = {at.dimension("axis" if single else "axes", axis, len(shape)) for axis in axes or range(len(shape))}
    length = prod(shape[axis] for axis in chosen)
    first = min(chosen, default=0)
    if any(shape[axis] > 1 for axis in range(first, len(shape)) if axis not in chosen):
        turned = at.temporary(*shape, like=a)
        at.add(Copy((a,), turned))
        a = turned
    _reduce(at, node, a, length)


@rule("GlobalAveragePool", "GlobalMaxPool")
def global_pool(at: Lowering, node: Node) -> None:
    """A reduction over the places of an image."""
    if len(at.shape(node.inputs[0])) < 3:
        raise CannotLower("its input is not an image")
    _reduce(at, node, at.operand(node.inputs[0]), prod(at.shape(node.inputs[0])[2:]))


def _reduce(at: Lowering, node: Node, a: str, length: int) -> None:
    pools = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}
    before, op, after = _REDUCTIONS[pools.get(node.op, node.op)]
    shape, out = at.shape(node.inputs[0]), at.out(node)
    if before:
        squared = at.temporary(*shape, like=a)
        chain(at, (before,), a, squared)
        a = squared
    target = at.temporary(*out.shape, like=out.name) if after else out.name
    at.add(Vector(op, a, target, length, prod(shape) // length, reduces=True))
    if after:
        chain(at, (after,), target, out.name)


@rule("MaxPool", "AveragePool", "LpPool")
def pool(at: Lowering, node: Node) -> None:
    """The mean is a product more, a power two. Over three dimensions: image by image, then over the depth."""
    a, out = at.operand(node.inputs[0]), at.tensor(node.outputs[0])
    at.only(node, 2 if node.op == "MaxPool" else 1)
    if node.op == "LpPool":
        powers = at.temporary(*at.shape(a), like=a)
        chain(at, ("mul",), a, powers)
        a = powers
    after = {"MaxPool": (), "AveragePool": ("mul",), "LpPool": ("exp",)}[node.op]
    target = at.temporary(*out.shape, like=out.name) if after else out.name
    kernel = tuple(node.attributes["kernel_shape"])
    if len(at.shape(a)) == 5:
        _pool_volumes(at, node, a, target, kernel)
    else:
        _pool_images(at, a, target, window_of(at, node, kernel))
    if after:
        chain(at, after, target, out.name)
    for name in node.outputs[1:]:
        if name and (name in at.graph.outputs or at.patterns.consumers(name)):
            at.add(Copy((out.name,), name))


def _pool_images(at: Lowering, a: str, out: str, window: Window) -> None:
    """Over the columns of a window and then over its rows, where that takes fewer operations than all positions at once."""
    (high, wide), (rows, columns) = window.kernel, window.out
    if window.size[0] * columns * wide + rows * columns * high >= rows * columns * high * wide:
        at.add(Pool(a, out, window))
        return
    line = at.temporary(window.images, window.channels, window.size[0], columns, like=out)
    at.add(Pool(a, line, _along(window, 1)))
    at.add(Pool(line, out, replace(_along(window, 0), size=(window.size[0], columns))))


def _along(window: Window, axis: int) -> Window:
    """The part of a window along one axis, with the other axis as it is."""

    def one(values: tuple[int, int], other: int) -> tuple[int, int]:
        return (values[0], other) if axis == 0 else (other, values[1])

    return replace(
        window,
        kernel=one(window.kernel, 1),
        strides=one(window.strides, 1),
        pads=one(window.pads, 0),
        dilations=one(window.dilations, 1),
        out=window.out if axis == 0 else (window.size[0], window.out[1]),
    )


def _pool_volumes(at: Lowering, node: Node, a: str, target: str, kernel: tuple[int, ...]) -> None:
    """The images of each place of the kernel's depth side by side, pooled, and then over those places."""
    slices, flat = volume(at, node, a, kernel)
    window = window_of(at, flat, kernel[1:])
    pooled = at.temporary(*at.shape(flat.outputs[0]), like=target)
    _pool_images(at, slices, pooled, window)
    if kernel[0] == 1:
        at.add(Copy((pooled,), target))
        return
    op = "max" if node.op == "MaxPool" else "sum"
    at.add(Vector(op, pooled, target, kernel[0], at.tensor(pooled).elements // kernel[0], reduces=True))
