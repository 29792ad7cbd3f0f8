"""Matrix products of `tl`."""

from __future__ import annotations

from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from kernbench.common.dtypes import DTYPES, dtype_of
from kernbench.common.pe_ops import LAYOUTS, GemmCmd
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.frames import caller, line_at
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.op_types import product_shape
from kernbench.triton_emu.tl.memory import TlMemory

if TYPE_CHECKING:
    from kernbench.triton_emu.kernel_runner import KernelRunner
    from kernbench.triton_emu.memory.side import Translation

ROW_MAJOR = LAYOUTS[0]
_ROWS = (ROW_MAJOR, ROW_MAJOR, ROW_MAJOR)


@cache
def _product_of(dtype: str) -> tuple[str, str]:
    """The name of the product of elements of these types, and the default type of its result."""
    return f"gemm_{dtype}", dtype if dtype_of(dtype).kind == "float" else "i32"


def check_acc(dtype_acc: str, line: str) -> None:
    """KernelError if the accumulation type does not exist."""
    if dtype_acc and dtype_acc not in DTYPES:
        raise KernelError(f"{line}: dtype_acc = {dtype_acc!r}, but it must be one of {', '.join(DTYPES)}")


def check_layouts(layouts: tuple[str, str, str], line: str) -> None:
    """KernelError if a layout does not exist."""
    for name, layout in zip(("layout_a", "layout_b", "layout_out"), layouts, strict=True):
        if layout not in LAYOUTS:
            raise KernelError(f"{line}: {name} = {layout!r}, but it must be one of {', '.join(LAYOUTS)}")


class TlProducts(TlMemory):
    """The part of `tl` that multiplies matrices."""

    def __init__(self, runner: KernelRunner, translation: Translation | None) -> None:
        super().__init__(runner, translation)
        # The types and shapes of the last product: in a loop, the next product has the same shape objects.
        self._found: tuple[Any, ...] | None = None

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
        layout_a: str = ROW_MAJOR,
        layout_b: str = ROW_MAJOR,
        layout_out: str = ROW_MAJOR,
    ) -> KernelTensor:
        """`a @ b`, or `acc + a @ b`, computed by a tensor engine.

        `a`: `[..., m, k]`, `b`: `[..., k, n]`, `acc` and the result: `[..., m, n]`. `out_dtype`: the type of the result; by
        default that of `acc`, else that of `a`, and i32 for integers. `dtype_acc`: the type in which products are added; by
        default f32, and i32 for integers. `transpose_a`, `transpose_b`: swap the last two axes of an operand. `out`: a tile
        that receives the result. `layout_a`, `layout_b`, `layout_out`: row_major, or col_major for a matrix whose bytes are
        column by column in the scratchpad; `acc` has the layout of the result. Layouts do not change shapes or times.

        Raises KernelError if the shapes do not fit, and if a type or a layout does not exist.

        >>> def kernel(x, tl):
        ...     a = tl.load(x, x.shape, x.dtype)
        ...     return tl.dot(a, a, transpose_b=True)
        >>> evaluate(kernel, np.array([[1, 2], [3, 4]], np.float32))
        array([[ 5., 11.],
               [11., 25.]], dtype=float32)
        """
        layouts = (layout_a, layout_b, layout_out)
        if layouts != _ROWS:
            check_layouts(layouts, line_at(caller()))
        return self.multiplied(a, b, caller(), acc, out_dtype, dtype_acc, transpose_a, transpose_b, out, layouts)

    def _facts(self, one: KernelTensor, two: KernelTensor, transpose_a: bool, transpose_b: bool, line: str) -> tuple[Any, ...]:
        try:
            m, k, n, shape = product_shape(one.shape, two.shape, transpose_a, transpose_b)
        except ValueError as error:
            raise KernelError(f"{line}: dot of shapes {one.shape} and {two.shape}: {error}") from None
        op, out_type = _product_of(one.dtype)
        return one.shape, two.shape, one.dtype, transpose_a, transpose_b, m, k, n, shape, op, out_type

    def multiplied(
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
        layouts: tuple[str, str, str] = _ROWS,
    ) -> KernelTensor:
        """Compute a product for the frame of the caller. `layouts`: of `a`, `b` and the result."""
        line = line_at(frame)
        one, two = self.operand_tile(a, line), self.operand_tile(b, line)
        check_acc(dtype_acc, line)
        total = None if acc is None else self.operand_tile(acc, line)
        found = self._found
        if found is None or not (
            found[0] is one.shape
            and found[1] is two.shape
            and found[2] is one.dtype
            and found[3] is transpose_a
            and found[4] is transpose_b
        ):
            found = self._found = self._facts(one, two, transpose_a, transpose_b, line)
        m, k, n, shape, op, out_type = found[5], found[6], found[7], found[8], found[9], found[10]
        if out_dtype is None:
            out_dtype = total.dtype if total is not None else out_type
        if total is not None and total.shape != shape:
            raise KernelError(f"{line}: dot adds to a tensor of shape {total.shape}, but the product has the shape {shape}")
        tile = self.result_tile(out, shape, out_dtype, line, op)
        msg = GemmCmd.__new__(GemmCmd)
        msg.a, msg.b, msg.out, msg.acc, msg.m, msg.k, msg.n = one, two, tile, total, m, k, n
        msg.dtype_acc, msg.transpose_a, msg.transpose_b, msg.line = dtype_acc, transpose_a, transpose_b, line
        msg.layout_a, msg.layout_b, msg.layout_out = layouts
        msg._quiet, msg.dependency_ids, msg.tile_k = False, (), None
        msg.op_id = self._runner.memory.new_id()
        self.issue_for(msg, tile, line)
        return tile

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
        """The same as `multiplied`, for modules that are not compiled."""
        return self.multiplied(a, b, frame, acc, out_dtype, dtype_acc, transpose_a, transpose_b, out)
