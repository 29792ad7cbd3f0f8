"""A kernel for the planner: the time of the host before it, the work of a core array, and the bytes of DRAM."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Literal

#: A kernel's work in order, in shares of their sum: short ends, as blocks load their first tile.
CHUNKS = (1, *[2] * 15, 1)
SHARES = sum(CHUNKS)
DIFFERENT = frozenset(CHUNKS)  #: shares that are computed once


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a plan."""

    name: str
    engine: Literal["te", "ve"]  #: which engine's time the body is
    body: float  #: [cycle] of that engine, over all waves, padding and stalls of operands included
    read_bytes: float = 0.0  #: bytes from DRAM, which the cache does not hold
    write_bytes: float = 0.0
    start: float = 0.0  #: [cycle] the device takes before the first byte
    after: float = 0.0  #: [cycle] after the last byte: reductions of split products, combination of split keys
    serial: bool = False  #: loads, body and stores in sequence
    notes: dict[str, float | int | str] = field(default_factory=dict, compare=False)  #: what was chosen

    @property
    def nbytes(self) -> float:
        """DRAM traffic."""
        return self.read_bytes + self.write_bytes

    def cycles(self, bytes_per_cycle: float, slower: float = 1.0) -> float:
        """The time of the kernel alone: the recurrence that the simulated queue follows, without rounding to cycles.

        `slower` multiplies the body.
        """
        body, read = self.body * slower, self.read_bytes
        if self.serial:
            return self.start + self.nbytes / bytes_per_cycle + body + self.after
        bus = done = 0.0
        loads = {share: read * share / SHARES / bytes_per_cycle for share in DIFFERENT}
        works = {share: body * share / SHARES for share in DIFFERENT}
        for share in CHUNKS:
            bus += loads[share]
            done = max(done, bus) + works[share]
        whole = self.nbytes / bytes_per_cycle
        last = self.write_bytes * CHUNKS[-1] / SHARES / bytes_per_cycle
        return self.start + max(done + last, whole + (works[CHUNKS[0]] if self.write_bytes else 0.0)) + self.after


def whole_cycles(cycles: float) -> int:
    """A number of cycles, rounded up. A value within a millionth of a whole number is rounded to this number."""
    return max(0, ceil(cycles - 1e-6))
