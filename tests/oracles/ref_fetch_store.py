"""The port between a PE's scratchpad and its engines, cycle by cycle (docs/model/kernels.md, composite ops)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def stages(tiles: Sequence[tuple[int, int]], rate: Fraction, cycles: int) -> list[tuple[int, int]]:
    """Start in the port and end of the stage of each tile.

    `tiles`: (cycle in which the stage begins, bytes), in the order in which they are handed over.
    """
    waiting, out, now = list(tiles), [], 0
    while waiting:
        begins, nbytes = waiting[0]
        if begins > now:
            now += 1
            continue
        start, moved = now, Fraction(0)
        while moved < nbytes:
            moved += rate
            now += 1
        out.append((start, now + cycles))
        waiting.pop(0)
    return out
