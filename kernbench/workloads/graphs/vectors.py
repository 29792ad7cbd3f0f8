"""Rules of elementwise operators, norms, softmax, reductions and pools.

A vector engine has a table of a few functions. Operators without their own op take the time of another: a comparison that of
an addition; a root, a reciprocal, a logarithm or a sine that of `exp`; the error function that of `tanh`.
"""

from __future__ import annotations

from math import prod

from kernbench.workloads.graphs.graph import Copy, Node, Pool, Vector, number_of
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule
from kernbench.workloads.graphs.products import window_of

_COPY, _EXP = ("copy",), ("exp",)
#: What a vector engine does for an operator of one input, in sequence.
UNARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "Clip", "Neg", "Abs", "Not", "Floor", "Ceil", "Round", "Sign"), _COPY),
    **dict.fromkeys(("Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Elu", "Celu", "Selu", "IsNaN", "IsInf"), _EXP),
    **dict.fromkeys(("Gelu", "FastGelu"), ("gelu",)),
    **dict.fromkeys(("Swish", "QuickGelu"), ("silu",)),
    "Sigmoid": ("sigmoid",),
    "Tanh": ("tanh",),
    "Erf": ("tanh",),
    "Softplus": ("exp", "exp"),
    "Mish": ("exp", "tanh", "mul"),
    "HardSigmoid": ("mul", "copy"),
    "HardSwish": ("mul", "copy", "mul"),
    "QuantizeLinear": ("mul",),
    "DequantizeLinear": ("mul",),
}
#: The same of two inputs; `b`: of the second input, before.
BINARY: dict[str, str] = {
    **dict.fromkeys(("Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual"), "add"),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "PRelu", "Mod", "Sum"), "add"),
    "Mul": "mul",
}
_REDUCTIONS: dict[str, tuple[str, str, str]] = {  # before, the reduction, after
    "ReduceSum": ("", "sum", ""),
    "ReduceMean": ("", "sum", "mul"),
    "ReduceMax": ("", "max", ""),
    "ReduceMin": ("", "min", ""),
    "ReduceSumSquare": ("mul", "sum", ""),
    "ReduceL2": ("mul", "sum", "exp"),
    "ArgMax": ("", "max", ""),
    "ArgMin": ("", "min", ""),
}


