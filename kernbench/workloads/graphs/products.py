"""Rules of operators that multiply matrices: MatMul, Gemm, Conv and Attention."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from kernbench.common.units import ceil_div
from kernbench.workloads.graphs.graph import Copy, Node, Product, Vector, Window
from kernbench.workloads.graphs.grouped import tiles_of
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule

_LARGEST = 1 << 31  # largest kernel, stride, dilation or pad


@rule("MatMul")
def matmul(at: Lowering, node: Node) -> None:
    """One product for each pair of matrices of two stacks; a single product if the second input is one matrix."""
    a, b = node.inputs
    swapped = b in at.patterns.swapped
    if swapped:
        b = at.patterns.swapped[b]
    left, right = at.shape(a), at.shape(b)
    if not left or not right:
        raise CannotLower("an operand has no dimensions")
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
        raise CannotLower(
            f"the stack dimensions of its operands, {left[:-2]} and {right[:-2]}, cannot be broadcast to one shape"
        ) from None
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
        turned = at.temporary(*at.shape(a)[::-1], like=at.operand(a))
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
    place = at.temporary(m, n, like=out.name) if node.input(2) or scaled else out_name
    at.add(Product(at.operand(a), b, place, m, n, k, swapped=swapped))
    if scaled:
        target = at.temporary(m, n, like=out.name) if node.input(2) else out_name
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


def volume(at: Lowering, node: Node, x: str, kernel: tuple[int, ...]) -> tuple[str, Node]:
    """Volumes as images: for each depth of the output those that the kernel looks at, one behind the other as channels.

    The copy that makes them so, and the node over the two dimensions that are left.
    """
    images, channels, *_ = at.shape(x)
    _, filters, depth, *places = at.shape(node.outputs[0])
    slices = at.temporary(images * depth, channels * kernel[0], *at.shape(x)[3:])
    at.add(Copy((x,), slices))
    attributes = dict(node.attributes)
    for name, default in (("strides", [1] * 3), ("dilations", [1] * 3), ("pads", [0] * 6)):
        values = list(attributes.get(name, default))
        _each(name, tuple(values), len(default), 0 if name == "pads" else 1)
        attributes[name] = values[1:3] + values[4:6] if name == "pads" else values[1:]
    attributes["kernel_shape"] = list(kernel[1:])
    made = at.temporary(images * depth, filters if node.op == "Conv" else channels * kernel[0], *places)
    return slices, replace(node, inputs=(slices, *node.inputs[1:]), outputs=(made,), attributes=attributes)


@rule("Conv", "ConvInteger", "QLinearConv", "FusedConv")
def conv(at: Lowering, node: Node) -> None:
    """The product of the window inputs with the filters of each group; images are stored with channels last.

    Integers: scales and zero points are a product of the results with numbers for each channel.
    """
    quantised = node.op == "QLinearConv"
    filter_input, bias = (3, 8) if quantised else (1, 2)
    weight_name, x = node.inputs[filter_input], at.operand(node.inputs[0])
    weights = at.shape(weight_name)
    depth = 1
    if len(weights) == 5 and len(at.shape(node.inputs[0])) == 5:
        depth = weights[2]
        x, flat = volume(at, replace(node, op="Conv"), x, weights[2:])
        window = window_of(at, flat, weights[3:])
    else:
        window = window_of(at, node, weights[2:])
    groups = int(node.attributes.get("group", 1))
    if groups < 1:
        raise CannotLower(f"group = {groups}, but it must be at least 1")
    filters, k = weights[0], prod(weights[1:])
    if filters % groups or weights[1] * groups * depth != window.channels:
        given = window.channels // depth
        raise CannotLower(f"{filters} filters of {weights[1]} channels do not fit {groups} groups of {given}")
    m, n = window.images * prod(window.out), filters // groups
    out = at.out(node).name
    final = at.patterns.absorbed.get(out, out)
    biased = (bool(node.input(bias)) and node.op != "ConvInteger") or final != out
    scaled = quantised or (node.op == "ConvInteger" and len(node.inputs) > 2)
    place = at.temporary(m, filters, like=out) if biased or scaled else out
    if window.plain and groups == 1:
        at.add(Product(x, weight_name, place, m, n, k, swapped=True))
    else:
        at.add(_windows(at, Product(x, weight_name, place, m, n, k, swapped=True, window=window, groups=groups)))
    if biased:
        params = (at.operand(node.input(bias)),) if node.input(bias) else ()
        target = at.temporary(m, filters, like=out) if scaled else final
        at.add(Vector("add", place, target, filters, m, params=params))
        place = target
    if scaled:
        at.add(Vector("mul", place, final, filters, m))


def _windows(at: Lowering, plain: Product) -> Product:
    """A convolution with as many groups and outputs in one product as take least; its matrix is made before the run."""
    window, groups, weights = plain.window, plain.groups, at.tensor(plain.b)
    if window is None or at.grouping is None or weights.source != "weight":
        return plain
    tile, blocks = (1, 1), 1
    if groups == 1:
        tile = at.grouping.dense(window, plain.n)
    elif plain.n == 1 and groups == window.channels:
        tile, blocks = at.grouping.tiled(window)
    else:
        blocks = at.grouping.together(groups, plain.k, plain.n)
    if tile == (1, 1) and blocks == 1:
        return plain
    made = tiles_of(window, tile)
    n, k = plain.n * prod(tile) * blocks, plain.k // window.positions * made.positions * blocks
    name = f"{plain.b} (in blocks of {blocks})" if tile == (1, 1) else f"{plain.b} (in tiles of {tile[0]} x {tile[1]})"
    at.result.tensors[name] = replace(weights, name=name, shape=(groups // blocks, n, k))
    m, left = plain.m // prod(tile), groups // blocks
    return replace(plain, b=name, m=m, n=n, k=k, window=made, groups=left, blocks=blocks, tile=tile, depth=plain.k)


def multiply(
    at: Lowering, a: str, b: str, out: str, matrices: int, m: int, n: int, k: int, *, swapped: bool = False
) -> None:
    """So many products, each with matrices of its own."""
    at.limited("matrices", matrices)
    at.add(Product(a, b, out, m, n, k, tuple((number, number, number) for number in range(matrices)), swapped))


@rule("ConvTranspose")
def conv_transpose(at: Lowering, node: Node) -> None:
    """The product of each input with all places of the filters, then the sum of those that fall on one output."""
    x, weights, out = at.operand(node.inputs[0]), node.inputs[1], at.out(node)
    channels, filters, *kernel = at.shape(weights)
    groups, shape = int(node.attributes.get("group", 1)), at.shape(x)
    if groups < 1 or channels % groups or shape[1] != channels:
        raise CannotLower(f"{channels} filters of {groups} groups do not fit inputs of {shape[1]} channels")
    m, n, k = shape[0] * prod(shape[2:]), filters * prod(kernel), channels // groups
    if groups > 1:
        turned = at.temporary(groups, m, k)
        at.add(Copy((x,), turned))
        x = turned
    columns = at.temporary(groups, m, n)
    multiply(at, x, weights, columns, groups, m, n, k)
    target = at.temporary(*out.shape) if node.input(2) else out.name
    elements = out.elements
    overlap = ceil_div(at.tensor(columns).elements, elements)
    if overlap < 2:
        at.add(Copy((columns,), target))
    else:
        beside = at.temporary(*out.shape, overlap)
        at.add(Copy((columns,), beside))
        at.add(Vector("sum", beside, target, overlap, elements, reduces=True))
    if node.input(2):
        wide = groups * filters
        at.add(Vector("add", target, out.name, wide, elements // wide, params=(at.operand(node.input(2)),)))


@rule("MatMulInteger", "QLinearMatMul")
def integer_matmul(at: Lowering, node: Node) -> None:
    """A product of integers, and one with the scales behind it."""
    second = 3 if node.op == "QLinearMatMul" else 1
    out = at.out(node)
    scaled = node.op == "QLinearMatMul" or len(node.inputs) > 2
    place = at.temporary(*out.shape, like=out.name) if scaled else out.name
    matmul(at, replace(node, inputs=(node.inputs[0], node.inputs[second]), outputs=(place,)))
    if scaled:
        length = out.shape[-1] if out.shape else 1
        at.add(Vector("mul", place, out.name, length, out.elements // length))


@rule("Einsum")
def einsum(at: Lowering, node: Node) -> None:
    """For each operand, first sum over the axes that no other operand has. Then make a product for each value of the common
    axes."""
    equation = node.attributes["equation"].replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    names = [at.operand(name) for name in node.inputs]
    if len(terms) != len(names):
        raise CannotLower(f"its equation {equation} has {len(terms)} operands, but the node has {len(names)} inputs")
    sizes: dict[str, int] = {}
    for number, (term, name) in enumerate(zip(terms, names, strict=True)):
        shape, bare = at.shape(name), term.replace("...", "")
        free = len(shape) - len(bare)
        dots = "".join(chr(0x2460 + len(shape) - free + i) for i in range(free)) if "..." in term else ""
        terms[number] = term.replace("...", dots)
        if len(terms[number]) != len(shape):
            raise CannotLower(f"its equation {equation} does not fit {name}, which has {len(shape)} dimensions")
        for label, size in zip(terms[number], shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    dots = "".join(sorted({label for term in terms for label in term if ord(label) >= 0x2460}))
    counted = "".join(terms)
    result = right.replace("...", dots) if arrow else dots + "".join(sorted(
        label for label in set(counted) - set(dots) if counted.count(label) == 1
    ))  # fmt: skip
    out, place, labels = at.out(node), names[0], terms[0]
    for number in range(1, len(names)):
        later = set(result).union(*terms[number + 1 :])
        final = number == len(names) - 1
        target = out.name if final else ""
        place, labels = _contract(at, place, labels, names[number], terms[number], later, sizes, target, result)
    if len(names) == 1 or place != out.name:
        _rearrange(at, place, labels, out.name, result, sizes)


def _contract(
    at: Lowering, a: str, of_a: str, b: str, of_b: str, later: set[str], sizes: dict[str, int], out: str, result: str
) -> tuple[str, str]:
    """The product of two operands, with the labels that are needed later."""
    a, of_a = _summed(at, a, of_a, set(of_b) | later, sizes)
    b, of_b = _summed(at, b, of_b, set(of_a) | later, sizes)
    both = [label for label in of_a if label in of_b and label in later]
    depth = [label for label in of_a if label in of_b and label not in later]
    rows = [label for label in of_a if label not in of_b]
    columns = [label for label in of_b if label not in of_a]
    a = _ordered(at, a, of_a, both + rows + depth, sizes)
    b = _ordered(at, b, of_b, both + depth + columns, sizes)
    stack, m, n, k = (prod(sizes[label] for label in labels) for labels in (both, rows, columns, depth))
    labels = "".join(both + rows + columns)
    place = out if out and labels == result else at.temporary(*(sizes[label] for label in labels), like=a)
    multiply(at, a, b, place, stack, m, n, k)
    return place, labels


def _summed(at: Lowering, a: str, labels: str, needed: set[str], sizes: dict[str, int]) -> tuple[str, str]:
    """Without the labels that nothing else needs; a label that is there twice is a diagonal."""
    kept = "".join(dict.fromkeys(label for label in labels if label in needed))
    if kept == labels:
        return a, labels
    wanted = dict.fromkeys(labels)
    if len(wanted) < len(labels):
        diagonal = at.temporary(*(sizes[label] for label in wanted), like=a)
        at.add(Copy((a,), diagonal))
        a = diagonal
    length = prod(sizes[label] for label in wanted if label not in needed)
    if length > 1:
        total = at.temporary(*(sizes[label] for label in kept), like=a)
        at.add(Vector("sum", a, total, length, prod(sizes[label] for label in kept), reduces=True))
        a = total
    return a, kept


def _ordered(at: Lowering, a: str, labels: str, order: list[str], sizes: dict[str, int]) -> str:
    if labels == "".join(order):
        return a
    turned = at.temporary(*(sizes[label] for label in order), like=a)
    at.add(Copy((a,), turned))
    return turned


def _rearrange(at: Lowering, a: str, labels: str, out: str, result: str, sizes: dict[str, int]) -> None:
    a, labels = _summed(at, a, labels, set(result), sizes)
    if labels == result and a not in at.graph.tensors:
        at.result.views[out] = a
    else:
        at.add(Copy((a,), out))


@rule("DFT", "STFT")
def fourier(at: Lowering, node: Node) -> None:
    """Products with the matrices of cosines and sines, which are known beforehand."""
    x, out = at.operand(node.inputs[0]), at.out(node)
    shape = at.shape(x)
    if node.op == "STFT":
        frames, length = out.shape[1], 2 * (out.shape[2] - 1) if node.attributes.get("onesided", 1) else out.shape[2]
        pieces = at.temporary(shape[0], frames, length)
        at.add(Copy((x,), pieces))
        m, k, n = shape[0] * frames, length, 2 * out.shape[2]
    else:
        axis = node.attributes.get("axis", -2 if node.opset >= 20 else 1)
        if node.input(2):
            axis = int(at.value(node.input(2), "axis").reshape(-1)[0])
        axis = at.dimension("axis", int(axis), len(shape))
        parts, m = shape[-1], prod(shape[:-1]) // shape[axis]
        k, n = shape[axis] * parts, out.shape[axis] * out.shape[-1]
        pieces = at.temporary(m, k)
        at.add(Copy((x,), pieces))
    waves = at.temporary(k, n)
    at.ready(waves)
    product = at.temporary(m, n)
    at.add(Product(pieces, waves, product, m, n, k))
    at.add(Copy((product,), out.name))


@rule("Attention")
def attention(at: Lowering, node: Node) -> None:
    """Head by head: scores, cap, mask, softmax, and their product with V; of causal attention the full square."""
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
    shown = node.outputs[3] if len(node.outputs) > 3 else ""
    seen: list[str] = []
    for number in range(batch * heads):
        of_kv = number // heads * kv_heads + number % heads * kv_heads // heads
        scores = at.temporary(rows, positions)
        at.add(Product(q, k, scores, rows, positions, dim, ((number, of_kv, 0),), True, "qkt"))
        stages = {"product": scores}
        steps = (("tanh", ""),) * bool(node.attributes.get("softcap")) + (("add", mask),) * bool(mask)
        for op, b in steps:
            changed = at.temporary(rows, positions)
            whole = b and at.tensor(b).elements >= rows * positions
            at.add(Vector(op, scores, changed, positions, rows, b=b if whole else "", params=(b,) if b and not whole else ()))
            scores = stages[op] = changed
        weights = at.temporary(rows, positions)
        at.add(Vector("softmax", scores, weights, positions, rows))
        at.add(Product(weights, v, y, rows, width, positions, ((0, of_kv, number),), op="av"))
        seen.append((stages["product"], scores, stages.get("tanh", stages["product"]), weights)[_shown_stage(node)])
    if y != out:
        at.add(Copy((y,), out))
    if shown:
        at.add(Copy(tuple(seen), shown))


def _shown_stage(node: Node) -> int:
    """Which scores are an output: the products, those with cap and mask, those with the cap, or the weights."""
    mode = int(node.attributes.get("qk_matmul_output_mode", 0))
    if mode not in range(4):
        raise CannotLower(f"qk_matmul_output_mode = {mode}, but it must be from 0 to 3")
    return mode


@rule("MultiHeadAttention", "GroupQueryAttention")
def contributed_attention(at: Lowering, node: Node) -> None:
    """The attention ops of com.microsoft, with biases first. Keys and values may be part of the query tensor."""
    heads = int(node.attributes["num_heads"])
    kv_heads = int(node.attributes.get("kv_num_heads", heads))
    q, k, v = (node.input(number) for number in range(3))
    if not k or not v:
        raise CannotLower("its keys and values are packed into its queries, which is not supported")
    grouped = node.op == "GroupQueryAttention"
    bias = "" if grouped else node.input(3)
    if bias:
        names = []
        for name in (q, k, v):
            target = at.temporary(*at.shape(name))
            at.add(Vector("add", at.operand(name), target, at.shape(name)[-1], at.tensor(name).elements // at.shape(name)[-1],
                          params=(at.operand(bias),)))  # fmt: skip
            names.append(target)
        q, k, v = names
    mask, past = ("", 3) if grouped else (node.input(5), 6)
    inputs = (q, k, v, mask, node.input(past), node.input(past + 1))
    fields = {"q_num_heads": heads, "kv_num_heads": kv_heads}
    attention(at, replace(node, inputs=inputs, attributes={**node.attributes, **fields}))


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
