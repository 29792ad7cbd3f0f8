"""Cycles of loads by tiles of pointers on `single_cube`, worked out by hand.

A transfer takes 120 cycles of set-up and 3 on the way; then bytes come at 51.2 a cycle from each of the two channels of a PE's
slice. Every row is widened to 64 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl


def span(addresses: Callable[[], Any], mask: Callable[[Any], Any] | None = None) -> float:
    """[cycle] from the start of the first transfer of a load to its end; a cycle is one nanosecond there."""

    @triton.jit
    def kernel(x_ptr, out_ptr):
        places = addresses()
        x = tl.load(x_ptr + places, mask=None if mask is None else mask(places), other=None if mask is None else 0.0)
        tl.store(out_ptr, tl.max(x.ravel(), 0))

    with kernbench.machine("single_cube"):
        run = kernel[(1,)](np.zeros(16384, np.float32), np.zeros(1, np.float32))
    load = next(one for one in run.engine.op_log or () if one.op_name == "dma_read")
    return load.t_end - load.t_start


@pytest.mark.parametrize(
    ("cycles", "addresses", "mask"),
    [
        # 4096 bytes from both channels: 123 + 4096 / 102.4
        (163, lambda: tl.arange(0, 1024), None),
        # half of the lanes: 123 + 2048 / 102.4
        (143, lambda: tl.arange(0, 1024), lambda places: places < 512),
        # every 16th: 1024 rows of 64 bytes, all of 65536 bytes: 123 + 65536 / 102.4
        (763, lambda: tl.arange(0, 1024) * 16, None),
        # 64 rows of 64 bytes, 1024 apart, which lie on one channel: 123 + 4096 / 51.2
        (203, lambda: tl.arange(0, 64)[:, None] * 256 + tl.arange(0, 16)[None, :], None),
        # the same tile, transposed
        (203, lambda: tl.arange(0, 64)[None, :] * 256 + tl.arange(0, 16)[:, None], None),
        # 64 lanes at each of 16 places: one row of 64 bytes, 123 + ceil(64 / 51.2)
        (125, lambda: tl.arange(0, 1024) // 64, None),
    ],
)
def test_cycles_of_a_load(cycles: int, addresses: Callable[[], Any], mask: Callable[[Any], Any] | None) -> None:
    assert span(addresses, mask) == cycles
