"""Benches use all tensor and vector engines of a PE, or say why not; where a PE has one of each they take what they took."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import load_config
from kernbench.runtime_api.discovery import load_bench
from kernbench.runtime_api.report import BenchReport, report
from kernbench.sim_engine.engine import GraphEngine
from tests.golden.test_benches import SMALL

#: Cycles with the default parameters: before (one block in flight, of `gemm` two), with one for each engine, on `single_cube`.
CYCLES = {
    "vector_add": (18_769, 10_343, 9_375),
    "reduce": (31_515, 8_528, 8_757),
    "softmax": (28_426, 7_801, 7_256),
    "layernorm": (84_102, 21_686, 20_330),
    "gemm": (70_354, 36_819, 39_792),
    "flash_attention": (343_495, 89_392, 77_711),
    "paged_attention": (79_317, 27_005, 11_900),
    "moe_dispatch": (32_115, 21_916, 29_598),
}


def ran(bench: str, machine: str = "npu_server", *, verify: bool = False, **params: Any) -> BenchReport:
    engine = GraphEngine(load_config(machine), op_log=verify)
    engine.run(load_bench(bench), **params)
    return report(engine, verify=verify)


@pytest.mark.parametrize("bench", CYCLES)
def test_all_engines_work(bench: str) -> None:
    """`kbsim run gemm` kept 2 of 4 tensor engines busy, and the others one engine of each kind."""
    before, cycles, one_each = CYCLES[bench]
    found = ran(bench)
    assert found.result.cycles == cycles < before and found.notes == ()
    for kind in found.kinds:
        assert kind.used in (0, kind.engines)
    assert ran(bench, in_flight=1).result.cycles == pytest.approx(before, rel=0.001)  # buffers lie elsewhere
    assert ran(bench, "single_cube").result.cycles == one_each


@pytest.mark.parametrize(
    ("m", "block", "used"),
    [(256, 128, 4), (1024, 128, 4), (2048, 256, 4), (130, 32, 4), (64, 64, 4), (64, 128, 2), (5, 256, 1)],
)
def test_gemm_uses_all_tensor_engines_at_every_size(m: int, block: int, used: int) -> None:
    found = ran("gemm", m=m, n=256, k=64, block_n=block)
    kind = next(kind for kind in found.kinds if kind.kind == "te")
    assert (kind.used, kind.engines) == (used, 4)
    jobs = f"{used} product{'s' * (used > 1)}"
    few = f"{used} of 4 tensor engines had work: the kernels had {jobs} in all; smaller blocks make more"
    assert found.notes == (() if used == 4 else (few,))
    assert found.to_dict()["notes"] == list(found.notes)


@pytest.mark.parametrize("in_flight", [0, 1, 3])
@pytest.mark.parametrize("bench", [name for name in SMALL if name != "tp_mlp"])
def test_results_are_right_however_many_are_in_flight(bench: str, in_flight: int) -> None:
    found = ran(bench, verify=True, in_flight=in_flight, **SMALL[bench])
    assert found.verification is not None and found.verification.ok, str(found.verification)


def test_no_bench_waits_implicitly_with_several_in_flight() -> None:
    for bench in CYCLES:
        engine = GraphEngine(load_config("npu_mobile"), op_log=False, strict_wait=True)
        engine.run(load_bench(bench), **SMALL[bench])
        assert report(engine).implicit_waits == 0


def test_one_in_flight_is_said_to_leave_engines_without_work() -> None:
    rest = "had work: the kernels had at most 1"
    assert ran("moe_dispatch", in_flight=1).notes == (
        f"1 of 4 tensor engines {rest} product in flight at a time",
        f"1 of 4 vector engines {rest} step in flight at a time",
    )
