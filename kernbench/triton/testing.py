"""`triton.testing`: measurements in simulated time, plots of measurements, and comparisons of arrays.

The simulated time is the time of the machine that runs the launches. It does not vary, so `do_bench` calls a function once.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import RUNTIME


def do_bench(
    fn: Callable[[], Any], warmup: int = 25, rep: int = 100, grad_to_none: Any = None, quantiles: Any = None,
    return_mode: str = "mean",
) -> Any:  # fmt: skip
    """Return the simulated time [ms] of the kernels that `fn` launches.

    The result is NaN if `fn` launches no kernel, because PyTorch's own ops take no simulated time.

    Parameters
    ----------
    fn
        A function without parameters. It is called once, because simulated cycles do not vary.
    warmup, rep, grad_to_none
        Accepted and ignored.
    quantiles
        A list of quantiles. The result is then a list of equal times, or a single time for a single quantile.
    return_mode
        "min", "max", "mean" or "median", which are all the same here; "all" returns a list with one time.

    Raises
    ------
    TritonError
        If `return_mode` is none of these names.

    Example
    -------
    >>> ms = triton.testing.do_bench(lambda: kernel[(4,)](x, y, 1000, BLOCK=256))
    """
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise TritonError(f'do_bench with return_mode="{return_mode}": it must be min, max, mean, median or all')
    with import_module(RUNTIME).recorded() as runs:
        fn()
    found = sum(one.t_ns for one in runs) / 1e6 if runs else float("nan")
    if quantiles is not None:
        return [found] * len(quantiles) if len(quantiles) > 1 else found
    return [found] if return_mode == "all" else found


def do_bench_cudagraph(
    fn: Callable[[], Any], rep: int = 20, grad_to_none: Any = None, quantiles: Any = None, return_mode: str = "mean"
) -> Any:
    """Return the same time [ms] as `do_bench`, because a launch takes no time on the host here."""
    return do_bench(fn, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode)


class Benchmark:
    """The description of a plot for `perf_report`: one line for each of `line_vals`, measured at each of `x_vals`."""

    def __init__(
        self, x_names: Sequence[str], x_vals: Sequence[Any], line_arg: str, line_vals: Sequence[Any],
        line_names: Sequence[str], plot_name: str, args: dict[str, Any], xlabel: str = "", ylabel: str = "",
        x_log: bool = False, y_log: bool = False, styles: Sequence[tuple[str, str]] | None = None,
    ) -> None:  # fmt: skip
        self.x_names, self.x_vals = list(x_names), list(x_vals)
        self.line_arg, self.line_vals, self.line_names = line_arg, list(line_vals), list(line_names)
        self.plot_name, self.args = plot_name, dict(args)
        self.xlabel, self.ylabel, self.x_log, self.y_log, self.styles = xlabel, ylabel, x_log, y_log, styles


class Mark:
    """A function with one or more benchmarks. `run` calls the function for every point of every benchmark."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Any) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self, show_plots: bool = False, print_data: bool = False, save_path: str | os.PathLike[str] = "",
        return_df: bool = False, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Measure all points of all benchmarks.

        Parameters
        ----------
        show_plots
            Whether the plots are shown. This needs matplotlib.
        print_data
            Whether the tables are printed.
        save_path
            A folder for a CSV file of each benchmark and, with matplotlib, a picture. It is created if necessary.
        return_df
            Whether pandas data frames are returned: one frame, or a list of frames for a list of benchmarks.
        kwargs
            Further arguments of the function.

        Raises
        ------
        TritonError
            If `return_df` is true and pandas is not installed.
        """
        several = not isinstance(self.benchmarks, Benchmark)
        tables = [
            self._measured(one, show_plots, print_data, save_path, return_df, kwargs)
            for one in (self.benchmarks if several else [self.benchmarks])
        ]
        return (tables if several else tables[0]) if return_df else None

    def _measured(
        self, bench: Benchmark, show: bool, print_data: bool, save_path: str | os.PathLike[str], as_frame: bool, more: Any
    ) -> Any:
        heads = [*bench.x_names, *(f"{name} ({bench.ylabel})" if bench.ylabel else name for name in bench.line_names)]
        rows: list[list[Any]] = []
        for x in bench.x_vals:
            values = list(x) if isinstance(x, tuple | list) else [x] * len(bench.x_names)
            if len(values) != len(bench.x_names):
                raise TritonError(f"{bench.plot_name}: {x} has {len(values)} values for {', '.join(bench.x_names)}")
            at = dict(zip(bench.x_names, values, strict=True))
            found = [self.fn(**at, **{bench.line_arg: line}, **bench.args, **more) for line in bench.line_vals]
            rows.append([*values, *(one[0] if isinstance(one, tuple | list) else one for one in found)])
        if print_data:
            print(f"{bench.plot_name}:")
            print(_table(heads, rows))
        if save_path:
            folder = Path(save_path)
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{bench.plot_name}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([heads, *rows])
        if save_path or show:
            _plot(bench, rows, save_path, show)
        if not as_frame:
            return None
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise TritonError("run(return_df=True) needs pandas; install it, or use print_data and save_path") from None
        return pandas.DataFrame(rows, columns=heads)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as text, with columns aligned to the right."""
    cells = [list(heads), *([f"{one:.6g}" if isinstance(one, float) else str(one) for one in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)


def _plot(bench: Benchmark, rows: Sequence[Sequence[Any]], save_path: str | os.PathLike[str], show: bool) -> None:
    """Draw a picture of a benchmark, or print a line on stderr if matplotlib is not installed."""
    try:
        import matplotlib  # type: ignore[import-not-found,unused-ignore]

        if not show:
            matplotlib.use("Agg")
        import matplotlib.pyplot as plt  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        print(f"{bench.plot_name}: no picture, as matplotlib is not installed", file=sys.stderr)
        return
    figure, axes = plt.subplots()
    first = len(bench.x_names)
    for number, name in enumerate(bench.line_names):
        colour, style = bench.styles[number] if bench.styles else (None, None)
        axes.plot([row[0] for row in rows], [row[first + number] for row in rows], label=name, color=colour, ls=style or "-")
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    axes.legend()
    if save_path:
        figure.savefig(Path(save_path) / f"{bench.plot_name}.png")
    if show:
        plt.show()
    plt.close(figure)


def perf_report(benchmarks: Any) -> Callable[[Callable[..., Any]], Mark]:
    """Decorate a function that measures one point, so that `.run(print_data=True)` measures all points.

    Parameters
    ----------
    benchmarks
        A Benchmark, or a list of them.
    """
    return lambda fn: Mark(fn, benchmarks)


def assert_close(x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = "") -> None:
    """Raise AssertionError if two arrays or tensors differ by more than `atol + rtol * abs(y)` in any element.

    The default of `atol` is 1e-2, and the default of `rtol` is 0.
    """
    a, b = (_on_host(one) for one in (x, y))
    np.testing.assert_allclose(
        a, b, atol=1e-2 if atol is None else atol, rtol=0.0 if rtol is None else rtol, err_msg=err_msg, equal_nan=True
    )


def _on_host(value: Any) -> Any:
    """Return the numpy array of a value. Torch tensors of floats below 32 bits are converted to f32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.element_size() < 4 else value
        return value.numpy()
    return np.asarray(value)


def get_dram_gbps(device: Any = None) -> float:
    """Raise TritonError, because a machine has several memories; their bandwidths are in the machine's configuration."""
    raise TritonError(
        "triton.testing.get_dram_gbps is not supported; see `kbsim config show`"
    )


def get_max_tensorcore_tflops(dtype: Any, clock_rate: Any = None, device: Any = None) -> float:
    """Raise TritonError; the rates of the tensor engine are in the machine's configuration."""
    raise TritonError("triton.testing.get_max_tensorcore_tflops is not supported; see `kbsim config show`")


def get_max_simd_tflops(dtype: Any, clock_rate: Any = None, device: Any = None) -> float:
    """Raise TritonError; the rates of the vector engine are in the machine's configuration."""
    raise TritonError("triton.testing.get_max_simd_tflops is not supported; see `kbsim config show`")


# fmt: off
__all__ = [
    "Benchmark", "Mark", "assert_close", "do_bench", "do_bench_cudagraph", "get_dram_gbps", "get_max_simd_tflops",
    "get_max_tensorcore_tflops", "perf_report",
]
# fmt: on
