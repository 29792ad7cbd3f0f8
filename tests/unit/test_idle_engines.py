"""Notes of engines that had no work beside others of their PE."""

from __future__ import annotations

import numpy as np

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for at in range(0, K, BLOCK):
        here = at + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + here[None, :])
        total += tl.dot(a, tl.load(b_ptr + here[:, None] * 2 * BLOCK + columns[None, :]))
    tl.store(c_ptr + rows[:, None] * 2 * BLOCK + columns[None, :], total)


def test_a_triton_kernel_says_it_too() -> None:
    """Its programs run one after the other on a PE, and each waits for its products."""
    a, b, c = np.ones((16, 64), np.float32), np.ones((64, 32), np.float32), np.zeros((16, 32), np.float32)
    for machine, notes in (("npu_server", ["1 of 4 tensor engines", "1 of 4 vector engines"]), ("single_cube", [])):
        with kernbench.machine(machine):
            run = product[2,](a, b, c, 64, BLOCK=16)
        assert [note.split(" had")[0] for note in run.notes] == notes
        assert (c == 64).all()
