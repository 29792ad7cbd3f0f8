"""A trace as a timeline, in one pass: the input of Chrome's and Perfetto's viewers.

Slices are returned when they end, so memory holds only open slices, the commands and their dependencies. `MAPPING` defines the
result for every event type. Cycles are converted to the time unit of viewers: exactly if the time is a whole number of
femtoseconds, else rounded down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import msgspec

from kernbench.trace.events import Record
from kernbench.trace.exporters.write import TimeUnit
from kernbench.trace.reader import Trace

MAX_NS = 2**63 - 1


class Clock:
    """Converts cycles to times; later cycles never have earlier times."""

    def __init__(self, freq_ghz: Fraction, unit: TimeUnit = TimeUnit.NS) -> None:
        period = Fraction(1) if unit is TimeUnit.CYCLES else 1 / freq_ghz  # [ns]
        self._num, self._den = period.numerator, period.denominator

    def ns(self, cycle: int) -> int:
        """Whole nanoseconds, rounded down, in 63 bits."""
        return min(max(cycle, 0) * self._num // self._den, MAX_NS)

    def us_text(self, cycle: int) -> bytes:
        """Microseconds as a decimal of at most nine places."""
        whole, rest = divmod(max(cycle, 0) * self._num * 10**6 // self._den, 10**9)
        return (f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)).encode()


_FIELDS = {
    "CMD_ENQUEUE": ("t_cycle", "cmd_id", "deps"),
    "CMD_START": ("t_cycle", "cmd_id"),
    "CMD_END": ("t_cycle", "cmd_id"),
    "MARKER": ("t_cycle", "marker", "cmd_id"),
}


class Dependencies:
    """The arrows of a trace, numbered from 1 on; each begins at the dependency's slice and ends at the other command's.

    The file is read once for this, so that no arrow begins that never ends. The same pass finds the marker of each command,
    which the trace has after the end of the command.
    """

    def __init__(self, trace: Trace) -> None:
        deps, spans, self.markers = _read(trace)
        self._leaving: dict[int, list[tuple[int, int]]] = {}
        self._arriving: dict[int, list[tuple[int, int]]] = {}
        self._drawn: set[int] = set()
        self.drawn = 0  #: arrows that have arrived
        number = 0
        for command, before in deps.items():
            for dependency in dict.fromkeys(before):
                if _follows(spans, dependency, command):
                    number += 1
                    self._leaving.setdefault(dependency, []).append((number, command))
                    self._arriving.setdefault(command, []).append((number, dependency))

    def draw(self, command: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A command is drawn: the arrows that leave it, and those that arrive. Only the first span has them."""
        if command in self._drawn:
            return (), ()
        leaving = tuple(number for number, other in self._leaving.pop(command, ()) if other not in self._drawn)
        arriving = tuple(number for number, other in self._arriving.pop(command, ()) if other in self._drawn)
        self._drawn.add(command)
        self.drawn += len(arriving)
        return leaving, arriving

    def ordered(self, commands: Sequence[int]) -> Iterator[int]:
        """Positions in `commands` of one cycle, sorted so that dependencies come first."""
        position = {command: i for i, command in reversed(list(enumerate(commands)))}
        seen: set[int] = set()
        for i in range(len(commands)):
            path = [i]
            while path:
                before = [
                    position[other]
                    for _, other in self._arriving.get(commands[path[-1]], ())
                    if other in position and position[other] not in seen and position[other] not in path
                ]
                if before:
                    path.append(before[0])
                    continue
                last = path.pop()
                if last not in seen:
                    seen.add(last)
                    yield last


def _read(trace: Trace) -> tuple[dict[int, list[int]], dict[int, tuple[int, int]], dict[int, str | int]]:
    """Dependencies by command, first start and end of every command that is drawn, and markers by command."""
    deps: dict[int, list[int]] = {}
    spans: dict[int, tuple[int, int]] = {}
    open_since: dict[int, int] = {}
    markers: dict[int, str | int] = {}
    once: dict[str | int, str | int] = {}  # many commands have the same marker
    for records in trace.batches(only=_FIELDS):
        for record in records:
            name = record.event.name
            if name == "CMD_ENQUEUE":
                if record.deps:
                    deps[record.cmd_id] = record.deps
            elif name == "CMD_START":
                open_since.setdefault(record.cmd_id, record.t_cycle)
            elif name == "CMD_END":
                start = open_since.pop(record.cmd_id, record.t_cycle)
                spans.setdefault(record.cmd_id, (start, record.t_cycle))
            elif name == "MARKER" and record.cmd_id in spans:  # markers before the end of a command are of other things
                markers[record.cmd_id] = once.setdefault(record.marker, record.marker)
    for command, start in open_since.items():
        spans.setdefault(command, (start, _NEVER))
    return deps, spans, markers


