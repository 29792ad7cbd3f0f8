"""Layouts of the operands and of the result of `tl.dot`: what lies column by column is multiplied as the same matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.common.dtypes import Array
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.errors import KernelError
from tests.kernels import Run

ROWS, COLUMNS = "row_major", "col_major"
A = np.arange(16 * 24, dtype=np.float32).reshape(16, 24) % 7
B = np.arange(24 * 8, dtype=np.float32).reshape(24, 8) % 5
C = np.arange(16 * 8, dtype=np.float32).reshape(16, 8)


def lying(matrix: Array, layout: str) -> Array:
    """The elements in the order of their addresses, as rows."""
    return np.ascontiguousarray(matrix.T if layout == COLUMNS else matrix)


def product(layout_a: str, layout_b: str, layout_out: str, *, acc: bool = False) -> tuple[int | None, Array]:
    """The end of the launch, and the elements of the result in the order of their addresses."""

    def kernel(tl: Any) -> None:
        a, b, c = tl.load(0, A.shape, "f32"), tl.load(4096, B.shape, "f32"), tl.load(8192, C.shape, "f32")
        layouts = {"layout_a": layout_a, "layout_b": layout_b, "layout_out": layout_out}
        tl.store(16384, tl.dot(a, b, c if acc else None, **layouts))

    memory = {0: lying(A, layout_a), 4096: lying(B, layout_b), 8192: lying(C, layout_out)}
    run = Run(kernel, memory=memory).run()
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    return run.launch.end, store.read("hbm", 16384, lying(C, layout_out).shape, "f32")


@pytest.mark.parametrize("layouts", [(ROWS, ROWS, ROWS), (COLUMNS, ROWS, ROWS), (ROWS, COLUMNS, COLUMNS), (COLUMNS,) * 3])
@pytest.mark.parametrize("acc", [False, True])
def test_a_layout_says_how_a_matrix_lies_and_changes_no_time(layouts: tuple[str, str, str], acc: bool) -> None:
    usual, _ = product(ROWS, ROWS, ROWS, acc=acc)
    end, found = product(*layouts, acc=acc)
    assert end == usual
    assert np.array_equal(found, lying(A @ B + (C if acc else 0), layouts[2]))


def test_a_layout_and_a_transpose_cancel_each_other() -> None:
    def kernel(tl: Any) -> None:
        turned = tl.load(0, (24, 16), "f32")  # the bytes of A row by row are those of its transpose column by column
        b = tl.load(4096, B.shape, "f32")
        tl.store(16384, tl.dot(turned, b, layout_a=COLUMNS, transpose_a=True))

    run = Run(kernel, memory={0: A, 4096: B}).run()
    assert np.array_equal(DataExecutor(run.log).run().store.read("hbm", 16384, C.shape, "f32"), A @ B)  # type: ignore[arg-type]


def test_a_layout_that_does_not_exist_is_refused_with_its_line() -> None:
    def kernel(tl: Any) -> None:
        b = tl.load(4096, B.shape, "f32")
        tl.dot(b, b, layout_b="columns")

    error = Run(kernel, memory={4096: B}).fail()
    assert isinstance(error, KernelError) and "test_kernel_layouts.py" in str(error)
    assert "layout_b = 'columns', but it must be one of row_major, col_major" in str(error)
