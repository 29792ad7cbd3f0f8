"""An operation: its shape, and the smallest work and traffic that follow from the shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Product:
    """m x k by k x n, `count` of them in one kernel."""

    m: int
    n: int
    k: int
    left_bytes: float = 2.0  #: of an element of the m x k operand
    right_bytes: float = 2.0  #: of the k x n operand
    out_bytes: float = 2.0
    bits: int = 16  #: of the multiplier that is used
    count: int = 1
    name: str = "matmul"
    kind: str = "matmul"
    passes: int = 1  #: of the multiplier over each product: math fidelity on a Tensix
    floats: bool = False  #: whether elements of 8 bits or fewer are floats
    near: tuple[bool, bool, bool] = (False, False, False)  #: left, right and result lie in the cores' scratchpads

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        return self.m * self.n * self.k * self.count

    @property
    def nbytes(self) -> float:
        """Least DRAM traffic: operands read once, result written once."""
        left, right, out = self.parts
        return left + right + out

    @property
    def parts(self) -> tuple[float, float, float]:
        """Bytes of the two operands and the result that lie in DRAM."""
        sizes = (
            self.m * self.k * self.left_bytes * self.count,
            self.k * self.n * self.right_bytes * self.count,
            self.m * self.n * self.out_bytes * self.count,
        )
        left, right, out = (0.0 if near else size for size, near in zip(sizes, self.near, strict=True))
        return left, right, out


@dataclass(frozen=True, slots=True)
class Vector:
    """An operation without products of matrices: norm, softmax, activation, rope, gather."""

    name: str
    kind: str
    rows: int
    width: int
    nbytes: float  #: least DRAM traffic
    flops: float


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of a step that are alike."""

    count: int
    new: int  #: tokens of each in the step
    cached: int  #: tokens of each before it

    @property
    def pairs(self) -> float:
        """Pairs of a query and a key that causal attention looks at."""
        return self.count * (self.new * self.cached + self.new * (self.new + 1) / 2)


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of one layer over the sequences of a step."""

    groups: tuple[Sequences, ...]
    heads: int
    kv_heads: int
    head_dim: int
    element_bytes: float = 2.0
    name: str = "attention"
    kind: str = "attention"
    causal: bool = True  #: a query of a prefill sees the keys up to its own; else all keys of its sequence

    @property
    def decodes(self) -> bool:
        """Every sequence has one new token."""
        return all(group.new == 1 for group in self.groups)


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "send_recv", "all_to_all")


@dataclass(frozen=True, slots=True)
class Collective:
    """Data of `nbytes` a chip, exchanged by `workers` chips, `node` of them in each node; by default all in one."""

    name: Literal["all_reduce", "all_gather", "reduce_scatter", "send_recv", "all_to_all"]
    workers: int
    nbytes: int
    kind: str = "collective"
    node: int = 0

    @property
    def crosses(self) -> bool:
        """Whether the data cross the network between nodes."""
        return 0 < self.node < self.workers


Operation = Product | Vector | Attention | Collective
