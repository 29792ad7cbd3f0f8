"""Which command of one run is which of another: by id where the programs agree, else the longest common alignment.

Two commands can be the same where their keys are: opcode, layer, phase, head and tile.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

Key = Hashable


@dataclass(frozen=True)
class Alignment:
    """Pairs of positions in the two lists, rising in the first; and what has no mate."""

    pairs: list[tuple[int, int]]
    only_a: list[int]
    only_b: list[int]
    by_id: bool  #: all that both have agrees by id


def align_commands(a: Sequence[tuple[int, Key]], b: Sequence[tuple[int, Key]]) -> Alignment:
    """Align two lists of (id, key).

    Where every id that both have stands for the same key, these are pairs, and only the rest is aligned by keys. Where one
    does not, the ids mean nothing, and all is aligned by keys.
    """
    place = {number: j for j, (number, _) in enumerate(b)}
    shared = [(i, place[number]) for i, (number, _) in enumerate(a) if number in place]
    by_id = bool(shared) and all(a[i][1] == b[j][1] for i, j in shared)
    pairs = shared if by_id else []
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    rest_a = [i for i in range(len(a)) if i not in taken_a]
    rest_b = [j for j in range(len(b)) if j not in taken_b]
    more = longest_common([a[i][1] for i in rest_a], [b[j][1] for j in rest_b])
    pairs = sorted([*pairs, *((rest_a[i], rest_b[j]) for i, j in more)])
    mates_a, mates_b = {i for i, _ in pairs}, {j for _, j in pairs}
    only_a = [i for i in range(len(a)) if i not in mates_a]
    return Alignment(pairs, only_a, [j for j in range(len(b)) if j not in mates_b], by_id)


def longest_common(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """A longest list of pairs of equal items, rising in both."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    middle = _middle(a[head : len(a) - tail], b[head : len(b) - tail])
    pairs = [(i, i) for i in range(head)] + [(head + i, head + j) for i, j in middle]
    return pairs + [(len(a) - k, len(b) - k) for k in range(tail, 0, -1)]


def _middle(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """Bit j of a row is 0 where the part of `a` so far has one more in common with the first j + 1 items of `b` than with j.

    A row is made from the one before by an addition, all columns at once. Some rows are kept on the way down, and the
    others made again on the way back up, from block to block.
    """
    masks: dict[Any, int] = {}
    for j, key in enumerate(b):
        masks[key] = masks.get(key, 0) | 1 << j
    full = (1 << len(b)) - 1
    size = isqrt(len(a)) + 1
    kept = [full]
    row = full
    for i, key in enumerate(a, 1):
        row = _next(row, masks.get(key, 0), full)
        if i % size == 0:
            kept.append(row)
    pairs: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    for block in range(len(kept) - 1, -1, -1):
        first = block * size
        rows = [kept[block]]
        for key in a[first:i]:
            rows.append(_next(rows[-1], masks.get(key, 0), full))
        while i > first and j:
            bit = 1 << (j - 1)
            if rows[i - first] & bit:
                j -= 1
                continue
            i -= 1
            if rows[i - first] & bit:
                j -= 1
                pairs.append((i, j))
        i = min(i, first)
    return pairs[::-1]


def _next(row: int, mask: int, full: int) -> int:
    both = row & mask
    return ((row + both) | (row - both)) & full
