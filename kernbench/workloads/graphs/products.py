"""Rules of operators that multiply matrices: MatMul, Gemm, Conv and Attention."""

from __future__ import annotations

from math import prod

import numpy as np

from kernbench.workloads.graphs.graph import Copy, Node, Product, Vector, Window
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule

_LARGEST = 1 << 31  # of a kernel, stride, dilation or pad


@rule("MatMul")
def matmul(at: Lowering, node: Node) -> None:
    """One product for each pair of matrices of two stacks; a single product if the second input is one matrix."""
    a, b = node.inputs
    swapped = b in at.patterns.swapped
    if swapped:
        b = at.patterns.swapped[b]
    left, right = at.shape(a), at.shape(b)
    if not left or not right:
        raise CannotLower("a factor has no dimensions")
    if swapped:
        right = (*right[:-2], right[-1], right[-2])
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    m, k, n = left[-2], left[-1], right[-1]
    if right[-2] != k:
        raise CannotLower(f"{m} x {k} does not fit {right[-2]} x {n}")
    out = at.out(node).name
    if prod(right[:-2]) == 1:
        at.add(Product(at.operand(a), b, out, prod(left[:-1]), n, k, swapped=swapped))
        return
    try:
        stack = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise CannotLower(f"the stacks of its factors, {left[:-2]} and {right[:-2]}, do not fit each other") from None
    at.limited("matrices", max(prod(stack), prod(left[:-2]), prod(right[:-2])))
    numbers = [np.arange(prod(dims[:-2])).reshape(dims[:-2]) for dims in (left, right)]
    of_a, of_b = (np.broadcast_to(number, stack).reshape(-1).tolist() for number in numbers)
    matrices = tuple(zip(of_a, of_b, range(prod(stack)), strict=True))
    at.add(Product(at.operand(a), b, out, m, n, k, matrices, swapped))


@rule("Gemm")
def gemm(at: Lowering, node: Node) -> None:
    """alpha and beta of weights are part of these; C is added by the vector engines."""
    a, b = node.inputs[0], node.inputs[1]
    for name in (a, b):
        at.ranks(name, 2)
    if node.attributes.get("transA", 0):
        turned = at.temporary(*at.shape(a)[::-1])
        at.add(Copy((at.operand(a),), turned))
        a = turned
    swapped = bool(node.attributes.get("transB", 0))
    m, k = at.shape(a)
    n, depth = at.shape(b) if swapped else at.shape(b)[::-1]
    if depth != k:
        raise CannotLower(f"{m} x {k} does not fit {depth} x {n}")
    out = at.out(node)
    out_name = at.patterns.absorbed.get(out.name, out.name)
    scaled = node.attributes.get("alpha", 1.0) != 1 and at.tensor(b).source != "weight"
    place = at.temporary(m, n) if node.input(2) or scaled else out_name
    at.add(Product(at.operand(a), b, place, m, n, k, swapped=swapped))
    if scaled:
        target = at.temporary(m, n) if node.input(2) else out_name
        at.add(Vector("mul", place, target, n, m))
        place = target
    if node.input(2):
        c = at.operand(node.input(2))
        whole = at.tensor(c).elements == m * n
        at.add(Vector("add", place, out_name, n, m, b=c if whole else "", params=() if whole else (c,)))


