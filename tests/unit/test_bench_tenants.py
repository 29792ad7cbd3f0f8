"""Benches that share a machine: PEs of their own, quotas, parts of the memories, slowdowns (docs/model/tenants.md#kernels)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench import load_config
from kernbench.analysis.bench_tenants import BenchTenant, read_bench_tenant, share_benches
from kernbench.common.errors import InputError
from kernbench.runtime_api.bench import Bench, Param
from kernbench.runtime_api.pe_set import PeSet, TenantPeSet
from kernbench.sim_engine.engine import KernelFailed

SINGLE = load_config("single_cube")
LOADS = 4
HALF = SINGLE.slice_bytes // 2  #: where the second of two tenants has its part of the first slice


def read(first: Any, nbytes: int, tl: Any) -> None:
    """Loads that are all in flight at a time."""
    tl.wait(*(tl.load(first + k * nbytes, (nbytes,), "u8", wait=False) for k in range(LOADS)))


@kb.bench(name="reader", description="a PE that loads from the first slice", params={"nbytes": Param(16384)})
def reader(ctx: kb.Context) -> None:
    ctx.launch("read", read, ctx.full((LOADS * ctx.params["nbytes"],), 1, "u8"), ctx.params["nbytes"], pes=1)


def doubling(seed: int) -> Bench:
    """`out = 2 x` of a tensor with rows on each PE."""
    values = np.random.default_rng(seed).standard_normal((16, 64)).astype(np.float32)

    def kernel(x: Any, out: Any, tl: Any) -> None:
        tl.store(out, tl.load(x, x.shape, "f32") * 2.0)

    def run(ctx: kb.Context) -> None:
        rows = kb.DPPolicy(pe="row_wise")
        x, out = ctx.from_numpy(values, name="x", placement=rows), ctx.empty(values.shape, name="out", placement=rows)
        ctx.launch("twice", kernel, x, out)
        ctx.output("out", out)

    return kb.bench(name="twice", description="2 x", reference=lambda inputs, params: {"out": inputs["x"] * 2})(run)


def cycles(weight: int, nbytes: int) -> int:
    """Of a reader beside another reader of the same slice that takes longer."""
    long = BenchTenant(reader, {"nbytes": 65536})
    short = BenchTenant(reader, {"nbytes": nbytes}, weight=weight)
    return share_benches([long, short], SINGLE).tenants[1].cycles


@pytest.mark.parametrize("weight", [1, 3])
def test_the_weight_of_a_tenant_is_its_share_of_a_slice_that_two_read(weight: int) -> None:
    """A slice moves 102.4 bytes a cycle. Of two lengths only the time of the further bytes differs."""
    further = LOADS * 16384 / (Fraction(512, 5) * weight / (weight + 1))
    assert abs(cycles(weight, 32768) - cycles(weight, 16384) - further) <= 1


def test_the_limit_of_a_tenant_is_that_of_its_dma_engines() -> None:
    """One transfer at a time, as on a machine whose engines have this limit; the PEs of others keep theirs."""
    limited = share_benches([BenchTenant(reader, outstanding=1)], SINGLE).tenants[0]
    narrow = share_benches([BenchTenant(reader)], load_config("single_cube", ["pe.dma.max_concurrent_transfers=1"])).tenants[0]
    assert limited.alone < limited.cycles == narrow.cycles
    far = BenchTenant(doubling(0), pes=2)
    both = share_benches([BenchTenant(reader, outstanding=1, pes=1), far], SINGLE).tenants
    assert both[0].cycles == limited.cycles and both[1].outstanding == SINGLE.pe.dma.max_concurrent_transfers


def test_tenants_have_the_times_of_one_host_that_launches_all_their_kernels() -> None:
    """Launches of one cycle are in the order of the tenants; addresses are those of the tenants' parts."""

    @kb.bench(name="joint", description="both launches")
    def joint(ctx: kb.Context) -> None:
        zeros = np.zeros(LOADS * 65536, np.uint8)
        for at in (0, HALF):
            ctx._store.write("hbm", at, zeros)
        ctx.launch("first", read, 0, 65536, pes=[0])
        ctx.launch("second", read, HALF, 16384, pes=[4])

    found = share_benches([BenchTenant(reader, {"nbytes": 65536}), BenchTenant(reader)], SINGLE).tenants
    ends = [one.end for one in kb.GraphEngine(SINGLE, op_log=False).run(joint).launches]
    assert [one.cycles for one in found] == ends
    assert [one.slowdown is not None and one.slowdown > 1 for one in found] == [True, True]


