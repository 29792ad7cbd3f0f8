"""Places buffers with lifetimes in the scratchpad, and allocates tiles from rings inside a buffer."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

import msgspec

from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.config.schema import Spm


def bank_and_offset(addr: int, spm: Spm) -> tuple[int, int]:
    """The bank and offset of a flat scratchpad address: the inverse of `flat_address` (docs/model/banks_and_arbiters.md)."""
    if spm.map == "blocked":
        return divmod(addr, spm.bank_size_bytes)
    line, byte = divmod(addr, spm.bank_width_bytes)
    row, bank = divmod(line, spm.num_banks)
    return bank, row * spm.bank_width_bytes + byte


class BufferSpec(msgspec.Struct, frozen=True):
    """The name, size and lifetime of a buffer to place."""

    name: str
    nbytes: int
    first: int  #: the first stage in which it is live
    last: int  #: the last one


class Buffer(msgspec.Struct, frozen=True):
    """A placed buffer: `[start, end)` of the scratchpad during stages `first` to `last`."""

    name: str
    start: int  #: flat scratchpad address
    nbytes: int
    first: int
    last: int

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.start + self.nbytes


class ScratchpadPlan:
    """Places buffers so that no two buffers that are live in the same stage overlap.

    Each buffer is placed, in the given order, at the lowest address that is free for its whole lifetime. `line_bytes`:
    buffers start at multiples of it. Raises `DoesNotFit` if the buffers need more than `size_bytes`.
    """

    def __init__(self, needs: Iterable[BufferSpec], size_bytes: int, line_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.line_bytes = line_bytes
        self.buffers: dict[str, Buffer] = {}
        #: of each buffer, by address: its start, first and last stage, and the start of the first line behind it
        self._placed: list[tuple[int, int, int, int]] = []
        for need in needs:
            self._place(need)

    def __getitem__(self, name: str) -> Buffer:
        return self.buffers[name]

    @property
    def peak_bytes(self) -> int:
        """The address after the last byte of all buffers."""
        return max((buffer.end for buffer in self.buffers.values()), default=0)

    def try_place(self, need: BufferSpec) -> bool:
        """Place one more buffer; return false if it does not fit."""
        try:
            self._place(need)
        except DoesNotFit:
            return False
        return True

    def _place(self, need: BufferSpec) -> None:
        if need.name in self.buffers:
            raise InternalError(f"the scratchpad plan has two buffers called {need.name}")
        at, nbytes, line = 0, need.nbytes, self.line_bytes
        for start, first, last, behind in self._placed:
            if first > need.last or last < need.first:
                continue
            if at + nbytes <= start:
                break
            if at < behind:
                at = behind
        if at + need.nbytes > self.size_bytes:
            raise DoesNotFit(at + need.nbytes)
        self.buffers[need.name] = Buffer(need.name, at, nbytes, need.first, need.last)
        insort(self._placed, (at, need.first, need.last, ceil_div(at + nbytes, line) * line))


class DoesNotFit(Exception):
    """The buffers do not fit into the scratchpad. `nbytes`: the size that the buffers placed so far would need."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(f"{nbytes} bytes")
        self.nbytes = nbytes


class Ring:
    """Allocates tiles of a buffer in cyclic order. A tile that does not fit before the end of the buffer is placed at its
    start.

    A later tile reuses the bytes of an earlier one, and its writer waits for the readers of the earlier tile. A ring of two
    tiles therefore is double buffering. All uses of a tile must be emitted before the ring reuses its bytes. A ring may be
    extended by more buffers: a tile that does not fit before the end of one is placed at the start of the next one.
    """

    def __init__(self, buffer: Buffer, line_bytes: int, skew_bytes: int = 0) -> None:
        self.buffer = buffer
        self.line_bytes = line_bytes
        self.skew_bytes = skew_bytes
        self._buffers = [buffer]
        self._turn = 0  # the number of the buffer of the last tile
        self._next = 0

    def extend(self, buffer: Buffer) -> None:
        """Let tiles go on in another buffer, after the one of the last tile."""
        self._buffers.insert(self._turn + 1, buffer)

    def take(self, nbytes: int) -> int:
        """The flat address of `nbytes` bytes."""
        if nbytes > self.buffer.nbytes:
            raise InternalError(f"a tile of {nbytes} bytes does not fit the {self.buffer.nbytes} of {self.buffer.name}")
        at = self._next
        while at + nbytes > self._buffers[self._turn].nbytes:
            self._turn, at = (self._turn + 1) % len(self._buffers), 0
        self._next = ceil_div(at + nbytes, self.line_bytes) * self.line_bytes + self.skew_bytes
        return self._buffers[self._turn].start + at
