"""A kernel as the planner sees it: what the host spends before it, what a core array computes, what DRAM moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Literal

#: A kernel's work in order, in shares of their sum: short ends, as blocks load their first tile.
CHUNKS = (1, *[2] * 15, 1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a plan."""

    name: str
    engine: Literal["te", "ve"]  #: which engine's time the body is
    body: float  #: [cycle] of that engine, over all waves, padding and stalls of operands included
    read_bytes: float = 0.0  #: from DRAM: what the cache does not hold
    write_bytes: float = 0.0
    start: float = 0.0  #: [cycle] the device takes before the first byte
    after: float = 0.0  #: [cycle] after the last byte: reductions of split products, combination of split keys
    serial: bool = False  #: loads, body and stores in sequence
    notes: dict[str, float | int | str] = field(default_factory=dict, compare=False)  #: what was chosen

    @property
    def nbytes(self) -> float:
        """DRAM traffic."""
        return self.read_bytes + self.write_bytes

    def cycles(self, bytes_per_cycle: float) -> float:
        """The time of the kernel alone: the recurrence that the simulated queue follows, without rounding to cycles."""
        if self.serial:
            return self.start + self.nbytes / bytes_per_cycle + self.body + self.after
        total = sum(CHUNKS)
        bus = 0.0
        done = 0.0
        loaded: list[float] = []
        if self.read_bytes:
            for share in CHUNKS:
                bus += self.read_bytes * share / total / bytes_per_cycle
                loaded.append(bus)
        for index, share in enumerate(CHUNKS):
            ready = loaded[index] if loaded else 0.0
            done = max(done, ready) + self.body * share / total
        whole = self.nbytes / bytes_per_cycle
        last = self.write_bytes * CHUNKS[-1] / total / bytes_per_cycle
        return self.start + max(done + last, whole + (self.body * CHUNKS[0] / total if self.write_bytes else 0.0)) + self.after


def whole_cycles(cycles: float) -> int:
    """A number of cycles, rounded up; what is within a millionth of a whole number is that number."""
    return max(0, ceil(cycles - 1e-6))
