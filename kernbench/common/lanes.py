"""Tensors whose elements lie anywhere in memory: a gather or scatter, with lanes that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernbench.common.dtypes import Array, dtype_of


@dataclass(frozen=True)
class Lanes:
    """The layout of the elements of a tensor, relative to an address. Bytes stand for arrays, so that it can be a key."""

    shape: tuple[int, ...]
    itemsize: int  #: [B] of an element
    offsets: bytes  #: int64 [B], of each lane that moves, in the order of the elements
    mask: bytes = b""  #: bool for each lane; empty if all move
    fill: float | int = 0  #: value of a load for the other lanes

    def __post_init__(self) -> None:
        at = np.frombuffer(self.offsets, np.int64)
        steps = at[1:] - at[:-1]
        straight = bool((steps == self.itemsize).all())
        rises = straight or bool((steps > 0).all())
        span = 0, 0
        if at.size:
            low, high = (at[0], at[-1]) if rises else (at.min(), at.max())
            span = int(low), int(high) + self.itemsize
        for name, value in (("at", at), ("rises", rises), ("straight", straight), ("span", span)):
            object.__setattr__(self, name, value)

    if TYPE_CHECKING:  # made above

        @property
        def at(self) -> NDArray[np.int64]:
            """[B] The offset of each lane that moves."""
            ...

        @property
        def rises(self) -> bool:
            """Whether each lane lies above the one before it, so that no two are at one address."""
            ...

        @property
        def straight(self) -> bool:
            """Whether the lanes that move are contiguous, in order."""
            ...

        @property
        def span(self) -> tuple[int, int]:
            """[B] from the lowest byte to past the highest; (0, 0) where no lane moves."""
            ...

    @cached_property
    def active(self) -> NDArray[np.bool_] | None:
        """The lanes that move; None for all."""
        return np.frombuffer(self.mask, np.bool_) if self.mask else None

    @property
    def rows(self) -> tuple[tuple[int, int, int, int], ...]:
        """The transfers: (offset, bytes of a row, stride, rows). Lanes go in order of address, each byte once."""
        if self.straight:
            return tuple((first, nbytes, 0, 1) for first, nbytes in self.runs)
        return _rows(self.offsets, self.itemsize)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The stretches of bytes (offset, bytes) that the lanes cover, in order, each byte once."""
        if self.straight:
            low, high = self.span
            return [(low, high - low)] if high else []
        return runs(self.at, self.itemsize)

    def spread(self, values: Array, dtype: str) -> Array:
        """The tensor of elements that came, with `fill` in the lanes that did not move."""
        if self.active is None:
            return values.reshape(self.shape)
        whole = np.full(self.active.shape, self.fill, dtype_of(dtype).numpy)
        whole[self.active] = values
        return whole.reshape(self.shape)

    def picked(self, values: Array) -> Array:
        """The elements that move, of the whole tensor."""
        flat = values.reshape(-1)
        return flat if self.active is None else flat[self.active]


@cache
def _rows(offsets: bytes, itemsize: int) -> tuple[tuple[int, int, int, int], ...]:
    found: list[tuple[int, int, int, int]] = []
    for first, length in runs(np.frombuffer(offsets, np.int64), itemsize):
        if found:
            at, size, stride, count = found[-1]
            step = first - at - stride * (count - 1)
            if size == length and (count == 1 or step == stride):
                found[-1] = at, size, step, count + 1
                continue
        found.append((first, length, 0, 1))
    return tuple(found)


def runs(at: NDArray[np.int64], itemsize: int) -> list[tuple[int, int]]:
    """The stretches of bytes (offset, bytes) that elements at these offsets cover, in order, each byte once."""
    if at.size < 2:
        return [(int(at[0]), itemsize)] if at.size else []
    places = at if (at[1:] > at[:-1]).all() else np.unique(at)
    breaks = np.flatnonzero(np.diff(places) > itemsize) + 1
    firsts = places[np.concatenate(([0], breaks))]
    lasts = places[np.concatenate((breaks - 1, [places.size - 1]))]
    return [(int(first), int(last - first) + itemsize) for first, last in zip(firsts, lasts, strict=True)]
