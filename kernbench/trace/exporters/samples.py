"""Counters of a timeline: each number of a sample, over the window that the sample is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernbench.trace.events import Record
from kernbench.trace.exporters.items import Point
from kernbench.trace.exporters.tracks import RUN, Tracks

#: A sample's fields that are counters. Lists over banks are summed, other lists are a counter an item.
COUNTERS: dict[str, tuple[str, ...]] = {
    "BANDWIDTH_SAMPLE": ("read_bytes", "write_bytes", "busy_cycles", "member_cycles"),
    "QUEUE_SAMPLE": ("queued", "active"),
    "ENGINE_SAMPLE": ("busy_cycles", "backpressure_cycles", "bank_conflict_cycles"),
    "BANK_SAMPLE": ("requests", "grants", "denials"),
    "ENERGY_SAMPLE": ("dram_pj", "noc_pj", "spm_pj", "mac_pj", "ve_pj", "static_pj"),
}
ENERGY = "energy"  #: heading of the energy of a window


class _Last(NamedTuple):
    end: int  #: [cycle] of the last window that has a value
    counters: dict[int, None]  #: the tracks that had one


class Samples:
    """Turns samples into points. A window's value stands from its first cycle on; what a later window leaves out is 0 there."""

    def __init__(self, tracks: Tracks, window_cycles: int) -> None:
        self._tracks = tracks
        self._window = max(window_cycles, 1)
        self._last: dict[tuple[str, str], _Last] = {}

    def points(self, record: Record) -> Iterator[Point]:
        """The points of a sample, after those that end what stood before."""
        kind = record.event.name
        unit = ENERGY if kind == "ENERGY_SAMPLE" else record.unit
        values = {self._tracks.single(unit, name, "counter"): value for name, value in _values(record)}
        end = record.t_cycle + 1
        if kind == "QUEUE_SAMPLE":  # a depth at the end of the window, not a sum over it
            start, end = record.t_cycle, record.t_cycle + self._window
        else:
            start = max(end - record.window_cycles, 0)
        last = self._last.get((kind, unit))
        if last is not None:
            gone = last.counters if last.end < start else last.counters.keys() - values.keys()
            yield from (Point(track, min(last.end, start), 0) for track in last.counters if track in gone)
        yield from (Point(track, start, value) for track, value in values.items())
        self._last[kind, unit] = _Last(end, dict.fromkeys(values))

    def rest(self, end: int) -> Iterator[Point]:
        """The points that end what still stands, at the run's end where that is sooner."""
        for last in self._last.values():
            yield from (Point(track, min(last.end, end), 0) for track in last.counters)

    def state(self, record: Record) -> Point:
        """POWER_STATE: 1 while ACTIVE, from the first cycle of the window that the record ends."""
        track = self._tracks.single(record.unit, "power_state", "counter")
        return Point(track, record.t_cycle // self._window * self._window, int(record.state == "ACTIVE"))

    def reading(self, record: Record) -> Point:
        """HW_COUNTER: its value, under its unit or the run's heading."""
        track = self._tracks.single(RUN if record.unit is None else record.unit, f"hardware {record.counter}", "counter")
        return Point(track, record.t_cycle, record.value)


def _values(record: Record) -> Iterator[tuple[str, int | float]]:
    for name in COUNTERS[record.event.name]:
        value = getattr(record, name)
        if not isinstance(value, list):
            yield name, value
        elif record.event.name == "BANK_SAMPLE":
            yield name, sum(value)
        elif len(value) == 1:
            yield name, value[0]
        else:
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
