"""A composite op in flight: tiles that move through the components of a PE (seed ADR-0020, seed ADR-0052 D5).

Each tile is a token that knows its stages. While one tile is computed, the next tiles are read: every streamed operand has a
ring of buffers in the scratchpad, and so has the output. Tokens are computed in the order of the plan. The steps of one sum run
in sequence on one engine, whose accumulators keep the sum until it is complete.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kernbench.common.errors import InternalError
from kernbench.common.pe_commands import CompositeCmd, Stage, StageType, TileToken
from kernbench.components.base import NEVER, Clock
from kernbench.components.builtin.flight import Flight, Order
from kernbench.components.builtin.part import PePart
from kernbench.components.builtin.pe_fetch_store import PeFetchStore
from kernbench.components.builtin.tile_plan import Step, TilePlan

if TYPE_CHECKING:
    from kernbench.components.builtin.pe_scheduler import CommandQueue


class Serve(NamedTuple):
    """A stage of a token to be served now, and the engine of the component that serves it."""

    token: Token
    stage: Stage
    engine: int


class Ring:
    """The buffers of one operand; a buffer is free when its last user has released it."""

    def __init__(self, buffers: int) -> None:
        self._users = [0] * buffers
        self._next = 0
        self._held: object = None  # the tile in the newest buffer
        self._newest = -1  # the index of the newest buffer

    def has(self, tile: object) -> bool:
        """Whether the newest buffer already holds this tile."""
        return tile is not None and self._newest >= 0 and tile == self._held

    def has_room(self, tile: object) -> bool:
        """Whether a buffer is free for `take`."""
        return self.has(tile) or self._users[self._next] == 0

    def take(self, tile: object) -> int:
        """Take a buffer for a tile; there must be room."""
        if not self.has(tile):
            self._newest, self._held = self._next, tile
            self._next = (self._next + 1) % len(self._users)
        self._users[self._newest] += 1
        return self._newest

    def release(self, place: int) -> None:
        """A token no longer needs the buffer."""
        self._users[place] -= 1


@dataclass(eq=False, kw_only=True)
class Token(TileToken):
    """A tile in the pipeline, with its buffers."""

    step: Step
    places: tuple[int, ...] = ()  #: buffers of the streamed operands
    out_place: int = -1  #: buffer of its result
    there: bool = False  #: whether its operands have arrived
    computing: bool = False

    def port_bytes(self, stage: Stage) -> int:
        """[B] The bytes that a stage moves between the scratchpad and the engines: all operands, or the result."""
        if stage.stage_type is StageType.FETCH:
            return sum(rows.nbytes for rows in self.step.operands)
        assert self.step.out is not None
        return self.step.out.nbytes


class Composite:
    """Starts the tokens of one op, and moves them from stage to stage. It yields the stages to serve, in this order."""

    def __init__(self, command: CompositeCmd, plan: TilePlan, engines: int) -> None:
        """`engines`: the engines of the PE that compute its tiles."""
        self._command = command
        self._plan = plan
        self._engines = engines
        self._rings = [Ring(plan.buffers) for _ in range(plan.streams)]
        self._out = Ring(plan.buffers)
        self._steps = iter(plan.steps())
        self._next: Step | None = next(self._steps, None)
        self._order: deque[Token] = deque()  # tokens that are not yet being computed, in the order of the plan
        self._open = 0

    @property
    def over(self) -> bool:
        """Whether every token has finished."""
        return self._next is None and self._open == 0

    def go_on(self) -> Iterator[Serve]:
        """Start new tokens, as far as there are buffers."""
        while self._next is not None:
            step = self._next
            if not all(ring.has_room(tile) for ring, tile in zip(self._rings, step.streamed, strict=True)):
                return
            self._next = next(self._steps, None)
            yield from self._walk(self._admit(step))

    def ended(self, token: TileToken) -> Iterator[Serve]:
        """A stage of a token was served: move the token to its next stage."""
        assert isinstance(token, Token) and token.stage is not None
        if token.computing and token.stage.stage_type is self._plan.computes:
            for ring, place in zip(self._rings, token.places, strict=True):
                ring.release(place)
        token.advance()
        yield from self._walk(token)
        yield from self.go_on()

    def _admit(self, step: Step) -> Token:
        fill = [not ring.has(tile) for ring, tile in zip(self._rings, step.streamed, strict=True)]
        places = tuple([ring.take(tile) for ring, tile in zip(self._rings, step.streamed, strict=True)])
        token = Token(self._command, step.place, self._plan.read_stages(step, places, fill), step=step, places=places)
        token.line = self._command.line
        self._open += 1
        self._order.append(token)
        return token

    def _walk(self, token: Token) -> Iterator[Serve]:
        stage = token.stage
        if stage is not None:
            yield Serve(token, stage, token.step.sum % self._engines)
        elif not token.computing:
            token.there = True
            yield from self._compute()
        else:
            self._open -= 1
            if token.out_place >= 0:
                self._out.release(token.out_place)
                yield from self._compute()

    def _compute(self) -> Iterator[Serve]:
        """Start the tokens in the order of the plan, up to the first whose operands are missing or whose result has no
        buffer."""
        while self._order and self._order[0].there:
            token = self._order[0]
            if token.step.out is not None:
                if not self._out.has_room(None):
                    return
                token.out_place = self._out.take(None)
            self._order.popleft()
            token.computing = True
            token.stages = [*token.stages, *self._plan.compute_stages(token.step, token.places, token.out_place)]
            assert token.stage is not None
            yield Serve(token, token.stage, token.step.sum % self._engines)


class TileServer(PePart):
    """Serves composite ops for the scheduler: it logs ops under the id of the scheduler, and tiles under the ids of their
    components."""

    __slots__ = ("_count", "_fetch_store", "_parts", "_timed", "_walks")

    serves = (CompositeCmd,)

    def __init__(self, node_id: str, clock: Clock, base: int, parts: Sequence[PePart], fetch_store: PeFetchStore) -> None:
        super().__init__(node_id, (), clock, base)
        self._parts = {type(part).kind: part for part in parts}
        self._fetch_store = fetch_store
        self._walks: dict[Flight, Composite] = {}
        self._timed: list[tuple[int, int, Flight]] = []  # tiles in the fetch and store component: end cycle, order, tile
        self._count = 0

    def orders(self, msg: Any) -> Sequence[Order]:
        """A composite op itself has no jobs; its tiles have jobs."""
        return ()

    def begin_tiles(self, scheduler: CommandQueue, flight: Flight, now: int) -> None:
        """The op is handed over: start its first tiles."""
        plan: TilePlan = flight.msg.plan
        part = self._parts[plan.part]
        walk = self._walks[flight] = Composite(flight.msg, plan, len(part.engines))
        flight.start = now
        self._serve(scheduler, flight, walk.go_on(), now, flight.after)

    def tile_ended(self, scheduler: CommandQueue, tile: Flight, end: int) -> Flight | None:
        """The stage of a tile was served up to cycle `end`; returns the op if it is over."""
        flight = tile.parent
        assert flight is not None
        walk = self._walks[flight]
        flight.command = tile.command
        self._serve(scheduler, flight, walk.ended(tile.msg), end, (tile.command,) if tile.command >= 0 else ())
        if not walk.over:
            return None
        del self._walks[flight]
        flight.end = end
        return flight

    def deliver_tiles(self, scheduler: CommandQueue, now: int) -> None:
        """P1: tiles whose time in the fetch and store component is over continue."""
        while self._timed and self._timed[0][0] <= now:
            _, _, tile = heapq.heappop(self._timed)
            flight = tile.parent
            assert flight is not None
            self._serve(scheduler, flight, self._walks[flight].ended(tile.msg), now, tile.after)
        self.next_due = self._timed[0][0] if self._timed else NEVER

    def _serve(
        self, scheduler: CommandQueue, flight: Flight, serves: Iterable[Serve], now: int, after: tuple[int, ...]
    ) -> None:
        """Begin stages; a stage of the fetch and store component without time ends at once, and starts more."""
        waiting = list(serves)
        while waiting:
            token, stage, engine = waiting.pop(0)
            part = self._parts.get(stage.component)
            if part is not None:
                tile = Flight(token, part, now, flight.line)
                tile.parent, tile.after = flight, after
                if after is flight.after:
                    tile.visible = flight.visible
                computes = stage.stage_type is flight.msg.plan.computes
                scheduler.put(tile, engine if computes else part.choose(), part.tile_orders(stage, flight.line))
                continue
            if stage.component != self._fetch_store.kind:
                raise InternalError(f"{self.node_id}: no part of the PE is a {stage.component}")
            tile = Flight(token, self, now, flight.line)
            tile.parent, tile.after = flight, after
            tile.start, tile.end = self._fetch_store.serve(token.port_bytes(stage), now)
            self._fetch_store.passed(token, tile.start, tile.end)
            if tile.end == now:
                waiting += self._walks[flight].ended(token)
            else:
                self._count += 1
                heapq.heappush(self._timed, (tile.end, self._count, tile))
                self.next_due = self._timed[0][0]
