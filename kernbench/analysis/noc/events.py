"""Recorded NoC events of a kernel: JSON arrays, as Tenstorrent's profiler writes and tt-npe publishes them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from kernbench.analysis.noc.device import Device, Tile
from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.files import read_bounded

TRACE_BYTES = 1 << 30
LAST = 1 << 62  #: [cycle] latest timestamp
LARGEST = 1 << 26  #: [byte] of a transfer: more than a tile has
OVERHEAD = 20  #: [cycle] that the published measure leaves out: last event minus first zone begin, less these

#: What events do. If a `with state` omits a field, the field has the value of the last `set state` of the same processor.
SENDS = {
    "READ": ("read", False), "READ_WITH_STATE": ("read", True), "READ_WITH_STATE_AND_TRID": ("read", True),
    "READ_DRAM_SHARDED_WITH_STATE": ("read", True), "WRITE": ("write", False), "WRITE_": ("write", False),
    "WRITE_WITH_TRID": ("write", False), "WRITE_INLINE": ("write", False), "WRITE_MULTICAST": ("write", False),
    "WRITE_WITH_STATE": ("write", True), "WRITE_WITH_TRID_WITH_STATE": ("write", True),
}  # fmt: skip
SETS = {
    "READ_SET_STATE": "read", "READ_DRAM_SHARDED_SET_STATE": "read", "READ_SET_TRID": "", "WRITE_SET_STATE": "write",
    "WRITE_WITH_TRID_SET_STATE": "write",
}  # fmt: skip
WAITS = {"READ_BARRIER_END": "read", "WRITE_BARRIER_END": "write"}
PASSES = {"READ_BARRIER_START", "WRITE_BARRIER_START", "SEMAPHORE_SET"}
#: Waits with a single timestamp: their duration cannot be separated from other work before the next event.
OPAQUE = {
    "READ_BARRIER_WITH_TRID", "WRITE_BARRIER_WITH_TRID", "WRITE_FLUSH", "FULL_BARRIER", "ATOMIC_BARRIER", "SEMAPHORE_WAIT",
    "SEMAPHORE_INC",
}  # fmt: skip
KNOWN = sorted({*SENDS, *SETS, *WAITS, *PASSES, *OPAQUE} - {"WRITE_"})


class Do(Enum):
    """The meaning of an event for its processor."""

    SEND = "send"
    WAIT = "wait"  #: until all that it has sent so far is done
    PASS = "pass"


@dataclass(frozen=True, slots=True)
class Transfer:
    """One read or write."""

    index: int
    at: int  #: [cycle] recorded, from the first zone begin on
    owner: Tile  #: whose processor asks
    read: bool
    noc: str
    source: Tile  #: source of the bytes
    targets: tuple[Tile, ...]  #: targets of the bytes; several for a multicast
    nbytes: int


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a processor."""

    at: int  #: [cycle] from the first zone begin on
    do: Do
    waits: str = ""  #: `read` or `write`
    transfer: Transfer | None = None


@dataclass(frozen=True, slots=True)
class Processor:
    """One processor's events, in order of time."""

    name: str  #: `BRISC of (1, 2)`
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A kernel's traffic."""

    name: str
    processors: tuple[Processor, ...]
    transfers: tuple[Transfer, ...]
    measured: int  #: [cycle] on the chip: last event minus first zone begin, less 20
    notes: tuple[str, ...] = ()  #: events that are not simulated


def read_trace(path: str | os.PathLike[str], device: Device) -> Trace:
    """The trace of a file; InputError says which event cannot be, and why."""
    name = os.fspath(path)
    content = read_bounded(name, TRACE_BYTES)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(name, f"this is not valid JSON: {error}")) from None
    return trace_of(data, name, device)


def trace_of(data: Any, name: str, device: Device) -> Trace:
    """The trace of the array of events."""
    if not isinstance(data, list) or not data:
        raise InputError(Problem(name, "it must be an array of events, at least one"))
    reader = _Reader(name, device)
    begins = [reader.time(k, item) for k, item in enumerate(data) if reader.mapping(k, item).get("zone_phase") == "begin"]
    if not begins:
        raise InputError(Problem(name, "no event has the zone_phase begin, from which time is counted"))
    first = min(begins)
    last = max(reader.time(k, item) for k, item in enumerate(data))
    processors = reader.processors(data, first)
    return Trace(Path(name).stem, processors, tuple(reader.transfers), last - first - OVERHEAD, reader.notes())


