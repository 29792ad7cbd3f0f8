"""How tensors are stored, and where a node that only moves elements finds them in its stored input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.workloads.graphs.graph import Array, Graph, Node, Tensor
from kernbench.workloads.graphs.orders import Order, Picked, Strided

_PASS_ON = frozenset((
    "Add", "Sub", "Mul", "Div", "Pow", "Where", "Relu", "Clip", "Sigmoid", "Tanh", "Gelu", "Erf", "Exp", "Sqrt", "Neg", "Swish",
    "HardSwish", "HardSigmoid", "LeakyRelu", "BatchNormalization", "Identity", "Dropout", "Cast", "Slice", "Split", "Concat",
    "Gather", "Expand", "Pad", "Resize",
))  # fmt: skip  # the layout of their results is that of their inputs
_OF_ROWS = frozenset((
    "MatMul", "Gemm", "Attention", "LayerNormalization", "RMSNormalization", "Softmax", "Reshape", "Flatten", "Squeeze",
    "Unsqueeze",
))  # fmt: skip  # their results are stored row by row if their inputs are
_INTEGERS: dict[str, Callable[..., Array]] = {
    "Identity": np.asarray, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply,
    "Mod": lambda a, b: np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))),
}  # fmt: skip
_OF_IMAGES = frozenset(("Conv", "ConvTranspose", "MaxPool", "AveragePool"))


class Layouts:
    """How tensors are stored: row by row, as images with the second dimension last, or it is not known."""

    def __init__(self, graph: Graph, tensors: Mapping[str, Tensor], kept: set[int]) -> None:
        self.tensors, self.kept = tensors, kept
        self.known = dict(graph.known)
        self.images = set[str]()
        self.rows = {name for name, tensor in tensors.items() if tensor.source == "input" and len(tensor.shape) < 3}

    def look_at(self, number: int, node: Node) -> None:
        """The layout of the results of a node, from those of its inputs."""
        tensors = self.tensors
        self._compute(node)
        inputs = [name for name in node.inputs if name in tensors and tensors[name].source != "weight"]
        if node.domain or not inputs:
            return
        of_rows, of_images = all(name in self.rows for name in inputs), all(name in self.images for name in inputs)
        if node.op == "Transpose":
            becomes_image = number in self.kept and of_rows
            (self.images if becomes_image else self.rows).update(node.outputs if of_rows or of_images else ())
        elif node.op in _OF_IMAGES or (node.op in _PASS_ON and of_images):
            self.images.update(node.outputs)
        elif (node.op in _OF_ROWS or node.op in _PASS_ON) and of_rows:
            self.rows.update(node.outputs)

    def _compute(self, node: Node) -> None:
        """Integers that follow from known integers, such as the rows that a roll reads."""
        operands = [self.known.get(name) for name in node.inputs]
        if node.op in _INTEGERS and operands and all(one is not None and one.dtype.kind == "i" for one in operands):
            self.known[node.outputs[0]] = np.asarray(_INTEGERS[node.op](*operands))

    def order(self, node: Node, out: str) -> Order | None:
        """The order of a result of a node that only moves elements; None if it is not known."""
        x = node.inputs[0]
        if any(name not in self.images and name not in self.rows for name in (x, out)):
            return None
        picked = self._picked(node, x)
        if picked is not None:
            return Order((picked,))
        source = self._as_stored(x)
        moved = moved_by(node, out, source, self.known)
        if moved is None:
            return None
        if out in self.images:
            moved = np.moveaxis(moved, 1, -1)
        first = (moved.__array_interface__["data"][0] - source.__array_interface__["data"][0]) if moved.size else 0
        return Order((Strided(moved.shape, moved.strides, first),))

    def _as_stored(self, name: str) -> Array:
        """A tensor of bytes, none of which is touched; its strides are those of the storage."""
        shape = self.tensors[name].shape
        if name not in self.images:
            return np.empty(shape, np.int8)
        return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), np.int8), -1, 1)

    def rows_of(self, x: str, axis: int, numbers: Sequence[int]) -> Order | None:
        """The order of elements of a tensor that are chosen along one dimension; None if the layout is not known."""
        return Order((self._chosen(x, axis, numbers),)) if x in self.images or x in self.rows else None

    def _picked(self, node: Node, x: str) -> Picked | None:
        if node.op != "Gather":
            return None
        known = self.known.get(node.inputs[1])
        if known is None or known.ndim > 1 or not known.size or known.dtype.kind not in "iu":
            return None
        if x in self.images and known.ndim == 0:
            return None
        axis = int(node.attributes.get("axis", 0)) % len(self.tensors[x].shape)
        return self._chosen(x, axis, known.reshape(-1).tolist())

    def _chosen(self, x: str, axis: int, numbers: Sequence[int]) -> Picked:
        shape = list(self.tensors[x].shape)
        if x in self.images:
            shape.append(shape.pop(1))
            axis = axis - 1 if axis > 1 else (0 if axis == 0 else len(shape) - 1)
        of, inner = shape[axis], prod(shape[axis + 1 :])
        return Picked(tuple(int(number) % of for number in numbers), of, inner)


def moved_by(node: Node, out: str, source: Array, known: Mapping[str, Array]) -> Array | None:
    """The result of a node as a view of its source; None if it is not a view, or depends on inputs."""
    if node.op == "Transpose":
        return source.transpose(node.attributes.get("perm", range(source.ndim)[::-1]))
    if node.op == "Split":
        return _part(node, out, source, known)
    if node.op == "Slice":
        given = [_integers(known, node.input(number)) for number in (1, 2, 3, 4)]
        starts, ends, axes, steps = given
        if starts is None or ends is None or any(node.input(n) and given[n - 1] is None for n in (3, 4)):
            return None
        cuts = [slice(None)] * source.ndim
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            step = steps[number] if steps else 1
            if step < 1:
                return None
            cuts[axes[number] if axes else number] = slice(start, end, step)
        return source[tuple(cuts)]
    if node.op == "Expand":
        shape = _integers(known, node.input(1))
        return None if shape is None else np.broadcast_to(source, np.broadcast_shapes(source.shape, tuple(shape)))
    return None


def _part(node: Node, out: str, source: Array, known: Mapping[str, Array]) -> Array | None:
    axis, count = int(node.attributes.get("axis", 0)), len(node.outputs)
    sizes: Sequence[int] | None = _integers(known, node.input(1)) if node.input(1) else node.attributes.get("split")
    if node.input(1) and sizes is None:
        return None
    each = -(-source.shape[axis] // count)
    bounds: Any = np.cumsum(sizes)[:-1] if sizes is not None else [each * number for number in range(1, count)]
    return np.split(source, bounds, axis)[node.outputs.index(out)]


def _integers(known: Mapping[str, Array], name: str) -> list[int] | None:
    value = known.get(name) if name else None
    return None if value is None or value.dtype.kind not in "iu" else [int(item) for item in value.reshape(-1)]
