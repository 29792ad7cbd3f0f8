"""The memories of the machine in Phase 1 (seed ADR-0020 D3), which loads read and stores write. The kernels of all PEs share
them.

Scratchpads are not included, because the handle of a tile holds the data of the tile that Phase 1 knows.
"""

from __future__ import annotations

from typing import Any, Protocol

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.handles import TensorHandle
from kernbench.common.lanes import Lanes
from kernbench.common.pe_commands import CompositeCmd
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd, MathCmd, OpIds
from kernbench.sim_engine.memory.strides import (
    mark_lanes,
    mark_strided,
    read_lanes,
    read_strided,
    span_of,
    write_lanes,
    write_strided,
)
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.memory.order import MemoryOrder


class Translation(Protocol):
    """The translation of addresses of kernels."""

    def physical(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        """The physical runs (address, bytes) of these bytes, in order. InputError if they are in no memory."""

    def window(self, address: int) -> tuple[int, int, int] | None:
        """The bytes `[from, to)` round an address, and the physical address of the first: they are contiguous until the end of
        the run. None: not known."""


class MemorySide:
    """Reads and writes memories for kernels, and names dependencies. It logs nothing."""

    def __init__(
        self,
        store: MemoryStore,
        log: OpLogger | None,
        translation: Translation | None = None,
        sram: tuple[int, int] = (0, 0),
        contents: bool = True,
    ) -> None:
        """`sram`: addresses `[from, to)` of the SRAMs; all others are of HBM. `contents`: whether a run without a log keeps the
        contents of memories; if not, all elements that loads bring are pending."""
        self._sram, self._sram_end = sram
        self.store = store
        self.log = log
        self.translation = translation
        self._order = None if log is None else MemoryOrder()  # only the op log has dependencies of commands
        self._ids = OpIds() if log is None else log.ids
        self._started = False
        self._contents = contents or log is not None

    def new_id(self) -> int:
        """An op id for a command."""
        return self._ids.new()

    def begin(self) -> None:
        """Before the first command: the log keeps the memories as they are now."""
        if not self._started and self.log is not None:
            _ = self.log.initial_store
        self._started = True

    def space_of(self, addr: int) -> str:
        """The memory that holds the byte at a physical address."""
        return "sram" if self._sram <= addr < self._sram_end else "hbm"

    def _check_one(self, low: int, high: int, line: Any) -> None:
        """KernelError if bytes `[low, high)` are of HBM and of SRAM."""
        if self._sram_end and low < self._sram < high:
            raise KernelError(
                f"{line}: of the {high - low} bytes at {low:#x} {self._sram - low} are in HBM and {high - self._sram} in SRAM; "
                "move what lies in one memory at a time"
            )

    def load_issued(self, msg: DmaReadCmd) -> None:
        start = msg.src_addr
        if msg.lanes is not None:
            low, high = msg.lanes.span
            msg.low, msg.high = start + low, start + high
        elif msg.src_strides is None:
            msg.low, msg.high = start, start + msg.nbytes
        else:
            msg.low, msg.high = _span(start, msg.handle, msg.src_strides)
        self._check_one(msg.low, msg.high, msg.line)
        if self._order is not None:
            self._order.load_issued(msg)

    def load_ended(self, msg: DmaReadCmd) -> Array | None:
        """The elements that a load brings, as they are in memory now; None: they are pending."""
        tile = msg.handle
        if self._order is not None:
            self._order.load_ended(msg)
        if not self._contents:
            return None
        value: Array | None
        try:
            if msg.lanes is not None:
                value = read_lanes(self.store, msg.src_space, msg.src_addr, msg.lanes, tile.dtype)
            elif msg.src_strides is None:
                kind = dtype_of(tile.dtype).numpy if msg.repeated is None else msg.repeated.numpy
                value = self.store.tensor(msg.src_space, msg.src_addr, tile.shape, kind)
            else:
                value = read_strided(self.store, msg.src_space, msg.src_addr, tile.shape, msg.src_strides, tile.dtype)
        except ValueError as error:
            if not self.store.pending(msg.src_space, msg.low, msg.high - msg.low):
                what = f"the load of {tile.handle_id} reads bytes that were never written"
                raise KernelError(f"{msg.line}: {what}: {error}") from None
            value = None
        return value

    def store_issued(self, msg: DmaWriteCmd) -> None:
        """A store is visible from now on."""
        tile, strides = msg.handle, msg.dst_strides
        if msg.lanes is not None:
            self._lanes_issued(msg, msg.lanes)
            return
        start, end = msg.dst_addr, msg.dst_addr + msg.nbytes
        if strides is not None:
            start, end = _span(msg.dst_addr, tile, strides)
        self._check_one(start, end, msg.line)
        if self._order is not None:
            self._order.store_issued(msg, start, end)
        if not self._contents:
            return
        value = tile.value
        if value is None:
            assert msg.op_id is not None
            if strides is None:
                self.store.mark_pending(msg.dst_space, start, end - start, msg.op_id)
            else:
                mark_strided(self.store, msg.dst_space, msg.dst_addr, tile.shape, strides, tile.dtype, msg.op_id)
        elif strides is None:
            self.store.write(msg.dst_space, msg.dst_addr, value)
        else:
            write_strided(self.store, msg.dst_space, msg.dst_addr, value, strides, tile.dtype)

    def exchange_issued(self, msg: DmaWriteCmd) -> None:
        """The store of an atomic op whose new elements are known: it acts at its issue in perturbed runs too."""
        self.store_issued(msg)

    def _lanes_issued(self, msg: DmaWriteCmd, lanes: Lanes) -> None:
        """A scatter. The result of an atomic read-modify-write is pending."""
        addr, value = msg.dst_addr, msg.handle.value
        self._check_one(addr + lanes.span[0], addr + lanes.span[1], msg.line)
        if self._order is not None:
            self._order.store_issued(msg, addr + lanes.span[0], addr + lanes.span[1])
        if not self._contents:
            return
        if value is None or msg.rmw:
            assert msg.op_id is not None
            mark_lanes(self.store, msg.dst_space, addr, lanes, msg.op_id)
        else:
            write_lanes(self.store, msg.dst_space, addr, value, lanes)

    def store_ended(self, msg: DmaWriteCmd) -> None:
        if self._order is None:
            return
        if msg.lanes is not None:
            low, high = msg.lanes.span
            self._order.store_ended(msg, msg.dst_addr + low, msg.dst_addr + high)
            return
        start, end = msg.dst_addr, msg.dst_addr + msg.nbytes
        if msg.dst_strides is not None:
            start, end = _span(msg.dst_addr, msg.handle, msg.dst_strides)
        self._order.store_ended(msg, start, end)

    def composite_issued(self, msg: CompositeCmd) -> None:
        """It reads the present contents, and its result is pending from now on."""
        self._check_one(msg.out_addr, msg.out_addr + msg.out_nbytes, msg.line)
        for one in _streamed(msg):
            self._check_one(one.addr, one.addr + one.nbytes, msg.line)
            if self._order is not None:
                self._order.read_issued(msg, one.addr, one.addr + one.nbytes)
        if self._order is not None:
            self._order.store_issued(msg, msg.out_addr, msg.out_addr + msg.out_nbytes)
        if not self._contents:
            return
        assert msg.op_id is not None
        self.store.mark_pending(self.space_of(msg.out_addr), msg.out_addr, msg.out_nbytes, msg.op_id)

    def composite_ended(self, msg: CompositeCmd) -> None:
        if self._order is None:
            return
        for one in _streamed(msg):
            self._order.read_ended(msg, one.addr, one.addr + one.nbytes)
        self._order.store_ended(msg, msg.out_addr, msg.out_addr + msg.out_nbytes)


def _streamed(msg: CompositeCmd) -> list[TensorHandle]:
    """The operands that a composite op reads from memory."""
    work = msg.work
    operands = work.handles if isinstance(work, MathCmd) else [work.a, work.b]
    return list({(one.addr, one.nbytes): one for one in operands if one.space != "tcm"}.values())


def _span(addr: int, tile: Any, strides: tuple[int, ...]) -> tuple[int, int]:
    """The range of a strided tensor in memory: its first byte, and the byte after its last."""
    low, high = span_of(tile.shape, strides, tile.dtype)
    return addr + low, addr + high
