"""Rules of operators that take, put, sort or add up elements by position.

A vector engine reads any element where it needs it, so taking elements is a copy. Positions that are known before the run are
part of that copy; others are computed first, with an addition for each.
"""

from __future__ import annotations

from math import prod

from kernbench.workloads.graphs.graph import Copy, Node, Vector
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule
from kernbench.workloads.graphs.vectors import chain, combine

MAX_PASSES = 512  #: over a tensor, of one operator


def rows_of(at: Lowering, name: str) -> tuple[int, int]:
    """The length of the last dimension, and the product of all others."""
    shape = at.shape(name)
    length = shape[-1] if shape else 1
    return length, prod(shape) // length


def addresses(at: Lowering, name: str) -> None:
    """The positions that a tensor of indices gives: nothing where they are known."""
    if name in at.graph.known or at.tensor(name).source == "weight":
        return
    length, batch = rows_of(at, name)
    at.add(Vector("add", name, at.temporary(*at.shape(name), like=name), length, batch))


@rule("GatherElements", "GatherND")
def gather(at: Lowering, node: Node) -> None:
    """A copy of each element."""
    addresses(at, node.inputs[1])
    at.add(Copy((at.operand(node.inputs[0]),), at.out(node).name))


@rule("ScatterElements", "ScatterND", "Scatter", "TensorScatter")
def scatter(at: Lowering, node: Node) -> None:
    """The updates, moved to their positions, over a copy of the data."""
    data, indices, updates = node.inputs[0], node.input(1), node.input(2)
    if node.op == "TensorScatter":
        indices, updates = node.input(2), node.input(1)
    if indices:
        addresses(at, indices)
    out, moved = at.out(node).name, at.temporary(*at.shape(updates), like=updates)
    at.add(Copy((at.operand(updates),), moved))
    length, batch = rows_of(at, out)
    at.add(Vector("add", at.operand(data), out, length, batch, params=(moved,)))


@rule("OneHot")
def one_hot(at: Lowering, node: Node) -> None:
    """A comparison of each position with each index."""
    out = at.out(node)
    wide = at.temporary(*out.shape, like=node.inputs[0])
    at.add(Copy((at.operand(node.inputs[0]),), wide))
    chain(at, ("add",), wide, out.name)


@rule("Compress")
def compress(at: Lowering, node: Node) -> None:
    """A copy of the chosen elements; the output has its largest possible size."""
    addresses(at, node.inputs[1])
    at.add(Copy((at.operand(node.inputs[0]),), at.out(node).name))


@rule("ReverseSequence", "CenterCropPad")
def reordered(at: Lowering, node: Node) -> None:
    """The same elements at other positions."""
    at.add(Copy((at.operand(node.inputs[0]),), at.out(node).name))


@rule("TopK")
def top(at: Lowering, node: Node) -> None:
    """The largest one after the other, or a sorting network where that has fewer passes."""
    x = at.operand(node.inputs[0])
    axis = at.axis(node, -1, len(at.shape(x)))
    length = at.shape(x)[axis]
    wanted = next(at.shape(name)[axis] for name in node.outputs if name)
    passes = min(wanted, network_passes(length))
    sort(at, x, length, passes)
    for name in node.outputs:
        if name and (name in at.graph.outputs or at.patterns.consumers(name)):
            at.add(Copy((x,), name))


def network_passes(length: int) -> int:
    """Comparisons of each element in a bitonic network."""
    stages = max(length - 1, 1).bit_length()
    return stages * (stages + 1) // 2


