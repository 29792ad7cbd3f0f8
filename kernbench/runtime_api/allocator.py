"""Room in HBM slices, and who holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.runtime_api.address_space import ALIGNMENT, Piece
from kernbench.runtime_api.places import Places, Slice

MOST_HOLDERS = 4  #: tensors that an error names


@dataclass
class _Room:
    """One slice: what is taken lies below `used`."""

    slice: Slice
    used: int = 0
    holders: list[tuple[str, int]] = field(default_factory=list)  #: tensor and bytes, in order of allocation
    end: int = -1  #: behind the last byte for tensors

    def __post_init__(self) -> None:
        self.end = self.slice.nbytes

    def fits(self, nbytes: int, align: int) -> int:
        """Offset at which so many bytes would begin, and -1 where there is no room."""
        start = ceil_div(self.used, align) * align
        return start if start + nbytes <= self.end else -1

    def take(self, start: int, nbytes: int, holder: str) -> int:
        self.used = start + nbytes
        if nbytes:
            self.holders.append((holder, nbytes))
        return self.slice.base + start


class HbmAllocator:
    """Gives out bytes of HBM slices, from each one's first byte on. Nothing is given back: a run keeps its tensors."""

    def __init__(self, places: Places, align: int = ALIGNMENT) -> None:
        self._rooms = [_Room(one) for one in places.slices]
        self._align = align

    def in_slice(self, number: int, nbytes: int, holder: str) -> int:
        """The address of `nbytes` in one slice. InputError where it has no room, naming who holds it."""
        room = self._rooms[number]
        start = room.fits(nbytes, self._align)
        if start < 0:
            raise InputError(self._full(room, nbytes, holder))
        return room.take(start, nbytes, holder)

    def packed(self, nbytes: int, holder: str) -> list[Piece]:
        """At least one byte, contiguous in slice 0 and, where that is full, on in the next ones: the pieces, in order.

        InputError where all slices together have no room.
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
        """Bytes at the end of a slice are somebody else's. InputError where a tensor lies there."""
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
        named = ", ".join(f"{name} ({nbytes:,})" for name, nbytes in largest[:MOST_HOLDERS])
        more = f" and {len(largest) - MOST_HOLDERS} more" if len(largest) > MOST_HOLDERS else ""
        return f"it is held by {named}{more}" if held else "nothing is held: take a smaller tensor"
