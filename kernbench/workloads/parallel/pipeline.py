"""When each stage of a pipeline works: micro-batches go through the stages in turn, and hand-offs overlap with work.

The times of stages and hand-offs are simulated elsewhere; here they are put together. A stage works on one micro-batch at a
time. A hand-off starts when the stage has ended and the hand-off before it on the same way has ended. It runs beside the next
micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Item:
    """A micro-batch in a step: [cycle] in each stage, of the hand-off behind each but the last, and of the way back.

    `group`: the micro-batch. An item starts after the item before it of the same group has come back.
    """

    group: int
    stages: tuple[int, ...]
    hand_offs: tuple[int, ...] = ()
    back: int = 0


@dataclass(slots=True)
class Timeline:
    """When everything happened, in cycles from the start."""

    starts: list[list[int]] = field(default_factory=list)  #: by item and stage
    ends: list[list[int]] = field(default_factory=list)
    moved: list[list[tuple[int, int]]] = field(default_factory=list)  #: start and end of each hand-off

    @property
    def end(self) -> int:
        """The end of the last item."""
        return max((row[-1] for row in self.ends), default=0)

    def done(self, items: int) -> int:
        """The end of the first items."""
        return max((row[-1] for row in self.ends[:items]), default=0)


def run_pipeline(items: Sequence[Item]) -> Timeline:
    """The timeline of items, which every stage takes in this order."""
    found = Timeline()
    free: list[int] = [0] * (len(items[0].stages) if items else 0)
    way: list[int] = [0] * len(free)
    returned: dict[int, int] = {}
    for item in items:
        ready = returned.get(item.group, 0)
        starts, ends, moved = [], [], []
        for stage, cycles in enumerate(item.stages):
            start = max(ready, free[stage])
            end = free[stage] = start + cycles
            starts.append(start)
            ends.append(end)
            if stage < len(item.hand_offs):
                begin = max(end, way[stage])
                ready = way[stage] = begin + item.hand_offs[stage]
                moved.append((begin, ready))
        begin = max(ends[-1], way[-1])
        way[-1] = returned[item.group] = begin + item.back
        found.starts.append(starts)
        found.ends.append(ends)
        found.moved.append(moved)
    return found
