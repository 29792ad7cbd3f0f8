"""The times at which each stage of a pipeline works: micro-batches go through the stages in order, and hand-offs overlap with
work.

The times of stages and hand-offs come from simulations; this module combines them. A stage works on one micro-batch at a time.
A hand-off starts when its stage has ended and the previous hand-off between the same two stages has ended. It runs in parallel
with the next micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Item:
    """A micro-batch in a step: [cycle] in each stage, in the hand-off after each stage except the last, and on the way back to
    the first stage.

    `group`: the number of the micro-batch. An item starts only after the previous item of its group has come back to the first
    stage.
    """

    group: int
    stages: tuple[int, ...]
    hand_offs: tuple[int, ...] = ()
    back: int = 0


@dataclass(slots=True)
class Timeline:
    """The times of all stages and hand-offs, in cycles from the start."""

    starts: list[list[int]] = field(default_factory=list)  #: by item and stage
    ends: list[list[int]] = field(default_factory=list)
    moved: list[list[tuple[int, int]]] = field(default_factory=list)  #: start and end [cycle] of each hand-off

    @property
    def end(self) -> int:
        """The end of the last item."""
        return max((row[-1] for row in self.ends), default=0)

    def done(self, items: int) -> int:
        """The end of this number of first items."""
        return max((row[-1] for row in self.ends[:items]), default=0)


def run_pipeline(items: Sequence[Item]) -> Timeline:
    """The timeline of items, which every stage processes in this order."""
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
