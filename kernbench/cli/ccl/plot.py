"""The picture of `kbsim ccl run --plot`: time and bus bandwidth over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli.text import size_text
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.ccl.measure import Row
    from kernbench.common.look.palette import Theme


def check_plot(path: Path) -> None:
    """Raise InputError before the run if the picture cannot be drawn."""
    from kernbench.common.files import check_writable

    if _form(path) not in ("svg", "png"):
        remedy = f"did you mean --report {path}?" if path.suffix.lower() in (".html", ".htm") else ""
        raise InputError(Problem("kbsim ccl run", "the file name must end in .svg or .png", "--plot", str(path), remedy))
    check_writable(path)


def _form(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def draw(lines: dict[str, Sequence[Row]], title: str, path: Path, theme: Theme = "light") -> None:
    """Write the picture of these rows. One line alone has the whole title as its name."""
    from kernbench.common.files import write_whole

    named = lines if len(lines) > 1 else {title: next(iter(lines.values()))}
    write_whole(path, picture(named, _form(path), theme))


def _size(size: float) -> str:
    """The label of a tick at a power of two bytes; empty below one byte."""
    return size_text(int(size)) if size >= 1 else ""


def picture(lines: dict[str, Sequence[Row]], form: str, theme: Theme = "light") -> bytes:
    """A plot of times and bus bandwidths, one line for each name. The same rows and version of matplotlib give the same bytes.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from kernbench.common.look.plots import saved, settings

    with matplotlib.rc_context(settings(theme)):
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        colours = len(matplotlib.rcParams["axes.prop_cycle"])
        for number, ((name, rows), marker) in enumerate(zip(lines.items(), "osv^Dx+*" * len(lines), strict=False)):
            sizes = [row.size for row in rows]
            how = {"marker": marker, "label": name, "linestyle": "--" if number // colours % 2 else "-"}
            left.plot(sizes, [row.time_us for row in rows], **how)
            right.plot(sizes, [row.busbw for row in rows], **how)
        for axes, label in ((left, "time [us]"), (right, "bus bandwidth [GB/s]")):
            if any(row.size for rows in lines.values() for row in rows):  # a barrier has no size
                axes.set_xscale("log", base=2)
                axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _size(size)))
            else:
                axes.set_xticks([0], ["none"])
            axes.set_xlabel("size")
            axes.set_ylabel(label)
            axes.grid()
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        left.yaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:,.4g}"))
        left.yaxis.set_minor_formatter(NullFormatter())
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=min(4, len(lines)))
        return saved(figure, form)
