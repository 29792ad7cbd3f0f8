"""The notebook view of a run: a timeline with zoom, as one piece of HTML that loads no other file.

A notebook that is not trusted runs no scripts; there the view shows the whole run as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.api.answer import html_table
from kernbench.common.json_shapes import counted
from kernbench.common.look.css import hatch, scoped_css
from kernbench.common.look.page import page_json
from kernbench.common.look.palette import resource_of
from kernbench.trace.timeline import JOBS, KINDS, Timeline

if TYPE_CHECKING:
    from kernbench.api.run import Run
    from kernbench.api.why import Explanation

MAX_LANES = 40  #: engines; if there are more, the busiest are shown
MAX_TRACKS = 4  #: tracks of an engine; the last track has the jobs of all further tracks
MAX_SPANS = 20_000  #: spans of all lanes; if there are more, neighbouring spans are joined
LANE = 20  #: [px] height of a lane
WIDTH = 1000  #: width of the picture, in units of its view box


@dataclass(frozen=True)
class Track:
    """Jobs that do not overlap."""

    starts: Sequence[int]  #: [cycle]
    lengths: Sequence[int]  #: [cycle]
    labels: Sequence[int]  #: indices of `Lanes.labels`
    counts: Sequence[int]  #: jobs that one span represents

    @property
    def bars(self) -> list[tuple[int, int]]:
        """(start, length) of each span."""
        return list(zip(self.starts, self.lengths, strict=True))


@dataclass(frozen=True)
class Lane:
    """One engine. Concurrent jobs, such as those of a DMA engine, are in separate tracks."""

    name: str
    kind: str
    tracks: Sequence[Track]

    def place(self, lane: int, track: int) -> tuple[float, float]:
        """The top and the height [px] of a track."""
        height = (LANE - 6) / len(self.tracks)
        return LANE * lane + 3 + height * track, height - (0.5 if len(self.tracks) > 1 else 0)


@dataclass(frozen=True)
class Lanes:
    """The engines of a timeline."""

    shown: list[Lane]
    left_out: int  #: engines with work that are not shown
    labels: list[str]  #: opcodes
    last: int  #: [cycle] the end of the run


def lanes_of(timeline: Timeline) -> Lanes:
    """The engines with work, in the machine's order; if there are more than MAX_LANES, the busiest."""
    spans, kinds = timeline.spans, [KINDS.index(kind) for kind in JOBS]
    jobs = np.flatnonzero(np.isin(spans["kind"], kinds))
    unit = spans["unit"][jobs]
    length = spans["end"][jobs] - spans["start"][jobs]
    busy = np.bincount(unit, weights=length, minlength=len(timeline.units)) if len(jobs) else np.zeros(len(timeline.units))
    used = np.unique(unit)
    chosen = sorted(sorted(used.tolist(), key=lambda k: -busy[k])[:MAX_LANES])
    opcode = timeline.commands.columns["cmd_type"]
    codes = opcode.values[np.maximum(spans["command"][jobs], 0)] if len(opcode) else np.zeros(len(jobs), np.int64)
    labels = [*(opcode.texts or ()), "job"]
    codes = np.where((spans["command"][jobs] < 0) | (codes < 0), len(labels) - 1, codes)
    starts, row = spans["start"][jobs], np.minimum(spans["row"][jobs], MAX_TRACKS - 1)
    gap = _gap(starts, length, unit * MAX_TRACKS + row, timeline.last)
    made = []
    for k in chosen:
        kind = KINDS[int(spans["kind"][jobs][unit == k][0])]
        tracks = [
            Track(*_joined(starts[own], length[own], codes[own], gap))
            for r in range(MAX_TRACKS)
            if (own := (unit == k) & (row == r)).any()
        ]
        made.append(Lane(timeline.units[k].name, kind, tracks))
    return Lanes(made, len(used) - len(chosen), labels, timeline.last)


def _gap(starts: Any, lengths: Any, units: Any, last: int) -> int:
    """[cycle] The largest gap over which neighbouring spans are joined, so that at most MAX_SPANS are left; -1: no spans are
    joined."""
    if len(starts) <= MAX_SPANS:
        return -1
    order = np.lexsort((starts, units))
    begin, end, unit = starts[order], (starts + lengths)[order], units[order]
    apart = np.where(unit[1:] == unit[:-1], np.maximum(begin[1:] - end[:-1], 0), last)
    return int(np.sort(apart)[max(0, len(apart) - MAX_SPANS)])


