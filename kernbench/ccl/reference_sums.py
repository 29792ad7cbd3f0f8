"""Sums in the order of the algorithms, for their references. With another reduction in use, the sums are results of that
reduction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernbench.ccl.contract import Range, cut, segments
from kernbench.ccl.reduction import plus
from kernbench.ccl.rings import Ring
from kernbench.common.dtypes import Array


def ring_sums(values: Sequence[Array], ring: Ring, chunks: Sequence[Range]) -> list[Array]:
    """Return the sum of each chunk, starting at the rank after its owner and following the ring.

    `values` are the elements of the members, in ring order.
    """
    # All chunks at once: a sum of many short arrays costs mostly calls of numpy.
    parts = [slice(first, first + count) for first, count in chunks]

    def of(step: int) -> Array:
        return np.concatenate([values[(owner + step) % ring.size][part] for owner, part in enumerate(parts)])

    total = of(1)
    for step in range(2, ring.size + 1):
        total = plus(of(step), total)
    found, at = [], 0
    for _, count in chunks:
        found.append(total[at : at + count])
        at += count
    return found


def sums_over(
    values: dict[int, Array], rings: Sequence[Sequence[Ring]], chunks: Sequence[Range] | None = None
) -> dict[int, Array]:
    """Return the sums of an all-reduce over rings, level after level, by rank.

    `values` has the same number of elements for each rank. `chunks` are the chunks of the first level; None means nearly equal
    chunks.
    """
    if not rings:
        return values
    mine: dict[int, Array] = {}
    for ring in rings[0]:
        cuts = chunks or cut((0, values[ring.members[0]].size), ring.size)
        mine |= zip(ring.members, ring_sums([values[one] for one in ring.members], ring, cuts), strict=True)
    mine = sums_over(mine, rings[1:])
    return {one: total for ring in rings[0] for total in [_joined(mine, ring)] for one in ring.members}


def _joined(chunks: dict[int, Array], ring: Ring) -> Array:
    return np.concatenate([chunks[one] for one in ring.members])


def segmented_sums(values: Sequence[Array], rings: Sequence[Sequence[Ring]], slot_bytes: int) -> list[Array]:
    """Return the sums of an all-reduce over rings in the order of `ring_schedule.all_reduce`.

    If there are several levels, the order is segment by segment.
    """
    levels = [level for level in rings if level[0].size > 1]
    if not levels:
        return [one.copy() for one in values]
    if len(levels) == 1:
        sums = sums_over(dict(enumerate(values)), levels)
        return [sums.get(rank, one) for rank, one in enumerate(values)]
    found = [one.copy() for one in values]
    chunks = cut((0, values[0].size), levels[0][0].size)
    count = segments(chunks[0][1], values[0].dtype.itemsize, slot_bytes)
    for number in range(count):
        ranges = [cut(chunk, count)[number] for chunk in chunks]
        index = np.concatenate([np.arange(first, first + size) for first, size in ranges])
        sizes = [size for _, size in ranges]
        starts = [sum(sizes[:at]) for at in range(len(sizes))]
        part = {rank: one[index] for rank, one in enumerate(values)}
        for rank, total in sums_over(part, levels, list(zip(starts, sizes, strict=True))).items():
            found[rank][index] = total
    return found