_NEVER = 1 << 200


def _follows(spans: dict[int, tuple[int, int]], dependency: int, command: int) -> bool:
    """Whether both are drawn, in sequence."""
    if dependency == command or dependency not in spans or command not in spans:
        return False
    return spans[dependency][1] <= spans[command][0]


NAME_CHARS = 200  #: length at which a name is cut off
TEXT_CHARS = 4_000  #: most characters of a text among the arguments
_CUT = "..."


class Track(NamedTuple):
    """A line of the picture, or a heading over several lines."""

    number: int  #: from 1 on, in the order of their making
    name: str
    kind: Literal["group", "lane", "counter"]
    parent: int  #: the parent track; 0 if it has none
    top: int  #: the topmost track above it, or itself if it has no parent
    rank: int  #: among those under the same parent


class Slice(NamedTuple):
    """Something that lasts."""

    track: int
    name: str
    category: str
    start: int  #: [cycle]
    end: int  #: [cycle]
    args: dict[str, Any]
    leaving: tuple[int, ...] = ()  #: flows that begin here
    arriving: tuple[int, ...] = ()  #: flows that end here


class Instant(NamedTuple):
    """Something that happens."""

    track: int
    name: str
    category: str
    at: int  #: [cycle]
    args: dict[str, Any]


class Point(NamedTuple):
    """A counter's value from here on."""

    track: int
    at: int  #: [cycle]
    value: int | float


Item = Track | Slice | Instant | Point


