"""Kernels of Gluon: layouts, shared memory, asynchronous copies and mbarriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.triton.experimental import gluon
from kernbench.triton.experimental.gluon import language as gl
from kernbench.triton.experimental.gluon.language.nvidia.ampere import async_copy as cp
from kernbench.triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from kernbench.triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS, BLOCK = 16, 32
REGISTERS: tl.constexpr = tl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
SHARED: tl.constexpr = tl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))


@gluon.jit
def exp_of(x_ptr, out_ptr, buffers: gl.constexpr):
    """Row after row: copy into one of several buffers, while the row before is computed."""
    places = gl.arange(0, BLOCK_OF, layout=REGISTERS)
    smem = gl.allocate_shared_memory(gl.float32, [buffers, BLOCK_OF], SHARED)
    for ahead in gl.static_range(buffers - 1):
        cp.async_load(smem.index(ahead), x_ptr + ahead * BLOCK_OF + places)
        cp.commit_group()
    for row in range(ROWS_OF):
        ahead = row + buffers - 1
        cp.async_load(smem.index(ahead % buffers), x_ptr + ahead * BLOCK_OF + places, mask=(places >= 0) & (ahead < ROWS_OF))
        cp.commit_group()
        cp.wait_group(buffers - 1)
        x = gl.convert_layout(smem.index(row % buffers).load(REGISTERS), REGISTERS)
        gl.store(out_ptr + row * BLOCK_OF + places, gl.exp(gl.exp(gl.exp(x))))


ROWS_OF, BLOCK_OF = tl.constexpr(ROWS), tl.constexpr(BLOCK)


def test_more_buffers_of_asynchronous_copies_overlap_copies_with_work() -> None:
    x, cycles = np.linspace(-2, 0, ROWS * BLOCK, dtype=np.float32), []
    for buffers in (1, 2, 3):
        out = np.zeros_like(x)
        run = exp_of[(1,)](x, out, buffers)
        cycles.append(run.cycles)
        assert np.allclose(out, np.exp(np.exp(np.exp(x))), rtol=1e-5)
    assert cycles[0] > 1.1 * cycles[1] > cycles[2] and exp_of.is_gluon()
    assert any("layouts change nothing here" in one for one in run.notes)


@gluon.jit
def added(a_desc, b_desc, out_desc, columns: gl.constexpr, buffers: gl.constexpr):
    """Blocks of two tensors, added: copies with one barrier for each buffer, and stores that are waited for one block later."""
    gl.static_assert(a_desc.layout == out_desc.layout)
    a = gl.allocate_shared_memory(a_desc.dtype, [buffers, 8, 16], a_desc.layout)
    b = gl.allocate_shared_memory(a_desc.dtype, [buffers, 8, 16], b_desc.layout)
    out = gl.allocate_shared_memory(a_desc.dtype, [8, 16], out_desc.layout)
    bars = mbarrier.allocate_mbarrier(batch=buffers)
    for i in gl.static_range(buffers):
        mbarrier.init(bars.index(i), count=1)
    for block in range(columns // 16 + buffers - 1):
        if block < columns // 16:
            bar = bars.index(block % buffers)
            mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            tma.async_load(a_desc, [0, block * 16], bar, a.index(block % buffers))
            tma.async_load(b_desc, [0, block * 16], bar, b.index(block % buffers))
        done = block - buffers + 1
        if done >= 0:
            mbarrier.wait(bars.index(done % buffers), done // buffers & 1)
            total = a.index(done % buffers).load() + b.index(done % buffers).load()
            tma.store_wait(pendings=0)
            out.store(total)
            fence_async_shared()
            tma.async_copy_shared_to_global(out_desc, [0, done * 16], out)
    for i in gl.static_range(buffers):
        mbarrier.invalidate(bars.index(i))
    tma.store_wait(pendings=0)


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_barriers_wait_for_copies_of_blocks(buffers: int) -> None:
    a, b = np.arange(8 * 90, dtype=np.float32).reshape(8, 90), np.ones((8, 90), np.float32)
    out = np.zeros_like(a)
    layout = gl.NVMMASharedLayout.get_default_for([8, 16], gl.float32)
    added[(1,)](*(TensorDescriptor.from_tensor(one, [8, 16], layout) for one in (a, b, out)), 96, buffers)
    assert np.array_equal(out, a + b) and layout.swizzle_byte_width == 64


def refused(body: Callable[[Any], Any]) -> str:
    """The message of a kernel whose only statement is not valid."""

    @gluon.jit
    def kernel(x_ptr):
        body(x_ptr)

    with pytest.raises(triton.TritonError) as caught:
        kernel[(1,)](np.zeros(8, np.float32))
    return str(caught.value)


def room(copy: Any = None) -> Any:
    made = gl.allocate_shared_memory(gl.float32, [8], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    if copy is not None:
        cp.async_load(made, copy + gl.arange(0, 8))
    return made


def waits(phase: int, arrivals: int = 0) -> None:
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar, count=arrivals)
    mbarrier.wait(bar, phase)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x: room().load(), "shared memory of shape [8] is read before a tile is written there"),
        (lambda x: room(x).load(), "shared memory is read before the kernel waits for the copy to it"),
        (lambda x: room().index(8), "shared memory of shape [8] has no tile 8"),
        (lambda x: cp.async_load(room(), x + gl.arange(0, 4)), "async_load of fp32[4] to shared memory of fp32[8]"),
        (lambda x: room().store(gl.arange(0, 4)), "a tensor of shape [4] is stored to shared memory of shape [8]"),
        (lambda x: waits(0, 1), "mbarrier.wait for phase 0, which no copy or arrival that was issued completes"),
        (lambda x: waits(0, 3), "a phase of an mbarrier gets 3 arrivals"),
        (lambda x: mbarrier.wait(mbarrier.allocate_mbarrier(), 0), "an mbarrier is used before mbarrier.init"),
        (lambda x: gl.arange(0, 8, gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])), "the layout is for 2 axes"),
        (lambda x: gl.arange(0, 8, 3), "gl.arange: layout must be a layout of registers"),
        (lambda x: gl.allocate_shared_memory(gl.float32, [8], None), "gl.allocate_shared_memory: layout must be a layout of"),
        (lambda x: gl.warp_specialize(x), "gl.warp_specialize is not supported: it belongs to the warps"),
        (lambda x: gl.nvidia.hopper.warpgroup_mma(x), "hopper.warpgroup_mma is not supported"),
        (lambda x: gl.nvidia.blackwell.tcgen05_mma(x), "blackwell.tcgen05_mma is not supported"),
        (lambda x: tma.async_gather(x), "tma.async_gather is not supported"),
    ],
)
def test_mistakes_and_names_of_gpus_are_refused(body: Callable[[Any], Any], text: str) -> None:
    assert text in refused(body)


def test_a_barrier_passes_phases_that_are_complete() -> None:
    @gluon.jit
    def kernel(out_ptr):
        waits(0, 2)
        waits(1)
        gl.store(out_ptr, 1.0)

    out = np.zeros(1, np.float32)
    kernel[(1,)](out)
    assert out[0] == 1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: gl.BlockedLayout([1], [32, 1], [4], [0]), r"BlockedLayout: its lists have \[1, 2, 1, 1\] axes"),
        (lambda: gl.BlockedLayout([1, 1], [32, 1], [4, 1], [0, 0]), "must have each axis from 0 to 1 once"),
        (lambda: gl.SliceLayout(1, gl.BlockedLayout([1], [32], [4], [0])), "dim=1; its parent has the axes 0 to 0"),
        (lambda: gl.NVMMASharedLayout(48, 16), "it is 0, 32, 64 or 128"),
        (lambda: TensorDescriptor(np.zeros((8, 8), np.float32), [8, 8], [8, 1], [8, 8]), "layout must be a gl.NVMMAShared"),
    ],
)
def test_layouts_that_are_not_valid_are_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(triton.TritonError, match=text):
        make()


def test_a_tuned_kernel_of_gluon_calls_device_functions() -> None:
    @triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (8, 32)], key=["n"])
    @gluon.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: gl.constexpr):
        places = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK)
        gl.store(out_ptr + places, gl.load(x_ptr + places, mask=places < n, other=0.0), mask=places < n)

    x, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    with kernbench.machine("single_cube"):
        kernel[lambda meta: (triton.cdiv(40, meta["BLOCK"]),)](x, out, 40)
    assert np.array_equal(out, x) and kernel.best_config.kwargs["BLOCK"] in (8, 32)
