"""The benches of the package: right in every type on one cube and on sixteen, and as fast as their numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench import load_config
from kernbench.runtime_api.discovery import load_bench
from kernbench.runtime_api.report import BenchReport, report
from kernbench.sim_engine.engine import GraphEngine

#: Parameters that keep a run short, and leave something uneven to be got right.
SMALL: dict[str, dict[str, Any]] = {
    "flash_attention": {"heads": 3, "tokens": 48, "depth": 16, "block_q": 32, "block_kv": 20},
    "gemm": {"m": 44, "n": 96, "k": 40, "block_m": 3, "block_n": 32},
    "layernorm": {"rows": 37, "columns": 48, "block": 3},
    "moe_dispatch": {"tokens": 19, "experts": 5, "wide_in": 24, "wide_out": 16, "block": 4},
    "paged_attention": {"sequences": 5, "heads": 4, "depth": 16, "tokens": 50, "page_tokens": 4, "bank_pages": 3},
    "reduce": {"rows": 37, "columns": 48, "block": 3},
    "softmax": {"rows": 37, "columns": 48, "block": 3},
    "tp_mlp": {"tokens": 5, "hidden": 24, "ffn": 36, "ranks": 6},
    "vector_add": {"n": 1001, "block": 50},
}
MACHINES = ("single_cube", "sip_4x4")
CONFIGS = {name: load_config(name) for name in MACHINES}


def ran(bench: str, machine: str = "single_cube", *, verify: bool = True, **params: Any) -> BenchReport:
    engine = GraphEngine(CONFIGS[machine], op_log=verify)
    engine.run(load_bench(bench), **params)
    return report(engine, verify=verify)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("bench", SMALL)
def test_every_bench_verifies(bench: str, dtype: str, machine: str) -> None:
    found = ran(bench, machine, dtype=dtype, **SMALL[bench])
    assert found.verification is not None and found.verification.checked
    assert found.verification.ok, str(found.verification)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("mode", ["b_streamed", "streamed"])
def test_streamed_gemms_verify(mode: str, dtype: str, machine: str) -> None:
    found = ran("gemm", machine, mode=mode, dtype=dtype, block_k=16, **SMALL["gemm"])
    assert found.verification is not None and found.verification.ok, str(found.verification)


@pytest.mark.parametrize(
    ("engines", "shape"), [(1, (256, 256, 512)), (2, (64, 256, 1024)), (2, (300, 96, 512)), (4, (256, 96, 1024))]
)
def test_a_gemm_takes_smaller_blocks_on_a_small_scratchpad(engines: int, shape: tuple[int, int, int]) -> None:
    config = load_config({"spm": {"num_banks": 16, "bank_size_bytes": "32KiB"}, "te": {"engines": engines}})
    engine = GraphEngine(config)
    engine.run(load_bench("gemm"), **dict(zip("mnk", shape, strict=True)))
    found = report(engine, verify=True)
    assert found.verification is not None and found.verification.ok, str(found.verification)


@pytest.mark.parametrize("mode", ["b_streamed", "streamed"])
def test_streamed_gemms_need_no_waits(mode: str) -> None:
    engine = GraphEngine(CONFIGS["single_cube"], op_log=False, strict_wait=True)
    engine.run(load_bench("gemm"), mode=mode, **SMALL["gemm"])
    assert report(engine).implicit_waits == 0


@pytest.mark.parametrize("bench", SMALL)
def test_no_bench_waits_implicitly(bench: str) -> None:
    engine = GraphEngine(CONFIGS["single_cube"], op_log=False, strict_wait=True)
    engine.run(load_bench(bench), **SMALL[bench])
    assert report(engine).implicit_waits == 0


@pytest.mark.parametrize("bench", SMALL)
def test_cycles_are_the_same_without_an_op_log(bench: str) -> None:
    with_log, without = ran(bench, **SMALL[bench]), ran(bench, verify=False, **SMALL[bench])
    assert with_log.result.cycles == without.result.cycles and with_log.launches == without.launches


@pytest.mark.parametrize("bench", SMALL)
def test_references_see_wrong_results(bench: str) -> None:
    """The reference of other inputs is not that of these: nothing is compared with itself."""
    engine = GraphEngine(CONFIGS["single_cube"])
    engine.run(load_bench(bench), **SMALL[bench])
    running = engine.activity
    name = next(iter(running.context.inputs))
    changed = np.array(running.context.inputs[name])
    changed.reshape(-1)[1] += 3
    running.context.inputs[name] = changed
    assert not running.verify().ok


def test_shuffled_pages_take_other_cycles_and_more_transfers() -> None:
    params = {"sequences": 8, "tokens": 128, "page_tokens": 8}
    contiguous, shuffled, other = (
        ran("paged_attention", layout=layout, seed=seed, **params)
        for layout, seed in (("contiguous", 0), ("shuffled", 0), ("shuffled", 1))
    )
    assert all(one.verification for one in (contiguous, shuffled, other))
    jobs = [next(kind.jobs for kind in one.kinds if kind.kind == "dma") for one in (contiguous, shuffled, other)]
    assert jobs[0] < min(jobs[1:])
    assert len({one.result.cycles for one in (contiguous, shuffled, other)}) == 3


def test_experts_work_for_their_tokens_alone() -> None:
    """256 tokens in 2 slots are 512 rows of 256 x 256 products, however they are spread over the experts."""
    found = ran("moe_dispatch", verify=False)
    macs = next(kind.work for kind in found.kinds if kind.kind == "te")
    assert macs == 256 * 2 * 256 * 256


# A GEMM sharded over PEs follows its roofline: docs/reference/benches.md has the derivation.

LAUNCH = range(420, 450)  # [cycle] from the host to a PE's first program, by the way to its cube
HEAD = 123  # [cycle] before a transfer of the PE's own slice moves: 120 of setup, 3 on the way
SLICE = 102.4  # [byte/cycle] of a slice: two channels of 51.2
CHANNEL = 51.2  # [byte/cycle] a row of a block of c, 256 bytes, lies on one channel


def predicted(rows: int, n: int, k: int, block_n: int) -> float:
    """Cycles of a PE with one panel of `a`, in f16: the first operands, the slower of products and loads, the last block."""
    blocks = n // block_n
    panel, block, left = (2 * size for size in (rows * k, k * block_n, rows * block_n))
    te = 16 + -(-rows * block_n * k // 4096) + 16
    first, last = HEAD + (panel + block) / SLICE, HEAD + left / CHANNEL
    loads = (blocks - 1) * (HEAD + block / SLICE) + te
    return first + max(blocks * te, loads) + last


@pytest.mark.parametrize(
    ("machine", "pes", "m"),
    [
        ("single_cube", 1, 128),
        ("single_cube", 8, 1024),
        ("sip_4x4", 1, 128),
        ("sip_4x4", 8, 1024),
        ("sip_4x4", 128, 1024),  # 8 rows a PE: the loads of b decide
        ("sip_4x4", 128, 16384),  # 128 rows a PE: the products decide
    ],
)
def test_a_sharded_gemm_follows_its_roofline(machine: str, pes: int, m: int) -> None:
    found = ran("gemm", machine, verify=False, pes=pes, m=m)
    (launch,) = found.launches
    assert len(launch.pes) == pes
    expected = predicted(m // pes, 1024, 1024, 128)
    for times in launch.pes.values():
        assert times.start is not None and times.end is not None
        assert times.start in LAUNCH
        assert expected <= times.end - times.start <= 1.015 * expected


@pytest.mark.parametrize(("machine", "pes"), [("single_cube", 1), ("single_cube", 8), ("sip_4x4", 1), ("sip_4x4", 128)])
def test_a_sharded_gemm_is_right(machine: str, pes: int) -> None:
    found = ran("gemm", machine, pes=pes, m=130, n=64, k=32, block_n=32)
    assert found.verification is not None and len(found.verification.checked) == pes and found.verification.ok


@pytest.mark.parametrize("mode", ["pinned", "b_streamed", "streamed"])
@pytest.mark.parametrize("n", [7, 100, 257])
def test_a_gemm_takes_any_number_of_columns(mode: str, n: int) -> None:
    found = ran("gemm", mode=mode, m=20, n=n, k=64)
    assert found.verification is not None and found.verification.ok, str(found.verification)


def test_gemm_takes_blocks_that_fit_a_small_scratchpad() -> None:
    """256 KiB do not hold four blocks of 512 x 128 elements of 2 bytes."""
    small = load_config("npu_mobile", {"spm.num_banks": 16, "spm.bank_size_bytes": "16 KiB"})
    engine = GraphEngine(small)
    engine.run(load_bench("gemm"), m=4, n=512, k=512)
    found = report(engine, verify=True)
    assert found.verification is not None and found.verification.ok
