"""The host side of Triton: runtime, testing, warmup, constants as objects, double precision, old values of atomic ops."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.triton.runtime.autotuner import Autotuner
from kernbench.triton_emu.errors import KernelError

SIZE = tl.constexpr(8)
FOUR = tl.constexpr(4)


@triton.jit
def scaled(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, factor * tl.load(x_ptr + places, mask=places < n, other=0.0), mask=places < n)


@triton.jit
def shifted(x_ptr, out_ptr, n, shift=3.0, BLOCK: tl.constexpr = 16):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, shift + tl.load(x_ptr + places, mask=places < n, other=0.0), mask=places < n)


def test_arguments_that_a_launch_leaves_out_have_their_defaults() -> None:
    x, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    seen: list[dict[str, Any]] = []

    def grid(meta: dict[str, Any]) -> tuple[int]:
        seen.append(meta)
        return (triton.cdiv(40, meta["BLOCK"]),)

    shifted[grid](x, out, 40)
    assert np.array_equal(out, x + 3) and seen[0]["BLOCK"] == 16 and seen[0]["shift"] == 3.0
    compiled = shifted.warmup(x, out, 40, grid=(3,))
    compiled[(3, 1, 1)](x, out, 40, 5.0)
    assert np.array_equal(out, x + 5)


def test_warmup_runs_nothing_and_its_kernel_launches() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    compiled = scaled.warmup(x, out, 64, 2.0, BLOCK=32, num_warps=8, grid=(1,))
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert not out.any() and compiled.metadata.num_warps == 8 and compiled.metadata.shared == properties["max_shared_mem"]
    assert properties["max_num_regs"] // (compiled.n_regs * properties["warpSize"] * 8) == 1  # a PE has one program at a time
    compiled[(2, 1, 1)](x, out, 64, 2.0)
    assert np.array_equal(out, 2 * x)
    with pytest.raises(triton.TritonError, match=r'asm\["ptx"\]: kernels run as Python'):
        compiled.asm["ptx"]
    run = scaled.run(x, out, 64, 3.0, BLOCK=64, grid=(1,), warmup=False)
    assert run.cycles > 0 and np.array_equal(out, 3 * x)


def test_the_driver_is_the_machine() -> None:
    driver = triton.runtime.driver.active
    with kernbench.machine("npu_mobile"):
        assert driver.get_current_target().arch == "npu_mobile"
        assert driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"] == 1
    assert driver.utils.get_device_properties(0)["multiprocessor_count"] == 8 and driver.get_current_target().warp_size == 1


def test_an_empty_grid_and_empty_arrays_do_nothing() -> None:
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    run = scaled[(0,)](x, out, 8, 2.0, BLOCK=8)
    assert run.cycles == 0 and not out.any()
    none = np.zeros((0, 4), np.float32)
    run = scaled[(1,)](none, none, 0, 2.0, BLOCK=8)
    assert run.arrays["out_ptr"].shape == (0, 4)
    with pytest.raises(triton.TritonError, match="points to element 0 of x_ptr, which has 0"):
        scaled[(1,)](none, out, 8, 2.0, BLOCK=8)


def test_constants_have_triton_s_interface() -> None:
    two = tl.constexpr(2)
    assert two.value == 2 and (two * 3 + 1).value == 7 and (10 // two).value == 5 and two != 3
    assert tl.constexpr(two).value == 2
    assert bool(two > 1) and list(range(two)) == [0, 1] and {two: 1}[tl.constexpr(2)] == 1

    @triton.jit
    def kernel(out_ptr, kind: tl.constexpr, N: tl.constexpr = FOUR):
        places = tl.arange(0, SIZE)
        tl.static_assert(places.shape == [SIZE] and N == 4)
        half = 0.5
        tl.store(out_ptr + places, (SIZE * places + N).to(kind) + half.to(kind))

    out = np.zeros(8, np.float32)
    kernel[(1,)](out, tl.constexpr(tl.float32))
    assert np.array_equal(out, 8 * np.arange(8) + 4.5)
    assert tl.dtype("fp32") == tl.float32 and tl.float16.fp_mantissa_width == 10 and tl.float8e5b16.exponent_bias == 16
    assert tl.str_to_ty("*fp16").element_ty == tl.float16
    assert not hasattr(tl, "tuple_type") and not hasattr(tl, "no_such_name") and "int8" in tl.dtype.SINT_TYPES


def test_double_precision_is_not_rounded_to_single() -> None:
    @triton.jit
    def kernel(x_ptr, y_ptr, out_ptr, total_ptr, N: tl.constexpr):
        places = tl.arange(0, N)
        x, y = tl.load(x_ptr + places), tl.load(y_ptr + places)
        tl.store(out_ptr + places, tl.exp(x) / y + tl.fma(x, y, x) - tl.broadcast_to(tl.max(x, 0), (N,)))
        product = tl.dot(tl.broadcast_to(x[:, None], (N, N)), tl.broadcast_to(y[None, :], (N, N)))
        tl.store(total_ptr, tl.sum(tl.sum(product, 0), 0))

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=16), rng.normal(size=16)
    out, total = np.zeros(16), np.zeros(1)
    kernel[(1,)](x, y, out, total, 16)
    np.testing.assert_allclose(out, np.exp(x) / y + x * y + x - x.max(), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(total[0], 16 * x.sum() * y.sum(), rtol=1e-12)


def test_atomic_ops_on_floats_give_the_old_values_in_turn() -> None:
    """Each lane and each program sees what was there just before it, in whatever order: old values are partial sums."""

    @triton.jit
    def kernel(sum_ptr, old_ptr, N: tl.constexpr):
        places = tl.arange(0, N)
        old = tl.atomic_add(sum_ptr + tl.zeros((N,), tl.int32), 1.0 + tl.zeros((N,), tl.float32))
        tl.store(old_ptr + tl.program_id(0) * N + places, 2 * old)

    total, old = np.zeros(1, np.float32), np.zeros(64, np.float32)
    kernel[(8,)](total, old, 8)
    assert total[0] == 64 and sorted(old.tolist()) == [2.0 * i for i in range(64)]


def test_atomic_cas_and_xchg_of_computed_floats() -> None:
    @triton.jit
    def kernel(x_ptr, there_ptr, old_ptr, N: tl.constexpr):
        places = tl.arange(0, N)
        x = tl.load(x_ptr + places) * 0.5
        tl.store(old_ptr + places, tl.atomic_cas(there_ptr + places, x, -x))
        tl.store(old_ptr + N + places, tl.atomic_xchg(there_ptr + places, x + 1))

    x = np.arange(8, dtype=np.float32)
    there, old = np.where(x % 2 == 0, x / 2, 9).astype(np.float32), np.zeros(16, np.float32)
    before = there.copy()
    kernel[(1,)](x, there, old, 8)
    assert np.array_equal(old[:8], before) and np.array_equal(old[8:], np.where(x % 2 == 0, -x / 2, 9))
    assert np.array_equal(there, x / 2 + 1)


def test_autotune_simulates_no_configurations_that_cannot_differ() -> None:
    configs = [triton.Config({"BLOCK": size}, num_warps=warps) for size in (32, 64) for warps in (2, 4, 8)]
    tuned = triton.autotune(configs=configs, key=["n"])(scaled)
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    with kernbench.machine("single_cube") as runs:
        run = tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, out, 64, 2.0)
    assert len(runs) == 3 and run.notes[0].startswith("autotune: 4 of 6 configurations differ from another one only in hints")
    assert np.all(out == 2) and [one.kwargs["BLOCK"] for one, _ in tuned.timings] == [32, 64]
    alike = triton.autotune(configs=configs[:3], key=["n"])(scaled)
    with kernbench.machine("single_cube") as runs:
        alike[(2,)](x, out, 64, 2.0)
    assert len(runs) == 1


def test_autotune_takes_the_first_configuration_that_fits() -> None:
    configs = [triton.Config({"BLOCK": size}) for size in (1 << 21, 64, 32)]
    tuned = triton.autotune(configs=configs, key=["n", "what only another kernel has"], reset_to_zero=["out_ptr"])(scaled)
    x, out = np.ones(64, np.float32), np.ones(64, np.float32)
    with kernbench.machine("single_cube", tune=False) as runs:
        tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, out, 64, 2.0)
        tuned[(1,)](x, out, 64, 3.0)
    assert len(runs) == 2 and tuned.best_config is configs[1] and np.all(out == 3)
    with pytest.raises(KernelError, match="takes 16777216 bytes"), kernbench.machine("single_cube", tune=False):
        triton.autotune(configs=[configs[0], triton.Config({"BLOCK": 1 << 22})], key=["n"])(scaled)[(1,)](x, out, 64, 2.0)


def test_there_is_one_backend() -> None:
    assert [one.driver.is_active() for one in triton.backends.backends.values()] == [True]


def test_scopes_of_the_profiler_name_launches(tmp_path: Path) -> None:
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    proton = triton.profiler

    @proton.scope("inner", {"flops": 8})
    def work() -> Any:
        return scaled[(1,)](x, out, 8, 2.0, BLOCK=8)

    session = proton.start("outer")
    with proton.scope("outer"):
        run = work()
    proton.finalize(session)
    assert run.scopes == ("outer", "inner") and scaled[(1,)](x, out, 8, 2.0, BLOCK=8).scopes == ()
    run.trace(tmp_path / "a.jsonl")
    assert "outer/inner/scaled" in (tmp_path / "a.jsonl").read_text(encoding="utf-8")


def test_classes_derive_from_the_autotuner() -> None:
    class Counting(Autotuner):
        launches = 0

        def run(self, *args: Any, **kwargs: Any) -> Any:
            self.launches += 1
            return super().run(*args, **kwargs)

    made = Counting(scaled, scaled.arg_names, [triton.Config({"BLOCK": 64})], ["n"], None, None)
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    made[(1,)](x, out, 64, 5.0)
    assert made.launches == 1 and np.all(out == 5) and made.best_config is made.configs[0]


def test_benchmarks_measure_simulated_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)

    def launch(n: int = 64) -> Any:
        return scaled[(1,)](x, out, n, 2.0, BLOCK=64)

    ms = triton.testing.do_bench(launch)
    assert ms == launch().t_ns / 1e6 and triton.testing.do_bench(launch, quantiles=[0.5, 0.2]) == [ms, ms]
    assert math.isnan(triton.testing.do_bench(lambda: None))

    bench = triton.testing.Benchmark(
        x_names=["n"], x_vals=[16, 64], line_arg="provider", line_vals=["ours"], line_names=["Ours"], plot_name="scaled",
        args={}, ylabel="ms",
    )  # fmt: skip

    @triton.testing.perf_report(bench)
    def measured(n: int, provider: str) -> Any:
        return triton.testing.do_bench(lambda: launch(n))

    measured.run(print_data=True, save_path=tmp_path)
    assert capsys.readouterr().out.startswith("scaled:\n n  Ours (ms)\n16")
    with (tmp_path / "scaled.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["n", "Ours (ms)"] and float(rows[2][1]) == ms
    triton.testing.assert_close(out, 2 * x)
    with pytest.raises(AssertionError):
        triton.testing.assert_close(out, x)


FILE = """
import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.driver import driver


