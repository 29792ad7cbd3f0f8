"""Reads exported timelines back, and counts by itself what there must be in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from kernbench.trace.events import Record

COUNTED = ("slices", "instants", "points", "flows")
INSTANTS = ("SRAM_ACCESS", "MEM_ACCESS_EVENT", "SRAM_CONFLICT", "IRQ_EMIT", "TOKEN_COMPLETE", "MARKER", "ERROR", "WARN")
SLICES = ("DMA_START", "TE_START", "VE_START", "DRAM_TX_START", "NOC_TX_START", "DRAM_TX_SUSPEND", "STALL_EVENT", "TOKEN")
SAMPLES = {
    "BANDWIDTH_SAMPLE": ("read_bytes", "write_bytes", "busy_cycles", "member_cycles"),
    "ENGINE_SAMPLE": ("busy_cycles", "backpressure_cycles", "bank_conflict_cycles"),
    "BANK_SAMPLE": ("requests", "grants", "denials"),
    "ENERGY_SAMPLE": ("dram_pj", "noc_pj", "spm_pj", "mac_pj", "ve_pj", "static_pj"),
    "QUEUE_SAMPLE": ("queued", "active"),
    "NOC_QUEUE_DEPTH": ("depth", "packets"),
}


def wanted(records: Iterable[Record]) -> dict[str, int]:
    """How many slices, instants, counter points and flows a whole run's records make: a slice for every start."""
    records = list(records)
    kinds = Counter(record.event.name for record in records)
    slices = len({record.cmd_id for record in records if record.event.name in ("CMD_START", "CMD_END")})
    points = kinds["POWER_STATE"] + kinds["HW_COUNTER"]
    return {
        "slices": slices + sum(kinds[name] for name in SLICES),
        "instants": sum(kinds[name] for name in INSTANTS) + kinds["TRACE_META"] + kinds["TRACE_END"],
        "points": points + _points(records),
        "flows": _flows(records),
    }


def _points(records: list[Record]) -> int:
    """One point a number of a sample, and one more where the next window has none."""
    window = records[0].window_cycles
    spans: dict[tuple[str, str | None], list[tuple[int, int, int]]] = {}
    for record in records:
        name = record.event.name
        if name not in SAMPLES:
            continue
        values = [value for one in SAMPLES[name] if (value := getattr(record, one)) is not None]
        lists, at_end = name == "QUEUE_SAMPLE", name in ("QUEUE_SAMPLE", "NOC_QUEUE_DEPTH")
        width = sum(len(value) if lists and isinstance(value, list) else 1 for value in values)
        end = record.t_cycle + (window if at_end else 1)
        start = record.t_cycle if at_end else end - record.window_cycles
        spans.setdefault((name, getattr(record, "unit", None)), []).append((start, end, width))
    total = 0
    for those in spans.values():
        nexts = [start for start, _, _ in those[1:]] + [1 << 62]
        total += sum(width * (2 if following > end else 1) for (_, end, width), following in zip(those, nexts, strict=True))
    return total


def _flows(records: list[Record]) -> int:
    starts = {record.cmd_id: record.t_cycle for record in records if record.event.name == "CMD_START"}
    ends = {record.cmd_id: record.t_cycle for record in records if record.event.name == "CMD_END"}
    starts = {**ends, **starts}
    edges = {(dep, record.cmd_id) for record in records if record.event.name == "CMD_ENQUEUE" for dep in record.deps or ()}
    return sum(a in ends and b in starts and ends[a] <= starts[b] for a, b in edges)


@dataclass
class Read:
    """What is in an export."""

    slices: list[tuple[int, Any, Any, str, dict[str, Any]]] = field(default_factory=list)  # track, start, end, name, arguments
    instants: list[tuple[int, Any, str, dict[str, Any]]] = field(default_factory=list)
    points: list[tuple[Any, Any, Any]] = field(default_factory=list)  # track or name, time, value
    flows: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)  # by id: track and time of either end
    tracks: dict[int, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return {name: len(getattr(self, name)) for name in COUNTED}

    def check(self) -> None:
        """No slice ends before it starts, none overlaps another of its track, every flow has both ends, each inside a slice."""
        by_track: dict[int, list[tuple[Any, Any]]] = {}
        for track, start, end, _, _ in self.slices:
            assert 0 <= start <= end, (track, start, end)
            by_track.setdefault(track, []).append((start, end))
        for track, spans in by_track.items():
            for (_, end), (start, _) in pairwise(spans):
                assert end <= start, (track, end, start)
        for number, ends in self.flows.items():
            assert len(ends) == 2, (number, ends)
            (_, first), (_, second) = ends
            assert first <= second
            for track, time in ends:
                assert any(start <= time <= end for start, end in by_track[track]), (number, track, time)


def read_chrome(path: Path) -> Read:
    """Chrome JSON, its times as exact decimals of a microsecond."""
    events = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)["traceEvents"]
    read = Read()
    opened: dict[int, dict[str, Any]] = {}
    for event in events:
        kind, track = event["ph"], event.get("tid")
        if kind == "M":
            read.tracks.setdefault(track or -event["pid"], {})[event["name"]] = event["args"]
        elif kind == "B":
            assert track not in opened
            opened[track] = event
        elif kind == "E":
            begin = opened.pop(track)
            read.slices.append((track, begin["ts"], event["ts"], begin["name"], begin["args"]))
        elif kind == "i":
            read.instants.append((track, event["ts"], event["name"], event["args"]))
        elif kind == "C":
            read.points.append((event["name"], event["ts"], event["args"]["value"]))
        else:
            assert kind in "sf" and event["cat"] == "dependency" and (kind == "s" or event["bp"] == "e")
            read.flows.setdefault(event["id"], []).append((track, event["ts"]))
            assert len(read.flows[event["id"]]) == (1 if kind == "s" else 2)
    assert not opened
    return read


def read_perfetto(path: Path) -> Read:
    """Perfetto protobuf, by the package's own messages."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    trace = messages.Trace()
    trace.ParseFromString(path.read_bytes())
    read = Read()
    opened: dict[int, Any] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in read.tracks and (not track.parent_uuid or track.parent_uuid in read.tracks)
            read.tracks[track.uuid] = track
            continue
        event, time = packet.track_event, packet.timestamp
        track = event.track_uuid
        assert track in read.tracks
        if event.type == event.TYPE_SLICE_BEGIN:
            opened[track] = packet
            for flow in (*event.flow_ids, *event.terminating_flow_ids):
                read.flows.setdefault(flow, []).append((track, time))
        elif event.type == event.TYPE_SLICE_END:
            begin = opened.pop(track)
            made = begin.track_event
            read.slices.append((track, begin.timestamp, time, made.name, _arguments(made)))
        elif event.type == event.TYPE_INSTANT:
            read.instants.append((track, time, event.name, _arguments(event)))
        else:
            value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
            read.points.append((read.tracks[track].name, time, value))
    assert not opened
    return read


def _arguments(event: Any) -> dict[str, Any]:
    return {note.name: getattr(note, note.WhichOneof("value")) for note in event.debug_annotations}


READERS = {"chrome": read_chrome, "perfetto": read_perfetto}
