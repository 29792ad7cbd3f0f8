"""A graph of operators, and the work to which its nodes are lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np

from kernbench.workloads.graphs.orders import Order

Array = np.ndarray[Any, Any]
SMALL = 1 << 16  #: [element] limit of the constants whose values are computed
INDEX_BITS = 32  #: bits of an element of an integer tensor


def number_of(value: Array | None) -> float | None:
    """The number in a constant of one element; None for any other tensor."""
    if value is None or value.size != 1:
        return None
    try:
        return float(value.reshape(()))
    except (TypeError, ValueError):  # a string or a complex number
        return None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of known shape. `source`: `input` and `weight` are in DRAM from the start, `work` is computed."""

    name: str
    shape: tuple[int, ...]
    bits: int
    source: Literal["input", "weight", "work"] = "work"

    @property
    def elements(self) -> int:
        """The number of elements; 1 for a scalar."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator. The name of an omitted input is empty."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    opset: int = 0

    def input(self, index: int) -> str:
        """The name of an input; empty if the input is omitted."""
        return self.inputs[index] if index < len(self.inputs) else ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order.

    `tensors`: the tensors with known shapes. `known`: values that do not depend on the inputs. `unknown`: for the numbers of
    nodes whose outputs have no known shape, the reason, if it is known. `assumed`: the assumptions of bounds about branches and
    loops that depend on the inputs, one line each.
    """

    name: str
    nodes: tuple[Node, ...]
    tensors: dict[str, Tensor]
    known: dict[str, Array]
    outputs: tuple[str, ...]
    unknown: Mapping[int, str] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """The window that a convolution or a pool moves over `[image][row][column][channel]`; pairs are of rows and columns."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]  #: before the first row and column
    dilations: tuple[int, int]
    channels: int
    out: tuple[int, int]
    images: int

    @property
    def positions(self) -> int:
        """Positions of the kernel that an output reads."""
        return self.kernel[0] * self.kernel[1]

    @property
    def plain(self) -> bool:
        """Whether each output depends only on the input at its own position."""
        return self.positions == 1 and self.strides == (1, 1) and self.size == self.out

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """The input rows `[a, b)` that outputs of rows `[first, last]` read; at least one row."""
        low = first * self.strides[0] - self.pads[0]
        high = last * self.strides[0] - self.pads[0] + (self.kernel[0] - 1) * self.dilations[0] + 1
        low = min(max(low, 0), self.size[0] - 1)
        return low, max(min(high, self.size[0]), low + 1)


@dataclass(frozen=True, slots=True)
class Product:
    """Matrices of `a` [m, k] times matrices of `b` [k, n], or [n, k] if it is `swapped`; the results are the matrices of `out`
    [m, n].

    `matrices`: for each product, the number of the matrix in a, in b and in out. With a `window`, the rows of `a` are the
    elements under the window, `groups` products side by side. `blocks`: groups of the operator in one product, whose matrix has
    zeros elsewhere. `tile`: rows and columns of outputs in one row of `out`, each with a copy of the filters in the matrix.
    """

    a: str
    b: str
    out: str
    m: int
    n: int
    k: int
    matrices: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    swapped: bool = False
    op: Literal["gemm", "qkt", "av"] = "gemm"
    window: Window | None = None
    groups: int = 1
    blocks: int = 1
    tile: tuple[int, int] = (1, 1)
    depth: int = 0  #: MACs of an element of `out`; 0: k. Fewer than k where the matrix has zeros

    @property
    def macs(self) -> int:
        """The MACs of all its matrices, without products with zeros that the lowering inserted."""
        return len(self.matrices) * self.groups * self.m * self.n * (self.depth or self.k)

    @property
    def copies(self) -> tuple[int, int]:
        """The size of the matrix divided by the size of the filters, as a fraction."""
        return (self.k * prod(self.tile), self.depth) if self.depth else (1, 1)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector operation on `batch` rows of `length` elements of `a`; of a reduction a row makes one element.

    `b`: the second input, as large as `a`. `params`: operands that are needed as a whole: gains, biases, broadcast tensors.
    `gathers`: the inputs `a` and `b` whose elements are read from other positions; `order`: these positions.
    """

    op: str
    a: str
    out: str
    length: int
    batch: int
    b: str = ""
    params: tuple[str, ...] = ()
    reduces: bool = False
    gathers: tuple[str, ...] = ()
    order: Order | None = None  #: None: any


@dataclass(frozen=True, slots=True)
class Pool:
    """The maximum or the sum of the elements under a window: a copy, and a VE_ADD for each further position of the window."""

    a: str
    out: str
    window: Window


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of elements of `sources` to `out`: concatenated, reordered or selected. `order`: the positions of the elements, if
    there is one source."""

    sources: tuple[str, ...]
    out: str
    order: Order | None = None  #: None: anywhere


@dataclass(frozen=True, slots=True)
class Rows:
    """A sequence of rows of a table in DRAM: `count` rows of `length` elements. `indices`: the tensor with the numbers of the
    rows; or `known`, the numbers themselves."""

    table: str
    out: str
    count: int
    length: int
    indices: str = ""
    known: tuple[int, ...] = ()


Work = Product | Vector | Pool | Copy | Rows


def read_by(work: Work) -> tuple[str, ...]:
    """The tensors that a piece of work reads, the streamed ones first."""
    match work:
        case Product():
            return (work.a, work.b)
        case Vector():
            return tuple(name for name in (work.a, work.b, *work.params) if name)
        case Pool():
            return (work.a,)
        case Copy():
            return work.sources
        case Rows():
            return tuple(name for name in (work.table, work.indices) if name)


@dataclass(slots=True)
class Lowered:
    """A graph after lowering, as pieces of work. `jobs`: (number of a node, work); `views`: tensors that share the bytes of
    another one.

    `notes`: by number, the reason why a node has no work of its own; `missing`: nodes that cannot be lowered, with the reason.
    """

    graph: Graph
    tensors: dict[str, Tensor]
    jobs: list[tuple[int, Work]] = field(default_factory=list)
    views: dict[str, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)

    def bytes_at(self, name: str) -> str:
        """The tensor that owns the bytes of this one."""
        while name in self.views:
            name = self.views[name]
        return name
