"""The Gantt chart as bars in lanes, by engine or by command; what is narrower than a pixel is put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernbench.trace.report.views import Axis, Mask, axis, chosen
from kernbench.trace.store.columns import Ints
from kernbench.trace.timeline import JOBS, KINDS, Timeline

MOST_COMMANDS = 60  #: lanes of a chart by command
LANES = ("engine", "command")


@dataclass(frozen=True)
class Lane:
    """One lane and the rows in it."""

    label: str
    rows: int


@dataclass(frozen=True)
class Bars:
    """The chart. The arrays have an item a bar, by lane, row and start."""

    lanes: list[Lane]
    first: int  #: [cycle] what is seen: [first, last)
    last: int
    lane: Ints
    row: Ints
    start: Ints
    end: Ints
    busy: Ints  #: [cycle] of it that spans fill: all, but of a bar that stands for several
    spans: Ints  #: that it stands for
    code: Ints  #: into the labels, of the longest of them
    colours: Axis
    left_out: int  #: lanes for which there was no room


def gantt(timeline: Timeline, lanes: str = "engine", colour: str = "phase", cycles: tuple[int, int] | None = None,
          pixels: int = 1200, mask: Mask | None = None) -> Bars:  # fmt: skip
    """The bars of jobs and control commands on a chart that is so many pixels wide."""
    first, last = (timeline.first, max(timeline.last, timeline.first + 1)) if cycles is None else cycles
    spans, colours = timeline.spans, axis(timeline, colour)
    keep = chosen(timeline, cycles) & (spans["kind"] <= KINDS.index("CONTROL"))
    rows = np.flatnonzero(keep if mask is None else keep & mask)
    places, made, left_out = _lanes(timeline, lanes, rows)
    row = spans["row"][rows] if lanes == "engine" else np.zeros(len(rows), np.int64)
    inside = places >= 0
    rows, row, places = rows[inside], row[inside], places[inside]
    start, end = np.maximum(spans["start"][rows], first), np.minimum(spans["end"][rows], last)
    return _merged(made, (first, last), (places, row, start, end), colours.codes[rows], colours, left_out, pixels)


def _lanes(timeline: Timeline, by: str, rows: Ints) -> tuple[Ints, list[Lane], int]:
    """The lane of each span (-1: no room), the lanes, and how many have no room."""
    spans = timeline.spans
    if by == "engine":
        depth = np.zeros(len(timeline.units), np.int64)
        np.maximum.at(depth, spans["unit"][rows], spans["row"][rows] + 1)
        wanted = [i for i, unit in enumerate(timeline.units) if unit.component in JOBS or depth[i]]
        places = np.full(len(timeline.units) + 1, -1)
        places[wanted] = np.arange(len(wanted))
        return places[spans["unit"][rows]], [Lane(timeline.units[i].name, max(1, int(depth[i]))) for i in wanted], 0
    commands = spans["command"][rows]
    used = np.unique(commands[commands >= 0])
    shown = used[:MOST_COMMANDS]
    opcode = timeline.commands.columns["cmd_type"]
    labels = [f"{int(timeline.commands['cmd_id'][i])} {opcode[int(i)] or ''}".rstrip() for i in shown]
    places = np.searchsorted(shown, commands)
    there = (commands >= 0) & (places < len(shown))
    return np.where(there, places, -1), [Lane(label, 1) for label in labels], len(used) - len(shown)


def _merged(lanes: list[Lane], seen: tuple[int, int], bars: tuple[Ints, Ints, Ints, Ints], codes: Ints, colours: Axis,
            left_out: int, pixels: int) -> Bars:  # fmt: skip
    """One bar for all that begin in a pixel and are narrower than it."""
    lane, row, start, end = bars
    first, last = seen
    pixel = (start - first) * pixels // (last - first)
    small = (end - start) * pixels < (last - first)
    alone = np.where(small, 0, np.arange(1, len(start) + 1))
    order = np.lexsort((start, alone, pixel, row, lane))
    keys = np.stack([lane, row, pixel, alone])[:, order]
    begins = np.flatnonzero(np.r_[True, (np.diff(keys) != 0).any(axis=0)] if len(order) else [])
    length = (end - start)[order]
    if not len(begins):
        none = np.zeros(0, np.int64)
        return Bars(lanes, first, last, none, none, none, none, none, none, none, colours, left_out)
    counts = np.diff(np.append(begins, len(order)))
    longest = _longest(length, begins, counts)
    ends = np.maximum.reduceat(end[order], begins)
    lane, row, starts = lane[order][begins], row[order][begins], np.minimum.reduceat(start[order], begins)
    busy = np.add.reduceat(length, begins)
    return Bars(lanes, first, last, lane, row, starts, ends, busy, counts, codes[order][longest], colours, left_out)


def _longest(length: Ints, begins: Ints, counts: Ints) -> Ints:
    """The place of the longest of each group, the first of equals."""
    group = np.repeat(np.arange(len(begins)), counts)
    order = np.lexsort((-length, group))
    return order[begins]
