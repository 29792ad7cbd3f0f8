"""Rules of operators that move elements: those that keep all bytes in their order cost nothing, others a copy."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kernbench.workloads.graphs.graph import Copy, Node, Rows, Vector
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule
from kernbench.workloads.graphs.vectors import combine


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "BitCast")
def same_bytes(at: Lowering, node: Node) -> None:
    """Another shape of the same bytes."""
    source, out = at.tensor(node.inputs[0]), at.out(node)
    if source.elements != out.elements:
        raise CannotLower(f"{source.elements} elements do not make {' x '.join(map(str, out.shape))}")
    at.view(out.name, at.operand(source.name))


@rule("Dropout")
def dropout(at: Lowering, node: Node) -> None:
    """In a trained model, the output has the same bytes as the input. A mask of ones exists before the run."""
    same_bytes(at, replace(node, outputs=node.outputs[:1]))
    for name in node.outputs[1:]:
        if name:
            at.ready(name)


@rule("Cast", "CastLike")
def cast(at: Lowering, node: Node) -> None:
    """Activations have one width, whatever the file says; only integer inputs are converted to it."""
    source, out = at.tensor(node.inputs[0]), at.out(node)
    if source.bits == out.bits:
        at.view(out.name, at.operand(source.name), "activations have one width")
    else:
        at.add(Copy((source.name,), out.name))


@rule("Transpose")
def transpose(at: Lowering, node: Node) -> None:
    """The bytes stay the same if only dimensions of length 1 move, or an image becomes rows of channels."""
    if at.keeps_bytes:
        at.view(at.out(node).name, at.operand(node.inputs[0]), "the same bytes: channels are stored last")
        return
    shape = at.shape(node.inputs[0])
    perm = list(node.attributes.get("perm", range(len(shape))[::-1]))
    if sorted(perm) != list(range(len(shape))):
        raise CannotLower(f"perm = {perm}, but it must be a permutation of its {len(shape)} dimensions")
    order = [axis for axis in perm if shape[axis] > 1]
    _copy_unless(order == sorted(order), at, node)


@rule("Slice", "Expand", "Tile", "Pad")
def part_or_more(at: Lowering, node: Node) -> None:
    """The number of elements of the output. A slice with a negative step has them in another order."""
    steps = at.graph.known.get(node.input(4)) if node.op == "Slice" else None
    reversed_ = steps is not None and any(step < 0 for step in steps.reshape(-1).tolist())
    _copy_unless(at.shape(node.inputs[0]) == at.shape(node.outputs[0]) and not reversed_, at, node)


@rule("DepthToSpace", "SpaceToDepth", "Trilu")
def rearranged(at: Lowering, node: Node) -> None:
    """The same elements at other positions."""
    _copy_unless(False, at, node)


def _copy_unless(same: bool, at: Lowering, node: Node) -> None:
    source, out = at.operand(node.inputs[0]), at.out(node).name
    if same:
        at.view(out, source)
    else:
        at.add(Copy((source,), out, at.layouts.order(node, out)))


@rule("Concat")
def concat(at: Lowering, node: Node) -> None:
    """Copy all inputs to their positions. Slices of one tensor are elements of this tensor in another order."""
    roll = at.patterns.rolls.get(node.outputs[0])
    if roll is not None:
        rows = at.layouts.rows_of(roll.x, roll.axis, roll.numbers)
        at.add(Copy((at.operand(roll.x),), node.outputs[0], rows))
        return
    sources, out = tuple(at.operand(name) for name in node.inputs if name), at.out(node)
    if sum(at.tensor(name).elements for name in sources) != out.elements:
        raise CannotLower(f"the concatenation of its inputs does not have the shape {' x '.join(map(str, out.shape))}")
    if len(sources) == 1:
        at.view(out.name, sources[0])
    else:
        at.add(Copy(sources, out.name))


@rule("Split")
def split(at: Lowering, node: Node) -> None:
    """A copy for each output that is used."""
    source = at.operand(node.inputs[0])
    for name in node.outputs:
        if name and (name in at.graph.outputs or at.patterns.consumers(name)):
            at.add(Copy((source,), name, at.layouts.order(node, name)))


@rule("Gather")
def gather(at: Lowering, node: Node) -> None:
    """A transfer of each row for a table of weights; a copy of the output for activations."""
    data, indices = at.tensor(node.inputs[0]), at.tensor(node.inputs[1])
    out = at.out(node).name
    axis = at.axis(node, 0, len(data.shape))
    if data.source != "weight":
        at.add(Copy((data.name,), out, at.layouts.order(node, out)))
        return
    if axis:
        at.add(Copy((at.operand(data.name),), out))
        return
    known = at.graph.known.get(indices.name)
    rows = data.shape[0]
    if known is not None and known.size and not (known.dtype.kind in "iu" and -rows <= known.min() and known.max() < rows):
        raise CannotLower(f"its indices must be integers from {-rows} to {rows - 1}")
    numbers = () if known is None else tuple(int(index) % rows for index in known.reshape(-1))
    at.limited("rows to load", indices.elements)
    name = "" if known is not None else indices.name
    at.add(Rows(data.name, out, indices.elements, prod(data.shape[1:]), name, numbers))


@rule("RotaryEmbedding")
def rotary(at: Lowering, node: Node) -> None:
    """Two products and a sum; the rotation is a way of reading. The rows of the tables are those of the positions."""
    x, out = at.operand(node.inputs[0]), at.out(node)
    at.ranks(x, 3, 4)
    parts = []
    for index in (2, 1):  # sines, then cosines
        table = node.inputs[index]
        if node.input(3):
            count = at.limited("positions", at.tensor(node.inputs[3]).elements)
            length = at.ranks(table, 2)[-1]
            taken = at.temporary(count, length)
            if at.tensor(table).source == "weight":
                at.add(Rows(table, taken, count, length, node.inputs[3]))
            else:
                at.add(Copy((table,), taken))
            table = taken
        parts.append(at.temporary(*out.shape))
        combine(at, "mul", x, at.operand(table), parts[-1])
    shape = out.shape
    at.add(Vector("add", parts[1], out.name, shape[-1], prod(shape[:-1]), b=parts[0]))
