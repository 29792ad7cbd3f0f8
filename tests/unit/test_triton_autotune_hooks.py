"""Hooks of `triton.autotune` and `triton.Config`, and the tensors that a selection resets or restores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl

SIZES = (16, 32)
N = 64


@triton.jit
def increased(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Add 1 to both tensors: each launch that is not undone shows in the values."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + places, 1.0 + tl.load(x_ptr + places, places < n, 0.0), places < n)
    tl.store(y_ptr + places, 1.0 + tl.load(y_ptr + places, places < n, 0.0), places < n)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(N, meta["BLOCK"]),)


def made(sizes: tuple[int, ...] = SIZES, hook: Any = None, **options: Any) -> Any:
    configs = [triton.Config({"BLOCK": size}, pre_hook=hook) for size in sizes]
    return triton.autotune(configs=configs, key=["n"], **options)(increased)


def tensors() -> tuple[Any, Any]:
    return np.full(N, 5, np.float32), np.full(N, 7, np.float32)


def test_hooks_are_called_in_triton_s_order() -> None:
    """As `Autotuner` of Triton: no hook of the tuner around a launch whose configuration is known, or the only one."""
    calls: list[Any] = []
    x, y = tensors()

    def config_pre(nargs: dict[str, Any]) -> None:
        assert nargs["x_ptr"] is x and nargs["n"] == N and nargs["grid"] is grid and nargs["num_warps"] == 4
        calls.append(("config", nargs["BLOCK"], x[0]))

    def pre(nargs: dict[str, Any], reset_only: bool = False) -> None:
        assert nargs["y_ptr"] is y and (nargs["num_stages"], nargs["num_ctas"]) == (3, 1)
        calls.append(("reset" if reset_only else "pre", nargs["BLOCK"], x[0]))

    def post(nargs: dict[str, Any], exception: Exception | None) -> None:
        assert nargs["x_ptr"] is x and exception is None
        calls.append(("post", nargs["BLOCK"], x[0]))

    tuned = made(hook=config_pre, pre_hook=pre, post_hook=post)
    tuned[grid](x, y, n=N)
    best = tuned.best_config.kwargs["BLOCK"]
    measured = [(name, size, 6 if name == "post" else 5) for size in SIZES for name in ("config", "pre", "post")]
    assert calls == [*measured, ("reset", best, 5), ("config", best, 5)] and np.all(x == 6) and np.all(y == 8)

    calls.clear()
    tuned[grid](x, y, n=N)
    assert calls == [("config", best, 6)]

    calls.clear()
    made((32,), hook=config_pre, pre_hook=pre, post_hook=post)[grid](x, y, n=N)
    assert calls == [("config", 32, 7)]


def test_post_hook_gets_the_error_of_a_configuration_that_cannot_run() -> None:
    errors: list[Any] = []
    tuned = made((1 << 30, 32), post_hook=lambda nargs, exception: errors.append(exception))
    x, y = tensors()
    tuned[grid](x, y, N)
    assert isinstance(errors[0], kernbench.KernbenchError) and errors[1] is None and len(errors) == 2
    assert tuned.best_config is tuned.configs[1]


def test_an_error_of_a_hook_reaches_the_caller_and_tensors_are_restored() -> None:
    def post(nargs: dict[str, Any], exception: Exception | None) -> None:
        raise ValueError("no more")

    x, y = tensors()
    with pytest.raises(ValueError, match="no more"):
        made(post_hook=post)[grid](x, y, N)
    assert np.all(x == 5) and np.all(y == 7)


def test_a_selection_changes_no_tensor_by_default() -> None:
    x, y = tensors()
    made()[grid](x, y, N)
    assert np.all(x == 6) and np.all(y == 8)


def test_restore_value_names_what_is_restored() -> None:
    x, y = tensors()
    made(restore_value=["x_ptr"])[grid](x, y, N)
    assert np.all(x == 6) and np.all(y == 7 + len(SIZES) + 1)
    torch = pytest.importorskip("torch")
    x, y = torch.full((N,), 5.0), torch.full((N,), 7.0)
    made(restore_value=["y_ptr"])[grid](x, y, N)
    assert torch.all(x == 5 + len(SIZES) + 1) and torch.all(y == 8)


def test_reset_to_zero_comes_before_measurements_and_once_after_a_selection() -> None:
    seen: list[float] = []
    x, y = tensors()
    tuned = made(reset_to_zero=["x_ptr"], post_hook=lambda nargs, exception: seen.append(nargs["x_ptr"][0]))
    tuned[grid](x, y, N)
    assert seen == [1, 1] and np.all(x == 1) and np.all(y == 8)
    tuned[grid](x, y, N)  # the configuration is known: as in Triton, the values stay
    assert np.all(x == 2) and np.all(y == 9)
    made((32,), reset_to_zero=["x_ptr"])[grid](x, y, N)
    assert np.all(x == 3)


@pytest.mark.parametrize("tune", [True, False])
def test_a_first_launch_has_the_same_values_without_measurements(tune: bool) -> None:
    """Neither `tune=False` nor configurations that differ only in hints for GPUs change what is reset."""
    calls: list[bool] = []

    def pre(nargs: dict[str, Any], reset_only: bool = False) -> None:
        calls.append(reset_only)

    x, y = tensors()
    alike = [triton.Config({"BLOCK": 32}, num_warps=warps) for warps in (4, 8)]
    with kernbench.machine("single_cube", tune=tune):
        triton.autotune(configs=alike, key=["n"], reset_to_zero=["x_ptr"])(increased)[grid](x, y, N)
        triton.autotune(configs=alike, key=["n"], pre_hook=pre)(increased)[grid](x, y, N)
    assert np.all(x == 2) and np.all(y == 9) and calls == [True]


def test_warmup_leaves_the_reset_to_the_first_launch() -> None:
    calls: list[int] = []
    x, y = tensors()
    tuned = made(hook=lambda nargs: calls.append(nargs["BLOCK"]), reset_to_zero=["x_ptr"])
    tuned.warmup(x, y, N, grid=grid)
    assert np.all(x == 5) and np.all(y == 7) and calls == [16, 32]
    tuned[grid](x, y, N)
    assert np.all(x == 1) and calls == [16, 32, tuned.best_config.kwargs["BLOCK"]]


def test_names_and_hooks_that_cannot_work_are_refused() -> None:
    x, y = tensors()
    with pytest.raises(triton.TritonError, match="restore_value names z_ptr, which is not an argument of the launch"):
        made(restore_value=["z_ptr"])[grid](x, y, N)
    with pytest.raises(triton.TritonError, match="reset_to_zero names n, which is 64; name only"):
        made(reset_to_zero=["n"])[grid](x, y, N)
    with pytest.raises(triton.TritonError, match="restore_value has no copies to restore, because pre_hook takes the place"):
        made(restore_value=["x_ptr"], pre_hook=lambda nargs, reset_only=False: None)[grid](x, y, N)
    assert np.all(x == 5) and np.all(y == 7)
