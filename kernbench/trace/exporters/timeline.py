"""A trace as a timeline, in one pass: what Chrome's and Perfetto's viewers are given.

Slices are handed out when they end, so memory holds what is open, the commands and their dependencies, and no more.
`MAPPING` says what becomes of every event type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kernbench.trace.events import Record
from kernbench.trace.exporters.dependencies import Dependencies
from kernbench.trace.exporters.items import Instant, Item, Point, Slice, arguments, plain
from kernbench.trace.exporters.samples import COUNTERS, Samples
from kernbench.trace.exporters.tracks import RUN, Tracks
from kernbench.trace.reader import Trace

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
    "DRAM_TX_SUSPEND": ("slice", "suspended"),
    "DRAM_TX_RESUME": ("slice", "suspended"),
    "STALL_EVENT": ("slice", "waits"),
    "RESUME_EVENT": ("slice", "waits"),
    "TOKEN": ("slice", "tokens"),
    "ENGINE_EVENT": ("slice", "jobs, where the job has no slice from a `*_END` of the same cycle; else nothing"),
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
    """The items of a trace, each track before what is on it. Iterate once; then `counts` says how many of each there were."""

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
        """A command's slice, whose category holds its unit until here."""
        leaving, arriving = self._arrows.draw(command)
        track = self._tracks.lane(made.category, "commands", made.start, made.end)
        self._out.append(made._replace(track=track, category="commands", leaving=leaving, arriving=arriving))

    def _command_starts(self, record: Record) -> None:
        queued = self._queued.pop(record.cmd_id, None)
        name = "command" if queued is None else queued.cmd_type
        args = arguments(record, ("unit",)) | ({} if queued is None else arguments(queued, ("unit", "cmd_type")))
        self._begin(("commands", record.cmd_id), _Open(record.unit, "commands", name, record.t_cycle, args))

    def _command_ends(self, record: Record) -> None:
        key = ("commands", record.cmd_id)
        if key not in self._open:  # it never started: the run ended before, or the trace began after
            self._command_starts(record)
        self._end(record, key)

    def _job_starts(self, record: Record) -> None:
        issued = self._issued.pop(record.job_id, None)
        name = record.event.component if issued is None else issued.job_type
        more = {} if issued is None else {"issue_cycle": issued.t_cycle, **arguments(issued, ("unit", "job_type"))}
        args = more | arguments(record, ("unit",))
        self._begin(("jobs", record.job_id), _Open(record.unit, "jobs", name, record.t_cycle, args))

    def _job_ends(self, record: Record) -> None:
        key = ("jobs", record.job_id)
        if key not in self._open:  # the trace began after its start
            start = max(record.t_cycle - record.latency_cycles, 0)
            self._begin(key, _Open(record.unit, "jobs", record.event.component, start, arguments(record, ("unit",))))
        self._ended.add(record.job_id)
        self._end(record, key)

    def _engine_event(self, record: Record) -> None:
        if record.job_id in self._ended:
            return
        issued = self._issued.pop(record.job_id, None)
        name = "job" if issued is None else issued.job_type
        opened = _Open(record.unit, "jobs", name, record.start_cycle, arguments(record, ("unit", "start_cycle", "end_cycle")))
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
