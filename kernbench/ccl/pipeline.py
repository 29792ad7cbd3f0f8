"""Slices of a collective's work in turn, so that one computes while another's bytes travel.

A slice is a generator whose turns alternate: it sends and asks for a message; it waits for that message and uses it. Every
rank runs the same slices in the same order, and the next rank receives in the same step what one rank sends. So messages over
a queue are sent and received in the same order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any

#: Yields a tile to wait for it, and at the end of each turn whether its second half has begun.
Slice = Generator[Any, None, None]


class _Running:
    """A slice that has begun."""

    def __init__(self, turns: Slice) -> None:
        self.turns = turns
        self.late = False
        self.over = False

    def turn(self) -> Iterator[Any]:
        """One step; yields its wait."""
        for said in self.turns:
            if said is True or said is False:
                self.late = said
                return
            yield said
        self.over = self.late = True


def in_turn(slices: Iterable[Slice], most: int, batch: int = 0, *, whole: bool = False, plain: bool = False) -> Slice:
    """Run slices concurrently, at most a given number at a time; the result is a slice whose steps are rounds.

    In a round each slice consumes its message, and sends after the next slice has consumed its own. So its computation has
    time, and its message travels while other slices compute. With a `batch`, so many begin together, and the next when all
    that run are in their second half; else each as soon as one has ended. With `whole` all have sent at the end of a round, as
    it must be where several of these run in turn and share queues; what runs those is `plain`: a turn each, round after round.
    """
    left = iter(slices)
    running: list[_Running] = []
    before: _Running | None = None
    while True:
        if not batch or _all_late(running):
            begin = [_Running(new) for new in islice(left, min(batch or most, most - len(running)))]
            if begin and before is not None:  # messages are used in the order of their requests
                yield from before.turn()
                before = None
            for one in begin:
                yield from one.turn()
                running.append(one)
            if begin and whole:
                yield False
        if not running:
            return
        if before is running[0]:
            yield from before.turn()
            before = None
        for one in running:
            yield from one.turn()
            if before is not None and before is not one:
                yield from before.turn()
            before = None if plain else one
        if before is not None and (whole or len(running) == 1):
            yield from before.turn()
            before = None
        running = [one for one in running if not one.over]
        yield _all_late(running)


def _all_late(running: list[_Running]) -> bool:
    for some in running:
        one: _Running = some
        if not one.late:
            return False
    return True


def early(slices: Slice) -> Slice:
    """A slice that is in its first half."""
    for said in slices:
        yield False if isinstance(said, bool) else said


def run(tl: Any, *slices: Slice) -> None:
    """Run slices to their ends, each as soon as its wait is over. No two may use one queue."""
    waiting: list[tuple[Slice, Any]] = [(one, None) for one in slices]
    while waiting:
        number = 0 if len(waiting) == 1 or waiting[0][1] is None else tl.wait_any(*(tile for _, tile in waiting))
        one, tile = waiting.pop(number)
        if tile is not None:
            tl.wait(tile)
        tile = None  # its slot is free as soon as it has been used
        wanted = _wanted(one)
        if wanted is not None:
            waiting.append((one, wanted))


def _wanted(turns: Slice) -> Any:
    """The next wait of a slice; None after its end."""
    for said in turns:
        if said is not True and said is not False:
            return said
    return None
