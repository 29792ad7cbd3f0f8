"""The schedule of a kernel's blocks: each block starts on the core that is free first."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heapreplace
from itertools import repeat
from math import ceil


def makespan(
    jobs: Iterable[tuple[float, int]], cores: int, resident: int = 1, alone: float = 1.0,
    starts: list[list[float]] | None = None,
) -> float:  # fmt: skip
    """When the last of some jobs ends: kinds of (cycles, count) in order, each job on the core that is free first.

    A core takes `resident` jobs at a time. When no jobs are left to start, a job whose core has no other job left takes `alone`
    of the rest of its time. `starts` gets the starts of the jobs of each kind.
    """
    slots = cores * resident
    free = [0.0] * slots  # heap of when each slot is free
    for cycles, count in jobs:
        begun: list[float] = []
        if count > 2 * slots and cycles:
            count -= _fill(free, cycles, count, begun if starts is not None else None)
        if starts is None:
            for _ in repeat(None, count):
                heapreplace(free, free[0] + cycles)
        else:
            begun += [heapreplace(free, free[0] + cycles) for _ in repeat(None, count)]
            starts.append(begun)
    if resident == 1 or alone == 1.0:
        return max(free)
    free.sort()
    return max(early + (late - early) * alone for early, late in zip(free[-2 * cores : -cores], free[-cores:], strict=True))


def _fill(free: list[float], cycles: float, count: int, begun: list[float] | None = None) -> int:
    """Give cores at once most of many equal jobs: all that start before a time by which fewer than `count` have started.

    Returns their number.
    """
    free.sort()
    rest = (count - len(free)) * cycles  # core cycles to give out, so that no core is given too much
    below = level = 0.0
    for many, at in enumerate(free, 1):  # the time up to which the first cores can take them
        below += at
        level = (rest + below) / many
        if many == len(free) or level <= free[many]:
            break
    given = 0
    for index, at in enumerate(free):
        if at >= level:
            break
        some = ceil((level - at) / cycles)
        free[index] = at + some * cycles
        given += some
        if begun is not None:
            begun += [at + number * cycles for number in range(some)]
    heapify(free)
    return given
