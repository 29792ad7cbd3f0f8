"""Heatmaps: what channels, links, banks and engines did in each window, as exact numbers over equal bins of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernbench.trace.report.views import exact
from kernbench.trace.store.columns import Ints, Table
from kernbench.trace.timeline import Timeline, Unit

MOST_BINS = 4096  #: more windows are put together, a whole number of them into a bin


@dataclass(frozen=True)
class Heat:
    """One heatmap: a row a unit, a column a bin of time."""

    name: str
    title: str
    what: str  #: what a value is a share of
    unit: str  #: of `part`
    rows: list[str]
    first: int  #: [cycle] start of the first bin
    bin_cycles: int
    last: int  #: [cycle] end of the last bin, which may be shorter
    part: Ints  #: rows x bins
    whole: NDArray[np.float64] | Ints  #: of a row in one cycle, or rows x bins

    @property
    def shares(self) -> NDArray[np.float64]:
        """`part` as a share of the whole; 0 where there is no whole."""
        whole = self.whole
        if whole.ndim == 1:
            starts = self.first + self.bin_cycles * np.arange(self.part.shape[1])
            lengths = np.minimum(starts + self.bin_cycles, max(self.last, self.first + 1)) - starts
            whole = whole[:, None] * lengths[None, :]
        return np.divide(self.part, whole, out=np.zeros(self.part.shape), where=whole > 0)


def heatmaps(timeline: Timeline, most_bins: int = MOST_BINS) -> list[Heat]:
    """All heatmaps that the trace has samples for."""
    grid = _Grid(timeline, most_bins)
    made = [_engines(timeline, grid, *one) for one in (("TE", "te"), ("VE", "ve"), ("DMA", "dma"))]
    made += [
        _bandwidth(timeline, grid, "DRAM", "dram", "DRAM bandwidth"),
        _bandwidth(timeline, grid, "NOC", "noc", "NoC links"),
    ]
    return [heat for heat in (*made, *_banks(timeline, grid)) if heat is not None]


class _Grid:
    """The bins, and which of them a sample falls into."""

    def __init__(self, timeline: Timeline, most_bins: int) -> None:
        window = timeline.window
        self.first = timeline.first // window * window
        windows = max(1, -(-(timeline.last - self.first) // window))
        self.bin_cycles = window * -(-windows // most_bins)
        self.bins = max(1, -(-(timeline.last - self.first) // self.bin_cycles))
        # Of a part of a run the last window counts as far as it was sampled.
        sampled = max((int(table["t_cycle"].max()) + 1 for table in timeline.samples.values() if len(table)), default=0)
        self.last = max(timeline.last, min(sampled, self.first + self.bins * self.bin_cycles))

    def bins_of(self, samples: Table) -> Ints:
        """By the first cycle of each sample's window: a sample stands in the last."""
        starts = samples["t_cycle"] + 1 - samples["window_cycles"]
        return np.asarray(np.clip((starts - self.first) // self.bin_cycles, 0, self.bins - 1), np.int64)

    def sums(self, rows: Ints, samples: Table, values: Ints, count: int) -> Ints:
        """Values added up by row and bin; a row below 0 belongs to another heatmap."""
        made = np.zeros((count, self.bins), np.int64)
        keep = rows >= 0
        np.add.at(made, (rows[keep], self.bins_of(samples)[keep]), values[keep])
        return made

    def heat(
        self, name: str, title: str, what: str, unit: str, rows: list[str], part: Ints, whole: NDArray[np.float64] | Ints
    ) -> Heat:
        """A heatmap over the bins."""
        return Heat(name, title, what, unit, rows, self.first, self.bin_cycles, self.last, part, whole)


def _rows(timeline: Timeline, samples: Table, component: str) -> tuple[list[Unit], Ints]:
    """A component's units, and the row of each sample."""
    numbers = [i for i, unit in enumerate(timeline.units) if unit.component == component]
    places = np.full(len(timeline.units) + 1, -1)
    places[numbers] = np.arange(len(numbers))
    return [timeline.units[i] for i in numbers], places[samples["unit"]]


def _engines(timeline: Timeline, grid: _Grid, component: str, name: str) -> Heat | None:
    samples = timeline.samples["ENGINE_SAMPLE"]
    units, rows = _rows(timeline, samples, component)
    if not len(samples) or not units:
        return None
    busy = grid.sums(rows, samples, samples.filled("busy_cycles"), len(units))
    names = [unit.name for unit in units]
    return grid.heat(name, f"{component} utilisation", "busy, of all cycles", "cycle", names, busy, np.ones(len(units)))


def _bandwidth(timeline: Timeline, grid: _Grid, component: str, name: str, title: str) -> Heat | None:
    samples = timeline.samples["BANDWIDTH_SAMPLE"]
    units, rows = _rows(timeline, samples, component)
    if not (rows >= 0).any():
        return None
    moved = grid.sums(rows, samples, samples.filled("read_bytes") + samples.filled("write_bytes"), len(units))
    known = [exact(unit.facts.get("capacity")) for unit in units]
    best = moved.max(axis=1) / grid.bin_cycles  # where the trace does not say what a unit can do, the most that it did
    whole = np.array([best[i] if value is None else float(value) for i, value in enumerate(known)])
    what = "of capacity" if all(value is not None for value in known) else "of capacity, or of the most it moved"
    return grid.heat(name, title, what, "B", [unit.name for unit in units], moved, whole)


def _banks(timeline: Timeline, grid: _Grid) -> list[Heat]:
    samples = timeline.samples["BANK_SAMPLE"]
    counts = {name: samples.columns[name] for name in ("requests", "grants", "denials")}
    units = sorted(set(samples["unit"].tolist()))
    made = []
    for unit in units:
        rows = np.flatnonzero(samples["unit"] == unit)
        own, name = samples.take(rows), timeline.units[unit].name
        banks = int(own["requests"].max(initial=0))
        sums = {key: _by_bank(grid, own, key, banks) for key in counts}
        labels = [f"{name} bank {i}" if len(units) > 1 else f"bank {i}" for i in range(banks)]
        suffix = "" if len(units) == 1 else f" of {name}"
        ports = _ports(timeline) or max(1, -(-int(sums["grants"].max(initial=0)) // grid.bin_cycles))
        whole = np.full(banks, float(ports))
        what = f"granted requests a cycle, of {ports}"
        made.append(grid.heat(f"grants.{name}", f"Bank traffic{suffix}", what, "grant", labels, sums["grants"], whole))
        what = "denied, of all requests"
        requests = sums["requests"]
        made.append(grid.heat(f"denials.{name}", f"Bank conflicts{suffix}", what, "denial", labels, sums["denials"], requests))
    return made


def _ports(timeline: Timeline) -> int:
    """Of a bank, reading and writing; 0 where the trace does not say."""
    section = timeline.meta.get("sim_config", {}).get("spm", {})
    counts = [section.get(name) for name in ("ports", "read_ports", "write_ports")] if isinstance(section, dict) else []
    return sum(count for count in counts if isinstance(count, int))


def _by_bank(grid: _Grid, samples: Table, name: str, banks: int) -> Ints:
    column = samples.columns[name]
    counts = np.maximum(column.values, 0)
    items = column.items if column.items is not None else np.zeros(0, np.int64)
    bank = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = np.zeros((max(banks, int(counts.max(initial=0))), grid.bins), np.int64)
    np.add.at(made, (bank, np.repeat(grid.bins_of(samples), counts)), items)
    return made[:banks]