def test_each_tenant_computes_its_own_data() -> None:
    first, second = doubling(1), doubling(2)
    found = share_benches([BenchTenant(first), BenchTenant(second)], SINGLE, verify=True)
    assert [one.verified for one in found.tenants] == [True, True] and [one.pes for one in found.tenants] == [4, 4]
    wrong = kb.bench(name="wrong", description="", reference=lambda inputs, params: {"out": inputs["x"]})(first.run)
    found = share_benches([BenchTenant(wrong), BenchTenant(second)], SINGLE, verify=True)
    assert [one.verified for one in found.tenants] == [False, True]


def test_a_host_waits_for_its_own_launches_only() -> None:
    seen = []

    @kb.bench(name="waits", description="two launches, one after the other")
    def waits(ctx: kb.Context) -> None:
        for _ in range(2):
            ctx.launch("nothing", lambda tl: None, pes=1)
            ctx.synchronize()
            seen.append(ctx.host.cycle)

    found = share_benches([BenchTenant(reader, {"nbytes": 65536}), BenchTenant(waits)], SINGLE)
    assert seen[1] < found.tenants[0].cycles


def test_each_tenant_has_pes_and_parts_of_slices_of_its_own() -> None:
    whole = PeSet(SINGLE)
    first, second = TenantPeSet(SINGLE, 0, 3, 0, 2), TenantPeSet(SINGLE, 3, 5, 1, 2)
    assert first.pes == whole.pes[:3] and second.pes == whole.pes[3:]
    for a, b, piece in zip(first.slices, second.slices, whole.slices, strict=True):
        assert (a.base, a.end, b.base, b.end) == (piece.base, piece.base + HALF, piece.base + HALF, piece.end)
    assert [second.slice_of(pe) for pe in range(5)] == [whole.slice_of(pe) for pe in range(3, 8)]
    cubes = load_config("sip_4x4")
    assert TenantPeSet(cubes, 6, 2, 0, 1).pes[:3] == ("sip0.cube0.pe6", "sip0.cube0.pe7", "sip0.cube1.pe6")


def test_refusals_name_the_tenant_and_the_remedy() -> None:
    with pytest.raises(InputError, match="a cube of this machine has 8"):
        share_benches([BenchTenant(reader, pes=5), BenchTenant(reader, pes=4)], SINGLE)
    with pytest.raises(InputError, match="from 1 to 1024"):
        share_benches([BenchTenant(reader, weight=0)], SINGLE)
    with pytest.raises(InputError, match="no such parameter"):
        read_bench_tenant("reader:weigth=2", reader)
    with pytest.raises(InputError, match="may occur once"):
        read_bench_tenant("reader:pes=2,pes=3", reader)
    assert read_bench_tenant("reader:pes=2,nbytes=4", reader) == BenchTenant(reader, {"nbytes": 4}, pes=2)

    @kb.bench(name="queues", description="queues")
    def queues(ctx: kb.Context) -> None:
        ctx.install_queues({}, ranks=[])

    with pytest.raises(InputError, match="no queues between PEs"):
        share_benches([BenchTenant(queues)], SINGLE)

    @kb.bench(name="fails", description="fails")
    def fails(ctx: kb.Context) -> None:
        raise ValueError("mine")

    with pytest.raises(KernelFailed, match="mine"):
        share_benches([BenchTenant(reader), BenchTenant(fails)], SINGLE)
