"""Perfetto's own format: protobuf packets with a hierarchy of tracks, counters and flows; times in nanoseconds."""

from __future__ import annotations

from importlib import import_module
from typing import Any, BinaryIO

from kernbench.common.errors import InputError, Problem
from kernbench.trace.exporters.timeline import Clock, Instant, Item, Point, Slice, Timeline, Track
from kernbench.trace.exporters.write import TimeUnit
from kernbench.trace.reader import Trace

SEQUENCE = 1  #: all packets are of one writer
_PACKET = b"\x0a"  # field 1 of the message Trace, of variable length
_INT64 = 2**63


def export(trace: Trace, out: BinaryIO, time: TimeUnit = TimeUnit.NS) -> dict[str, int]:
    """Write a trace as Perfetto protobuf; return the numbers of slices, instants, counter points, flows and tracks."""
    timeline = Timeline(trace)
    writer = _Writer(Clock(trace.freq_ghz, time), out)
    for item in timeline:
        writer.write(item)
    return timeline.counts


def messages() -> Any:
    """The package's message classes; InputError if it is missing."""
    try:
        return import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    except ImportError:
        rule = "Perfetto's format needs a package that is not installed"
        remedy = "pip install 'kernbench[perfetto]', or write Chrome's format (FILE.json), which Perfetto also opens"
        raise InputError(Problem("--to perfetto", rule, remedy=remedy)) from None


class _Writer:
    """Turns items into packets."""

    def __init__(self, clock: Clock, out: BinaryIO) -> None:
        self._messages = messages()
        self._clock = clock
        self._out = out
        self._first = True

    def write(self, item: Item) -> None:
        """The packets of one span, flow or counter."""
        if isinstance(item, Slice):
            begin = self._event(item.start, item.track, "TYPE_SLICE_BEGIN")
            self._describe(begin.track_event, item)
            begin.track_event.flow_ids.extend(item.leaving)
            begin.track_event.terminating_flow_ids.extend(item.arriving)
            self._put(begin)
            self._put(self._event(item.end, item.track, "TYPE_SLICE_END"))
        elif isinstance(item, Instant):
            packet = self._event(item.at, item.track, "TYPE_INSTANT")
            self._describe(packet.track_event, item)
            self._put(packet)
        elif isinstance(item, Point):
            packet = self._event(item.at, item.track, "TYPE_COUNTER")
            if isinstance(item.value, int) and abs(item.value) < _INT64:
                packet.track_event.counter_value = item.value
            else:
                packet.track_event.double_counter_value = item.value
            self._put(packet)
        else:
            self._put(self._track(item))

    def _track(self, track: Track) -> Any:
        packet = self._messages.TracePacket()
        described = packet.track_descriptor
        described.uuid = track.number
        described.name = track.name
        described.sibling_order_rank = track.rank
        if track.parent:
            described.parent_uuid = track.parent
        if track.kind == "counter":
            described.counter.SetInParent()
        elif track.kind == "group":
            described.child_ordering = self._messages.TrackDescriptor.EXPLICIT
        return packet

    def _event(self, cycle: int, track: int, kind: str) -> Any:
        packet = self._messages.TracePacket()
        packet.timestamp = self._clock.ns(cycle)
        packet.track_event.type = getattr(self._messages.TrackEvent, kind)
        packet.track_event.track_uuid = track
        return packet

    def _describe(self, event: Any, item: Slice | Instant) -> None:
        event.name = item.name
        event.categories.append(item.category)
        for name, value in item.args.items():
            note = event.debug_annotations.add()
            note.name = name
            if isinstance(value, bool):
                note.bool_value = value
            elif isinstance(value, int) and abs(value) < _INT64:
                note.int_value = value
            elif isinstance(value, float):
                note.double_value = value
            else:
                note.string_value = str(value)

    def _put(self, packet: Any) -> None:
        packet.trusted_packet_sequence_id = SEQUENCE
        if self._first:
            packet.sequence_flags = self._messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            self._first = False
        data = packet.SerializeToString(deterministic=True)
        self._out.write(_PACKET + _varint(len(data)) + data)


def _varint(value: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