@triton.jit
def root(x_ptr, N: tl.constexpr):
    places = tl.arange(0, N)
    tl.store(x_ptr + places, libdevice.sqrt(tl.load(x_ptr + places)))


x = np.full(8, 9, np.float32)
root[(1,)](x, N=8)
print(x[0], triton.__version__, driver.active.get_current_target().arch)
"""


def test_a_file_that_imports_triton_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(f"import kernbench.triton.patch\n{FILE}")
    done = subprocess.run([sys.executable, tmp_path / "kernels.py"], capture_output=True, text=True, check=True)
    assert done.stdout == f"3.0 {triton.__version__} single_cube\n"


def test_bessel_functions() -> None:
    """Against values of NIST's Digital Library of Mathematical Functions (10.75, to ten digits)."""
    from kernbench.sim_engine.replay.bessel import BESSEL

    known = {
        "j0": (0.7651976866, -0.1775967713, 0.1670246643), "j1": (0.4400505857, -0.3275791376, 0.0668331242),
        "y0": (0.0882569642, -0.3085176252, 0.0626405968), "y1": (-0.7812128213, 0.1478631434, -0.1655116144),
        "cyl_bessel_i0": (1.2660658778, 27.2398718236, 43558282.5595535),
        "cyl_bessel_i1": (0.5651591040, 24.3356421425, 42454973.3851278),
    }  # fmt: skip
    places = dict.fromkeys(known, (1.0, 5.0, 20.0))
    for name, values in known.items():
        np.testing.assert_allclose(BESSEL[name](np.asarray(places[name])), values, rtol=1e-8, atol=1e-10, err_msg=name)
    assert np.isnan(BESSEL["y0"](np.asarray([-1.0])))[0] and BESSEL["y1"](np.asarray([0.0]))[0] == -np.inf
    big = BESSEL["j0"](np.asarray([25.0 - 1e-9, 25.0 + 1e-9]))
    np.testing.assert_allclose(big[0], big[1], atol=1e-9)


