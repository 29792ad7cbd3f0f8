"""Races between the programs of a launch: two touch one address, one of them writes, and nothing orders them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernbench.triton.program import Access


@dataclass(frozen=True)
class Race:
    """Two accesses of different programs to one address."""

    tensor: str
    address: int
    elements: int  #: that both touch
    first: str  #: `program 0 (store, kernel.py:12, cycle 400)`
    second: str

    def __str__(self) -> str:
        return f"race on {self.tensor} at {self.address:#x} ({self.elements} elements): {self.first} and {self.second}"


def races(accesses: Sequence[Access]) -> list[Race]:
    """The first race of each pair of source lines, in order of accesses. Atomic ops do not race with each other, and what lies
    on both sides of one that both programs did to one address is ordered by it."""
    by_tensor: dict[str, list[Access]] = {}
    for one in accesses:
        by_tensor.setdefault(one.name, []).append(one)
    guarded = _synchronised(accesses)
    found: dict[tuple[str, str, str], Race] = {}
    for name, group in by_tensor.items():
        for i, one in enumerate(group):
            for other in group[:i]:
                key = (name, other.line, one.line)
                if key in found or not _conflict(other, one) or (other.program, one.program) in guarded:
                    continue
                both = np.intersect1d(other.addresses, one.addresses)
                if both.size:
                    found[key] = Race(name, int(both[0]), both.size, _shown(other), _shown(one))
    return list(found.values())


def _conflict(a: Access, b: Access) -> bool:
    if a.program == b.program or (a.kind == b.kind and a.kind in ("load", "atomic")):
        return False
    if not a.addresses.size or not b.addresses.size:
        return False
    return bool(a.addresses[0] <= b.addresses[-1] and b.addresses[0] <= a.addresses[-1])


def _synchronised(accesses: Sequence[Access]) -> set[tuple[int, int]]:
    """Pairs of programs that did atomic ops to one address."""
    at: dict[int, set[int]] = {}
    for one in accesses:
        if one.kind == "atomic":
            for address in one.addresses[:1].tolist():
                at.setdefault(address, set()).add(one.program)
    return {(a, b) for programs in at.values() for a in programs for b in programs if a != b}


def _shown(one: Access) -> str:
    return f"program {one.program} ({one.kind}, {one.line}, cycle {one.cycle})"
