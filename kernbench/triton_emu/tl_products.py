"""Products of `tl`."""

from __future__ import annotations

import sys
from functools import cache
from types import FrameType
from typing import Any

from kernbench.common.dtypes import dtype_of
from kernbench.common.pe_ops import GemmCmd
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.op_types import product_shape
from kernbench.triton_emu.source_lines import caller_of
from kernbench.triton_emu.tl_memory import TlMemory

_UP, _frame = caller_of(__file__), sys._getframe


@cache
def _product_of(dtype: str) -> tuple[str, str]:
    """What a product of such elements is called, and what its elements are where nobody says."""
    return f"gemm_{dtype}", dtype if dtype_of(dtype).kind == "float" else "i32"


class TlProducts(TlMemory):
    """The part of `tl` that multiplies matrices."""

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
        return self.product(a, b, _frame(_UP), acc, out_dtype, dtype_acc, transpose_a, transpose_b, out)

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
        line = self.line_of(frame)
        one, two = self.operand(a, line), self.operand(b, line)
        total = None
        if acc is not None:
            total = self.operand(acc, line)
        try:
            m, k, n, shape = product_shape(one.shape, two.shape, transpose_a, transpose_b)
        except ValueError as error:
            raise KernelError(f"{line}: dot of shapes {one.shape} and {two.shape}: {error}") from None
        op, out_type = _product_of(one.dtype)
        if out_dtype is None:
            out_dtype = total.dtype if total is not None else out_type
        if total is not None and total.shape != shape:
            raise KernelError(f"{line}: dot adds to a tensor of shape {total.shape}, but the product has the shape {shape}")
        tile = self._result(out, shape, out_dtype, line, op)
        msg = GemmCmd.__new__(GemmCmd)
        msg.a, msg.b, msg.out, msg.acc, msg.m, msg.k, msg.n = one, two, tile, total, m, k, n
        msg.dtype_acc, msg.transpose_a, msg.transpose_b, msg.line = dtype_acc, transpose_a, transpose_b, line
        msg.layout_a = msg.layout_b = msg.layout_out = "row_major"
        msg._quiet, msg.dependency_ids, msg.tile_k = False, (), None
        msg.op_id = self._runner.memory.new_id()
        self.issue_compute(msg, tile, line)
        return tile
