"""Serves composite ops: sends their tiles from part to part (seed ADR-0052 D5)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import InternalError
from kernbench.common.pe_commands import CompositeCmd
from kernbench.components.base import NEVER, Clock
from kernbench.components.builtin.composite import Composite, Serve
from kernbench.components.builtin.flight import Flight, Order
from kernbench.components.builtin.part import PePart
from kernbench.components.builtin.pe_fetch_store import PeFetchStore
from kernbench.components.builtin.tile_plan import TilePlan

if TYPE_CHECKING:
    from kernbench.components.builtin.pe_scheduler import CommandQueue

class TileServer(PePart):
    """Serves composite ops for the scheduler: it logs them under the scheduler's id, and their tiles under their parts'."""

    __slots__ = ("_count", "_fetch_store", "_parts", "_timed", "_walks")

    serves = (CompositeCmd,)

    def __init__(self, node_id: str, clock: Clock, base: int, parts: Sequence[PePart], fetch_store: PeFetchStore) -> None:
        super().__init__(node_id, (), clock, base)
        self._parts = {type(part).kind: part for part in parts}
        self._fetch_store = fetch_store
        self._walks: dict[Flight, Composite] = {}
        self._timed: list[tuple[int, int, Flight]] = []  # tiles in the fetch and store part: when they are done, order, tile
        self._count = 0

    def orders(self, msg: Any) -> Sequence[Order]:
        """None of its own: its tiles have jobs."""
        return ()

    def begin_tiles(self, scheduler: CommandQueue, flight: Flight, now: int) -> None:
        """The op is handed over: its first tiles set out."""
        plan: TilePlan = flight.msg.plan
        part = self._parts[plan.part]
        walk = self._walks[flight] = Composite(flight.msg, plan, len(part.engines))
        flight.start = now
        self._serve(scheduler, flight, walk.go_on(), now, flight.after)

    def tile_ended(self, scheduler: CommandQueue, tile: Flight, end: int) -> Flight | None:
        """A tile's stage was served up to cycle `end`: the op, where it is over."""
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
        """P1: tiles whose time in the fetch and store part is over go on."""
        while self._timed and self._timed[0][0] <= now:
            _, _, tile = heapq.heappop(self._timed)
            flight = tile.parent
            assert flight is not None
            self._serve(scheduler, flight, self._walks[flight].ended(tile.msg), now, tile.after)
        self.next_due = self._timed[0][0] if self._timed else NEVER

    def _serve(
        self, scheduler: CommandQueue, flight: Flight, serves: Iterable[Serve], now: int, after: tuple[int, ...]
    ) -> None:
        """Begin stages; one of the fetch and store part that takes no time is over at once, and brings more."""
        waiting = list(serves)
        while waiting:
            token, stage, engine = waiting.pop(0)
            part = self._parts.get(stage.component)
            if part is not None:
                tile = Flight(token, part, now, flight.line)
                tile.parent, tile.after = flight, after
                computes = stage.stage_type is flight.msg.plan.computes
                scheduler.put(tile, engine if computes else part.choose(), part.tile_orders(stage, flight.line))
                continue
            if stage.component != self._fetch_store.kind:
                raise InternalError(f"{self.node_id}: no part of the PE is a {stage.component}")
            tile = Flight(token, self, now, flight.line)
            tile.parent, tile.after, tile.start, tile.end = flight, after, now, now + self._fetch_store.cycles
            self._fetch_store.passed(token, tile.start, tile.end)
            if tile.end == now:
                waiting += self._walks[flight].ended(token)
            else:
                self._count += 1
                heapq.heappush(self._timed, (tile.end, self._count, tile))
                self.next_due = self._timed[0][0]
