"""Memory and scratchpad of `tl`: loads, stores, tiles."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError
from kernbench.common.pe_commands import DmaReadCmd, DmaWriteCmd
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.pe_dma import CHANNELS
from kernbench.components.builtin.transfers import footprint, rows_of
from kernbench.sim_engine.memory_strides import span_of
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.scratchpad import Block, Owner
from kernbench.triton_emu.source_lines import line_of

if TYPE_CHECKING:
    from kernbench.triton_emu.kernel_runner import KernelRunner
    from kernbench.triton_emu.memory_side import Translation

_new: Any = object.__new__  # of what is made for each command: its class's own way to set fields takes most of the time


class Completion:
    """Of a store: something to wait for."""

    __slots__ = ("flight", "handle_id", "op_id")

    def __init__(self, flight: Flight, handle_id: str, op_id: int | None) -> None:
        self.flight: Flight | None = flight
        self.handle_id = handle_id
        self.op_id = op_id


class TlMemory:
    """The part of `tl` that moves tensors."""

    _runner: KernelRunner
    _after: tuple[int, ...]
    _translation: Translation | None
    _count: int

    if TYPE_CHECKING:  # what TLContext gives

        def operand(self, value: Any, line: str) -> KernelTensor: ...
        def _into(self, out: KernelTensor, shape: tuple[int, ...], dtype: str, line: str) -> KernelTensor: ...
        def _size(self, shape: tuple[int, ...], dtype: str, line: str) -> int: ...

    def load(
        self,
        addr: int,
        shape: Sequence[int] | int,
        dtype: str,
        *,
        strides: Sequence[int] | None = None,
        wait: bool = True,
        channel: str = "act_weight",
        out: KernelTensor | None = None,
    ) -> KernelTensor:
        """A tensor from memory. Its elements are known when it has come, unless what is there is pending.

        `strides` [B] from one index to the next of each axis; without them it lies in one piece. Without `wait` the kernel goes
        on at once. `out`: a tile to load into.
        """
        line = line_of(sys._getframe(1))
        shape = shape if type(shape) is tuple else (shape,) if isinstance(shape, int) else tuple(shape)
        if channel not in CHANNELS:
            self._refuse_channel(channel, line)
        runner = self._runner
        travel = nbytes = self._size(shape, dtype, line)
        steps = None if strides is None else self._strides(strides, shape, line)
        addr = self._in_memory(addr, shape, steps, dtype, nbytes, line)
        if steps is not None:
            align = runner.pe.align
            travel = sum(footprint(addr + at, size, step, rows, align) for at, size, step, rows in rows_of(shape, steps, dtype))
        tile = self._new(shape, dtype, nbytes, line, travel) if out is None else self._into(out, shape, dtype, line)
        tile.op = "dma_read"
        msg = _new(DmaReadCmd)  # what is not set here is as its class says
        msg.handle, msg.src_addr, msg.nbytes, msg.line, msg.channel = tile, addr, nbytes, line, channel
        msg.src_space, msg.src_strides, msg.lanes = "hbm", steps, None
        msg.op_id = tile.op_id = runner.memory.new_id()
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        tile.flight = flight = runner.issue(msg, line)
        runner.memory.load_issued(msg)
        while wait and flight.end < 0:
            runner.pause("the load of " + tile.handle_id, flight)
        return tile

    def store(
        self,
        addr: int,
        value: Any,
        *,
        strides: Sequence[int] | None = None,
        wait: bool = False,
        channel: str = "act_weight",
    ) -> Completion:
        """A tensor into memory, visible to every load from now on; returns something to wait for."""
        return self._store(addr, value, line_of(sys._getframe(1)), strides=strides, wait=wait, channel=channel)

    def _store(
        self,
        addr: int,
        value: Any,
        line: str,
        *,
        strides: Sequence[int] | None = None,
        wait: bool = False,
        channel: str = "act_weight",
    ) -> Completion:
        """The store asked for at a line."""
        tile = self.operand(value, line)
        runner = self._runner
        steps = None if strides is None else self._strides(strides, tile.shape, line)
        if channel not in CHANNELS:
            self._refuse_channel(channel, line)
        addr = self._in_memory(addr, tile.shape, steps, tile.dtype, tile.nbytes, line)
        msg = DmaWriteCmd(tile, addr, tile.nbytes, steps, channel, op_id=runner.memory.new_id(), line=line)
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        flight = runner.issue(msg, line)
        runner.memory.store_issued(msg)
        if wait:
            runner.wait_for(flight, f"the store of {tile.handle_id}")
        return Completion(flight, f"the store of {tile.handle_id}", msg.op_id)

    def alloc(self, shape: Sequence[int] | int, dtype: str, name: str = "") -> KernelTensor:
        """Scratchpad for a tensor that a later command writes (`out=`). Reading it before that is an error."""
        line = line_of(sys._getframe(1))
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        tile = self._new(shape, dtype, self._size(shape, dtype, line), line, name=name)
        tile.poison = line
        return tile

    def _new(
        self, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, travel: int = 0, name: str = ""
    ) -> KernelTensor:
        """A tile of the scratchpad."""
        self._count = count = self._count + 1
        name = name or f"t{count}"
        tile: KernelTensor = _new(KernelTensor)
        tile.handle_id, tile.shape, tile.dtype, tile.line, tile.nbytes = name, shape, dtype, line, nbytes
        tile.value = tile.flight = None
        tile.space, tile.poison = "tcm", ""
        tile._tl = self  # type: ignore[assignment]  # it is part of a TLContext
        size = nbytes if nbytes > travel else travel
        who = (name, dtype, shape, line)
        tile.block = block = self._runner.pad.take(size, who) or self._take(size, who)
        tile.addr = block.addr
        return tile

    def _take(self, nbytes: int, who: Owner) -> Block:
        """Scratchpad; the kernel waits where commands on their way may make room."""
        runner = self._runner
        while True:
            block = runner.pad.take(nbytes, who)
            if block is not None:
                return block
            if not runner.scheduler.open:
                raise runner.pad.refusal(nbytes, who)
            runner.pause(f"{nbytes} bytes of scratchpad for {who[0]} {who[1]}{list(who[2])}", any_end=True)

    def _in_memory(
        self, addr: Any, shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: str, nbytes: int, line: str
    ) -> int:
        """Where a tensor's first element is in memory."""
        align = dtype_of(dtype).align
        if align > 1 and type(addr) is int and addr % align:
            raise KernelError(f"{line}: the address {addr:#x} is not a multiple of the {align} bytes of a {dtype}")
        if steps is None:
            return addr if type(addr) is int and self._translation is None else self._physical(addr, nbytes, line)
        low, high = span_of(shape, steps, dtype)
        return self._physical(addr + low, high - low, line) - low

    def _physical(self, addr: Any, nbytes: int, line: str) -> int:
        """Where bytes are in memory; they must lie in one piece."""
        try:
            at = int(addr.__index__())
        except AttributeError:
            raise KernelError(f"{line}: an address must be an integer, and this is a {type(addr).__name__}") from None
        translation = self._translation
        if translation is None:
            return at
        try:
            runs = translation.physical(at, nbytes)
        except InputError as error:
            raise KernelError(f"{line}: {error}") from None
        for (first, size), (second, _) in pairwise(runs):
            if first + size != second:
                raise KernelError(
                    f"{line}: the {nbytes} bytes at {at:#x} lie apart in memory ({first:#x} is followed by {second:#x}); "
                    "move what lies in one piece at a time"
                )
        return int(runs[0][0])

    def _refuse_channel(self, channel: str, line: str) -> NoReturn:
        raise KernelError(f"{line}: a DMA engine has the channels {', '.join(CHANNELS)}, and not {channel}")

    def _strides(self, strides: Sequence[int], shape: tuple[int, ...], line: str) -> tuple[int, ...]:
        steps = tuple(int(one) for one in strides)
        if len(steps) != len(shape):
            raise KernelError(f"{line}: {len(steps)} strides are given for the {len(shape)} axes of {list(shape)}")
        return steps
