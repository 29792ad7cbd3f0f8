"""Composite ops of `tl`: ops on whole tensors from memory to memory, which the PE executes tile by tile (seed ADR-0020)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from kernbench.common.dtypes import dtype_of
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import CompositeCmd, Epilogue, GemmCmd, MathCmd
from kernbench.common.pointers import DevicePointer
from kernbench.common.units import ceil_div
from kernbench.common.vector_ops import ARITY
from kernbench.components.builtin.pe_math import ROW_OPS
from kernbench.components.builtin.tile_plan import (
    BUFFERS,
    ELEMENTS,
    GemmTiles,
    MathTiles,
    Matrix,
    Whole,
    choose_tile,
    tile_bytes,
)
from kernbench.triton_emu.errors import KernelError, line_of
from kernbench.triton_emu.memory.tensor import MemoryTensor
from kernbench.triton_emu.op_types import elementwise_type, product_shape
from kernbench.triton_emu.tl.memory import check_type
from kernbench.triton_emu.tl.products import check_acc

if TYPE_CHECKING:
    from kernbench.triton_emu.handle import KernelTensor
    from kernbench.triton_emu.kernel_runner import KernelRunner
    from kernbench.triton_emu.scratchpad import Block, Owner
from kernbench_core.numbers import TRANSFER_CHANNELS as CHANNELS


class TlComposite:
    """The part of `tl` that works on whole tensors."""

    _runner: KernelRunner
    _count: int

    if TYPE_CHECKING:  # what TLContext gives

        def operand(self, value: Any, line: str) -> KernelTensor: ...
        def _take(self, nbytes: int, who: Owner) -> Block: ...
        def _physical(self, addr: int, nbytes: int, line: str) -> int: ...

    def ref(self, addr: int, shape: Sequence[int], dtype: str) -> MemoryTensor:
        """A contiguous tensor in memory that a composite op streams tile by tile. The call takes no time and no scratchpad.

        `addr`: [B] a pointer, plus an offset. `shape`: lengths of the axes. `dtype`: the element type. Raises KernelError for
        an address outside of the tensors, and for an empty tensor.

        >>> evaluate(lambda x, tl: tl.ref(x, x.shape, x.dtype).nbytes, [[1, 2], [3, 4]])
        32
        """
        return self._memory_tensor(addr, tuple(shape), dtype, line_of(sys._getframe(1)))

    def composite(
        self,
        op: str,
        a: Any,
        b: Any = None,
        out_ptr: int = 0,
        *,
        math_op: str = "",
        out_dtype: str | None = None,
        dtype_acc: str = "",
        transpose_a: bool = False,
        transpose_b: bool = False,
        epilogue: Sequence[Any] = (),
        tile: Sequence[int] | None = None,
        buffers: int = BUFFERS,
        channel: str = "act_weight",
        wait: bool = False,
    ) -> MemoryTensor:
        """Stream whole tensors from memory through an engine and back, tile by tile.

        `op`: `gemm` writes `epilogue(a @ b)` to memory at `out_ptr`; `math` writes `math_op` of `a`, or of `a` and `b`. An
        operand is streamed if it is from `tl.ref` or is the result of another composite op; a tensor of `tl.load` stays in the
        scratchpad. `epilogue`: names of elementwise ops, or pairs of a name and a second operand. `tile`: (m, n, k), or (rows,
        elements); the default is the largest tile for which the scratchpad has room for `buffers` buffers. `out_dtype`,
        `dtype_acc`, `transpose_a` and `transpose_b`: as in `dot`. `channel`: as in `load`. `wait`: if False, the call returns
        immediately. The result is pending.

        Raises KernelError for an op, shapes, a tile or a channel that is not valid.

        >>> def kernel(x, tl):
        ...     a = tl.ref(x, (32, 32), "f32")
        ...     tl.composite("gemm", a, a, out_ptr=x, epilogue=["relu"], wait=True)
        ...     return tl.load(x, (1, 2), "f32")
        >>> evaluate(kernel, np.ones((32, 32), np.float32))
        array([[32., 32.]], dtype=float32)
        """
        line = line_of(sys._getframe(1))
        wanted = _wanted(line, out_ptr, tile, buffers, channel)
        if op == "gemm":
            steps = [self._epilogue(one, line) for one in epilogue]
            pair, swapped = (self._whole(a, line), self._whole(b, line)), (transpose_a, transpose_b)
            result = self._gemm(wanted, *pair, swapped, dtype_acc, out_dtype, steps)
        elif op == "math":
            if epilogue or transpose_a or transpose_b or dtype_acc:
                raise KernelError(
                    f'{line}: epilogue, transpose_a, transpose_b and dtype_acc are only valid for composite(op="gemm")'
                )
            inputs = [one if _is_number(one) else self._whole(one, line) for one in (a, b) if one is not None]
            result = self._math(wanted, math_op, inputs, out_dtype)
        else:
            raise KernelError(f'{line}: composite(op="{op}"): it must be "gemm" or "math"')
        if wait and result.flight is not None:
            self._runner.wait_for(result.flight, f"the composite of {line}")
        return result

    def _gemm(
        self, wanted: _Wanted, a: TensorHandle, b: TensorHandle, swapped: tuple[bool, bool], dtype_acc: str,
        out_dtype: str | None, epilogue: Sequence[Epilogue],
    ) -> MemoryTensor:  # fmt: skip
        line = wanted.line
        check_acc(dtype_acc, line)
        try:
            m, k, n, shape = product_shape(a.shape, b.shape, *swapped)
        except ValueError as error:
            raise KernelError(f"{line}: composite of shapes {a.shape} and {b.shape}: {error}") from None
        if len(a.shape) != 2 or len(b.shape) != 2:
            raise KernelError(
                f"{line}: composite of shapes {a.shape} and {b.shape}: the operands must be matrices, not stacks of matrices"
            )
        _check_epilogue(epilogue, shape, a.dtype, line)
        dtype = out_dtype or ("i32" if dtype_of(a.dtype).kind != "float" else a.dtype)
        out = self._memory_tensor(wanted.out_ptr, shape, dtype, line)
        dtypes = a.dtype, b.dtype, dtype
        streamed = [isinstance(one, MemoryTensor) for one in (a, b)]
        tile = self._gemm_tile(wanted, (m, n, k), dtypes, streamed)
        wholes = [_whole_of(one, size) for one, size in zip((a, b, out), tile_bytes(tile, dtypes), strict=True)]
        block = self._rings(wanted, wholes)
        matrices = Matrix(m, k, a.dtype, swapped[0]), Matrix(k, n, b.dtype, swapped[1]), Matrix(m, n, dtype)
        others = [_whole_of(one.operand, 0) if isinstance(one.operand, TensorHandle) else None for one in epilogue]
        plan = GemmTiles(
            operands=(wholes[0], wholes[1]), out=wholes[2], buffers=wanted.buffers, channel=wanted.channel, a=matrices[0],
            b=matrices[1], c=matrices[2], tile=tile, epilogue=tuple(zip([one.op for one in epilogue], others, strict=True)),
        )  # fmt: skip
        work = GemmCmd(a, b, out, m, k, n, None, dtype_acc, *swapped, tile_k=tile[2] if tile[2] < k else None)
        return self._issue(CompositeCmd("gemm", out.addr, out.nbytes, work, tuple(epilogue)), plan, block, out, line)

    def _gemm_tile(
        self, wanted: _Wanted, shape: tuple[int, int, int], dtypes: Sequence[str], streamed: Sequence[bool]
    ) -> tuple[int, int, int]:
        if wanted.tile is not None:
            if len(wanted.tile) != 3 or min(wanted.tile) < 1:
                raise KernelError(f"{wanted.line}: the tile of a GEMM must be (m, n, k), each at least 1, not {wanted.tile}")
            m, n, k = (min(part, size) for part, size in zip(wanted.tile, shape, strict=True))
            return m, n, k
        try:
            return choose_tile(shape, dtypes, streamed, self._room(), wanted.buffers)
        except ValueError as error:
            raise KernelError(f"{wanted.line}: {error}, and {self._room()} bytes of the scratchpad are free") from None

    def _math(self, wanted: _Wanted, math_op: str, inputs: Sequence[Any], out_dtype: str | None) -> MemoryTensor:
        line = wanted.line
        tensors = [one for one in inputs if isinstance(one, TensorHandle)]
        if (math_op not in ARITY and math_op not in ROW_OPS) or math_op in MOVED:
            names = ", ".join(sorted({*ARITY, *ROW_OPS} - MOVED))
            raise KernelError(f'{line}: composite(math_op="{math_op}"): it must be one of {names}')
        if math_op not in ROW_OPS and len(inputs) != ARITY[math_op]:
            raise KernelError(f"{line}: composite: {math_op} takes {ARITY[math_op]} operands, and not {len(inputs)}")
        if not tensors or any(one.shape != tensors[0].shape for one in tensors):
            shapes = ", ".join(str(list(one.shape)) for one in tensors) or "none"
            raise KernelError(f"{line}: composite {math_op} needs numbers and tensors of one shape; the shapes are {shapes}")
        shape = tensors[0].shape
        numbers = [one for one in inputs if _is_number(one)]
        try:
            dtype = out_dtype or elementwise_type(math_op, [one.dtype for one in tensors], numbers)
        except ValueError as error:
            raise KernelError(f"{line}: {error}") from None
        out = self._memory_tensor(wanted.out_ptr, shape, dtype, line)
        total = prod(shape)
        length = shape[-1] if math_op in ROW_OPS and shape else total
        rows = total // max(length, 1)
        tile = self._math_tile(wanted, math_op, (rows, length), [*(one.dtype for one in tensors), dtype])
        wholes = [_whole_of(one, _size(tile[0] * tile[1], one.dtype)) for one in (*tensors, out)]
        block = self._rings(wanted, wholes)
        plan = MathTiles(
            operands=tuple(wholes[:-1]), out=wholes[-1], buffers=wanted.buffers, channel=wanted.channel, op=math_op, rows=rows,
            length=length, tile=tile,
        )  # fmt: skip
        axis = len(shape) - 1 if math_op in ROW_OPS else None
        msg = CompositeCmd("math", out.addr, out.nbytes, MathCmd(math_op, inputs, out, axis))
        return self._issue(msg, plan, block, out, line)

    def _math_tile(self, wanted: _Wanted, op: str, shape: tuple[int, int], dtypes: Sequence[str]) -> tuple[int, int]:
        rows, length = shape
        if wanted.tile is not None:
            if len(wanted.tile) != 2 or min(wanted.tile) < 1:
                rule = "the tile of a math op is (rows, elements), each 1 or more"
                raise KernelError(f"{wanted.line}: {rule}, and not {wanted.tile}")
            if op in ROW_OPS and wanted.tile[1] < length:
                raise KernelError(f"{wanted.line}: {op} works on whole rows: its tile must have {length} elements of each row")
            return min(wanted.tile[0], rows), min(wanted.tile[1], length)
        elements = ELEMENTS
        while True:
            tile = (max(1, min(rows, elements // length)), length) if op in ROW_OPS else (1, min(length, elements))
            needed = wanted.buffers * sum(_size(tile[0] * tile[1], dtype) for dtype in dtypes)
            if needed <= self._room():
                return tile
            if elements <= 64 or (op in ROW_OPS and tile[0] == 1):
                sizes = f"tiles of {tile[0]}x{tile[1]} in {wanted.buffers} buffers each take {needed} bytes"
                raise KernelError(f"{wanted.line}: {sizes}, and {self._room()} bytes of the scratchpad are free")
            elements //= 2

    def _room(self) -> int:
        """[byte] The room for the buffers of a composite op: half of the largest free piece, because other commands need room
        too."""
        return self._runner.pad.largest // 2

    def _rings(self, wanted: _Wanted, wholes: list[Whole]) -> Any:
        """Allocate scratchpad for operands without buffers: the operands in `wholes` get their rings of buffers. Returns the
        owner of the bytes."""
        line_bytes = self._runner.pe.tcm_line
        sizes = [ceil_div(one.tile_bytes, line_bytes) * line_bytes if one.ring == RING else 0 for one in wholes]
        size = wanted.buffers * sum(sizes)
        block = self._take(size, ("buffers of a composite op", "u8", (size,), wanted.line))
        at = block.addr
        for i, (one, size) in enumerate(zip(wholes, sizes, strict=True)):
            if size:
                wholes[i] = one._replace(ring=at, tile_bytes=size)
                at += wanted.buffers * size
        return block

    def _issue(self, msg: CompositeCmd, plan: Any, block: Any, out: MemoryTensor, line: str) -> MemoryTensor:
        runner = self._runner
        msg.plan, msg.room, msg.line, msg.op_id = plan, block, line, runner.memory.new_id()
        out.op_id, out.op = msg.op_id, f"composite_{msg.op}"
        out.flight = runner.issue(msg, line)
        runner.memory.composite_issued(msg)
        return out

    def _whole(self, value: Any, line: str) -> TensorHandle:
        """An operand, which is streamed or stays in the scratchpad."""
        if isinstance(value, MemoryTensor):
            if value.flight is not None:
                self._runner.wait_implicitly(value.flight, value.handle_id, line)
            return value
        return self.operand(value, line)

    def _epilogue(self, step: Any, line: str) -> Epilogue:
        """`"relu"`, or `("add", bias)`."""
        pair = isinstance(step, tuple | list) and len(step) == 2
        op, operand = step if pair else (step, None)
        if not isinstance(op, str) or op not in ARITY or op in MOVED or ARITY[op] != (1 if operand is None else 2):
            remedy = "give the name of an elementwise op, or a pair of it and its second operand"
            raise KernelError(f"{line}: {step!r} is not a step of an epilogue: {remedy}")
        return Epilogue(op, operand if operand is None or _is_number(operand) else self.operand(operand, line))

    def _memory_tensor(self, addr: int, shape: tuple[int, ...], dtype: str, line: str) -> MemoryTensor:
        self._count += 1
        if not prod(shape):
            raise KernelError(f"{line}: a tensor of {dtype}{list(shape)} has no elements, and a command needs one at least")
        if isinstance(addr, DevicePointer):
            check_type(addr, dtype, line)
        at = self._physical(addr, _size(prod(shape), dtype), line)
        return MemoryTensor(f"t{self._count}", at, shape, dtype, self._runner.memory.space_of(at), line)


MOVED = frozenset({"full", "transpose"})  #: ops of one operand that are not elementwise
RING = -2  #: the place of a tensor whose ring of buffers does not exist yet


class _Wanted(NamedTuple):
    """The arguments of a composite op."""

    line: str
    out_ptr: int
    tile: tuple[int, ...] | None
    buffers: int
    channel: str


def _wanted(line: str, out_ptr: int, tile: Sequence[int] | None, buffers: int, channel: str) -> _Wanted:
    if channel not in CHANNELS:
        raise KernelError(f"{line}: a DMA engine has the channels {', '.join(CHANNELS)}, and not {channel}")
    if buffers < 1:
        raise KernelError(f"{line}: composite with buffers={buffers}: it must be 1 or more")
    return _Wanted(line, out_ptr, None if tile is None else tuple(tile), buffers, channel)


def _check_epilogue(steps: Sequence[Epilogue], shape: tuple[int, ...], dtype: str, line: str) -> None:
    """KernelError if the elements of the product, or the shape of the operand, are not valid for a step of the epilogue."""
    for one in steps:
        where = f"{line}: {one.op} of the epilogue"
        try:
            elementwise_type(one.op, [dtype], [])
        except ValueError as error:
            raise KernelError(f"{where}: {error}") from None
        if isinstance(one.operand, TensorHandle):
            other = one.operand.shape
            if len(other) > len(shape) or any(b not in (1, a) for a, b in zip(reversed(shape), reversed(other), strict=False)):
                raise KernelError(f"{where}: its operand has the shape {list(other)}, and the product {list(shape)}")


def _whole_of(tensor: TensorHandle, tile: int) -> Whole:
    streamed = isinstance(tensor, MemoryTensor)
    return Whole(tensor.addr, tensor.nbytes, tensor.dtype, RING if streamed else -1, tile if streamed else 0)


def _size(elements: int, dtype: str) -> int:
    return ceil_div(elements * dtype_of(dtype).bits, 8)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)
