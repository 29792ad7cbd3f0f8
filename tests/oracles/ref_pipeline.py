"""A pipeline of stages, cycle by cycle: who works on which micro-batch, and which hand-off is on its way.

Written from the rules alone: a stage works on one micro-batch at a time and takes them in their order; a hand-off begins when
its rows are there and the hand-off before it on the same way has ended; a micro-batch starts again when it has come back.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Group; cycles of each stage; of each way between stages; of the way back.
Work = tuple[int, Sequence[int], Sequence[int], int]


def finished(items: Sequence[Work]) -> list[int]:
    """The cycle in which each item has left the last stage."""
    stages = len(items[0][1])
    arrived = [[False] * stages for _ in items]
    back = dict.fromkeys(range(len(items)), False)
    working: list[tuple[int, int] | None] = [None] * stages  # item and cycles left
    moving: list[tuple[int, int] | None] = [None] * stages
    waiting: list[list[int]] = [[] for _ in range(stages)]  # items whose hand-off has not begun
    next_of = [0] * stages
    ends = [-1] * len(items)
    for index, (group, *_) in enumerate(items):
        arrived[index][0] = all(other[0] != group for other in items[:index])
    now = 0
    while min(ends) < 0 or any(moving):
        changed = True
        while changed:  # what takes no time happens in the same cycle
            changed = False
            for stage in range(stages):
                one = working[stage]
                if one is not None and one[1] == 0:
                    working[stage] = None
                    if stage == stages - 1:
                        ends[one[0]] = now
                    waiting[stage].append(one[0])
                    changed = True
                way = moving[stage]
                if way is not None and way[1] == 0:
                    moving[stage] = None
                    changed = True
                    if stage < stages - 1:
                        arrived[way[0]][stage + 1] = True
                    else:
                        back[way[0]] = True
                        later = [i for i in range(way[0] + 1, len(items)) if items[i][0] == items[way[0]][0]]
                        if later:
                            arrived[later[0]][0] = True
                if moving[stage] is None and waiting[stage]:
                    item = waiting[stage].pop(0)
                    ways = [*items[item][2], items[item][3]]
                    moving[stage] = item, ways[stage]
                    changed = True
                index = next_of[stage]
                if working[stage] is None and index < len(items) and arrived[index][stage]:
                    working[stage] = index, items[index][1][stage]
                    next_of[stage] += 1
                    changed = True
        now += 1
        working = [None if one is None else (one[0], one[1] - 1) for one in working]
        moving = [None if one is None else (one[0], one[1] - 1) for one in moving]
    return ends
