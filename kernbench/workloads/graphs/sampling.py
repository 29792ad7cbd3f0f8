"""Rules of operators that sample images between their elements: each tap is a product of elements anywhere, and an addition."""

from __future__ import annotations

from math import ceil, prod

from kernbench.workloads.graphs.graph import Copy, Node, Vector
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule
from kernbench.workloads.graphs.positions import rows_of
from kernbench.workloads.graphs.vectors import chain, combine

_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


def taps(at: Lowering, x: str, out: str, count: int) -> None:
    """`out` as the sum of `count` elements of `x` at other positions, each times a share of its own."""
    shape = at.shape(out)
    length, batch = rows_of(at, out)
    place = ""
    for number in range(count):
        share = at.temporary(*shape) if place or count > 1 else out
        at.add(Vector("mul", x, share, length, batch, gathers=(x,)))
        if place:
            target = out if number == count - 1 else at.temporary(*shape)
            at.add(Vector("add", place, target, length, batch, b=share))
            share = target
        place = share


@rule("Resize", "Upsample")
def resize(at: Lowering, node: Node) -> None:
    """The nearest element; or dimension by dimension two or four neighbours, more of them where antialiased."""
    mode = node.attributes.get("mode", "nearest")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    x, out = at.operand(node.inputs[0]), at.out(node).name
    before, after = at.shape(x), at.shape(out)
    if mode not in _TAPS:
        raise CannotLower(f"its mode is {mode}, not one of {', '.join(_TAPS)}")
    changed = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    if not changed:
        at.view(out, x)
        return
    if mode == "nearest":
        at.add(Copy((x,), out))
        return
    shape = list(before)
    for axis in changed:
        shape[axis] = after[axis]
        target = out if axis == changed[-1] else at.temporary(*shape)
        count = _TAPS[mode]
        if node.attributes.get("antialias", 0):
            count = max(count, ceil(count * before[axis] / after[axis]))
        taps(at, x, target, at.limited("taps", count))
        x = target


@rule("GridSample")
def grid_sample(at: Lowering, node: Node) -> None:
    """Positions from the grid, then each tap."""
    mode = node.attributes.get("mode", "bilinear")
    x, out = at.operand(node.inputs[0]), at.out(node).name
    if mode not in _TAPS:
        raise CannotLower(f"its mode is {mode}, not one of {', '.join(_TAPS)}")
    places = at.temporary(*at.shape(node.inputs[1]))
    chain(at, ("mul", "add"), at.operand(node.inputs[1]), places)
    count = _TAPS[mode] ** (len(at.shape(x)) - 2)
    if count == 1:
        at.add(Copy((x,), out))
    else:
        taps(at, x, out, count)


@rule("RoiAlign")
def roi_align(at: Lowering, node: Node) -> None:
    """Four taps for each sample of a bin, and their sum. Without a sampling_ratio as many as the whole image would need."""
    x, out = at.operand(node.inputs[0]), at.out(node).name
    ratio = int(node.attributes.get("sampling_ratio", 0))
    each = ratio or ceil(at.shape(x)[2] / at.shape(out)[2])
    samples = at.temporary(*at.shape(out), at.limited("samples", each * each))
    taps(at, x, samples, 4)
    at.add(Vector("sum", samples, out, each * each, at.tensor(out).elements, reduces=True))


@rule("MaxRoiPool")
def roi_pool(at: Lowering, node: Node) -> None:
    """The largest of the elements of a bin, as many as the whole image would have."""
    x, out = at.operand(node.inputs[0]), at.out(node).name
    each = prod(ceil(old / new) for old, new in zip(at.shape(x)[2:], at.shape(out)[2:], strict=True))
    bins = at.temporary(*at.shape(out), each)
    at.add(Copy((x,), bins))
    at.add(Vector("max", bins, out, each, at.tensor(out).elements, reduces=True))


@rule("NonMaxSuppression")
def suppression(at: Lowering, node: Node) -> None:
    """For each box that may be chosen: find the best remaining box, and its overlap with all others."""
    boxes, scores, out = at.operand(node.inputs[0]), at.operand(node.inputs[1]), at.out(node).name
    batch, classes, count = at.shape(scores)
    rounds = max(at.shape(out)[0] // max(batch * classes, 1), 1)
    place = scores
    for _ in range(at.limited("boxes to choose", rounds)):
        best = at.temporary(batch, classes, 1)
        at.add(Vector("max", place, best, count, batch * classes, reduces=True))
        overlap = at.temporary(*at.shape(boxes))
        chain(at, ("add", "add", "mul", "add"), boxes, overlap)
        left = at.temporary(*at.shape(scores))
        at.add(Vector("mul", place, left, count, batch * classes, params=(overlap, best)))
        place = left
    at.add(Copy((place,), out))


@rule("DeformConv")
def deform_conv(at: Lowering, node: Node) -> None:
    """Four taps for each place of the kernel, then the product with the filters."""
    from kernbench.workloads.graphs.products import multiply

    x, weights, out = at.operand(node.inputs[0]), node.inputs[1], at.out(node)
    filters, depth, *kernel = at.shape(weights)
    images, places = at.shape(x)[0], prod(out.shape[2:])
    groups = int(node.attributes.get("group", 1))
    if len(kernel) != 2 or depth * groups != at.shape(x)[1]:
        raise CannotLower("it does not have two spatial dimensions, or its filters do not fit its input")
    columns = at.temporary(groups, images * places, depth * prod(kernel))
    taps(at, x, columns, 4)
    if node.input(4):
        masked = at.temporary(*at.shape(columns))
        combine(at, "mul", columns, at.operand(node.input(4)), masked)
        columns = masked
    product = at.temporary(groups, images * places, filters // groups)
    multiply(at, columns, weights, product, groups, images * places, filters // groups, depth * prod(kernel), swapped=True)
    if node.input(3):
        at.add(Vector("add", product, out.name, filters, images * places, params=(at.operand(node.input(3)),)))
    else:
        at.add(Copy((product,), out.name))


@rule("LRN")
def local_norm(at: Lowering, node: Node) -> None:
    """Squares, the sum of those of neighbouring channels, a power and a product."""
    x, out = at.operand(node.inputs[0]), at.out(node).name
    size, shape = int(node.attributes.get("size", 1)), at.shape(x)
    squares = at.temporary(*shape)
    chain(at, ("mul",), x, squares)
    length, batch = rows_of(at, out)
    place = squares
    for _ in range(at.limited("neighbours", size - 1)):
        target = at.temporary(*shape)
        at.add(Vector("add", place, target, length, batch, b=squares))
        place = target
    power = at.temporary(*shape)
    chain(at, ("mul", "exp", "mul", "exp"), place, power)
    combine(at, "mul", x, power, out)


