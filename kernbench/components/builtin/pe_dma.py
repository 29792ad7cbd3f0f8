"""The DMA engines of a PE: loads, stores and tiles as transfers of rows (docs/model/bytes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.common.errors import KernbenchError
from kernbench.common.naming import PE_DMA
from kernbench.common.pe_commands import Stage, StageType, TileToken
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd
from kernbench.components.base import DMA, Clock, Typed
from kernbench.components.builtin.flight import Flight, Order, Reach
from kernbench.components.builtin.part import PePart, Serving
from kernbench.components.builtin.transfers import MemoryRoutes, Rows, cut, footprint, rows_of
from kernbench_core.numbers import TRANSFER_CHANNELS as CHANNELS

_NUMBER = {name: number for number, name in enumerate(CHANNELS)}


class TransferError(KernbenchError):
    """A kernel accesses memory that the machine does not have."""

    exit_code = 5


class Transfers(Serving):
    """Loads and stores as transfers."""

    def __init__(
        self,
        node_id: str,
        engines: Sequence[int],
        clock: Clock,
        base: int,
        *,
        align: int,
        scratchpad_bytes: int,
        memory_routes: MemoryRoutes,
    ) -> None:
        super().__init__(node_id, engines, clock, base)
        self._align = align
        self._room = scratchpad_bytes
        self.memory_routes = memory_routes
        self._own_orders = type(self).orders is not Transfers.orders  # of a class that replaces PE_DMA
        self._read = self._written = Reach(0, 0, ())

    def plan(self, flight: Flight) -> bool:
        if self._own_orders:
            return False
        msg = flight.msg
        if type(msg) is DmaReadCmd:
            read: DmaReadCmd = msg
            if read.lanes is not None or read.src_strides is not None:
                return False
            tile, addr, nbytes, channel = read.handle, read.src_addr, read.nbytes, read.channel
            flight.write, reach = False, self._read
        elif type(msg) is DmaWriteCmd:
            written: DmaWriteCmd = msg
            if written.lanes is not None or written.dst_strides is not None:
                return False
            tile, addr, nbytes, channel = written.handle, written.dst_addr, written.nbytes, written.channel
            flight.write, reach = True, self._written
        else:
            return False
        if not reach.start <= addr <= reach.end - nbytes:
            reach = self._reach(flight.write)
        flight.reach, flight.channel, flight.addr, flight.nbytes = reach, _NUMBER[channel], addr, nbytes
        flight.place = tile.addr - self.base
        flight.travel = self._travel(addr, nbytes)
        if not reach.start <= addr <= reach.end - nbytes or flight.place + flight.travel > self._room:
            return False
        flight.plain = True
        return True

    def send(self, processor: Typed, flight: Flight) -> int:
        reach: Reach = flight.reach
        engine = self.engine_of(flight)
        return processor.submit_transfer(
            engine,
            flight.channel,
            flight.write,
            flight.addr,
            flight.nbytes,
            reach.memory,
            reach.route,
            flight.place,
            flight.travel,
        )

    def orders(self, msg: Any) -> Sequence[Order]:
        tile = msg.handle
        if isinstance(msg, DmaReadCmd):
            write, addr, strides = 0, msg.src_addr, msg.src_strides
        else:
            write, addr, strides = 1, msg.dst_addr, msg.dst_strides
        channel = _NUMBER[msg.channel]
        place = tile.addr - self.base
        if msg.lanes is not None:
            writes = (0, 1) if getattr(msg, "rmw", "") else (write,)
            return [order for reach in writes for order in self._lane_orders(channel, reach, place, addr, msg)]
        if strides is None:
            return self.piece(channel, write, place, addr, msg.nbytes, msg.line)
        orders: list[Order] = []
        for offset, row_bytes, stride, count in rows_of(tile.shape, strides, tile.dtype):
            orders += self._orders(channel, write, place, Rows(addr + offset, row_bytes, stride, count), msg.line)
            place += row_bytes * count
        return orders

    def _lane_orders(self, channel: int, write: int, place: int, addr: int, msg: Any) -> list[Order]:
        """A gather or scatter, in order of address, which is also the order of its elements in the scratchpad."""
        orders: list[Order] = []
        for offset, row_bytes, stride, count in msg.lanes.rows:
            orders += self._orders(channel, write, place, Rows(addr + offset, row_bytes, stride, count), msg.line)
            place += row_bytes * count
        return orders

    def piece(self, channel: int, write: int, place: int, addr: int, nbytes: int, line: str) -> Sequence[Order]:
        """Bytes in one piece, to or from a flat scratchpad address."""
        return self._straight(channel, write, place, addr, nbytes) or self._orders(
            channel, write, place, Rows(addr, nbytes, 0, 1), line
        )

    def opcode(self, msg: Any) -> str:
        stored = not isinstance(msg, DmaReadCmd)
        if isinstance(msg, TileToken):
            stored = msg.stages[msg.stage_idx].stage_type is StageType.DMA_WRITE
        return "DMA_STORE_TILE" if stored else "DMA_LOAD_TILE"

    def _straight(self, channel: int, write: int, place: int, first: int, nbytes: int) -> Sequence[Order] | None:
        """Bytes in one piece, as most transfers are; None if they are not in one memory, or not in the scratchpad."""
        reach, travel = self._reach(bool(write)), self._travel(first, nbytes)
        if not reach.start <= first <= reach.end - nbytes or place + travel > self._room:
            return None
        params = (channel, write, first, nbytes, 0, 1)
        if reach.memory >= 0:
            params = (*params, reach.memory, reach.route)  # type: ignore[assignment]  # longer
        return ((params, ((place, travel, 1 - write),)),)

    def _reach(self, write: bool) -> Reach:
        """The route to the memory of the last lookup in this direction."""
        reach = Reach(*self.memory_routes.last[write])
        if write:
            self._written = reach
        else:
            self._read = reach
        return reach

    def _travel(self, first: int, nbytes: int) -> int:
        """The number of bytes after alignment."""
        align = self._align
        if first % align == 0 and nbytes % align == 0:
            return nbytes
        return (first + nbytes + align - 1) // align * align - first // align * align

    def tile_orders(self, stage: Stage, line: str) -> Sequence[Order]:
        """Rows of tiles."""
        channel, write = CHANNELS.index(stage.params["channel"]), int(stage.stage_type is StageType.DMA_WRITE)
        orders: list[Order] = []
        for one in stage.params["transfers"]:
            rows = Rows(one.addr, one.rows.row_bytes, one.rows.stride, one.rows.rows)
            orders += self._orders(channel, write, one.spm_addr - self.base, rows, line)
        return orders

    def _orders(self, channel: int, write: int, place: int, rows: Rows, line: str) -> list[Order]:
        """Rows at their addresses, to or from a flat scratchpad address."""
        orders: list[Order] = []
        try:
            pieces = cut(rows, self.memory_routes, bool(write))
        except ValueError as error:
            raise TransferError(f"{line}: bytes [{rows.offset:#x}, {rows.end:#x}) are in no memory: {error}") from None
        for (first, row_bytes, stride, count), reach in pieces:
            travel = footprint(first, row_bytes, stride, count, self._align)
            # Alignment may carry the traffic past the scratchpad's end: it then touches the last lines instead.
            start = min(place, self._room - travel)
            if start < 0:
                raise TransferError(
                    f"{line}: {count} rows of {row_bytes} bytes travel as {travel} bytes with their alignment to "
                    f"{self._align}, and the scratchpad has {self._room}; "
                    "move fewer rows at a time, or rows that are contiguous in memory"
                )
            orders.append(((channel, write, first, row_bytes, stride, count, *reach), ((start, travel, 1 - write),)))
            place += row_bytes * count
        return orders


class PeDma(Transfers, PePart, kind=PE_DMA):
    """Serves loads and stores."""

    __slots__ = ()

    serves = (DmaReadCmd, DmaWriteCmd)
    engine_type = DMA
