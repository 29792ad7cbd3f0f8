"""The common base of the components of a PE: each serves messages of some types by jobs of its engines in the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from kernbench.common.pe_commands import Stage
from kernbench.common.pe_ops import Command, DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.components.base import NEVER, Clock, ComponentBase, OpLog, Typed
from kernbench.components.builtin.flight import Flight, Order

_COMMANDS = frozenset((DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd))  # most messages
_HOOKS = (ComponentBase._on_process_start, ComponentBase._on_process_end)


class Serving(Typed):
    """A component of a PE before it has a position in the machine."""

    engine_type: ClassVar[int] = -1  #: of the core

    def __init__(self, node_id: str, engines: Sequence[int], clock: Clock, base: int) -> None:
        super().__init__()
        self._op_logger: OpLog | None = None
        self.kind_of_engine = self.engine_type
        self.node_id = node_id
        self.base = base  #: address of the scratchpad's first byte
        self.engines = tuple(engines)  #: ids in the core
        self.only_engine = self.engines[0] if len(self.engines) == 1 else -1  #: id, if there is no choice
        self.clock = clock
        self.load = [0] * len(self.engines)  #: commands on each that have not ended; not counted for an only engine
        self.next_due = NEVER  #: it has something to do in that cycle
        kind: Any = type(self)  # overridden hooks are called; those of the base class are replaced by one call of the log
        self._own_hooks = (getattr(kind, "_on_process_start", None), getattr(kind, "_on_process_end", None)) != _HOOKS
        self._record: Callable[[float, float, str, Any], None] | None = None
        self._record_of: OpLog | None = None
        self.replaced: dict[int, ComponentBase] = {}  #: components in the place of engines, by position in `engines`

    def orders(self, msg: Any) -> Sequence[Order]:
        """The jobs that the message is, at least one; all go to one engine."""
        raise NotImplementedError

    def plan(self, flight: Flight) -> bool:
        """Write the only job of a command into the command, if the job needs no `orders` (`Flight.plain`)."""
        return False

    def send(self, processor: Typed, flight: Flight) -> int:
        """Give the core the job of a plain command; its number."""
        raise NotImplementedError

    def begin(self, flight: Flight, now: int) -> None:
        """For a component that serves commands itself: the component has received a command, which starts in this cycle or
        later."""
        raise NotImplementedError

    def deliver(self, now: int) -> None:
        """P1 of the cycle `next_due`."""
        raise NotImplementedError

    def look(self, cycle: int, ring: Any) -> None:
        """A queue can continue in this cycle, which has not begun."""
        raise NotImplementedError

    def tile_orders(self, stage: Stage, line: str) -> Sequence[Order]:
        """The same for a stage of a tile token that this component serves."""
        raise NotImplementedError

    def opcode(self, msg: Any) -> str:
        """The opcode of a job of the message in traces."""
        raise NotImplementedError

    def choose(self) -> int:
        """The engine for the next command: the one with the fewest, then the first."""
        if self.only_engine >= 0:
            return 0
        load, best = self.load, 0
        for number in range(1, len(load)):
            if load[number] < load[best]:
                best = number
        return best

    def count(self, flight: Flight, change: int) -> None:
        """A command has gone to an engine, or has ended there."""
        if self.only_engine < 0:
            self.load[flight.engine] += change

    def engine_of(self, flight: Flight) -> int:
        """The id of the engine of a command."""
        return self.only_engine if self.only_engine >= 0 else self.engines[flight.engine]

    def ended(self, flight: Flight) -> None:
        """Log a message that was served; a component that replaces the engine logs it by its own hooks."""
        if self.replaced and flight.engine in self.replaced:
            self.hooks_of(self.replaced[flight.engine], flight)
            return
        log = self._op_logger
        if log is None:
            return
        if log is not self._record_of:
            self._record_of, self._record = log, None if self._own_hooks else getattr(log, "record_served", None)
        clock, msg = self.clock, flight.msg
        kind = type(msg)
        if self._record is not None and (kind is DmaReadCmd or kind is GemmCmd or kind in _COMMANDS):
            command: Command = msg
            if not command._quiet:
                self._record(clock.at(flight.start).now, clock.at(flight.end).now, self.node_id, msg)
            return
        self.hooks_of(cast(ComponentBase, self), flight)

    def hooks_of(self, component: ComponentBase, flight: Flight) -> None:
        """Call the hooks of the component that served a message, with the times that the core recorded."""
        component._on_process_start(self.clock.at(flight.start), flight.msg)
        component._on_process_end(self.clock.at(flight.end), flight.msg)

    def unit_of(self, flight: Flight) -> str:
        """The component that serves a command, for traces; empty where the core knows the engine."""
        return ""


class PePart(Serving, ComponentBase):
    """Translates a message into jobs (`orders`), which the engines of the core or their replacements execute.

    Its hooks are called when a message has ended, with the times that the core recorded.
    """

    __slots__ = ()

    serves: ClassVar[tuple[type[Any], ...]] = ()  #: types of messages
