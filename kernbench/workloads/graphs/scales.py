"""Products with a constant that weights absorb: `(x W + b)[part] * c` is a part of `x (c W) + c b`.

Between the product of matrices and the product with the constant only moves of elements, and sums with biases, may be. If
several slices are taken of the result, no two of them may overlap, because the constant belongs to one of them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernbench.workloads.graphs.graph import Graph, Node, number_of

if TYPE_CHECKING:
    from kernbench.workloads.graphs.patterns import Patterns

_MOVES = frozenset(("Reshape", "Identity", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"))
_SLICES = frozenset(("Slice", "Gather"))
_PRODUCTS = frozenset(("Gemm", "MatMul", "Conv"))


def find_scales(graph: Graph, found: Patterns) -> None:
    """Adds products with constants that are part of weights to `found`."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    fixed = _fixed(graph)
    for node in graph.nodes:
        out = node.outputs[0] if node.outputs else ""
        if node.op == "Mul" and not node.domain and out in graph.tensors and out not in found.functions:
            x = _scaled(graph, node)
            maker = _absorbs(graph, found, makers, fixed, x) if x else None
            if maker is not None:
                found.scaled[out] = x, maker.name


def _scaled(graph: Graph, node: Node) -> str:
    """The input that a node multiplies with a constant; empty if there is none."""
    for x, constant in (node.inputs, node.inputs[::-1]):
        same = x in graph.tensors and graph.tensors[x].shape == graph.tensors[node.outputs[0]].shape
        if same and graph.tensors[x].source == "work" and number_of(graph.known.get(constant)) is not None:
            return x
    return ""


def _fixed(graph: Graph) -> set[str]:
    """The weights, and the tensors that depend only on weights."""
    fixed = {name for name, tensor in graph.tensors.items() if tensor.source == "weight"}
    for node in graph.nodes:
        if node.inputs and all(name in fixed for name in node.inputs if name):
            fixed.update(node.outputs)
    return fixed


def _absorbs(graph: Graph, found: Patterns, makers: dict[str, Node], fixed: set[str], name: str) -> Node | None:
    """The node with the weights that make a tensor; None if they are no weights, or other nodes read the same elements."""
    shared = False  # the tensor is read by slices that have no elements in common
    while True:
        node = makers.get(name)
        alone = len(found.consumers(name)) == 1 and name not in graph.outputs
        if node is None or node.domain or not (alone or shared):
            return None
        if node.op in _PRODUCTS:
            return node if all(operand in fixed for operand in node.inputs[1:] if operand) else None
        read = [one for one in node.inputs if one and one not in fixed] if node.op == "Add" else [node.input(0)]
        before = graph.tensors.get(read[0]) if len(read) == 1 else None
        if before is None or before.source != "work":
            return None
        if node.op == "Add" and before.elements == graph.tensors[name].elements:
            name, shared = read[0], False
            continue
        if node.op in _MOVES and before.elements == graph.tensors[name].elements:
            name, shared = node.inputs[0], False
        elif node.op in _SLICES and alone and _apart(graph, found, node):
            name, shared = node.inputs[0], True
        elif node.op == "Split" and alone and len(found.consumers(node.inputs[0])) == 1:
            name, shared = node.inputs[0], False
        else:
            return None


def _apart(graph: Graph, found: Patterns, node: Node) -> bool:
    """Whether all readers of a slice's input are slices of one dimension, and none has elements of this slice."""
    own = range_of(graph, node)
    if own is None or node.inputs[0] in graph.outputs:
        return False
    for number in found.consumers(node.inputs[0]):
        other = graph.nodes[number]
        if other is node:
            continue
        part = range_of(graph, other) if other.op in _SLICES and other.inputs[0] == node.inputs[0] else None
        if part is None or part[0] != own[0] or (part[1] < own[2] and own[1] < part[2]):
            return False
    return True


def range_of(graph: Graph, node: Node) -> tuple[int, int, int] | None:
    """The dimension, the first element and the end of a slice of one dimension with step 1, or of a Gather of one known index.

    None for any other node.
    """
    if node.op == "Gather":
        index, shape = number_of(graph.known.get(node.inputs[1])), graph.tensors[node.inputs[0]].shape
        if index is None or not shape:
            return None
        dimension = int(node.attributes.get("axis", 0)) % len(shape)
        first = int(index) % shape[dimension]
        return dimension, first, first + 1
    names = [node.input(number) for number in (1, 2, 3, 4)]
    start, end, axis, step = (number_of(graph.known.get(name)) for name in names)
    shape = graph.tensors[node.inputs[0]].shape
    if start is None or end is None or axis is None or (names[3] and step != 1):
        return None
    dimension = int(axis) % len(shape)
    first, last, _ = slice(int(start), int(end)).indices(shape[dimension])
    return dimension, first, last