def plain(text: str, most: int = NAME_CHARS) -> str:
    """A harmless text: one line, printable, not long; characters that are not printable are written as `\\u001b`."""
    if len(text) > most:
        text = text[: most - len(_CUT)] + _CUT
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def arguments(record: Record, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields that a record has, as numbers, truth values and texts."""
    names = record.__struct_fields__
    values = ((name, getattr(record, name)) for name in names if name != "t_cycle" and name not in without)
    return {name: _argument(value) for name, value in values if value is not None}


def _argument(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return plain(", ".join(map(str, value)), TEXT_CHARS)
    if isinstance(value, str):
        return plain(value, TEXT_CHARS)
    return plain(json_text(value), TEXT_CHARS)


def json_text(value: Any) -> str:
    """A value as JSON text, compact."""
    return msgspec.json.encode(value).decode()


RUN = "run"  #: heading of the events that belong to no unit
MAX_DEPTH = 16  #: headings above each other
#: Component: the lane that is the heading of its units; for units without a parent, the heading above them.
_MAIN = {
    "CPU": ("commands", ""),
    "DMA": ("jobs", ""),
    "TE": ("jobs", ""),
    "VE": ("jobs", ""),
    "DRAM": ("flows", "DRAM channels"),
    "NOC": ("flows", "NoC links"),
    "SRAM": ("conflicts", "Scratchpads"),
}


class Tracks:
    """Makes tracks when they are first used; `fresh` has those that have not been fetched yet."""

    def __init__(self, units: list[Mapping[str, Any]]) -> None:
        self.fresh: list[Track] = []
        self._parents: dict[str, str] = {}
        self._mains: dict[str, str] = {}
        for unit in units:
            name = str(unit.get("unit", ""))
            main, above = _MAIN.get(str(unit.get("component", "")), ("jobs", ""))
            self._parents.setdefault(name, str(unit.get("parent") or above))
            self._mains[name] = main
        self._order = {name: rank for rank, name in enumerate(self._parents)}
        self._groups: dict[str, Track] = {}
        self._lanes: dict[tuple[str, str], list[tuple[int, int]]] = {}  # the track, and the end of its last span
        self._single: dict[tuple[str, str, str], int] = {}
        self._ranks: dict[int, int] = {}
        self._made = 0

    def lane(self, unit: str, name: str, start: int, end: int) -> int:
        """The track for something from `start` to `end`: of those that are free, the one that was used last."""
        slots = self._lanes.setdefault((unit, name), [])
        best = -1
        for i, (_, free) in enumerate(slots):
            if free <= start and (best < 0 or free > slots[best][1]):
                best = i
        if best < 0:
            best = len(slots)
            slots.append((self._slot(unit, name, best), 0))
        slots[best] = (slots[best][0], end)
        return slots[best][0]

    def _slot(self, unit: str, name: str, index: int) -> int:
        group = self._group(unit)
        if self._mains.get(unit) != name:
            return self._new(_label(unit, name), "lane", group).number
        if index == 0:
            return group.number
        beside = self._new(unit, "lane", group)._replace(parent=group.parent, rank=group.rank)
        self.fresh[-1] = beside
        return beside.number

    def single(self, unit: str, name: str, kind: Literal["lane", "counter"]) -> int:
        """The one track of that name: of instants, or of a counter."""
        key = (unit, name, kind)
        if key not in self._single:
            group = self._group(unit)
            on_heading = kind == "lane" and self._mains.get(unit) == name
            self._single[key] = group.number if on_heading else self._new(_label(unit, name), kind, group).number
        return self._single[key]

    def _group(self, unit: str) -> Track:
        """The heading of a unit, below the headings of its parents. In a cycle of parents, each parent occurs once."""
        path = [unit]
        while path[-1] not in self._groups and len(path) < MAX_DEPTH:
            above = self._above(path[-1])
            if not above or above in path:
                break
            path.append(above)
        parent: Track | None = None
        for name in reversed(path):
            if name not in self._groups:
                self._groups[name] = self._new(name, "group", parent)
            parent = self._groups[name]
        assert parent is not None
        return parent

    def _above(self, name: str) -> str:
        return self._parents[name] if name in self._parents else name.rpartition(".")[0]

    def _new(self, name: str, kind: Literal["group", "lane", "counter"], parent: Track | None) -> Track:
        self._made += 1
        above, top = (0, self._made) if parent is None else (parent.number, parent.top)
        rank = self._order.get(name, -1) + 1 if kind == "group" else 0
        if not rank:
            rank = self._ranks[above] = self._ranks.get(above, len(self._order) if kind == "group" else 0) + 1
        track = Track(self._made, plain(name), kind, above, top, rank)
        self.fresh.append(track)
        return track


def _label(unit: str, name: str) -> str:
    return name if unit == RUN else f"{unit} {name}"


#: A sample's fields that are counters. Lists over banks or virtual channels are summed, other lists are a counter an item.
COUNTERS: dict[str, tuple[str, ...]] = {
    "BANDWIDTH_SAMPLE": ("read_bytes", "write_bytes", "busy_cycles", "member_cycles"),
    "QUEUE_SAMPLE": ("queued", "active"),
    "ENGINE_SAMPLE": ("busy_cycles", "backpressure_cycles", "bank_conflict_cycles"),
    "BANK_SAMPLE": ("requests", "grants", "denials"),
    "NOC_QUEUE_DEPTH": ("depth", "packets"),
    "ENERGY_SAMPLE": ("dram_pj", "noc_pj", "spm_pj", "mac_pj", "ve_pj", "static_pj"),
}
_DEPTHS = {"QUEUE_SAMPLE", "NOC_QUEUE_DEPTH"}
_SUMMED = {"BANK_SAMPLE", "NOC_QUEUE_DEPTH"}
ENERGY = "energy"  #: heading of the energy of a window


class _Last(NamedTuple):
    end: int  #: [cycle] of the last window that has a value
    counters: dict[int, None]  #: the tracks that had one


class Samples:
    """Turns samples into points. The value of a window holds from its first cycle on; a value that a later window omits is 0
    there."""

    def __init__(self, tracks: Tracks, window_cycles: int) -> None:
        self._tracks = tracks
        self._window = max(window_cycles, 1)
        self._last: dict[tuple[str, str], _Last] = {}

    def points(self, record: Record) -> Iterator[Point]:
        """The points of a sample, after the points that end earlier values."""
        kind = record.event.name
        unit = ENERGY if kind == "ENERGY_SAMPLE" else record.unit
        values = {self._tracks.single(unit, name, "counter"): value for name, value in _values(record)}
        end = record.t_cycle + 1
        if kind in _DEPTHS:  # a depth at the end of the window, not a sum over it
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
        """The points that end open values, at the end of the window or at the end of the run, whichever comes first."""
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
        if value is None:
            continue
        if not isinstance(value, list):
            yield name, value
        elif record.event.name in _SUMMED:
            yield name, sum(value)
        elif len(value) == 1:
            yield name, value[0]
        else:
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))


#: Event type: (what it becomes, on which track or how).
MAPPING: dict[str, tuple[str, str]] = {
    "TRACE_META": ("instant", "file"),
    "TRACE_END": ("instant", "file"),
    "CMD_ENQUEUE": ("arguments", "of the command's slice; `deps` become flows"),
    "CMD_START": ("slice", "commands"),
    "CMD_END": ("slice", "commands"),
    "JOB_ISSUE": ("arguments", "of the job's slice: its name, `issue_cycle`, `tile_id`, `vec_chunk_id`"),
    "JOB_DONE": ("nothing", "the job's slice ends here"),
    **{f"{kind}_{side}": ("slice", "jobs") for kind in ("DMA", "TE", "VE") for side in ("START", "END")},
    **{f"{kind}_TX_{side}": ("slice", "flows") for kind in ("DRAM", "NOC") for side in ("START", "END")},
    "CACHE_LOOKUP": ("instant", "lookups"),
    "NOC_FLITS": ("instant", "packets"),
    "WRITE_BACK_START": ("slice", "write-backs"),
    "WRITE_BACK_END": ("slice", "write-backs"),
    "DRAM_TX_SUSPEND": ("slice", "suspended"),
    "DRAM_TX_RESUME": ("slice", "suspended"),
    "STALL_EVENT": ("slice", "waits"),
    "RESUME_EVENT": ("slice", "waits"),
    "TOKEN": ("slice", "tokens"),
    "ENGINE_EVENT": ("slice", "a slice of the job, unless a `*_END` of the same cycle already made one"),
    "SRAM_ACCESS": ("instant", "accesses"),
    "MEM_ACCESS_EVENT": ("instant", "accesses"),
    "SRAM_CONFLICT": ("instant", "conflicts"),
    **dict.fromkeys(("IRQ_EMIT", "TOKEN_COMPLETE", "MARKER"), ("instant", "signals")),
    **dict.fromkeys(("ERROR", "WARN"), ("instant", "problems")),
    **{name: ("counter", ", ".join(f"`{field}`" for field in fields)) for name, fields in COUNTERS.items()},
    "POWER_STATE": ("counter", "`power_state`: 1 ACTIVE, 0 IDLE"),
    "HW_COUNTER": ("counter", "`hardware` and its name"),
}
_NAMES = {"IRQ_EMIT": "IRQ", "TOKEN_COMPLETE": "token complete", "MARKER": "marker"}


class _Open(NamedTuple):
    """A slice that has begun."""

    unit: str
    lane: str
    name: str
    start: int
    args: dict[str, Any]


class Timeline:
    """The items of a trace; each track comes before its spans and points. Iterate once; afterwards `counts` has the number of
    each."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._arrows = Dependencies(trace)
        self._tracks = Tracks(trace.meta.units)
        self._samples = Samples(self._tracks, trace.meta.window_cycles)
        self._open: dict[tuple[Any, ...], _Open] = {}
        self._queued: dict[int, Record] = {}  # CMD_ENQUEUE by cmd_id, of commands that are not drawn yet
        self._issued: dict[int, Record] = {}  # JOB_ISSUE by job_id, of jobs that have not started
        self._at_once: list[tuple[int, Slice]] = []  # commands of this cycle that take no time
        self._ended: set[int] = set()  # jobs whose slice ended in this cycle
        self._cycle = 0
        self._out: list[Item] = []
        self.counts = {"slices": 0, "instants": 0, "points": 0, "flows": 0, "tracks": 0}

    def __iter__(self) -> Iterator[Item]:
        handlers = self._handlers()
        self._instant(self._trace.meta, RUN, "file", "TRACE_META")
        for record in self._trace:
            if record.t_cycle != self._cycle:
                self._next_cycle(record.t_cycle)
            handlers[record.event.name](record)
            yield from self._fetch()
        end = self._trace.end
        self._next_cycle(self._cycle if end is None else end.t_cycle)
        for key in list(self._open):
            self._close(key, self._cycle, {"open": True})
        self._out.extend(self._samples.rest(self._cycle))
        self._next_cycle(self._cycle)
        if end is not None:
            self._instant(end, RUN, "file", "TRACE_END")
        yield from self._fetch()
        self.counts["flows"] = self._arrows.drawn

    def _handlers(self) -> dict[str, Callable[[Record], None]]:
        made: dict[str, Callable[[Record], None]] = {
            "CMD_ENQUEUE": lambda record: self._queued.update({record.cmd_id: record}),
            "CMD_START": self._command_starts,
            "CMD_END": self._command_ends,
            "JOB_ISSUE": lambda record: self._issued.update({record.job_id: record}),
            "JOB_DONE": lambda record: None,
            "STALL_EVENT": self._stall,
            "RESUME_EVENT": self._resume,
            "DRAM_TX_SUSPEND": self._suspend,
            "DRAM_TX_RESUME": lambda record: self._end(record, self._flow_key(record, "suspended")),
            "CACHE_LOOKUP": lambda r: self._instant(r, r.unit, "lookups", f"transfer {r.tx_id}"),
            "NOC_FLITS": lambda r: self._instant(r, r.unit, "packets", f"transfer {r.tx_id}"),
            "WRITE_BACK_START": self._write_back,
            "WRITE_BACK_END": lambda record: self._end(record, ("write-backs", record.unit, record.channel)),
            "TOKEN": self._token,
            "ENGINE_EVENT": self._engine_event,
            "SRAM_ACCESS": lambda r: self._instant(r, r.unit, "accesses", r.access_type),
            "MEM_ACCESS_EVENT": lambda r: self._instant(r, r.unit, "accesses", r.direction),
            "SRAM_CONFLICT": lambda r: self._instant(r, r.unit, "conflicts", f"bank {r.bank_id}"),
            "POWER_STATE": lambda r: self._out.append(self._samples.state(r)),
            "HW_COUNTER": lambda r: self._out.append(self._samples.reading(r)),
        }
        made |= dict.fromkeys(_NAMES, self._signal)
        made |= dict.fromkeys(("ERROR", "WARN"), lambda r: self._instant(r, RUN, "problems", f"{r.event.name} {r.code}"))
        made |= dict.fromkeys(COUNTERS, lambda record: self._out.extend(self._samples.points(record)))
        for kind in ("DMA", "TE", "VE"):
            made |= {f"{kind}_START": self._job_starts, f"{kind}_END": self._job_ends}
        for kind in ("DRAM", "NOC"):
            made[f"{kind}_TX_START"] = self._flow_starts
            made[f"{kind}_TX_END"] = self._flow_ends
        return made

    def _fetch(self) -> Iterator[Item]:
        tracks, items = self._tracks.fresh, self._out
        self._tracks.fresh, self._out = [], []
        self.counts["tracks"] += len(tracks)
        yield from tracks
        for item in items:
            self.counts[_COUNTED[type(item)]] += 1
            yield item

    def _next_cycle(self, cycle: int) -> None:
        self._ended.clear()
        pending, self._at_once = self._at_once, []
        for i in self._arrows.ordered([command for command, _ in pending]):
            self._draw(*pending[i])
        self._cycle = max(cycle, self._cycle)

    # Slices -------------------------------------------------------------------------------------------------------

    def _begin(self, key: tuple[Any, ...], opened: _Open) -> None:
        if key in self._open:  # a second begin without an end between: no lawful trace has it
            self._close(key, self._cycle, {"open": True})
        self._open[key] = opened

    def _end(self, record: Record, key: tuple[Any, ...], **more: Any) -> None:
        if key in self._open:
            self._close(key, record.t_cycle, {**more, **arguments(record, _IN_START)})

    def _close(self, key: tuple[Any, ...], end: int, more: dict[str, Any]) -> None:
        one = self._open.pop(key)
        end = max(end, one.start)
        name, args = plain(one.name), {"start_cycle": one.start, "cycles": end - one.start, **one.args, **more}
        if key[0] != "commands":
            track = self._tracks.lane(one.unit, one.lane, one.start, end)
            self._out.append(Slice(track, name, one.lane, one.start, end, args))
            return
        made = Slice(0, name, one.unit, one.start, end, args)
        if end == one.start:
            self._at_once.append((key[1], made))
        else:
            self._draw(key[1], made)

    def _draw(self, command: int, made: Slice) -> None:
        """The slice of a command; until here its category holds its unit."""
        leaving, arriving = self._arrows.draw(command)
        track = self._tracks.lane(made.category, "commands", made.start, made.end)
        self._out.append(made._replace(track=track, category="commands", leaving=leaving, arriving=arriving))

    def _command_starts(self, record: Record) -> None:
        queued = self._queued.pop(record.cmd_id, None)
        name = "command" if queued is None else queued.cmd_type
        args = arguments(record, ("unit",)) | ({} if queued is None else arguments(queued, ("unit", "cmd_type")))
        args |= self._marker(record.cmd_id)
        self._begin(("commands", record.cmd_id), _Open(record.unit, "commands", name, record.t_cycle, args))

    def _marker(self, command: int | None) -> dict[str, Any]:
        """The marker of a command as an argument; the commands of a kernel have its source line."""
        marker = None if command is None else self._arrows.markers.get(command)
        return {} if marker is None else {"marker": _argument(marker)}

    def _command_ends(self, record: Record) -> None:
        key = ("commands", record.cmd_id)
        if key not in self._open:  # it never started: the run ended before, or the trace began after
            self._command_starts(record)
        self._end(record, key)

    def _job_starts(self, record: Record) -> None:
        issued = self._issued.pop(record.job_id, None)
        name = record.event.component if issued is None else issued.job_type
        more = {} if issued is None else {"issue_cycle": issued.t_cycle, **arguments(issued, ("unit", "job_type"))}
        args = more | arguments(record, ("unit",)) | self._marker(record.cmd_id)
        self._begin(("jobs", record.job_id), _Open(record.unit, "jobs", name, record.t_cycle, args))

    def _job_ends(self, record: Record) -> None:
        key = ("jobs", record.job_id)
        if key not in self._open:  # the trace began after its start
            start = max(record.t_cycle - record.latency_cycles, 0)
            args = arguments(record, ("unit",)) | self._marker(record.cmd_id)
            self._begin(key, _Open(record.unit, "jobs", record.event.component, start, args))
        self._ended.add(record.job_id)
        self._end(record, key)

    def _engine_event(self, record: Record) -> None:
        if record.job_id in self._ended:
            return
        issued = self._issued.pop(record.job_id, None)
        name = "job" if issued is None else issued.job_type
        args = arguments(record, ("unit", "start_cycle", "end_cycle")) | self._marker(record.cmd_id)
        opened = _Open(record.unit, "jobs", name, record.start_cycle, args)
        key = ("jobs", record.job_id, "whole")
        self._open[key] = opened
        self._close(key, record.end_cycle, {})

    def _flow_key(self, record: Record, lane: str) -> tuple[Any, ...]:
        return lane, record.unit, record.tx_id, record.channel

    def _flow_starts(self, record: Record) -> None:
        opened = _Open(record.unit, "flows", f"transfer {record.tx_id}", record.t_cycle, arguments(record, ("unit",)))
        self._begin(self._flow_key(record, "flows"), opened)

    def _flow_ends(self, record: Record) -> None:
        """A flow that ends while it is suspended is not resumed before."""
        self._end(record, self._flow_key(record, "suspended"))
        self._end(record, self._flow_key(record, "flows"))

    def _suspend(self, record: Record) -> None:
        opened = _Open(record.unit, "suspended", record.reason, record.t_cycle, arguments(record, ("unit",)))
        self._begin(self._flow_key(record, "suspended"), opened)

    def _write_back(self, record: Record) -> None:
        opened = _Open(record.unit, "write-backs", "write-back", record.t_cycle, arguments(record, ("unit",)))
        self._begin(("write-backs", record.unit, record.channel), opened)

    def _stall(self, record: Record) -> None:
        key = ("waits", record.unit, record.job_id, record.reason, record.channel)
        self._begin(key, _Open(record.unit, "waits", record.reason, record.t_cycle, arguments(record, ("unit",))))

    def _resume(self, record: Record) -> None:
        key = ("waits", record.unit, record.job_id, record.reason, record.channel)
        if key not in self._open:  # the trace began after it
            start = max(record.t_cycle - record.duration_cycles, 0)
            self._begin(key, _Open(record.unit, "waits", record.reason, start, arguments(record, ("unit",))))
        self._end(record, key)

    def _token(self, record: Record) -> None:
        key = ("tokens", record.token_idx)
        self._begin(key, _Open(RUN, "tokens", f"token {record.token_idx}", record.start_cycle, arguments(record)))
        self._end(record, key)

    # Instants -----------------------------------------------------------------------------------------------------

    def _instant(self, record: Record, unit: str, lane: str, name: str) -> None:
        track = self._tracks.single(unit, lane, "lane")
        args = arguments(record, () if unit == RUN else ("unit",))
        self._out.append(Instant(track, plain(name), lane, record.t_cycle, args))

    def _signal(self, record: Record) -> None:
        name = _NAMES[record.event.name]
        if record.event.name == "MARKER":
            name = str(record.marker)
        self._instant(record, RUN, "signals", name)


_IN_START = ("unit", "cmd_id", "job_id", "tx_id", "channel", "link_id", "size_bytes")
_COUNTED: dict[type, str] = {Slice: "slices", Instant: "instants", Point: "points"}
