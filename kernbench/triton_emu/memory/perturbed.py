"""The memories of a perturbed run (docs/model/perturbed_runs.md): when the data of stores become visible is drawn, and every
access is noted in the order in which it acts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kernbench.common.dtypes import Array
from kernbench.common.pe_commands import CompositeCmd
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd
from kernbench.sim_engine.memory.strides import span_of
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.perturbation import STORES, Perturbed
from kernbench.triton_emu.memory.order import depend
from kernbench.triton_emu.memory.side import MemorySide, Translation, _streamed


class Access(msgspec.Struct, frozen=True):
    """Bytes `[low, high)` that a command of a kernel read or wrote."""

    pe: str
    number: int  #: of the command among those of its PE that access memories
    low: int
    high: int
    write: bool
    atomic: bool
    what: str  #: load, store, atomic, composite
    line: str


class _Open(msgspec.Struct, eq=False):
    """A store or composite op in flight."""

    side: PerturbedMemory
    msg: Any
    number: int
    low: int
    high: int
    hidden: bool  #: its data are not visible yet
    reads: tuple[tuple[int, int], ...] = ()


class PerturbedMemory(MemorySide):
    """The memories as one PE sees them. All PEs share the contents and `opened`."""

    def __init__(
        self,
        pe: str,
        run: Perturbed,
        opened: list[_Open],
        store: MemoryStore,
        log: OpLogger | None,
        translation: Translation | None,
        sram: tuple[int, int],
    ) -> None:
        super().__init__(store, log, translation, sram)
        self.pe, self.run, self.opened = pe, run, opened
        self._numbers: dict[int, int] = {}  # of loads in flight, by op id
        self._count = 0

    def load_issued(self, msg: DmaReadCmd) -> None:
        super().load_issued(msg)
        assert msg.op_id is not None
        self._numbers[msg.op_id] = self._number()
        self._show_own(msg.low, msg.high)

    def load_ended(self, msg: DmaReadCmd) -> Array | None:
        value = super().load_ended(msg)
        assert msg.op_id is not None
        for one in self.opened:
            if one.hidden and _touch(one.low, one.high, msg.low, msg.high):
                depend(one.msg, msg.op_id)
        self._note(self._numbers.pop(msg.op_id), msg.low, msg.high, False, "load", msg.line)
        return value

    def store_issued(self, msg: DmaWriteCmd) -> None:
        self._issued(msg, bool(msg.rmw))

    def exchange_issued(self, msg: DmaWriteCmd) -> None:
        self._issued(msg, True)

    def _issued(self, msg: DmaWriteCmd, atomic: bool) -> None:
        low, high = _bytes_of(msg)
        self._show_own(low, high)
        number = self._number()
        hidden = not atomic and self.run.draws.value(STORES, self.pe, number, 1) > 0
        one = _Open(self, msg, number, low, high, hidden)
        self._before(one)
        self.opened.append(one)
        if not hidden:
            super().store_issued(msg)
            self._note(number, low, high, True, "atomic" if atomic else "store", msg.line, atomic)

    def store_ended(self, msg: DmaWriteCmd) -> None:
        one = next(one for one in self.opened if one.msg is msg)
        if one.hidden:
            self._show(one)
        self.opened.remove(one)
        super().store_ended(msg)

    def composite_issued(self, msg: CompositeCmd) -> None:
        reads = tuple((one.addr, one.addr + one.nbytes) for one in _streamed(msg))
        low, high = msg.out_addr, msg.out_addr + msg.out_nbytes
        for start, end in (*reads, (low, high)):
            self._show_own(start, end)
        one = _Open(self, msg, self._number(), low, high, False, reads)
        self._before(one)
        self.opened.append(one)
        super().composite_issued(msg)
        for start, end in reads:
            self._note(one.number, start, end, False, "composite", msg.line)
        self._note(one.number, low, high, True, "composite", msg.line)

    def composite_ended(self, msg: CompositeCmd) -> None:
        self.opened.remove(next(one for one in self.opened if one.msg is msg))
        super().composite_ended(msg)

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _before(self, new: _Open) -> None:
        """A new store or composite op: what is visible acts before a hidden store, which acts after it."""
        for one in self.opened:
            if one.hidden == new.hidden:
                continue
            late, early = (one, new) if one.hidden else (new, one)
            if any(_touch(late.low, late.high, *bytes_) for bytes_ in ((early.low, early.high), *early.reads)):
                depend(late.msg, early.msg.op_id)

    def _show_own(self, low: int, high: int) -> None:
        """A PE sees its own stores."""
        for one in list(self.opened):
            if one.hidden and one.side is self and _touch(one.low, one.high, low, high):
                self._show(one)

    def _show(self, one: _Open) -> None:
        """The data of a store become visible."""
        one.hidden = False
        for other in self.opened:
            if other.hidden and _touch(one.low, one.high, other.low, other.high):
                depend(other.msg, one.msg.op_id)
        super().store_issued(one.msg)
        self._note(one.number, one.low, one.high, True, "store", one.msg.line)

    def _note(self, number: int, low: int, high: int, write: bool, what: str, line: Any, atomic: bool = False) -> None:
        self.run.accesses.append(Access(self.pe, number, low, high, write, atomic, what, str(line)))


def _bytes_of(msg: DmaWriteCmd) -> tuple[int, int]:
    """The range of bytes that a store writes: the first byte, and the byte after the last."""
    if msg.lanes is not None:
        low, high = msg.lanes.span
        return msg.dst_addr + low, msg.dst_addr + high
    if msg.dst_strides is not None:
        low, high = span_of(msg.handle.shape, msg.dst_strides, msg.handle.dtype)
        return msg.dst_addr + low, msg.dst_addr + high
    return msg.dst_addr, msg.dst_addr + msg.nbytes


def _touch(low: int, high: int, start: int, end: int) -> bool:
    return low < end and start < high
