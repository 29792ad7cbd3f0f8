"""A FIFO of the messages of a queue between PEs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Fifo:
    """A queue in a growing ring buffer: like `collections.deque`, but without a lookup for each call in compiled code."""

    def __init__(self, items: list[Any] | None = None) -> None:
        self._places: list[Any] = [*(items or []), None, None]
        self._first = 0
        self.count = len(self._places) - 2

    def put(self, one: Any) -> None:
        room = len(self._places)
        if self.count == room:
            self._places = [*self._places[self._first :], *self._places[: self._first], *[None] * room]
            self._first, room = 0, 2 * room
        at = self._first + self.count
        self._places[at - room if at >= room else at] = one
        self.count += 1

    def at(self, place: int) -> Any:
        """One of the items, which must exist: 0 is the next one to be taken."""
        room, place = len(self._places), self._first + place
        return self._places[place - room if place >= room else place]

    def take(self) -> Any:
        """The first one, which is in it no longer."""
        one = self._places[self._first]
        self._places[self._first] = None
        self._first = 0 if self._first + 1 == len(self._places) else self._first + 1
        self.count -= 1
        return one

    def __iter__(self) -> Iterator[Any]:
        """The items in order. The queue must not change meanwhile."""
        return iter([self._places[(self._first + k) % len(self._places)] for k in range(self.count)])
