"""The pictures of `kbsim trace report --view`: Gantt chart, heatmaps, phases, roofline."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.common.look.palette import Theme, channels, colour, label_colours, ramp, resource_of
from kernbench.common.look.plots import saved, settings, size, waiting
from kernbench.trace.report.views import Bars, Heat, Totals, axis, gantt, grouped, heatmaps, roofline
from kernbench.trace.schema import STALL_REASONS
from kernbench.trace.timeline import JOBS, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Rgb = tuple[float, float, float]


def rgb(text: str) -> Rgb:
    """The colour `#rrggbb` as three numbers from 0 to 1."""
    red, green, blue = channels(text)
    return red / 255, green / 255, blue / 255


def colours_of(timeline: Timeline, by: str, theme: Theme) -> dict[str, str]:
    """The colour of each label of an axis, as on the page; labels other than phases get colours in the order of their
    job-cycles."""
    found, spans = axis(timeline, by), timeline.spans
    jobs = spans["kind"] < len(JOBS)
    cycles = np.zeros(len(found.labels), np.int64)
    np.add.at(cycles, found.codes[jobs], (spans["end"] - spans["start"])[jobs])
    shares = {label: float(count) for label, count in zip(found.labels, cycles.tolist(), strict=True)}
    return dict(zip(found.labels, label_colours(found.labels, by, shares, theme), strict=True))


VIEWS = ("gantt", "heatmap", "phases", "roofline")
FORMATS = ("svg", "png")
WIDTH = 12.0  # [inch]
LABEL, TITLE = size("label"), size("body")  # [pt]
MAX_ROWS, MAX_LEGEND, MAX_POLYGONS = 40, 18, 20_000


def picture(timeline: Timeline, view: str, form: str, *, lanes: str = "engine", coloured: str = "phase", by: str = "phase",
            dark: bool = False) -> bytes:  # fmt: skip
    """One of `VIEWS` in one of `FORMATS`. InputError if there is nothing to draw."""
    import matplotlib

    theme: Theme = "dark" if dark else "light"
    draw: dict[str, Callable[[], Figure]] = {
        "gantt": lambda: _gantt(gantt(timeline, lanes, coloured), colours_of(timeline, coloured, theme), theme, timeline),
        "heatmap": lambda: _heatmaps(heatmaps(timeline, 1200), theme, _title(timeline)),
        "phases": lambda: _phases(timeline, by, theme),
        "roofline": lambda: _roofline(timeline, by, theme),
    }
    with warnings.catch_warnings(), matplotlib.rc_context(settings(theme)):
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        return saved(draw[view](), form)


def shown(text: str, longest: int = 32) -> str:
    """A name of the trace for a picture: shortened, and without characters that cannot be printed."""
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(c if c.isprintable() else "?" for c in cut)


def _title(timeline: Timeline) -> str:
    cut = "" if not timeline.broken else ", the file breaks off"
    return f"{shown(str(timeline.meta['program']), 60)}: cycles {timeline.first:,} to {timeline.last:,}{cut}"


def _figure(height: float, **grid: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(**grid)


def _nothing(what: str) -> InputError:
    return InputError(Problem("kbsim trace report --view", f"the trace has nothing to draw: {what}"))


def _cycles(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _gantt(bars: Bars, own: dict[str, str], theme: Theme, timeline: Timeline) -> Figure:
    from matplotlib.collections import PolyCollection

    if not bars.lanes:
        raise _nothing("no job started")
    tops = np.cumsum([0.0] + [0.55 + 0.45 * lane.rows for lane in bars.lanes])
    figure, axes = _figure(1.3 + 0.3 * float(tops[-1]))
    colours = [rgb(own[label]) for label in bars.colours.labels]
    heights = np.array([(np.diff(tops)[i] - 0.2) / lane.rows for i, lane in enumerate(bars.lanes)])
    low = tops[bars.lane] + 0.1 + bars.row * heights[bars.lane]
    high = low + 0.92 * heights[bars.lane]
    pixel = (bars.last - bars.first) / 1200
    right = np.maximum(bars.end, bars.start + pixel)
    corners = np.stack([bars.start, low, bars.start, high, right, high, right, low], axis=1).reshape(-1, 4, 2)
    fill = np.clip(bars.busy / np.maximum(right - bars.start, 1e-9), 0.35, 1)
    faces = np.concatenate([np.array([colours[i] for i in bars.code]).reshape(-1, 3), fill[:, None]], axis=1)
    axes.add_collection(
        PolyCollection(list(corners), facecolors=faces, edgecolors="none", rasterized=len(corners) > MAX_POLYGONS)
    )
    axes.set(xlim=(bars.first, bars.last), ylim=(float(tops[-1]), 0), xlabel="cycle", title=_title(timeline))
    axes.set_yticks((tops[:-1] + tops[1:]) / 2, [shown(lane.label, 28) for lane in bars.lanes])
    axes.tick_params(axis="y", length=0)
    axes.hlines(tops[1:-1], bars.first, bars.last, colors=colour("line", theme), linewidth=0.6)
    axes.grid(axis="x", linewidth=0.5)
    _cycles(axes)
    _legend(figure, [(bars.colours.labels[i], colours[i]) for i in sorted(set(bars.code.tolist()))])
    if bars.left_out:
        axes.set_xlabel(f"cycle    ({bars.left_out:,} more commands: take a part of the run with --cycles)")
    return figure


def _legend(figure: Figure, entries: Sequence[tuple[str, tuple[float, float, float]]]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=hue, label=shown(label)) for label, hue in entries[:MAX_LEGEND]]
    if len(entries) > MAX_LEGEND:
        handles.append(Patch(color="none", label=f"{len(entries) - MAX_LEGEND} more"))
    figure.legend(handles=handles, loc="outside lower left", ncols=6, handlelength=1, handleheight=1)


def _heatmaps(heats: Sequence[Heat], theme: Theme, title: str) -> Figure:
    if not heats:
        raise _nothing("it has no samples")
    heights = [max(0.5, (0.16 if len(heat.rows) <= 16 else 0.1) * min(len(heat.rows), MAX_ROWS)) for heat in heats]
    figure, found = _figure(
        0.8 + sum(heights) + 0.5 * len(heats), nrows=len(heats), sharex=True, squeeze=False, height_ratios=heights
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE, fontweight="bold")
    for axes, heat in zip(found[:, 0], heats, strict=True):
        edges = np.minimum(heat.first + heat.bin_cycles * np.arange(heat.part.shape[1] + 1), max(heat.last, heat.first + 1))
        stops = ramp("denied" if heat.name.startswith("denials") else "use", theme)
        mesh = axes.pcolormesh(
            edges, np.arange(len(heat.rows) + 1), heat.shares, cmap=_ramp(stops), vmin=0, vmax=1, rasterized=True
        )
        axes.set_title(f"{heat.title}   ({heat.what})", fontsize=size("dense"))
        axes.invert_yaxis()
        step = 1 if len(heat.rows) <= 16 else -(-len(heat.rows) // 8)
        axes.set_yticks(np.arange(0, len(heat.rows), step) + 0.5, [shown(row, 20) for row in heat.rows[::step]])
        axes.tick_params(axis="y", length=0)
        bar = figure.colorbar(mesh, ax=axes, ticks=[0, 0.5, 1], fraction=0.02, pad=0.01)
        bar.ax.set_yticklabels(["0%", "50%", "100%"])
        bar.outline.set_visible(False)
        _cycles(axes)
    found[-1, 0].set_xlabel("cycle")
    return figure


def _ramp(colours: Sequence[str]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("kernbench", list(colours))


def _phases(timeline: Timeline, by: str, theme: Theme) -> Figure:
    groups = {label: one for label, one in grouped(timeline, by).items() if one.jobs}
    if not groups:
        raise _nothing("no job started")
    rows = list(groups.items())[:MAX_ROWS]
    figure, (time, stalls) = _figure(1.7 + 0.3 * len(rows), ncols=2, sharey=True, width_ratios=[3, 2])
    figure.suptitle(f"{_title(timeline)}, by {by}", x=0.01, ha="left", fontsize=TITLE, fontweight="bold")
    work = {name: {"color": colour(resource_of(name), theme)} for name in JOBS}
    _stack(time, [[one.cycles[kind] for kind in JOBS] for _, one in rows], work)
    waits = {"queued": "queue"} | dict.fromkeys(STALL_REASONS[2:], "sram")
    told = {name: waiting(colour(hue, theme), theme) for name, hue in waits.items()}
    told["bank_conflict"]["hatch"] = "xxxx"  # both waits are of the scratchpad and have its colour
    _stack(stalls, [[one.queued, *(one.waits[name] for name in STALL_REASONS[2:])] for _, one in rows], told)
    time.set_yticks(range(len(rows)), [shown(label, 28) for label, _ in rows])
    time.set(xlabel="job-cycles at work", ylim=(len(rows) - 0.4, -0.6))
    stalls.set(xlabel="job-cycles waited: from issue to start, and while running")
    for place, (_, one) in enumerate(rows):
        style: dict[str, Any] = {"va": "center", "fontsize": LABEL, "color": colour("soft", theme)}
        time.text(sum(one.cycles.values()), place, "  " + _figures(one), **style)
    time.set_xlim(0, 1.7 * max(1, *(sum(one.cycles.values()) for _, one in rows)))
    if len(groups) > len(rows):
        figure.supxlabel(f"the first {len(rows)} of {len(groups):,}", fontsize=LABEL)
    return figure


def _figures(one: Totals) -> str:
    rate = f", {_three(one.bytes / one.active)} B/cycle" if one.bytes and one.active else ""
    return f"{counted(one.jobs, 'job')} in {counted(one.active, 'cycle')}{rate}"


def _three(value: float) -> str:
    """Three significant digits, as on the page."""
    return f"{value:.1e}" if value < 0.01 else f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def _stack(axes: Axes, values: Sequence[Sequence[int]], looks: dict[str, dict[str, Any]]) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    columns = np.array(values, dtype=np.float64).T
    left = np.zeros(len(values))
    for column, (name, look) in zip(columns, looks.items(), strict=True):
        axes.barh(range(len(values)), column, left=left, label=name.replace("_", " "), height=0.62, **look)
        left = left + column
    axes.grid(axis="x", linewidth=0.5)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2, handlelength=1, handleheight=1)


def _roofline(timeline: Timeline, by: str, theme: Theme) -> Figure:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    found = roofline(timeline, by)
    if not found.points or found.peak is None or not found.bytes_per_cycle or found.ridge is None:
        raise _nothing(
            "no job computes MACs and moves bytes of DRAM, or TRACE_META does not say what engines and channels can do"
        )
    figure, axes = _figure(6.2)
    low = 10 ** math.floor(math.log10(min(found.ridge, *(point.intensity for point in found.points)) / 1.5))
    high = 10 ** math.ceil(math.log10(max(found.ridge, *(point.intensity for point in found.points)) * 1.5))
    ink, rates = colour("ink", theme), [low * found.bytes_per_cycle, found.peak, found.peak]
    axes.loglog([low, found.ridge, high], rates, color=ink, linewidth=1.8)
    axes.text(high, found.peak * 1.05, f"tensor engines: {found.peak:,.0f} MAC/cycle ", ha="right", va="bottom", fontsize=LABEL)
    axes.text(
        low, low * found.bytes_per_cycle, f"  DRAM: {found.bytes_per_cycle:,.4g} B/cycle", ha="left", va="top", fontsize=LABEL
    )
    axes.axvline(found.ridge, color=colour("soft", theme), linewidth=0.8, linestyle="--")
    lowest = min(low * found.bytes_per_cycle, *(point.rate for point in found.points))
    axes.set_ylim(10 ** math.floor(math.log10(lowest / 1.2)), found.peak * 2)
    style: dict[str, Any] = {"va": "bottom", "fontsize": LABEL, "color": colour("soft", theme)}
    axes.text(found.ridge, axes.get_ylim()[0], f" {found.ridge:,.4g} MAC/B", **style)
    colours = colours_of(timeline, by, theme)
    for i, point in enumerate(found.points):
        hue = ink if i == 0 else colours[point.label]
        name = "whole run" if i == 0 else shown(point.label)
        axes.plot(point.intensity, point.rate, "o", color=hue, markersize=9 if i == 0 else 7, label=name, linestyle="none")
    axes.set(
        xlim=(low, high),
        xlabel="MACs per DRAM byte [MAC/B]",
        ylabel="MAC/cycle, in cycles in which a job of it ran",
        title=_title(timeline),
    )
    axes.grid(which="major", linewidth=0.5)
    for one in (axes.xaxis, axes.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
        one.set_minor_formatter(NullFormatter())
    figure.legend(loc="outside right upper", fontsize=LABEL)
    return figure
