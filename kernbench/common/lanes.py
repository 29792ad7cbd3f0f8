"""Tensors whose elements are at arbitrary addresses: a gather or scatter, with masked-out lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernbench.common.dtypes import Array, dtype_of


@dataclass(frozen=True)
class Lanes:
    """The layout of the elements of a tensor, relative to an address. Arrays are stored as bytes, so that a layout can be a
    dict key."""

    shape: tuple[int, ...]
    itemsize: int  #: [B] size of an element
    offsets: bytes  #: int64 [B]: the offset of each lane that moves, in the order of the elements
    mask: bytes = b""  #: bool for each lane; empty if all lanes move
    fill: float | int = 0  #: the value that a load gives the other lanes

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
            """Whether the address of each lane is above that of the lane before, so that no two lanes have the same address."""
            ...

        @property
        def straight(self) -> bool:
            """Whether the moving lanes are contiguous and in order."""
            ...

        @property
        def span(self) -> tuple[int, int]:
            """[B] The lowest byte and the first byte after the highest; (0, 0) if no lane moves."""
            ...

    @cached_property
    def active(self) -> NDArray[np.bool_] | None:
        """The lanes that move; None if all move."""
        return np.frombuffer(self.mask, np.bool_) if self.mask else None

    @property
    def rows(self) -> tuple[tuple[int, int, int, int], ...]:
        """The transfers as (offset, bytes of a row, stride, rows). Lanes are sorted by address, and each byte is moved once."""
        if self.straight:
            return tuple((first, nbytes, 0, 1) for first, nbytes in self.runs)
        return _rows(self.offsets, self.itemsize)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The contiguous ranges (offset, bytes) that the lanes cover, in order; each byte occurs once."""
        if self.straight:
            low, high = self.span
            return [(low, high - low)] if high else []
        return runs(self.at, self.itemsize)

    def spread(self, values: Array, dtype: str) -> Array:
        """The whole tensor from the moved elements, with `fill` in the other lanes."""
        if self.active is None:
            return values.reshape(self.shape)
        whole = np.full(self.active.shape, self.fill, dtype_of(dtype).numpy)
        whole[self.active] = values
        return whole.reshape(self.shape)

    def picked(self, values: Array) -> Array:
        """The moving elements of the whole tensor."""
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
    """The contiguous ranges (offset, bytes) of elements at these offsets, in order; each byte occurs once."""
    if at.size < 2:
        return [(int(at[0]), itemsize)] if at.size else []
    places = at if (at[1:] > at[:-1]).all() else np.unique(at)
    breaks = np.flatnonzero(np.diff(places) > itemsize) + 1
    firsts = places[np.concatenate(([0], breaks))]
    lasts = places[np.concatenate((breaks - 1, [places.size - 1]))]
    return [(int(first), int(last - first) + itemsize) for first, last in zip(firsts, lasts, strict=True)]