@dataclass(slots=True)
class _Reader:
    name: str
    device: Device
    transfers: list[Transfer] = field(default_factory=list)
    states: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    opaque: dict[str, int] = field(default_factory=dict)
    empty: int = 0

    def wrong(self, k: int, rule: str, key: str = "", value: Any = None, remedy: str = "") -> InputError:
        """A refusal of event k."""
        where = f"{self.name}: event {k}"
        return InputError(Problem(where, rule, key, value, remedy) if key else Problem(where, rule, remedy=remedy))

    def mapping(self, k: int, item: Any) -> dict[str, Any]:
        """Event k, a mapping."""
        if not isinstance(item, dict):
            raise self.wrong(k, "it must be a mapping of keys")
        return item

    def number(self, k: int, item: dict[str, Any], key: str, most: int) -> int:
        """An integer of an event, 0 to `most`."""
        value = item.get(key)
        if type(value) is not int or not 0 <= value <= most:
            raise self.wrong(k, f"it must be an integer from 0 to {most}", key, value)
        return value

    def time(self, k: int, item: Any) -> int:
        """[cycle] as recorded."""
        return self.number(k, self.mapping(k, item), "timestamp", LAST)

    def tile(self, k: int, item: dict[str, Any], keys: tuple[str, str]) -> Tile:
        """The position of an event."""
        x, y = (self.number(k, item, key, LAST) for key in keys)
        if not self.device.has((x, y)):
            rule = f"{self.device.name} has {self.device.columns} columns and {self.device.rows} rows"
            raise self.wrong(k, rule, f"({', '.join(keys)})", [x, y])
        return x, y

    def processors(self, data: list[dict[str, Any]], first: int) -> tuple[Processor, ...]:
        """The events of each processor by time, without those that repeat the begin of a zone."""
        of: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
        for k, item in enumerate(data):
            x, y = self.tile(k, item, ("sx", "sy"))
            key = x, y, str(item.get("proc") or "")
            if not item.get("type") and item.get("zone_phase") == "begin" and (not key[2] or key in of):
                continue  # a profiler that empties its buffer says the begin of the kernel once more
            of.setdefault(key, []).append((self.time(k, item), k))
        return tuple(self._processor(key, sorted(items), data, first) for key, items in of.items())

    def _processor(
        self, key: tuple[int, int, str], items: list[tuple[int, int]], data: list[dict[str, Any]], first: int
    ) -> Processor:
        x, y, proc = key
        events = tuple(self._event(k, data[k], key, at - first) for at, k in items)
        return Processor(f"{proc or 'unnamed'} of ({x}, {y})", events)

    def _event(self, k: int, item: dict[str, Any], key: tuple[int, int, str], at: int) -> Event:
        kind = item.get("type")
        if kind is not None and not isinstance(kind, str):
            raise self.wrong(k, "it must be a text", "type", kind)
        if kind is None or kind in PASSES:
            return Event(at, Do.PASS)
        if kind in WAITS:
            return Event(at, Do.WAIT, WAITS[kind])
        if kind in OPAQUE:
            self.opaque[kind] = self.opaque.get(kind, 0) + 1
            return Event(at, Do.PASS)
        if kind in SETS:
            self.states[*key, SETS[kind]] = item
            return Event(at, Do.PASS)
        if kind not in SENDS:
            rule = f"events of this kind cannot be replayed; the known kinds are {', '.join(KNOWN)}"
            raise self.wrong(k, rule, "type", kind)
        what, stateful = SENDS[kind]
        return self._send(k, self._whole(k, item, (*key, what)) if stateful else item, what, at)

    def _whole(self, k: int, item: dict[str, Any], key: tuple[Any, ...]) -> dict[str, Any]:
        """An event with the state of its processor."""
        own = {name: value for name, value in item.items() if not (name in ("dx", "dy") and value == -1)}
        if not own.get("num_bytes"):
            own.pop("num_bytes", None)
        needed = ("dx", "dy", "noc", "num_bytes")
        state = self.states.get(key)
        if state is None and any(name not in own for name in needed):
            raise self.wrong(k, f"its processor has not set the state of a {key[-1]} before", "type", item["type"])
        return {name: state[name] for name in needed if name in state} | own if state else own

    def _send(self, k: int, item: dict[str, Any], what: str, at: int) -> Event:
        noc = item.get("noc")
        if not isinstance(noc, str) or noc not in self.device.nocs:
            raise self.wrong(k, f"{self.device.name} has {', '.join(self.device.nocs)}", "noc", noc)
        own = self.tile(k, item, ("sx", "sy"))
        nbytes = self.number(k, item, "num_bytes", LARGEST)
        if not nbytes:
            self.empty += 1
            return Event(at, Do.PASS)
        others = self._rectangle(k, item, noc) if "mcast_start_x" in item else (self.tile(k, item, ("dx", "dy")),)
        source, targets = (others[0], (own,)) if what == "read" else (own, others)
        transfer = Transfer(len(self.transfers), at, own, what == "read", noc, source, targets, nbytes)
        self.transfers.append(transfer)
        return Event(at, Do.SEND, transfer=transfer)

    def _rectangle(self, k: int, item: dict[str, Any], noc: str) -> tuple[Tile, ...]:
        """The workers between two corners, in whichever order the corners are reported."""
        start = self.tile(k, item, ("mcast_start_x", "mcast_start_y"))
        end = self.tile(k, item, ("mcast_end_x", "mcast_end_y"))
        (x0, x1), (y0, y1) = (sorted((start[i], end[i])) for i in (0, 1))
        tiles = [(x, y) for x in range(x0, x1 + 1) for y in range(y0, y1 + 1)]
        workers = tuple(tile for tile in tiles if self.device.kind_of(tile) == "worker")
        if not workers:
            raise self.wrong(k, f"no worker is between {shown(list(start))} and {shown(list(end))}")
        return workers

    def notes(self) -> tuple[str, ...]:
        """Events that are read but not simulated."""
        return tuple(_notes(self.opaque.items(), self.empty))


def _notes(opaque: Iterable[tuple[str, int]], empty: int) -> Iterable[str]:
    for kind, count in sorted(opaque):
        yield f"{count} x {kind}: it takes as long as it was recorded to take"
    if empty:
        yield f"transfers of 0 bytes are left out: {empty}"
