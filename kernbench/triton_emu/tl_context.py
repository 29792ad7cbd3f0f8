"""What a kernel sees as `tl` (ADR-0020 D3): it issues commands, and switches to the core where it waits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from kernbench.common.dtypes import DTYPES, Array, dtype_of, nbytes_of
from kernbench.common.errors import InputError
from kernbench.common.pe_commands import (
    CompositeCmd,
    DmaReadCmd,
    DmaWriteCmd,
    GemmCmd,
    IpcqRecvCmd,
    IpcqSendCmd,
    MemoryWriteMsg,
)
from kernbench.triton_emu.errors import KernelError, PoisonError
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.memory_tensor import MemoryTensor
from kernbench.triton_emu.op_types import product_shape
from kernbench.triton_emu.source_lines import line_of
from kernbench.triton_emu.tl_composite import TlComposite
from kernbench.triton_emu.tl_math import TlMath
from kernbench.triton_emu.tl_memory import Completion, TlMemory
from kernbench.triton_emu.tl_parts import TlParts
from kernbench.triton_emu.tl_queues import TlQueues

_nbytes = cache(nbytes_of)


@cache
def _product_of(dtype: str) -> tuple[str, str]:
    """What a product of such elements is called, and what its elements are where nobody says."""
    return f"gemm_{dtype}", dtype if dtype_of(dtype).kind == "float" else "i32"


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


class TLContext(TlMemory, TlMath, TlComposite, TlQueues, TlParts):
    """`tl` of one program."""

    def __init__(self, runner: KernelRunner, program: int, grid: tuple[int, ...]) -> None:
        self._runner = runner
        self._translation = runner.memory.translation
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
        op, out_type = _product_of(a.dtype)
        if out_dtype is None:
            out_dtype = acc.dtype if acc is not None else out_type
        if acc is not None and acc.shape != shape:
            raise KernelError(f"{line}: dot adds to a tensor of shape {acc.shape}, but the product has the shape {shape}")
        tile = self._result(out, shape, out_dtype, line, op)
        msg: Any = object.__new__(GemmCmd)  # what is not set here is as its class says
        msg.a, msg.b, msg.out, msg.acc, msg.m, msg.k, msg.n = a, b, tile, acc, m, k, n
        msg.dtype_acc, msg.transpose_a, msg.transpose_b, msg.line = dtype_acc, transpose_a, transpose_b, line
        msg.layout_a = msg.layout_b = msg.layout_out = "row_major"
        msg.op_id, msg.tile_k = self._runner.memory.new_id(), None
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

    def wait_any(self, *handles: Any) -> int:
        """Until one of these has come: its number among them, the first of several."""
        while True:
            for number, one in enumerate(handles):
                if one.flight is None or one.flight.end >= 0:
                    return number
            self._runner.pause(f"tl.wait_any of {len(handles)}", any_end=True)

    def wait_for_data(self, tile: KernelTensor, frame: FrameType) -> None:
        """The kernel looks at the elements of a tensor in flight: it waits, if waiting can bring them."""
        if tile.poison:
            self._refuse_poison(tile, line_of(frame))
        flight = tile.flight
        if flight is not None and (tile.op in ("dma_read", "recv") or getattr(flight.msg, "value", None) is not None):
            self._runner.wait_implicitly(flight, tile.handle_id, line_of(frame))

    # Operands and results.

    def operand(self, value: Any, line: str) -> KernelTensor:
        """A tensor as a command needs it: complete, and in the scratchpad."""
        if not isinstance(value, KernelTensor):
            raise KernelError(f"{line}: an operand must be a tensor of tl, and this is a {type(value).__name__}")
        if value._tl is not self:
            raise KernelError(f"{line}: {value.handle_id} ({value.line}) is of another program; its tile went with that")
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

    def _size(self, shape: tuple[int, ...], dtype: str, line: str) -> int:
        if shape and min(shape) < 0:
            raise KernelError(f"{line}: a tensor of {dtype}{list(shape)}: a size is negative")
        try:
            return _nbytes(shape, dtype)
        except (ValueError, TypeError, InputError) as error:
            raise KernelError(f"{line}: a tensor of {dtype}{list(shape)}: {error}") from None

    def _refuse_poison(self, tile: KernelTensor, line: str) -> None:
        raise PoisonError(
            f"{line}: {tile.handle_id} {tile.dtype}{list(tile.shape)} is read, but nothing has written it since it was taken "
            f"in {tile.poison}; give it as out= to a load or an op first"
        )


def _uses(msg: Any, tile: KernelTensor) -> bool:
    """Whether a command reads or writes a tile."""
    if isinstance(msg, DmaReadCmd | DmaWriteCmd | IpcqSendCmd | IpcqRecvCmd):
        return _touch(msg.handle, tile)
    if isinstance(msg, CompositeCmd):
        extra = any(_touch(one.operand, tile) for one in msg.epilogue)
        return extra or _uses(msg.work, tile)
    if isinstance(msg, GemmCmd):
        return any(_touch(one, tile) for one in (msg.a, msg.b, msg.out, msg.acc))
    return _touch(msg.out, tile) or any(_touch(one, tile) for one in msg.handles)


def _touch(one: Any, tile: KernelTensor) -> bool:
    """Whether they have bytes in common: parts of a tile lie in its block."""
    if one is tile:
        return True
    if getattr(one, "block", None) is None or one.block is not tile.block:
        return False
    return bool(one.addr < tile.addr + tile.nbytes and tile.addr < one.addr + one.nbytes)