def test_what_is_written_through_a_const_pointer_or_twice_is_reported() -> None:
    @triton.jit
    def kernel(x_ptr: tl.const, out_ptr, write: tl.constexpr):
        places = tl.arange(0, 8)
        x = tl.load(x_ptr + places)
        tl.store((x_ptr if write else out_ptr) + places // 2, x)

    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(triton.TritonError, match=r"Cannot store to a constant pointer: tl\.store through x_ptr"):
        kernel[(1,)](x, out, True)
    with kernbench.machine("single_cube", check="races") as runs:
        kernel[(1,)](x, out, False)
    assert "to out_ptr: 4 lanes write to an address that another lane of the same store writes" in runs[0].problems[0]
    assert np.array_equal(out[:4], [1, 3, 5, 7])


def test_device_assert_checks_what_is_computed_after_the_timing() -> None:
    @triton.jit
    def kernel(x_ptr, limit, N: tl.constexpr):
        places = tl.arange(0, N)
        x = tl.exp(tl.load(x_ptr + places))
        tl.device_assert(x < limit, "too large", mask=places < 3)
        tl.store(x_ptr + places, x)

    x = np.arange(4, dtype=np.float32)
    kernel[(1,)](x.copy(), 8.0, 4)
    with pytest.raises(triton.TritonError, match=r"test_triton_host\.py:\d+: tl\.device_assert failed: too large"):
        kernel[(1,)](x.copy(), 7.0, 4)


LENGTH = 8


def test_portable_refuses_what_triton_s_compiler_refuses() -> None:
    @triton.jit
    def plain(out_ptr):
        tl.store(out_ptr + tl.arange(0, LENGTH), 1.0)

    @triton.jit
    def bounds(out_ptr, n):
        tl.store(out_ptr + tl.arange(0, n), 1.0)

    @triton.jit
    def small(out_ptr, kind: tl.constexpr):
        tl.atomic_add(out_ptr.to(tl.pointer_type(kind)), 1)

    out = np.zeros(8, np.float32)
    plain[(1,)](out)
    assert out.all()
    with kernbench.machine("single_cube", portable=True):
        with pytest.raises(triton.CompilationError, match=r"test_triton_host.py:\d+: Cannot access global variable LENGTH"):
            plain[(1,)](out)
        with pytest.raises(triton.TritonError, match=r"tl\.arange of a tensor: in Triton the bounds must be constants"):
            bounds[(1,)](out, 8)
        for kind in (tl.int16, tl.uint16, tl.uint8):
            with pytest.raises(triton.CompilationError, match=f"atomic_add does not support {kind}"):
                small[(1,)](out, kind)


def _nothing():
    pass


def test_a_kernel_takes_another_source() -> None:
    """As triton_kernels makes kernels of texts: a function for its globals and its name, and then the source."""
    maker = types.FunctionType(_nothing.__code__, {"tl": tl, "SIZE": tl.constexpr(4)})
    maker.__name__ = "made"
    kernel = triton.JITFunction(maker, repr=lambda _: "one of a text", do_not_specialize=["n"])
    body = "    one = 1\n    tl.store(x_ptr + tl.arange(0, SIZE), n + one.to(tl.int32))\n"
    kernel._unsafe_update_src(f"def made(x_ptr, n):\n{body}")
    x = np.zeros(4, np.int32)
    kernel[(1,)](x, 6)
    assert x.tolist() == [7] * 4 and kernel.arg_names == ["x_ptr", "n"] and kernel.repr(None) == "one of a text"
    assert kernel.raw_src[0].startswith("def made") and not kernel.is_gluon() and kernel.do_not_specialize == ["n"]
    captured = kernel.get_capture_scope()
    assert captured["SIZE"].value == 4


@triton.jit
def of_the_grid(axis: tl.constexpr):
    tl.program_id(axis)


@triton.jit
def with_axes(first: tl.constexpr, second: tl.constexpr):
    tl.expand_dims(tl.arange(0, 8), (first, second))


@triton.jit
def with_axis(axis: tl.constexpr):
    tl.expand_dims(tl.sum(tl.arange(0, 8)), axis)


@pytest.mark.parametrize(
    ("kernel", "axes", "message", "cause"),
    [
        (of_the_grid, (20,), "axis 20 of the grid does not exist", "program_id axis must be 0, 1, or 2 but got 20"),
        (with_axis, (1,), "axis 1 of a tensor of 1 axes", "invalid axis 1"),
        (with_axes, (0, -4), "axis -4 of a tensor of 3 axes", "invalid axis -4"),
        (with_axes, (0, -3), r"the axes \[0, 0\] are not different", "duplicate axes, normalized axes = [0, 0]"),
    ],
)
def test_errors_of_axes_have_the_cause_that_code_for_triton_looks_at(
    kernel: Any, axes: tuple[int, ...], message: str, cause: str
) -> None:
    with pytest.raises(triton.TritonError, match=rf"^test_triton_host.py:\d+: .*{message}") as caught:
        kernel[(1,)](*axes)
    assert isinstance(caught.value.__cause__, ValueError) and str(caught.value.__cause__) == cause


@triton.jit
def _typed(out_ptr, x: tl.float64, y: "fp64", z: tl.int64):  # noqa: F821, UP037
    tl.static_assert(z.dtype == tl.int64)
    tl.store(out_ptr, x + y + z)


def test_annotated_types_are_those_of_numbers() -> None:
    out = np.zeros(1)
    _typed[(1,)](out, 0.1, 0.2, 1)
    assert out[0] == 0.1 + 0.2 + 1


def test_a_run_has_what_a_compiled_kernel_has() -> None:
    out = np.zeros(1)
    with kernbench.machine("npu_mobile"):
        compiled = _typed.warmup(out, 0.1, 0.2, 1, grid=(1,), num_warps=8)
        run = _typed[(1,)](out, 0.1, 0.2, 1, num_warps=8)
        nothing = _typed[(0,)](out, 0.1, 0.2, 1)
    assert (run.n_regs, run.n_spills, run.metadata._asdict()) == (compiled.n_regs, 0, compiled.metadata._asdict())
    assert run.metadata.num_warps == 8 and nothing.metadata.num_warps == 4 and not run.asm
    with pytest.raises(triton.TritonError, match=r'asm\["ptx"\]: kernels run as Python'):
        run.asm["ptx"]
    other = triton.jit(_typed.fn)
    assert _typed.cache_key == other.cache_key != _nothing_more.cache_key


@triton.jit
def _nothing_more(out_ptr):
    tl.store(out_ptr, 0.0)


@triton.jit
def _of_two_tensors(x_ptr, y_ptr, out_ptr, n):
    places = tl.arange(0, 4)
    tl.store(out_ptr + places, tl.load(tl.where(n > 2, x_ptr, y_ptr) + places))
    tl.store(out_ptr + 4 + places, tl.load(tl.where(places < n, x_ptr + places, y_ptr + places)))


def test_where_chooses_one_of_two_tensors() -> None:
    x, y, out = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) + 10, np.zeros(8, np.float32)
    _of_two_tensors[(1,)](x, y, out, 4)
    assert out.tolist() == [*x, *x]
    _of_two_tensors[(1,)](x, y, out, 0)
    assert out.tolist() == [*y, *y]
    with pytest.raises(triton.TritonError, match="pointers into x_ptr in some lanes and into y_ptr in others"):
        _of_two_tensors[(1,)](x, y, out, 2)


