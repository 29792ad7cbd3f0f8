"""Matrix products of `tl`."""

from __future__ import annotations

from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from kernbench.common.dtypes import DTYPES, dtype_of
from kernbench.common.pe_ops import LAYOUTS, GemmCmd, Repeated
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


class ProductLine(Repeated):
    """The products of a kernel line, whose operands have the same shapes and types and whose arguments are equal."""

    def __init__(
        self,
        a: KernelTensor,
        b: KernelTensor,
        acc: KernelTensor | None,
        out_dtype: str | None,
        dtype_acc: str,
        transpose_a: bool,
        transpose_b: bool,
        layouts: tuple[str, str, str],
    ) -> None:
        """ValueError if the shapes do not fit."""
        super().__init__()
        self.shape_a, self.shape_b = a.shape, b.shape
        self.type_a, self.type_b = a.dtype, b.dtype
        self.type_acc = None if acc is None else acc.dtype
        self.out_dtype, self.dtype_acc = out_dtype, dtype_acc
        self.transpose_a, self.transpose_b = transpose_a, transpose_b
        self.layouts = layouts
        self.m, self.k, self.n, self.shape = product_shape(a.shape, b.shape, transpose_a, transpose_b)
        self.op, usual = _product_of(a.dtype)
        self.type_out = (self.type_acc or usual) if out_dtype is None else out_dtype  #: of the result


class TlProducts(TlMemory):
    """The part of `tl` that multiplies matrices."""

    def __init__(self, runner: KernelRunner, translation: Translation | None) -> None:
        super().__init__(runner, translation)
        self._product_lines: dict[str, ProductLine] = {}  # by the kernel's line: those of its last product

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
        layouts = _ROWS
        if layout_a is not ROW_MAJOR or layout_b is not ROW_MAJOR or layout_out is not ROW_MAJOR:
            layouts = (layout_a, layout_b, layout_out)
            check_layouts(layouts, line_at(caller()))
        return self.multiplied(a, b, caller(), acc, out_dtype, dtype_acc, transpose_a, transpose_b, out, layouts)

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
        if dtype_acc:
            check_acc(dtype_acc, line)
        total, type_acc = None, None
        if acc is not None:
            total = self.operand_tile(acc, line)
            type_acc = total.dtype
        found = self._product_lines.get(line)
        if found is None or not (
            found.shape_a is one.shape
            and found.shape_b is two.shape
            and found.type_a is one.dtype
            and found.type_b is two.dtype
            and found.type_acc is type_acc
            and found.out_dtype is out_dtype
            and found.dtype_acc is dtype_acc
            and found.transpose_a is transpose_a
            and found.transpose_b is transpose_b
            and found.layouts is layouts
        ):
            try:
                found = ProductLine(one, two, total, out_dtype, dtype_acc, transpose_a, transpose_b, layouts)
            except ValueError as error:
                raise KernelError(f"{line}: dot of shapes {one.shape} and {two.shape}: {error}") from None
            self._product_lines[line] = found
        if total is not None and total.shape != found.shape:
            raise KernelError(
                f"{line}: dot adds to a tensor of shape {total.shape}, but the product has the shape {found.shape}"
            )
        tile = self.result_tile(out, found.shape, found.type_out, line, found.op)
        msg = GemmCmd.__new__(GemmCmd)
        msg.a, msg.b, msg.out, msg.acc, msg.m, msg.k, msg.n = one, two, tile, total, found.m, found.k, found.n
        msg.dtype_acc, msg.transpose_a, msg.transpose_b, msg.line = dtype_acc, transpose_a, transpose_b, line
        msg.layout_a, msg.layout_b, msg.layout_out = layouts
        msg._quiet, msg.dependency_ids, msg.tile_k, msg.repeated = False, (), None, found
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
