"""The source positions of the elements of a copy. A job that reads elements at other positions waits only for the part that
contains them.

An order maps positions of a result to positions of a source, both as stored. It is a sequence of steps, because a copy of a
copy is one copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Strided:
    """A result that is a view of its source: its shape, and the distance of neighbouring elements along each dimension."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last position of the source that positions `first` to `last` may come from."""
        low = high = self.first
        size, whole = prod(self.shape), False
        for length, stride in zip(self.shape, self.strides, strict=True):
            size //= length
            a, b = (0, length - 1) if whole else (first // size, last // size)
            first, last, whole = first % size, last % size, whole or a != b
            low, high = low + min(a * stride, b * stride), high + max(a * stride, b * stride)
        return low, high


@dataclass(frozen=True, slots=True)
class Picked:
    """A result whose rows are rows of its source, by their numbers; `of`: the rows that the source has, `inner`: elements."""

    numbers: tuple[int, ...]
    of: int
    inner: int

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The same as `Strided.span`."""
        rows = len(self.numbers)
        a, b = first // self.inner, last // self.inner
        picked = self.numbers if a // rows != b // rows else self.numbers[a % rows : b % rows + 1]
        low, high = a // rows * self.of + min(picked), b // rows * self.of + max(picked)
        return low * self.inner, (high + 1) * self.inner - 1


@dataclass(frozen=True, slots=True)
class Order:
    """Steps from a result to its source."""

    steps: tuple[Strided | Picked, ...]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last position of the source that positions `first` to `last` of the result may come from."""
        for step in self.steps:
            first, last = step.span(first, last)
        return first, last

    def after(self, other: Order) -> Order:
        """This order of a tensor that has another order of its own source."""
        return Order(self.steps + other.steps)


def join(order: Order | None, other: Order | None) -> Order | None:
    """The order of a copy of a copy; None if one of them is not known."""
    return None if order is None or other is None else order.after(other)
