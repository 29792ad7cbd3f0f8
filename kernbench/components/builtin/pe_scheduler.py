"""The scheduler of a PE: gives each command to the part that serves it, in order, some cycles after it was issued."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import InternalError
from kernbench.common.naming import PE_SCHEDULER
from kernbench.components.base import NEVER, ComponentBase, HasCommands, OpLog, Typed
from kernbench.components.builtin.composite import TileServer
from kernbench.components.builtin.cores import Cores
from kernbench.components.builtin.flight import Flight, OpenFlights, Order
from kernbench.components.builtin.part import PePart

if TYPE_CHECKING:  # it is compiled with this one's types
    from kernbench.components.builtin.pe_ipcq import PeIpcq

_PLACE = 0xFFFFFFFF  # the bits of a job's number that have its place


@lru_cache(maxsize=16)
def _places(serves: tuple[tuple[type[Any], ...], ...]) -> dict[type[Any], int]:
    """The position of the part that serves a message of a class, given the classes that each part serves. The PEs of a machine
    share one dictionary: the processor's cache does not hold one for each of a thousand PEs.
    """
    return {kind: place for place, kinds in enumerate(serves) for kind in kinds}


class CommandQueue(Typed):
    """The commands of a PE, from their issue to their end."""

    def __init__(
        self, node_id: str, parts: Sequence[PePart], tiles: TileServer, queues: PeIpcq, *, cycles: int, queue_depth: int
    ) -> None:
        """`tiles` serves composite ops, `queues` serves messages to and from other PEs."""
        super().__init__()
        self._op_logger: OpLog | None = None
        self.node_id = node_id
        self.parts = (*parts, tiles, queues)
        self._tiles = tiles
        self.queues = queues
        queues.scheduler = self
        self.queue_depth = queue_depth
        self._cycles = cycles
        self._serving = _places(tuple([part.serves for part in self.parts]))  # positions in `parts`, by class of message
        self.places = queue_depth + 16  #: jobs in the core at a time
        # Their commands. The low 32 bits of a job number are its slot, and slots of one component are adjacent.
        self._jobs: list[Flight | None] = [None] * self.places
        self._in_core = 0
        self._backlog: deque[tuple[Flight, Order | None]] = deque()  # jobs without a free slot yet
        self._first_due: Flight | None = None  # commands in flight from the processor, as they were issued
        self._last_due: Flight | None = None
        self.next_due = NEVER  #: the cycle in which the next command is handed over, or the next tile
        self.after: tuple[int, ...] = ()  #: ids of the traced commands whose end resumed the kernel
        self.visible = 0  #: [cycle] from which the message that resumed it could be used; 0: none, or without flags
        self.open = OpenFlights()  #: commands that have not ended
        self.machine: HasCommands | None = None  #: machine whose trace gets descriptions of jobs
        self.cores: Cores | None = None  #: of the PE
        self.processor: Typed | None = None  #: component in the core that represents the PE

    def part_for(self, msg: Any) -> PePart:
        """The component that serves a message: the one for its class, or for its nearest base class."""
        place = self._serving.get(type(msg))
        if place is None:
            kinds = [kind for kind in type(msg).__mro__ if kind in self._serving]
            if not kinds:
                raise InternalError(f"{self.node_id}: no part of the PE serves a {type(msg).__name__}")
            place = self._serving[type(msg)] = self._serving[kinds[0]]
        return self.parts[place]

    def issue(self, msg: Any, now: int, line: str) -> Flight:
        """A command of the kernel. Raises the error of the component for a command that is not possible."""
        place = self._serving.get(type(msg))
        part = self.part_for(msg) if place is None else self.parts[place]
        flight = Flight.__new__(Flight)
        flight.msg, flight.part, flight.issued, flight.line, flight.after, flight.due = msg, part, now, line, self.after, now
        flight.start = flight.end = flight.command = -1
        flight.visible = self.visible
        flight.plain = False
        flight.engine = flight.jobs_left = 0
        flight.parent = flight.behind = None
        if part is self.queues:  # it is notified at once, and counts the cycles itself
            self.open.add(flight)
            self.queues.begin(flight, now + self._cycles)
            return flight
        if not part.plan(flight):
            flight.orders = part.orders(msg)
        self.open.add(flight)
        if self._cycles:
            flight.due = now + self._cycles
            if self._last_due is None:
                self._first_due = flight
            else:
                self._last_due.behind = flight
            self._last_due = flight
            if flight.due < self.next_due:
                self.next_due = flight.due
        elif part is self._tiles:
            self._begin(flight, now)
        else:
            self.hand_over(flight)
        return flight

    def deliver(self, now: int) -> None:
        """P1: pass on the commands that are due."""
        flight = self._first_due
        while flight is not None and flight.due <= now:
            self._first_due, flight.behind = flight.behind, None
            if self._first_due is None:
                self._last_due = None
            if flight.part is self._tiles:
                self._begin(flight, now)
            else:
                self.hand_over(flight)
            flight = self._first_due
        if self._tiles.next_due <= now:
            self._tiles.deliver_tiles(self, now)
        if self.queues.next_due <= now:
            self.queues.deliver(now)
        self._look_ahead()

    def _look_ahead(self) -> None:
        next_due, tiles = self.queues.next_due, self._tiles.next_due
        if tiles < next_due:
            next_due = tiles
        if self._first_due is not None and self._first_due.due < next_due:
            next_due = self._first_due.due
        self.next_due = next_due

    def job_ended(self, number: int, start: int, end: int) -> Flight | None:
        """A job of the core has ended. If it was the last job, its command or tile has ended too."""
        place = (number & _PLACE) % self.places
        flight = self._jobs[place]
        assert flight is not None
        self._jobs[place] = None
        self._in_core -= 1
        if self._backlog:
            waiting, order = self._backlog.popleft()
            self._submit(waiting, order)
        if flight.start < 0 or start < flight.start:
            flight.start = start
        flight.jobs_left -= 1
        if flight.jobs_left:
            return None
        flight.end = end
        part = flight.part
        part.count(flight, -1)
        if flight.parent is None:
            self.open.remove(flight)
        return flight

    def tile_ended(self, tile: Flight, end: int) -> Flight | None:
        """A tile of a composite op has ended its stage: the op, where that is over."""
        flight = self._tiles.tile_ended(self, tile, end)
        self._look_ahead()
        if flight is not None:
            self.open.remove(flight)
        return flight

    def _begin(self, flight: Flight, now: int) -> None:
        """A composite op is handed over."""
        self._tiles.begin_tiles(self, flight, now)
        self._look_ahead()

    def put(self, flight: Flight, engine: int, orders: Sequence[Order]) -> None:
        """The jobs of a command or tile for one engine of the component."""
        part = flight.part
        flight.engine = engine
        flight.jobs_left = len(orders)
        part.count(flight, 1)
        for order in orders:
            if self._in_core >= self.places:
                self._backlog.append((flight, order))
            else:
                self._submit(flight, order)

    def hand_over(self, flight: Flight) -> None:
        """The jobs of a command for the engine that its part chooses."""
        part = flight.part
        if not flight.plain:
            self.put(flight, part.choose(), flight.orders)
            return
        flight.engine = part.choose()
        flight.jobs_left = 1
        part.count(flight, 1)
        if self._in_core >= self.places:
            self._backlog.append((flight, None))
        else:
            self._submit(flight, None)

    def _submit(self, flight: Flight, order: Order | None) -> None:
        """A job for the core; None for the default job of the command."""
        part = flight.part
        assert self.processor is not None
        if order is not None:
            params, regions = order
            number = self.processor.submit(part.kind_of_engine, part.engines[flight.engine], params, regions)
        else:
            number = part.send(self.processor, flight)
        self._jobs[(number & _PLACE) % self.places] = flight
        self._in_core += 1
        if self.machine is not None and self.machine.commands is not None:
            visible = {"visible": flight.visible} if flight.visible else {}
            flight.command = self.machine.commands.add(
                number, part.opcode(flight.msg), unit=part.unit_of(flight), deps=flight.after, marker=flight.line, **visible
            )


class PeScheduler(CommandQueue, ComponentBase, kind=PE_SCHEDULER):
    """Commands are pipelined: one issued in cycle `c` is in its engine's queue in `c + cycles`, whatever came before it."""

    __slots__ = ()