@triton.jit
def _combines(x_ptr, out_ptr, n):
    places = tl.arange(0, 8)
    x = tl.load(x_ptr + places)
    inside = (places < 6) and (places > 1) and n > 2
    chosen = (x > 0.0) or (places == 2)
    tl.store(out_ptr + places, tl.where(chosen, 1.0, 2.0), mask=inside)
    if n > 5 or x_ptr is None:
        assert x * 2 < 2.5, f"too large for {n.dtype}"


def test_and_or_and_assert_take_all_elements_of_tensors() -> None:
    x, out = np.array([-1, 1, -1, 1, -1, 1, -1, 1], np.float32), np.zeros(8, np.float32)
    _combines[(1,)](x, out, 3)
    assert out.tolist() == [0, 0, 1, 1, 2, 1, 0, 0]
    _combines[(1,)](x, out, 6)
    x[3] = 2
    with pytest.raises(triton.TritonError, match=r"test_triton_host.py:\d+: tl.device_assert failed: too large for int32"):
        _combines[(1,)](x, out, 6)


@triton.jit
def _in_double_precision(x_ptr, out_ptr, factor: tl.constexpr):
    places = tl.arange(0, 4)
    x, one = tl.load(x_ptr + places), tl.load(x_ptr + 1)
    tl.store(out_ptr + places, x * factor + 0.7)
    tl.store(out_ptr + 4 + places, tl.full([4], 0.1, tl.float64) + (one - 0.3) / 0.7)
    tl.store(out_ptr + 8 + places, tl.where(places > 1, 0.1, x) + tl.exp(tl.full((), 0.1, tl.float64)))
    tl.store(out_ptr + 12 + places, (x == 0.1).to(tl.float64) + tl.maximum(x, 0.3))


