"""Chrome's trace format: JSON that chrome://tracing, Perfetto and others open; one event a line.

Slices are pairs of B and E: viewers round times, and an X whose time and length are rounded apart can overlap the next. An
arrow (s, f) leaves in the last cycle of its slice, so that it is inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from kernbench.trace.exporters.timeline import Clock, Instant, Item, Point, Slice, Timeline, Track, plain
from kernbench.trace.exporters.write import TimeUnit
from kernbench.trace.reader import Trace

_ARROW = b'"cat":"dependency","name":"dependency"'


def export(trace: Trace, out: BinaryIO, time: TimeUnit = TimeUnit.NS) -> dict[str, int]:
    """Write a trace as Chrome JSON; return the numbers of slices, instants, counter points, flows and tracks."""
    timeline = Timeline(trace)
    writer = _Writer(Clock(trace.freq_ghz, time))
    out.write(b'{"displayTimeUnit":"ns","otherData":' + _json(_about(trace, time)) + b',"traceEvents":[')
    comma = b"\n"
    for item in timeline:
        for line in writer.lines(item):
            out.write(comma + line)
            comma = b",\n"
    out.write(b"\n]}\n")
    return timeline.counts


def _about(trace: Trace, time: TimeUnit) -> dict[str, Any]:
    names = ("version", "sim_version", "model_version", "sim_id", "level", "freq_ghz", "window_cycles", "program")
    values = {name: getattr(trace.meta, name) for name in (*names, "program_hash", "config_hash")}
    return {
        **{name: plain(value) if isinstance(value, str) else value for name, value in values.items()},
        "time": "1 ns is 1 cycle" if time is TimeUnit.CYCLES else "nanoseconds",
    }


class _Writer:
    """Turns items into events. A process is a top-level heading, and a thread is a lane."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tracks: dict[int, Track] = {}
        self._lane_at: dict[int, bytes] = {}  # fields that every event of a lane contains

    def lines(self, item: Item) -> Iterator[bytes]:
        """The events of one span, flow or counter."""
        if isinstance(item, Slice):
            yield from self._slice(item)
        elif isinstance(item, Point):
            track, ts = self._tracks[item.track], self._clock.us_text(item.at)
            args = (track.top, ts, _json(track.name), _json(item.value))
            yield b'{"ph":"C","pid":%d,"ts":%s,"name":%s,"args":{"value":%s}}' % args
        elif isinstance(item, Instant):
            ts = self._clock.us_text(item.at)
            yield b'{"ph":"i","s":"t",%s,"ts":%s,%s}' % (self._lane_at[item.track], ts, _what(item))
        else:
            self._tracks[item.number] = item
            yield from self._track(item)

    def _slice(self, item: Slice) -> Iterator[bytes]:
        at = self._lane_at[item.track]
        start, end = self._clock.us_text(item.start), self._clock.us_text(item.end)
        yield b'{"ph":"B",%s,"ts":%s,%s}' % (at, start, _what(item))
        for flow in item.arriving:
            yield b'{"ph":"f","bp":"e",%s,"ts":%s,"id":%d,%s}' % (at, start, flow, _ARROW)
        last = self._clock.us_text(max(item.end - 1, item.start)) if item.leaving else b""
        for flow in item.leaving:
            yield b'{"ph":"s",%s,"ts":%s,"id":%d,%s}' % (at, last, flow, _ARROW)
        yield b'{"ph":"E",%s,"ts":%s}' % (at, end)

    def _track(self, track: Track) -> Iterator[bytes]:
        """Metadata events with the names and positions of processes and threads. Other headings have no metadata, because the
        names of their lanes begin with the unit's name."""
        if track.kind == "group" and track.number == track.top:
            yield _metadata("process_name", track.number, 0, b'"name":%s' % _json(track.name))
            yield _metadata("process_sort_index", track.number, 0, b'"sort_index":%d' % track.rank)
        if track.kind != "counter":
            self._lane_at[track.number] = b'"pid":%d,"tid":%d' % (track.top, track.number)
            yield _metadata("thread_name", track.top, track.number, b'"name":%s' % _json(track.name))
            rank = self._tracks[track.parent].rank * 1000 + track.rank if track.parent else 0
            yield _metadata("thread_sort_index", track.top, track.number, b'"sort_index":%d' % rank)


def _metadata(name: str, pid: int, tid: int, args: bytes) -> bytes:
    return b'{"ph":"M","pid":%d,"tid":%d,"name":"%s","args":{%s}}' % (pid, tid, name.encode(), args)


def _what(item: Slice | Instant) -> bytes:
    return b'"cat":%s,"name":%s,"args":%s' % (_json(item.category), _json(item.name), _json(item.args))


def _json(value: Any) -> bytes:
    """JSON that is also safe inside HTML."""
    return msgspec.json.encode(value).replace(b"<", b"\\u003c")
