"""The DMA engines of a PE: loads, stores and tiles as transfers of rows (MODEL section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.common.errors import KernbenchError
from kernbench.common.naming import PE_DMA
from kernbench.common.pe_commands import DmaReadCmd, DmaWriteCmd, Stage, StageType, TileToken
from kernbench.components.base import DMA, Clock
from kernbench.components.builtin.flight import Order
from kernbench.components.builtin.part import PePart
from kernbench.components.builtin.transfers import Rows, Ways, cut, footprint, rows_of

CHANNELS = ("act_weight", "kv_load", "kv_store")


_NUMBER = {name: number for number, name in enumerate(CHANNELS)}


class TransferError(KernbenchError):
    """A kernel moves what the machine does not have."""

    exit_code = 5


class PeDma(PePart, kind=PE_DMA):
    """Serves loads and stores."""

    __slots__ = ("_align", "_room", "ways")

    serves = (DmaReadCmd, DmaWriteCmd)
    engine_type = DMA

    def __init__(
        self,
        node_id: str,
        engines: Sequence[int],
        clock: Clock,
        base: int,
        *,
        align: int,
        scratchpad_bytes: int,
        ways: Ways,
    ) -> None:
        super().__init__(node_id, engines, clock, base)
        self._align = align
        self._room = scratchpad_bytes
        self.ways = ways

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
            return [order for way in writes for order in self._lane_orders(channel, way, place, addr, msg)]
        if strides is None:
            return self.piece(channel, write, place, addr, msg.nbytes, msg.line)
        orders: list[Order] = []
        for offset, row_bytes, stride, count in rows_of(tile.shape, strides, tile.dtype):
            orders += self._orders(channel, write, place, Rows(addr + offset, row_bytes, stride, count), msg.line)
            place += row_bytes * count
        return orders

    def _lane_orders(self, channel: int, write: int, place: int, addr: int, msg: Any) -> list[Order]:
        """A gather or scatter, in order of address; so its elements lie in the scratchpad."""
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
        """Bytes in one piece, as most transfers are; None where they are not in one memory, or not in the scratchpad."""
        start, end, way = self.ways.last[write]
        align = self._align
        travel = nbytes
        if first % align or nbytes % align:
            travel = -(-(first + nbytes) // align) * align - first // align * align
        if not start <= first <= end - nbytes or place + travel > self._room:
            return None
        return (((channel, write, first, nbytes, 0, 1, *way), ((place, travel, 1 - write),)),)

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
            pieces = cut(rows, self.ways, bool(write))
        except ValueError as error:
            raise TransferError(f"{line}: bytes [{rows.offset:#x}, {rows.end:#x}) are in no memory: {error}") from None
        for (first, row_bytes, stride, count), way in pieces:
            travel = footprint(first, row_bytes, stride, count, self._align)
            # Alignment may carry the traffic past the scratchpad's end: it then touches the last lines instead.
            start = min(place, self._room - travel)
            if start < 0:
                raise TransferError(
                    f"{line}: {count} rows of {row_bytes} bytes travel as {travel} bytes with their alignment to "
                    f"{self._align}, and the scratchpad has {self._room}; "
                    "move fewer rows at a time, or rows that lie side by side"
                )
            orders.append(((channel, write, first, row_bytes, stride, count, *way), ((start, travel, 1 - write),)))
            place += row_bytes * count
        return orders