def test_numbers_in_ops_on_double_precision_are_rounded_as_in_triton() -> None:
    x, out = np.array([0.1, 0.2, 0.3, 0.4]), np.zeros(16)
    _in_double_precision[(1,)](x, out, 0.1)
    single = float(np.float32(0.3))  # in comparisons and maxima, as in Triton
    chosen = np.array([0.1, 0.2, 0.1, 0.1])
    wanted = [x * 0.1 + 0.7, np.full(4, 0.1) + (x[1] - 0.3) / 0.7, chosen + np.exp(0.1), np.maximum(x, single)]
    np.testing.assert_allclose(out.reshape(4, 4), wanted, rtol=1e-15)


@triton.jit
def selects_addresses(take_ptr, x_ptr, y_ptr, out_ptr, loads: tl.constexpr):
    places = tl.arange(0, 4)
    x, y = tl.load(x_ptr + places).to(tl.pi32_t), tl.load(y_ptr + places).to(tl.pi32_t)
    chosen = tl.where(tl.load(take_ptr + places) != 0, x, y)
    tl.store(out_ptr + places, tl.load(chosen) if loads else chosen)


def test_addresses_are_selected_and_stored_as_integers() -> None:
    x, y = np.arange(4) * (1 << 40), -np.arange(4) - 5
    take, out = np.array([1, 0, 0, 1]), np.zeros(4, np.int64)
    selects_addresses[(1,)](take, x, y, out, False)
    assert out.tolist() == [x[0], y[1], y[2], x[3]]
    with pytest.raises(triton.TritonError, match=r"tl\.load of pointers that were made of several integers is not possible"):
        selects_addresses[(1,)](take, x, y, out, True)