def window_of(at: Lowering, node: Node, kernel: tuple[int, ...]) -> Window:
    """The window of a convolution or a pool over one or two dimensions."""
    shape, out = at.shape(node.inputs[0]), at.shape(node.outputs[0])
    rank = len(shape) - 2
    if rank not in (1, 2):
        raise CannotLower(f"it is over {rank} dimensions, not one or two")
    _each("kernel_shape", kernel, rank, 1)
    strides = _each("strides", tuple(node.attributes.get("strides", (1,) * rank)), rank, 1)
    dilations = _each("dilations", tuple(node.attributes.get("dilations", (1,) * rank)), rank, 1)
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        spans = [(kernel[i] - 1) * dilations[i] + 1 for i in range(rank)]
        totals = [max(0, (out[2 + i] - 1) * strides[i] + spans[i] - shape[2 + i]) for i in range(rank)]
        pads = tuple((total + (auto == "SAME_LOWER")) // 2 for total in totals)
    else:
        pads = _each("pads", tuple(node.attributes.get("pads", (0,) * 2 * rank)), 2 * rank, 0)[:rank]
    low = (1,) * (2 - rank)  # one dimension is a single row
    return Window(
        size=pair(low + shape[2:]),
        kernel=pair(low + kernel),
        strides=pair(low + strides),
        pads=pair((0,) * (2 - rank) + pads),
        dilations=pair(low + dilations),
        channels=shape[1],
        out=pair(low + out[2:]),
        images=shape[0],
    )


def _each(name: str, values: tuple[int, ...], count: int, least: int) -> tuple[int, ...]:
    if len(values) != count or any(not least <= value <= _LARGEST for value in values):
        raise CannotLower(f"{name} = {list(values)[:8]}, but it must be {count} integers from {least} to {_LARGEST}")
    return values


def pair(values: tuple[int, ...]) -> tuple[int, int]:
    """Two numbers."""
    first, second = values
    return int(first), int(second)


@rule("Conv")
def conv(at: Lowering, node: Node) -> None:
    """The product of the window inputs with the filters of each group; images are stored with channels last."""
    weights = at.shape(node.inputs[1])
    window = window_of(at, node, weights[2:])
    groups = int(node.attributes.get("group", 1))
    if groups < 1:
        raise CannotLower(f"group = {groups}, but it must be at least 1")
    filters, k = weights[0], prod(weights[1:])
    if filters % groups or weights[1] * groups != window.channels:
        raise CannotLower(f"{filters} filters of {weights[1]} channels do not fit {groups} groups of {window.channels}")
    m, n = window.images * prod(window.out), filters // groups
    out = at.out(node).name
    final = at.patterns.absorbed.get(out, out)
    biased = bool(node.input(2)) or final != out
    place = at.temporary(m, filters) if biased else out
    if window.plain and groups == 1:
        at.add(Product(at.operand(node.inputs[0]), node.inputs[1], place, m, n, k, swapped=True))
    else:
        x = at.operand(node.inputs[0])
        at.add(Product(x, node.inputs[1], place, m, n, k, swapped=True, window=window, groups=groups))
    if biased:
        params = (at.operand(node.input(2)),) if node.input(2) else ()
        at.add(Vector("add", place, final, filters, m, params=params))


@rule("Attention")
def attention(at: Lowering, node: Node) -> None:
    """Head by head: scores, cap, mask, softmax, and their product with V; of causal attention the full square."""
    at.only(node, 3)
    q, heads = _heads(at, node.inputs[0], node.attributes.get("q_num_heads"))
    k, kv_heads = _heads(at, node.inputs[1], node.attributes.get("kv_num_heads"))
    v, _ = _heads(at, node.inputs[2], node.attributes.get("kv_num_heads"))
    k = _with_past(at, node, k, 4, 1)
    v = _with_past(at, node, v, 5, 2)
    batch, _, rows, dim = at.shape(q)
    positions, width = at.shape(k)[2], at.shape(v)[3]
    if at.shape(k) != (batch, kv_heads, positions, dim) or at.shape(v)[:3] != (batch, kv_heads, positions) or heads % kv_heads:
        shapes = "queries {}, keys {} and values {}".format(*(" x ".join(map(str, at.shape(name))) for name in (q, k, v)))
        raise CannotLower(f"{shapes} do not fit each other")
    at.limited("heads", batch * heads)
    mask = at.operand(node.input(3)) if node.input(3) else ""
    out = node.outputs[0]
    flat = len(at.shape(node.inputs[0])) == 3
    y = at.temporary(batch, heads, rows, width) if flat and rows > 1 else out
    for number in range(batch * heads):
        of_kv = number // heads * kv_heads + number % heads * kv_heads // heads
        scores = at.temporary(rows, positions)
        at.add(Product(q, k, scores, rows, positions, dim, ((number, of_kv, 0),), True, "qkt"))
        for op, b in (("tanh", ""),) * bool(node.attributes.get("softcap")) + (("add", mask),) * bool(mask):
            changed = at.temporary(rows, positions)
            whole = b and at.tensor(b).elements >= rows * positions
            at.add(Vector(op, scores, changed, positions, rows, b=b if whole else "", params=(b,) if b and not whole else ()))
            scores = changed
        weights = at.temporary(rows, positions)
        at.add(Vector("softmax", scores, weights, positions, rows))
        at.add(Product(weights, v, y, rows, width, positions, ((0, of_kv, number),), op="av"))
    if y != out:
        at.add(Copy((y,), out))


def _heads(at: Lowering, name: str, count: int | None) -> tuple[str, int]:
    """A tensor as [batch][head][token][element], and its heads."""
    shape, name = at.shape(name), at.operand(name)
    if len(shape) == 4:
        return name, shape[1]
    if len(shape) != 3 or not count or count < 0 or shape[2] % count:
        raise CannotLower(f"{name} has no heads")
    batch, tokens, width = shape
    split = at.temporary(batch, count, tokens, width // count)
    if tokens == 1:
        at.result.views[split] = name
    else:
        at.add(Copy((name,), split))
    return split, count


def _with_past(at: Lowering, node: Node, new: str, index: int, output: int) -> str:
    """The earlier tokens of a cache, and the new ones behind them."""
    present = node.outputs[output] if output < len(node.outputs) else ""
    past = node.input(index)
    if not past:
        if present:
            at.add(Copy((new,), present))
        return new
    batch, heads, tokens, dim = at.shape(new)
    before = at.ranks(past, 4)[2]
    whole = present or at.temporary(batch, heads, before + tokens, dim)
    at.add(Copy((past, new), whole))
    return whole
