"""Commands in flight: a message between its issue and its end, and the jobs that it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.components.builtin.part import PePart

Region = tuple[int, int, int]  #: flat scratchpad address, bytes, whether it is written
Order = tuple[Sequence[int], Sequence[Region]]  #: a job for an engine of the core: parameters, regions (`Component.submit`)


class Reach:
    """Bytes `[start, end)` of one memory or scratchpad, and the route of a DMA engine to them, or -1."""

    def __init__(self, start: int, end: int, reach: Sequence[int], peer: int = -1) -> None:
        self.start = start
        self.end = end
        self.memory, self.route = reach or (-1, -1)
        self.peer = peer  #: a scratchpad's number, -1: it is a memory


class Flight:
    """A command that was issued. `end` is -1 until the message has ended. Afterwards, no object refers to the message."""

    def __init__(self, msg: Any, part: PePart, issued: int, line: str) -> None:
        self.msg = msg
        self.part = part
        self.issued = issued  #: [cycle]
        self.line = line  #: of the kernel
        self.start = -1  #: [cycle] of its first job
        self.end = -1
        self.due = issued  #: [cycle] in which it is handed over
        self.orders: Sequence[Order] = ()  #: and as which jobs
        self.engine = 0  #: engine of the component
        self.jobs_left = 0
        self.after: tuple[int, ...] = ()  #: of a traced run: ids of the commands that it, or the kernel before it, waited for
        self.visible = 0  #: [cycle] from which a message of `after` could be used; 0: its protocol adds no cycles
        self.command = -1  #: its own id there; of several jobs that of the last
        self.parent: Flight | None = None  #: of a tile: the composite op
        self.plain = False  #: it is one job, which its component can submit (`PePart.send`) without `orders`
        self.behind: Flight | None = None  #: next command in the queue to be handed over
        self.before_open: Flight | None = None  #: neighbours in `OpenFlights`
        self.after_open: Flight | None = None
        self.reach: Any = None  #: of such a job: the route to the memory, or the time of the product
        self.channel = 0  #: of a transfer: the DMA engine's,
        self.write = False
        self.addr = self.nbytes = 0  #: in memory,
        self.place = self.travel = 0  #: flat scratchpad address and bytes, including alignment


class OpenFlights:
    """The commands of a PE that have not ended, as they were issued: a list that is linked through the commands."""

    def __init__(self) -> None:
        self.count = 0
        self._first: Flight | None = None
        self._last: Flight | None = None

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Flight]:
        return iter(self.listed())

    def listed(self) -> list[Flight]:
        """The commands that are open now."""
        found, flight = [], self._first
        while flight is not None:
            found.append(flight)
            flight = flight.after_open
        return found

    def add(self, flight: Flight) -> None:
        flight.before_open, flight.after_open = self._last, None
        if self._last is None:
            self._first = flight
        else:
            self._last.after_open = flight
        self._last = flight
        self.count += 1

    def remove(self, flight: Flight) -> None:
        before, after = flight.before_open, flight.after_open
        if before is None:
            self._first = after
        else:
            before.after_open = after
        if after is None:
            self._last = before
        else:
            after.before_open = before
        flight.before_open = flight.after_open = None
        self.count -= 1