def chain(at: Lowering, operators: tuple[str, ...], a: str, out: str) -> None:
    """Elementwise operators in sequence, from `a` to `out`."""
    shape = at.shape(out)
    length = shape[-1] if shape else 1
    for number, op in enumerate(operators):
        target = out if number == len(operators) - 1 else at.temporary(*shape)
        at.add(Vector(op, a, target, length, prod(shape) // length))
        a = target


@rule(*UNARY)
def unary(at: Lowering, node: Node) -> None:
    """Clip's limits and other constants are part of the operator."""
    chain(at, UNARY[node.op], at.operand(node.inputs[0]), at.out(node).name)


@rule(*BINARY)
def binary(at: Lowering, node: Node) -> None:
    """Any number of inputs, the next one added to what there is; one that ends a written-out RMSNorm is the norm."""
    out = at.out(node).name
    if _written_norm(at, out):
        return
    names = [at.operand(name) for name in node.inputs if name]
    for number, b in enumerate(names[1:]):
        target = out if number == len(names) - 2 else at.temporary(*at.shape(out))
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
        wide = at.temporary(*shape)
        at.add(Copy((a,), wide))
        a = wide
    length = shape[-1] if shape else 1
    whole = at.tensor(b).elements == elements
    constant = at.tensor(b).source == "weight" and at.tensor(b).elements == 1  # part of the instruction
    params = () if whole or constant else (b,)
    at.add(Vector(op, a, out, length, elements // length, b=b if whole else "", params=params))


def _written_norm(at: Lowering, out: str) -> bool:
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
    if _written_norm(at, out):
        return
    divisor = at.operand(b)
    if at.tensor(b).source != "weight":
        divisor = at.temporary(*at.shape(b))
        chain(at, ("exp",), b, divisor)
    combine(at, "mul", at.operand(a), divisor, out)


@rule("Pow")
def power(at: Lowering, node: Node) -> None:
    """A square is a product; any other power a logarithm, a product and `exp`."""
    value = number_of(at.graph.known.get(node.inputs[1]))
    if value is None:
        raise CannotLower("its exponent depends on the inputs or is more than one number")
    operators = {2.0: ("mul",), 3.0: ("mul", "mul"), 0.5: ("exp",), 1.0: ("copy",)}.get(value, ("exp", "mul", "exp"))
    chain(at, operators, at.operand(node.inputs[0]), at.out(node).name)


@rule("Where")
def where(at: Lowering, node: Node) -> None:
    """One input times the condition, plus the other input."""
    condition, x, y = (at.operand(name) for name in node.inputs)
    out = at.out(node)
    chosen = at.temporary(*out.shape)
    combine(at, "mul", x, condition, chosen)
    combine(at, "add", chosen, y, out.name)


@rule("Softmax", "LogSoftmax")
def softmax(at: Lowering, node: Node) -> None:
    """Over the last dimension; before opset 13 over all from `axis` on."""
    shape = at.shape(node.inputs[0])
    old = node.opset < 13
    axis = at.axis(node, 1 if old else -1, len(shape))
    if not old and prod(shape[axis + 1 :]) > 1:
        raise CannotLower(f"it is over dimension {axis} of {len(shape)}, not the last one")
    length = prod(shape[axis:]) if old else shape[axis]
    out = at.out(node).name
    place = at.temporary(*shape) if node.op == "LogSoftmax" else out
    at.add(Vector("softmax", at.operand(node.inputs[0]), place, length, prod(shape) // length))
    if place != out:
        chain(at, ("exp",), place, out)


@rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def norm(at: Lowering, node: Node) -> None:
    """Over all dimensions from `axis` on."""
    shape = at.shape(node.inputs[0])
    axis = at.axis(node, -1, len(shape))
    op = "layernorm" if node.op == "LayerNormalization" else "rmsnorm"
    params = tuple(at.operand(name) for name in node.inputs[1:] if name)
    length = prod(shape[axis:])
    at.add(Vector(op, at.operand(node.inputs[0]), at.out(node).name, length, prod(shape) // length, params=params))


@rule("InstanceNormalization", "GroupNormalization")
def group_norm(at: Lowering, node: Node) -> None:
    """A layernorm over each group of channels, then gain and shift of each channel."""
    shape = at.shape(node.inputs[0])
    if len(shape) < 2:
        raise CannotLower("its input has no channels")
    groups = int(node.attributes.get("num_groups", shape[1]))
    if groups < 1 or shape[1] % groups:
        raise CannotLower(f"num_groups = {groups}, but it must divide its {shape[1]} channels")
    length = prod(shape) // (shape[0] * groups)
    params = tuple(at.operand(name) for name in node.inputs[1:3])
    at.add(Vector("layernorm", at.operand(node.inputs[0]), at.out(node).name, length, shape[0] * groups, params=params))


@rule("BatchNormalization")
def batch_norm(at: Lowering, node: Node) -> None:
    """In a trained model: a multiplication and an addition with numbers for each channel."""
    if node.attributes.get("training_mode", 0):
        raise CannotLower("it is in training mode")
    out = at.out(node)
    if len(out.shape) < 2:
        raise CannotLower("its input has no channels")
    channels = out.shape[1]
    scaled, rows = at.temporary(*out.shape), out.elements // channels
    gain, shift = (at.operand(name) for name in node.inputs[1:3])
    at.add(Vector("mul", at.operand(node.inputs[0]), scaled, channels, rows, params=(gain,)))
    at.add(Vector("add", scaled, out.name, channels, rows, params=(shift,)))


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
        turned = at.temporary(*shape)
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
        squared = at.temporary(*shape)
        chain(at, (before,), a, squared)
        a = squared
    target = at.temporary(*out.shape) if after else out.name
    at.add(Vector(op, a, target, length, prod(shape) // length, reduces=True))
    if after:
        chain(at, (after,), target, out.name)


@rule("MaxPool", "AveragePool")
def pool(at: Lowering, node: Node) -> None:
    """The mean is a product more."""
    window = window_of(at, node, tuple(node.attributes["kernel_shape"]))
    out = at.out(node)
    mean = node.op == "AveragePool"
    target = at.temporary(*out.shape) if mean else out.name
    at.add(Pool(at.operand(node.inputs[0]), target, window))
    if mean:
        chain(at, ("mul",), target, out.name)