def _joined(starts: Any, lengths: Any, codes: Any, gap: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """The spans in order; spans that overlap or are at most `gap` apart are joined, with the label of the first span."""
    order = np.argsort(starts, kind="stable")
    begins: list[int] = []
    ends: list[int] = []
    labels: list[int] = []
    counts: list[int] = []
    for start, length, code in zip(starts[order].tolist(), lengths[order].tolist(), codes[order].tolist(), strict=True):
        if begins and (start < ends[-1] or start - ends[-1] <= gap):
            ends[-1] = max(ends[-1], start + length)
            counts[-1] += 1
        else:
            begins.append(start)
            ends.append(start + length)
            labels.append(code)
            counts.append(1)
    return begins, [end - begin for begin, end in zip(begins, ends, strict=True)], labels, counts


def run_html(run: Run, why: Explanation | None) -> str:
    """The HTML of a run; `why`: the explanation, if it is already known."""
    bound = run.bound
    facts = f"{escape(run.target)} on {escape(run.machine.source)}"
    if bound.cycles:
        near = f", {bound.share:.1%} of it reached" if run.status == "done" else ""
        facts += f" · {escape(bound.kind)} bound {bound.cycles:,} cycles{near}"
    if run.verified is not None:
        facts += " · outputs as expected" if run.verified else " · <b>outputs wrong</b>"
    head = (
        f'<p class="kb-head"><b>{counted(run.cycles, "cycle")}</b> <span>{run.t_ns:,.6g} ns ·</span> '
        f'<span class="kb-status" data-status="{escape(run.status)}">{escape(run.status)}</span></p>'
        f'<p class="kb-facts">{facts}</p>'
    )
    answer = "" if why is None else f'<p class="kb-why">{escape(why.sentence)}</p>{answer_bar(why)}'
    parts = [*_timeline(run)] if run.cycles else ["<p>nothing ran</p>"]
    notes = "".join(f"<li>{escape(note)}</li>" for note in (run.report.notes if run.report is not None else ()))
    notes += "".join(f"<li>{escape(str(one['message']))}</li>" for one in run.result.warnings[:5])
    listed = f"<ul>{notes}</ul>" if notes else ""
    table = f'<details><summary>Engines</summary><div class="kb-wide">{html_table(run.rows("engines"))}</div></details>'
    return f'<div class="kb-run"><style>{_style()}</style>{head}{answer}{"".join(parts)}{listed}{table}</div>'


def answer_bar(why: Explanation) -> str:
    """The groups of an explanation as one bar with a key; waits are hatched."""
    whole = why.cycles or 1
    bars, key = [], []
    for group in why.found.groups:
        hue, share = f"var(--kb-{resource_of(group.name)})", float(group.cycles / whole)
        parts = ((hue, group.cycles - group.waiting, "work"), (hatch(hue), group.waiting, "waiting"))
        for fill, cycles, what in parts:
            if cycles:
                about = f"{escape(group.name)}, {what}: {float(cycles / whole):.1%}"
                bars.append(f'<span style="width:{float(cycles / whole):.3%};background:{fill}" title="{about}"></span>')
        if share >= 0.01:
            fill = hatch(hue) if 2 * group.waiting > group.cycles else hue
            key.append(f'<span><i style="background:{fill}"></i>{escape(group.name)} {share:.0%}</span>')
    about = '<div class="kb-key">{}</div>'.format("".join(key))
    return f'<style>{_style()}</style><div class="kb-bar">{"".join(bars)}</div>{about}'


def _timeline(run: Run) -> Sequence[str]:
    lanes = lanes_of(run.timeline)
    if not lanes.shown:
        return ["<p>no engine had any work</p>"]
    names = _short_names([lane.name for lane in lanes.shown])
    labels = "".join(
        f'<span title="{escape(lane.name)}">{escape(name)}</span>' for name, lane in zip(names, lanes.shown, strict=True)
    )
    data = {
        "last": lanes.last,
        "ghz": float(run.machine.freq_ghz),  # type: ignore[attr-defined]  # both kinds have it
        "labels": lanes.labels,
        "lane": LANE,
        "lanes": [
            {"name": lane.name, "kind": lane.kind, "tracks": [_plain(track) for track in lane.tracks]} for lane in lanes.shown
        ],
    }
    more = f'<p class="kb-facts">and {counted(lanes.left_out, "engine")} that had less to do</p>' if lanes.left_out else ""
    key = "".join(f'<span><i class="kb-{kind}"></i>{kind}</span>' for kind in dict.fromkeys(lane.kind for lane in lanes.shown))
    return [
        '<div class="kb-timeline">',
        '<div class="kb-tools"><button data-do="in" aria-label="zoom in">+</button>'
        '<button data-do="out" aria-label="zoom out">&minus;</button><button data-do="all">all</button>'
        f'<span class="kb-key">{key}</span><span class="kb-told"></span></div>',
        f'<div class="kb-labels">{labels}</div>',
        f'<div class="kb-plot" tabindex="0" role="img" aria-label="{escape(run.headline)}">{_picture(lanes)}'
        f'<div class="kb-axis">{_axis(lanes.last)}</div></div>',
        "</div>",
        more,
        f'<script type="application/json" class="kb-data">{page_json(data)}</script>',
        f"<script>{_part('timeline.js')}</script>",
    ]


def _picture(lanes: Lanes) -> str:
    """The picture of the whole run; spans that are less than one unit apart are joined."""
    height = LANE * len(lanes.shown)
    scale = WIDTH / max(1, lanes.last)
    tops = (LANE * i + 2 for i in range(len(lanes.shown)))
    rows = "".join(f'<rect class="kb-lane" y="{top}" width="{WIDTH}" height="{LANE - 4}"/>' for top in tops)
    paths = []
    for i, lane in enumerate(lanes.shown):
        boxes = "".join(_boxes(track, scale, *lane.place(i, k)) for k, track in enumerate(lane.tracks))
        paths.append(f'<path class="kb-{lane.kind}" d="{boxes}"/>')
    view = f'viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none"'
    return f'<svg {view} style="height:{height}px"><g>{rows}</g><g class="kb-spans">{"".join(paths)}</g></svg>'


def _boxes(track: Track, scale: float, top: float, height: float) -> str:
    """The rectangles of a track's spans; adjacent spans become one rectangle."""
    found: list[list[float]] = []
    for start, length in track.bars:
        left, right = start * scale, max((start + length) * scale, start * scale + 0.5)
        if found and left <= found[-1][1] + 0.3:
            found[-1][1] = max(found[-1][1], right)
        else:
            found.append([left, right])
    return "".join(f"M{a:.5g} {top:g}h{b - a:.5g}v{height:g}h-{b - a:.5g}z" for a, b in found)


def _plain(track: Track) -> dict[str, Any]:
    """The data of a track for the script: starts as differences, and counts if any count is above 1."""
    starts = [value - before for value, before in zip(track.starts, [0, *track.starts], strict=False)]
    plain: dict[str, Any] = {"start": starts, "length": list(track.lengths), "label": list(track.labels)}
    return plain | ({"count": list(track.counts)} if max(track.counts) > 1 else {})


def _axis(last: int) -> str:
    """Four axis labels; the script replaces them."""
    return "".join(f'<span style="left:{100 * i / 4:.0f}%">{last * i // 4:,}</span>' for i in range(5))


def _short_names(names: Sequence[str]) -> list[str]:
    """Names without their common prefix, which ends at a dot: `pe0.pe_dma` of `sip0.cube0.pe0.pe_dma`."""
    steps = [name.split(".") for name in names]
    shared = 0
    while all(len(one) > shared + 1 and one[shared] == steps[0][shared] for one in steps):
        shared += 1
    return [".".join(one[shared:]) for one in steps]


@cache
def _part(name: str) -> str:
    text = resources.files("kernbench.api") / "notebook" / name
    return text.read_text(encoding="utf-8").strip()


@cache
def _style() -> str:
    """The style sheet; it handles the different ways in which notebooks and editors mark dark pages."""
    dark = '[data-jp-theme-light="false"], .vscode-dark, :root[data-theme="dark"]'
    return (scoped_css(".kb-run, .kb-bar, .kb-key", dark, "kb-") + _part("notebook.css")).strip()
