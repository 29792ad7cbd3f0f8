"""The allocation of HBM slices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.runtime_api.pe_set import PeSet, Slice

#: [B] smallest alignment; on the machines of the package, tensors begin at the start of a chunk of the interleave
ALIGNMENT = 256
Piece = tuple[int, int]  #: physical address, and bytes
#: first virtual address, first virtual address after the window, physical address of the first byte
Window = tuple[int, int, int]


class AddressSpace:
    """Virtual addresses of tensors, with one window for each tensor. Addresses below `virtual_base` are physical and are not
    translated."""

    def __init__(self, places: PeSet) -> None:
        self.virtual_base = places.virtual_base
        self._next = self.virtual_base
        self._bases = [one.base for one in places.slices]
        self._ends = [one.end for one in places.slices]
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, str]] = []  #: physical address, bytes, tensor

    def add(self, pieces: Sequence[Piece], name: str) -> list[int]:
        """Make a window in which the pieces are consecutive, and return the virtual address of each piece."""
        addresses = []
        at = self._next
        for physical, nbytes in pieces:
            addresses.append(at)
            if nbytes:
                self._starts.append(at)
                self._ranges.append((physical, nbytes, name))
            at += nbytes
        self._next = ceil_div(at + 1, ALIGNMENT) * ALIGNMENT  # leaves at least one byte between two windows
        return addresses

    def physical(self, address: int, nbytes: int) -> list[Piece]:
        """The physical runs of `nbytes` bytes at an address, in order; no run crosses the end of an HBM slice.

        InputError if a byte belongs to no tensor.
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
        """The address range around this address that maps permanently to one run of bytes in one slice.

        None if there is no such range.
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
        """The run of bytes if it is in one window and one slice, as most are; otherwise None."""
        found = self.window(address)
        if found is None or nbytes <= 0:
            return None
        start, end, first = found
        return (first + address - start, nbytes) if start <= address and address + nbytes <= end else None

    def _cut(self, physical: int, nbytes: int) -> list[Piece]:
        """A physical run, divided at the ends of HBM slices."""
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
    """The pieces, with adjacent pieces of the same slice joined."""
    out: list[Piece] = []
    for physical, nbytes in pieces:
        if out and out[-1][0] + out[-1][1] == physical and bisect_right(bases, physical) == bisect_right(bases, out[-1][0]):
            out[-1] = (out[-1][0], out[-1][1] + nbytes)
        else:
            out.append((physical, nbytes))
    return out


MAX_HOLDERS = 4  #: the most tensors that an error names


class _Room(msgspec.Struct):
    """The room in one slice; the bytes below `used` are allocated."""

    slice: Slice
    used: int = 0
    holders: list[tuple[str, int]] = msgspec.field(default_factory=list)  #: tensor and bytes, in order of allocation
    end: int = -1  #: the first byte after the bytes for tensors

    def __post_init__(self) -> None:
        self.end = self.slice.nbytes

    def fits(self, nbytes: int, align: int) -> int:
        """The offset of a new allocation of this size; -1 if there is no room."""
        start = ceil_div(self.used, align) * align
        return start if start + nbytes <= self.end else -1

    def take(self, start: int, nbytes: int, holder: str) -> int:
        self.used = start + nbytes
        if nbytes:
            self.holders.append((holder, nbytes))
        return self.slice.base + start


class HbmAllocator:
    """Allocates bytes of HBM slices, upwards from the first byte of each slice. Allocations are never freed, because a run
    keeps its tensors."""

    def __init__(self, places: PeSet, align: int = ALIGNMENT) -> None:
        self._rooms = [_Room(one) for one in places.slices]
        self._align = align

    def in_slice(self, number: int, nbytes: int, holder: str) -> int:
        """Allocate `nbytes` in one slice, and return their address. InputError if there is no room; the error names the tensors
        in the slice."""
        room = self._rooms[number]
        start = room.fits(nbytes, self._align)
        if start < 0:
            raise InputError(self._full(room, nbytes, holder))
        return room.take(start, nbytes, holder)

    def packed(self, nbytes: int, holder: str) -> list[Piece]:
        """Allocate at least one byte, contiguously from slice 0 on; when a slice is full, the allocation continues in the next
        one. Return the pieces in order.

        InputError if the slices together have too little room.
        """
        free = sum(self._free(room) for room in self._rooms)
        if nbytes > free:
            rule = f"{nbytes:,} bytes do not fit into {self._rooms[0].slice.name} and those behind it: {free:,} are free"
            raise InputError(Problem(f"tensor {holder}", rule, remedy=self._held_by(self._rooms)))
        pieces: list[Piece] = []
        for room in self._rooms:
            part = min(nbytes, self._free(room))
            if part:
                pieces.append((room.take(room.fits(part, self._align), part, holder), part))
            nbytes -= part
        return pieces

    def reserve(self, start: int, end: int) -> None:
        """Reserve bytes at the end of a slice. InputError if a tensor occupies them."""
        for room in self._rooms:
            if room.slice.base <= start < room.slice.base + room.slice.nbytes:
                if start - room.slice.base < room.used:
                    rule = f"{end - start:,} bytes at its end are wanted for queues, and {self._free(room):,} are free"
                    raise InputError(Problem(room.slice.name, rule, remedy=self._held_by([room])))
                room.end = min(room.end, start - room.slice.base)

    def _free(self, room: _Room) -> int:
        return max(0, room.end - ceil_div(room.used, self._align) * self._align)

    def _full(self, room: _Room, nbytes: int, holder: str) -> Problem:
        rule = f"{nbytes:,} bytes do not fit into {room.slice.name}: {self._free(room):,} of {room.slice.nbytes:,} are free"
        return Problem(f"tensor {holder}", rule, remedy=self._held_by([room]))

    @staticmethod
    def _held_by(rooms: Sequence[_Room]) -> str:
        held: dict[str, int] = {}
        for room in rooms:
            for name, nbytes in room.holders:
                held[name] = held.get(name, 0) + nbytes
        largest = sorted(held.items(), key=lambda item: -item[1])
        named = ", ".join(f"{name} ({nbytes:,})" for name, nbytes in largest[:MAX_HOLDERS])
        more = f" and {len(largest) - MAX_HOLDERS} more" if len(largest) > MAX_HOLDERS else ""
        return f"it is held by {named}{more}" if held else "no memory is in use: use a smaller tensor"
