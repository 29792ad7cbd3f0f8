"""What a kernel sees as `tl` (ADR-0020 D3): it issues commands, and switches to the core where it waits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from kernbench.common.dtypes import DTYPES, Array, dtype_of, nbytes_of
from kernbench.common.errors import InputError
from kernbench.common.pe_commands import CompositeCmd, DmaReadCmd, DmaWriteCmd, GemmCmd, MemoryWriteMsg
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.pe_dma import CHANNELS
from kernbench.components.builtin.transfers import footprint, rows_of
from kernbench.sim_engine.memory_strides import span_of
from kernbench.triton_emu.errors import KernelError, PoisonError
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.memory_tensor import MemoryTensor
from kernbench.triton_emu.op_types import product_shape
from kernbench.triton_emu.scratchpad import Block
from kernbench.triton_emu.source_lines import line_of
from kernbench.triton_emu.tl_composite import TlComposite
from kernbench.triton_emu.tl_math import TlMath

_nbytes = cache(nbytes_of)


@dataclass(frozen=True)
class Limits:
    """What a PE has for a kernel."""

    scratchpad_bytes: int
    free_bytes: int
    line_bytes: int  #: tiles begin at a multiple of this
    align_bytes: int  #: transfers are widened to multiples of this
    dma_engines: int
    tensor_engines: int
    vector_engines: int
    dtypes: tuple[str, ...]


class Completion:
    """Of a store: something to wait for."""

    __slots__ = ("flight", "handle_id", "op_id")

    def __init__(self, flight: Flight, handle_id: str, op_id: int | None) -> None:
        self.flight: Flight | None = flight
        self.handle_id = handle_id
        self.op_id = op_id


class TLContext(TlMath, TlComposite):
    """`tl` of one program."""

    def __init__(self, runner: KernelRunner, program: int, grid: tuple[int, ...]) -> None:
        self._runner = runner
        self._program = program
        self._grid = grid
        self._count = 0
        self._after: tuple[int, ...] = ()  # ops that were waited for by name: the next command comes after them

    # Where the program is.

    def program_id(self, axis: int = 0) -> int:
        """The program's place in the grid along an axis; the last axis runs fastest."""
        left = self._program
        for size in reversed(self._grid[axis + 1 :]):
            left //= size
        return left % self._grid[axis]

    def num_programs(self, axis: int = 0) -> int:
        """The grid's size along an axis."""
        return self._grid[axis]

    def limits(self) -> Limits:
        """What the PE has."""
        pe, pad = self._runner.pe, self._runner.pad
        return Limits(pe.tcm_bytes, pad.free, pe.tcm_line, pe.align, pe.dma, pe.te, pe.ve, tuple(DTYPES))

    # Memory.

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
        frame = sys._getframe(1)
        line = line_of(frame)
        shape = shape if type(shape) is tuple else (shape,) if isinstance(shape, int) else tuple(shape)
        runner = self._runner
        travel = nbytes = self._size(shape, dtype, line)
        steps = None
        if strides is not None:
            steps = self._strides(strides, shape, line)
        addr = self._physical(addr, shape, steps, dtype, nbytes, line)
        if steps is not None:
            align = runner.pe.align
            travel = sum(footprint(addr + at, size, step, rows, align) for at, size, step, rows in rows_of(shape, steps, dtype))
        tile = self._new(shape, dtype, nbytes, line, travel) if out is None else self._into(out, shape, dtype, line)
        if channel not in CHANNELS:
            raise KernelError(f"{line}: a DMA engine has the channels {', '.join(CHANNELS)}, and not {channel}")
        tile.op = "dma_read"
        msg = DmaReadCmd(tile, addr, nbytes, "hbm", steps, channel, op_id=runner.memory.new_id(), line=line)
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        tile.op_id = msg.op_id
        tile.flight = flight = runner.issue(msg, line)
        runner.memory.load_issued(msg)
        if wait:
            while flight.end < 0:
                runner.pause(f"the load of {tile.handle_id}", flight)
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
        line = line_of(sys._getframe(1))
        tile = self.operand(value, line)
        runner = self._runner
        steps = None if strides is None else self._strides(strides, tile.shape, line)
        if channel not in CHANNELS:
            raise KernelError(f"{line}: a DMA engine has the channels {', '.join(CHANNELS)}, and not {channel}")
        addr = self._physical(addr, tile.shape, steps, tile.dtype, tile.nbytes, line)
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

    # Products.

    def dot(
        self,
        a: Any,
        b: Any,
        acc: Any = None,
        *,
        out_dtype: str | None = None,
        dtype_acc: str = "",
        transpose_a: bool = False,
        transpose_b: bool = False,
        out: KernelTensor | None = None,
    ) -> KernelTensor:
        """`[acc +] a @ b`, of matrices or stacks of them.

        The result is of `out_dtype`, else of acc's type, else of a's (of integers: i32).
        """
        return self.product(a, b, sys._getframe(1), acc, out_dtype, dtype_acc, transpose_a, transpose_b, out)

    def product(
        self,
        a: Any,
        b: Any,
        frame: FrameType,
        acc: Any = None,
        out_dtype: str | None = None,
        dtype_acc: str = "",
        transpose_a: bool = False,
        transpose_b: bool = False,
        out: KernelTensor | None = None,
    ) -> KernelTensor:
        """The product asked for at a frame."""
        line = line_of(frame)
        a, b = self.operand(a, line), self.operand(b, line)
        if acc is not None:
            acc = self.operand(acc, line)
        try:
            m, k, n, shape = product_shape(a.shape, b.shape, transpose_a, transpose_b)
        except ValueError as error:
            raise KernelError(f"{line}: dot of shapes {a.shape} and {b.shape}: {error}") from None
        if out_dtype is None:
            out_dtype = acc.dtype if acc is not None else "i32" if dtype_of(a.dtype).kind != "float" else a.dtype
        if acc is not None and acc.shape != shape:
            raise KernelError(f"{line}: dot adds to a tensor of shape {acc.shape}, but the product has the shape {shape}")
        tile = self._result(out, shape, out_dtype, line, "gemm_" + a.dtype)
        runner = self._runner
        msg = GemmCmd(a, b, tile, m, k, n, acc, dtype_acc, transpose_a, transpose_b, op_id=runner.memory.new_id(), line=line)
        self.issue_compute(msg, tile, line)
        return tile

    # Waits.

    def wait(self, *handles: Any) -> None:
        """Until these have come, or, without any, all commands so far have ended. What is pending stays pending."""
        runner = self._runner
        if not handles:
            for flight in list(runner.scheduler.open):
                runner.wait_for(flight, "all commands")
            return
        for one in handles:
            if not isinstance(one, KernelTensor | Completion | MemoryTensor):
                line = line_of(sys._getframe(1))
                raise KernelError(f"{line}: tl.wait takes tensors and what tl.store returns, and not a {type(one).__name__}")
            if one.flight is not None and one.flight.end < 0:
                runner.wait_for(one.flight, f"tl.wait({one.handle_id})")
            if one.op_id is not None and isinstance(one, Completion | MemoryTensor) and one.op_id not in self._after:
                self._after = (*self._after, one.op_id)

    def wait_for_data(self, tile: KernelTensor, frame: FrameType) -> None:
        """The kernel looks at the elements of a tensor in flight: it waits, if waiting can bring them."""
        if tile.poison:
            self._refuse_poison(tile, line_of(frame))
        flight = tile.flight
        if flight is not None and (tile.op == "dma_read" or getattr(flight.msg, "value", None) is not None):
            self._runner.wait_implicitly(flight, tile.handle_id, line_of(frame))

    # Operands and results.

    def operand(self, value: Any, line: str) -> KernelTensor:
        """A tensor as a command needs it: complete, and in the scratchpad."""
        if not isinstance(value, KernelTensor):
            raise KernelError(f"{line}: an operand must be a tensor of tl, and this is a {type(value).__name__}")
        if value.poison:
            self._refuse_poison(value, line)
        if value.flight is not None:
            self._runner.wait_implicitly(value.flight, value.handle_id, line)
        if value.addr < 0:
            self._place(value, line)
        return value

    def issue_compute(self, msg: Any, tile: KernelTensor, line: str) -> None:
        """A command whose result is pending."""
        runner = self._runner
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        tile.op_id = msg.op_id
        tile.flight = runner.issue(msg, line)
        if runner.memory.log is not None:
            runner.memory.written(tile, None, msg.op_id)

    def _result(self, out: KernelTensor | None, shape: tuple[int, ...], dtype: str, line: str, op: str) -> KernelTensor:
        if out is None:
            tile = self._new(shape, dtype, self._size(shape, dtype, line), line)
        else:
            tile = self._into(out, shape, dtype, line)
        tile.op = op
        return tile

    def _into(self, out: KernelTensor, shape: tuple[int, ...], dtype: str, line: str) -> KernelTensor:
        """A tile that is written again: after everything that still uses it."""
        if out.shape != shape or out.dtype != dtype:
            raise KernelError(
                f"{line}: the result is {dtype}{list(shape)}, and out is {out.dtype}{list(out.shape)} "
                f"({out.handle_id}, {out.line})"
            )
        if out.addr < 0:
            self._place(out, line)
        for flight in list(self._runner.scheduler.open):
            if flight.end < 0 and _uses(flight.msg, out):
                self._runner.wait_implicitly(flight, out.handle_id, line)
        out.value, out.poison, out.line = None, "", line
        return out

    def _new(
        self, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, travel: int = 0, name: str = ""
    ) -> KernelTensor:
        """A tile of the scratchpad."""
        self._count += 1
        tile = KernelTensor(self, name or f"t{self._count}", shape, dtype, nbytes, line)
        size = nbytes if nbytes > travel else travel
        block = self._runner.pad.take(size, line)
        if block is None:
            block = self._take(size, f"{tile.handle_id} {dtype}{list(shape)}", line)
        tile.block = block
        tile.addr = block.addr
        return tile

    def _take(self, nbytes: int, who: str, line: str) -> Block:
        """Scratchpad; the kernel waits where commands on their way may make room."""
        runner = self._runner
        while True:
            block = runner.pad.take(nbytes, line)
            if block is not None:
                return block
            if not runner.scheduler.open:
                raise runner.pad.refusal(nbytes, who, line)
            runner.pause(f"{nbytes} bytes of scratchpad for {who}", any_end=True)

    def _physical(self, addr: int, nbytes: int, line: str) -> int:
        """Where a tensor that lies in one piece is in memory."""
        return addr

    def _known(self, value: Array, dtype: str, line: str) -> KernelTensor:
        """Known elements that are nowhere yet."""
        self._count += 1
        tile = KernelTensor(self, f"t{self._count}", value.shape, dtype, self._size(value.shape, dtype, line), line)
        tile.value = value
        return tile

    def _place(self, tile: KernelTensor, line: str) -> None:
        """Known elements that an engine needs go into the scratchpad, in no time."""
        room = self._new(tile.shape, tile.dtype, tile.nbytes, line)
        tile.block, tile.addr = room.block, room.addr
        assert tile.value is not None
        runner = self._runner
        msg = MemoryWriteMsg(tile.space, tile.addr, tile.value, op_id=runner.memory.new_id(), line=line)
        runner.on_placed(msg, runner.now)
        if runner.memory.log is not None:
            runner.memory.written(tile, tile.value, None)

    def _size(self, shape: tuple[int, ...], dtype: str, line: str) -> int:
        try:
            return _nbytes(shape, dtype)
        except (ValueError, TypeError, InputError) as error:
            raise KernelError(f"{line}: a tensor of {dtype}{list(shape)}: {error}") from None

    def _physical(
        self, addr: Any, shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: str, nbytes: int, line: str
    ) -> int:
        """Where a tensor's first element is in memory."""
        try:
            at = addr.__index__()
        except AttributeError:
            raise KernelError(f"{line}: an address must be an integer, and this is a {type(addr).__name__}") from None
        translation = self._runner.memory.translation
        if translation is None:
            return int(at)
        low, high = (0, nbytes) if steps is None else span_of(shape, steps, dtype)
        try:
            runs = translation.physical(at + low, high - low)
        except InputError as error:
            raise KernelError(f"{line}: {error}") from None
        for (first, size), (second, _) in zip(runs, runs[1:], strict=False):
            if first + size != second:
                raise KernelError(
                    f"{line}: the {high - low} bytes at {at + low:#x} lie apart in memory ({first:#x} is followed by {second:#x}); "
                    "move what lies in one piece at a time"
                )
        return int(runs[0][0]) - low

    def _strides(self, strides: Sequence[int], shape: tuple[int, ...], line: str) -> tuple[int, ...]:
        steps = tuple(int(one) for one in strides)
        if len(steps) != len(shape):
            raise KernelError(f"{line}: {len(steps)} strides are given for the {len(shape)} axes of {list(shape)}")
        return steps

    def _refuse_poison(self, tile: KernelTensor, line: str) -> None:
        raise PoisonError(
            f"{line}: {tile.handle_id} {tile.dtype}{list(tile.shape)} is read, but nothing has written it since it was taken "
            f"in {tile.poison}; give it as out= to a load or an op first"
        )


def _uses(msg: Any, tile: KernelTensor) -> bool:
    """Whether a command reads or writes a tile."""
    if isinstance(msg, DmaReadCmd | DmaWriteCmd):
        return msg.handle is tile
    if isinstance(msg, CompositeCmd):
        extra = any(one.operand is tile for one in msg.epilogue)
        return extra or _uses(msg.work, tile)
    if isinstance(msg, GemmCmd):
        return tile is msg.a or tile is msg.b or tile is msg.out or tile is msg.acc
    return tile is msg.out or any(one is tile for one in msg.inputs)