def sort(at: Lowering, x: str, length: int, passes: int) -> None:
    """So many comparisons of each element with another."""
    if passes > MAX_PASSES:
        raise CannotLower(f"it takes {passes} passes over its input, but an operator may take at most {MAX_PASSES}")
    shape = at.shape(x)
    place = x
    for _ in range(passes):
        target = at.temporary(*shape, like=x)
        at.add(Vector("add", place, target, length, prod(shape) // length))
        place = target


@rule("CumSum", "CumProd")
def cumulated(at: Lowering, node: Node) -> None:
    """Passes over neighbours at the distances 1, 2, 4 and so on."""
    axis = int(at.value(node.inputs[1], "axis").reshape(-1)[0]) if node.input(1) in at.graph.known else -1
    x, out = at.operand(node.inputs[0]), at.out(node).name
    shape = at.shape(x)
    length = shape[at.dimension("axis", axis, len(shape))] if shape else 1
    op = "add" if node.op == "CumSum" else "mul"
    chain(at, (op,) * max((length - 1).bit_length(), 1), x, out)


@rule("Unique")
def unique(at: Lowering, node: Node) -> None:
    """Sorted, and each compared with the one before it; of as many results as there are elements."""
    x = at.operand(node.inputs[0])
    length = at.tensor(x).elements
    sort(at, x, length, network_passes(length) + 1)
    for name in node.outputs:
        if name and (name in at.graph.outputs or at.patterns.consumers(name)):
            at.add(Copy((x,), name))


@rule("NonZero")
def non_zero(at: Lowering, node: Node) -> None:
    """Counted by passes over neighbours, then copied; of as many results as there are elements."""
    x, out = at.operand(node.inputs[0]), at.out(node).name
    shape = at.shape(x)
    counted = at.temporary(*shape, like=out)
    chain(at, ("add",) * max((prod(shape) - 1).bit_length(), 1), x, counted)
    at.add(Copy((counted,), out))


@rule("MaxUnpool")
def unpool(at: Lowering, node: Node) -> None:
    """A result of zeros, with the elements put at their positions."""
    addresses(at, node.inputs[1])
    out, x = at.out(node).name, at.operand(node.inputs[0])
    length, batch = rows_of(at, out)
    spread = at.temporary(*at.shape(out), like=out)
    at.add(Copy((x,), spread))
    at.add(Vector("copy", spread, out, length, batch))


@rule("Col2Im")
def col2im(at: Lowering, node: Node) -> None:
    """Each element of the image is the sum of those that fall on it."""
    columns, out = at.operand(node.inputs[0]), at.out(node).name
    add_overlaps(at, columns, out)


def add_overlaps(at: Lowering, columns: str, out: str) -> None:
    """`out` from the products of all places of a kernel, side by side: those that fall on one element are added."""
    elements, shape = at.tensor(out).elements, at.shape(out)
    overlap = -(-at.tensor(columns).elements // elements)
    if overlap < 2:
        at.add(Copy((columns,), out))
        return
    beside = at.temporary(*shape, overlap, like=out)
    at.add(Copy((columns,), beside))
    at.add(Vector("sum", beside, out, overlap, elements, reduces=True))


@rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(at: Lowering, node: Node) -> None:
    """Take the element of the class of each row, multiply it by a weight, and compute the mean or the sum of the products."""
    x = at.operand(node.inputs[0])
    classes, count = at.shape(x)[1], at.tensor(node.inputs[1]).elements
    if node.op.startswith("Softmax"):
        logs = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] else at.temporary(*at.shape(x))
        weights = at.temporary(*at.shape(x))
        at.add(Vector("softmax", x, weights, classes, at.tensor(x).elements // classes))
        chain(at, ("exp",), weights, logs)
        x = logs
    addresses(at, node.inputs[1])
    reduced = node.attributes.get("reduction", "mean") != "none"
    out = node.outputs[0]
    taken = at.temporary(count)
    at.add(Copy((x,), taken))
    if node.input(2):
        scaled, weights = at.temporary(count), at.temporary(count)
        at.add(Copy((at.operand(node.input(2)),), weights))
        combine(at, "mul", taken, weights, scaled)
        taken = scaled
    if reduced:
        at.add(Vector("sum", taken, out, count, 1, reduces=True))
    else:
        chain(at, ("mul",), taken, out)
