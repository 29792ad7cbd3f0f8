"""Draws the cycles of Triton kernels by size, for the guide to plotting them.

The cycles are in `triton_cycles.json`, because the larger sizes take minutes: `python docs/triton_pictures.py` measures them
again, with the kernels of the guide.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernbench.common.look.palette import THEMES, Theme, slots
from kernbench.common.look.plots import saved, settings

PAGE = Path(__file__).parent / "how-to" / "plot_triton_kernels.md"
CYCLES = Path(__file__).with_name("triton_cycles.json")
#: By name of a kernel: the sizes.
SIZES = {
    "softmax": (128, 256, 512, 1024, 2048, 4096),
    "rms_norm": (128, 256, 512, 1024, 2048, 4096),
    "matmul": (64, 128, 256, 512, 1024),
    "attention": (64, 128, 256, 512, 1024, 2048),
}


def kernels() -> dict[str, Any]:
    """The names of the guide's first example."""
    code = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("\n```")[0]
    found: dict[str, Any] = {"__name__": "guide"}
    exec(compile(code, "example", "exec"), found)
    return found


def cycles_of(name: str, size: int) -> int:
    """Of one run, on the default machine."""
    return int(kernels()["launch"](name, size).cycles)


def measured() -> dict[str, dict[int, int]]:
    """The file of cycles: by kernel and size."""
    found = json.loads(CYCLES.read_text(encoding="utf-8"))
    return {name: {int(size): cycles for size, cycles in rows.items()} for name, rows in found.items()}


def triton_pictures() -> dict[str, str]:
    """File name: SVG."""
    return {f"triton_cycles_{theme}.svg": picture(measured(), theme) for theme in THEMES}


def picture(rows: dict[str, dict[int, int]], theme: Theme) -> str:
    """One picture; the same rows make the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(settings(theme)):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for (name, points), colour, mark in zip(rows.items(), slots(theme), "os^D", strict=False):
            axes.plot(list(points), list(points.values()), marker=mark, color=colour, label=name)
        sizes = sorted({size for points in rows.values() for size in points})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ticks = [10**k for k in range(3, 7)]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("n")
        axes.set_ylabel("cycles")
        axes.set_title("Triton kernels on single_cube")
        axes.grid(visible=True)
        axes.legend()
        return saved(figure, "svg").decode()


def main() -> None:
    """Measure every point, and write the file."""
    found = {name: {size: cycles_of(name, size) for size in sizes} for name, sizes in SIZES.items()}
    CYCLES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
