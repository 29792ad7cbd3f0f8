"""Chains of dependent entries: an order in which entries can be issued, and the earliest end of each."""

from __future__ import annotations

from collections import Counter
from itertools import chain


def with_implied(dependents: list[list[int]], barriers: list[int], ends: list[int], chained: list[int]) -> list[list[int]]:
    """The dependents of each entry, in ascending order, with those that no dependency names. `dependents` may be changed.

    An entry waits for the last barrier before it, an END for all entries before it, and a `chained` entry for the previous one.
    """
    count = len(dependents)
    for number, barrier in enumerate(barriers):
        last = barriers[number + 1] if number + 1 < len(barriers) else count - 1
        dependents[barrier] = sorted({*dependents[barrier], *range(barrier + 1, last + 1)})
    for i in chained:
        if i not in dependents[i - 1]:
            dependents[i - 1] = sorted([*dependents[i - 1], i])
    for end in ends:
        for i in range(end):
            found = dependents[i]
            if not found or found[-1] < end:
                found.append(end)
            elif end not in found:
                dependents[i] = sorted([*found, end])
    return dependents


def issue_order(dependents: list[list[int]]) -> tuple[list[int], list[int], list[int]]:
    """The entries that can be issued, each after all that it waits for; the length of the longest chain of each entry, counted
    in entries; and the entries that can never be issued."""
    count = len(dependents)
    waits = Counter(chain.from_iterable(dependents))
    missing = [waits[i] for i in range(count)]
    depths = [1] * count
    able = [i for i in range(count) if missing[i] == 0]
    order = []
    while able:
        i = able.pop()
        order.append(i)
        depth = depths[i] + 1
        for other in dependents[i]:
            if depth > depths[other]:
                depths[other] = depth
            missing[other] -= 1
            if missing[other] == 0:
                able.append(other)
    return order, depths, [i for i in range(count) if missing[i]]


def earliest_ends(
    order: list[int], dependents: list[list[int]], cycles: list[int], periods: list[int]
) -> tuple[list[int], list[int]]:
    """[cycle] For each entry the earliest end, -1 if it is never issued; and the dependency that ends last, or -1.

    `cycles`: of each entry from its start to its end. An entry starts in a multiple of its period.
    """
    count = len(dependents)
    ends, ready, latest = [-1] * count, [0] * count, [-1] * count
    for i in order:
        begin, period = ready[i], periods[i]
        if period != 1:
            begin = -(-begin // period) * period
        ends[i] = end = begin + cycles[i]
        for other in dependents[i]:
            if end > ready[other] or latest[other] < 0:
                ready[other], latest[other] = end, i
    return ends, latest
