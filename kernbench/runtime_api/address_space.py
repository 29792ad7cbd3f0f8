"""Which physical bytes the virtual addresses of tensors stand for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.runtime_api.places import Places

ALIGNMENT = 256  #: [B] at least; tensors begin where a channel's turn begins on the machines of the package
Piece = tuple[int, int]  #: physical address and bytes
Window = tuple[int, int, int]  #: virtual addresses from, to; and the physical one of the first


class AddressSpace:
    """Virtual addresses of tensors, one window a tensor; addresses below `virtual_base` are physical and stay as they are."""

    def __init__(self, places: Places) -> None:
        self.virtual_base = places.virtual_base
        self._next = self.virtual_base
        self._bases = [one.base for one in places.slices]
        self._ends = [one.end for one in places.slices]
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, str]] = []  #: physical address, bytes, tensor

    def add(self, pieces: Sequence[Piece], name: str) -> list[int]:
        """A window in which the pieces lie one behind the other; the virtual address of each."""
        addresses = []
        at = self._next
        for physical, nbytes in pieces:
            addresses.append(at)
            if nbytes:
                self._starts.append(at)
                self._ranges.append((physical, nbytes, name))
            at += nbytes
        self._next = ceil_div(at + 1, ALIGNMENT) * ALIGNMENT  # a byte between two windows at least
        return addresses

    def physical(self, address: int, nbytes: int) -> list[Piece]:
        """The physical runs that `nbytes` at an address stand for, in order, none across two HBM slices.

        InputError where a byte is in no tensor.
        """
        if address < self.virtual_base:
            return self._cut(address, nbytes)
        whole = self._in_one(address, nbytes)
        if whole is not None:
            return [whole]
        found: list[Piece] = []
        at, left = address, nbytes
        while left > 0:
            place = bisect_right(self._starts, at) - 1
            start = self._starts[place] if place >= 0 else -1
            physical, size, name = self._ranges[place] if place >= 0 else (0, 0, "")
            if not start <= at < start + size:
                raise InputError(self._nowhere(address, nbytes, at, name if place >= 0 else ""))
            part = min(left, start + size - at)
            found += self._cut(physical + at - start, part)
            at, left = at + part, left - part
        return _joined(found, self._bases)

    def window(self, address: int) -> Window | None:
        """Addresses that stand for one run of bytes in one slice, for good: those round this one, which itself may be in none.

        None: there are none near it.
        """
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        start = self._starts[place]
        physical, size, _ = self._ranges[place]
        at = bisect_right(self._bases, physical + address - start) - 1
        if at < 0:
            return None
        first, end = max(physical, self._bases[at]), min(physical + size, self._ends[at])
        return start + first - physical, start + end - physical, first

    def _in_one(self, address: int, nbytes: int) -> Piece | None:
        """The run of bytes in one range and one slice, as most are; None for others."""
        found = self.window(address)
        if found is None or nbytes <= 0:
            return None
        start, end, first = found
        return (first + address - start, nbytes) if start <= address and address + nbytes <= end else None

    def _cut(self, physical: int, nbytes: int) -> list[Piece]:
        """A physical run cut where HBM slices end."""
        found = []
        while nbytes > 0:
            place = bisect_right(self._bases, physical) - 1
            room = self._ends[place] - physical if place >= 0 else nbytes
            part = min(nbytes, room) if room > 0 else nbytes
            found.append((physical, part))
            physical, nbytes = physical + part, nbytes - part
        return found

    def _nowhere(self, address: int, nbytes: int, at: int, below: str) -> Problem:
        rule = f"{nbytes:,} bytes at {address:#x}: {at:#x} is in no tensor"
        near = f"the tensor below it is {below}; " if below else ""
        return Problem("address", rule, remedy=f"{near}check the shape and the strides of the access")


def _joined(pieces: Sequence[Piece], bases: Sequence[int]) -> list[Piece]:
    """Neighbouring runs of one slice as one."""
    out: list[Piece] = []
    for physical, nbytes in pieces:
        if out and out[-1][0] + out[-1][1] == physical and bisect_right(bases, physical) == bisect_right(bases, out[-1][0]):
            out[-1] = (out[-1][0], out[-1][1] + nbytes)
        else:
            out.append((physical, nbytes))
    return out
