"""Laws of the counters: the sums of the events of jobs, flows and waits equal the counters of TRACE_END."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from kernbench.common.naming import cache_of, joins_routers
from kernbench.trace.laws.law import Context, Handler, Law
from kernbench.trace.laws.line import Line
from kernbench.trace.metric.collect import KINDS, Activity

#: Counters that the result does not have: those of a link that no transfer can use, and of a channel of a system that no
#: transfer used.
UNUSED: dict[str, Any] = {"bytes": 0, "busy": 0, "member_cycles": 0}
_QUEUES = ("queue_full", "priority_deferred")
NO_JOB = -1  #: takes the place of the job number for write-backs of a cache


class Counters(Law):
    """Sums of events by unit: the cycles in which the unit had a job or a member, and the work that it did."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._active: defaultdict[str, Activity] = defaultdict(Activity)
        self._members: Counter[str] = Counter()  # [member-cycle] of flows that are over or suspended
        self._joined: dict[tuple[int, int], int] = {}  # the cycle in which each open flow became a member
        self._links: dict[tuple[int, int], list[str]] = {}  # links of open flows
        self._bare: set[tuple[int, int]] = set()  # open flows without a DRAM channel
        self._done: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._sizes: dict[int, int] = {}  # [B] of open transfers
        self._waits: dict[tuple[int, str], tuple[str, int]] = {}  # waits in queues: unit, and cycle of the begin

    def handlers(self) -> dict[str, Handler]:
        return {
            **dict.fromkeys(("DMA_START", "TE_START", "VE_START"), self._start),
            **dict.fromkeys(("DMA_END", "TE_END", "VE_END"), self._end),
            "JOB_DONE": self._job_done,
            "STALL_EVENT": self._stall,
            "RESUME_EVENT": self._resume,
            "DRAM_TX_START": self._join,
            "NOC_TX_START": self._route,
            "DRAM_TX_SUSPEND": self._suspend,
            "DRAM_TX_RESUME": self._back,
            "DRAM_TX_END": self._leave,
            "NOC_TX_END": self._leave_link,
            "WRITE_BACK_START": self._written,
            "WRITE_BACK_END": self._written_back,
        }

    def _activity(self, unit: str) -> Activity:
        return self._active[unit]

    def _over(self, unit: str, t_cycle: int) -> None:
        """End an interval on a unit; the law of pairs reports an interval that never started."""
        activity = self._activity(unit)
        if activity.running:
            activity.end(t_cycle)
        else:
            activity.end_early(t_cycle, 0)

    def _sum(self, unit: str) -> Counter[str]:
        return self._done[unit]

    def _start(self, record: Line) -> None:
        self._activity(record.unit).begin(record.t_cycle)
        if record.event.component == "DMA":
            self._sizes[record.job_id] = record.size_bytes

    def _end(self, record: Line) -> None:
        self._over(record.unit, record.t_cycle)
        sums, kind = self._sum(record.unit), record.event.component
        if kind == "DMA":
            sums["bytes"] += self._sizes.pop(record.job_id, 0)
        elif kind == "TE":
            sums["macs"] += record.mac_count
        else:
            sums["ops"] += record.op_count

    def _job_done(self, record: Line) -> None:
        self._sum(record.unit)["jobs"] += 1

    def _stall(self, record: Line) -> None:
        if record.reason in _QUEUES:
            self._waits[record.job_id, record.reason] = record.unit, record.t_cycle
        elif record.reason == "backpressure" and (record.job_id, 0) in self._bare:
            self._out((record.job_id, 0), record.t_cycle + 1)

    def _resume(self, record: Line) -> None:
        if record.reason in _QUEUES:
            self._waits.pop((record.job_id, record.reason), None)
            self._sum(record.unit)[record.reason] += record.duration_cycles
        elif record.reason == "backpressure" and (record.job_id, 0) in self._bare:
            self._in((record.job_id, 0), record.t_cycle + 1)

    def _join(self, record: Line) -> None:
        key = record.job_id, record.channel
        self._links[key] = [record.unit]
        self._joined[key] = record.t_cycle
        self._activity(record.unit).begin(record.t_cycle)

    def _route(self, record: Line) -> None:
        key = record.job_id, record.channel
        if key not in self._links:
            self._bare.add(key)
            self._links[key] = []
            self._joined[key] = record.t_cycle
        if self._over_routers(record.unit):
            return
        self._links[key].append(record.unit)
        if key in self._joined:  # under fifo, the flow may already be suspended
            self._activity(record.unit).begin(record.t_cycle)

    def _over_routers(self, unit: str) -> bool:
        """Whether a link counts flits instead of members (docs/model/flit_transfers.md)."""
        return self.context.flits and joins_routers(unit)

    def _suspend(self, record: Line) -> None:
        self._out((record.job_id, record.channel), record.t_cycle)

    def _back(self, record: Line) -> None:
        self._in((record.job_id, record.channel), record.t_cycle)

    def _leave(self, record: Line) -> None:
        key = record.job_id, record.channel
        self._out(key, record.t_cycle)
        self._links.pop(key, None)

    def _leave_link(self, record: Line) -> None:
        """A flow with a DRAM channel leaves its links when it leaves the channel."""
        key = record.job_id, record.channel
        if key in self._bare:
            self._bare.discard(key)
            self._leave(record)

    def _written(self, record: Line) -> None:
        """Write-backs of a cache are a member of the channel and of the cache, and belong to no transfer."""
        key = NO_JOB, record.channel
        self._links[key] = [record.unit, cache_of(record.unit, self.context.units) or record.unit]
        self._in(key, record.t_cycle)

    def _written_back(self, record: Line) -> None:
        key = NO_JOB, record.channel
        self._out(key, record.t_cycle)
        self._links.pop(key, None)

    def _in(self, key: tuple[int, int], t_cycle: int) -> None:
        """A flow becomes a member again."""
        if key in self._links and key not in self._joined:
            self._joined[key] = t_cycle
            for unit in self._links[key]:
                self._activity(unit).begin(t_cycle)

    def _out(self, key: tuple[int, int], t_cycle: int) -> None:
        """A flow stops being a member."""
        since = self._joined.pop(key, None)
        if since is not None:
            for unit in self._links[key]:
                self._over(unit, t_cycle)
                self._members[unit] += t_cycle - since

    def finish(self, end: Any) -> None:
        if self.context.partial:
            return
        for (_, reason), (unit, since) in self._waits.items():
            self._sum(unit)[reason] += end.cycles - since
        for key, since in self._joined.items():
            for unit in self._links[key]:
                self._members[unit] += end.cycles - since
        for unit, kind in self.context.units.items():
            counters = end.counters.get(unit, UNUSED if kind in ("DRAM", "NOC") else None)
            if kind not in (*KINDS, "DRAM", "NOC"):
                continue
            if not isinstance(counters, dict):
                self.context.say("counters", f"TRACE_END has no counters of {unit}")
            elif kind in KINDS:
                self._engine(unit, kind, counters, end)
            elif self.context.full and not self._plugged() and not self._over_routers(unit):
                self._same(unit, "busy", counters, self._activity(unit).until(end.cycles))
                self._same(unit, "member_cycles", counters, self._members[unit])

    def _engine(self, unit: str, kind: str, counters: dict[str, Any], end: Any) -> None:
        stalled = counters.get("stalled")
        parts = [counters.get("busy"), *(stalled.values() if isinstance(stalled, dict) else [None]), counters.get("idle")]
        if not all(isinstance(part, int) for part in parts):
            self.context.say("counters", f"counters of {unit} have no busy, stalled and idle cycles")
            return
        if sum(parts) != end.cycles:
            text = f"{unit}: busy + stalled + idle is {sum(parts)}, but the run has {end.cycles} cycles"
            self.context.say("cycles", text)
        if self._plugged():
            return
        covered = self._activity(unit).until(end.cycles)
        if covered + counters["idle"] != end.cycles:
            text = f"{unit}: its jobs cover {covered} cycles and {counters['idle']} are idle, of {end.cycles}"
            self.context.say("cycles", text)
        sums = self._sum(unit)
        for key in ("jobs", *(_QUEUES if kind == "DMA" else ("macs",) if kind == "TE" else ("ops",))):
            self._same(unit, key, counters, sums[key])
        if kind == "DMA" and end.status == "done":
            self._same(unit, "bytes", counters, sums["bytes"])

    def _plugged(self) -> bool:
        """Whether the machine has plugged-in components: their own jobs and flows have counters but no events."""
        return any("impl" in track for track in self.context.tracks.values())

    def _same(self, unit: str, key: str, counters: dict[str, Any], found: int) -> None:
        if counters.get(key) != found:
            self.context.say("counters", f"events of {unit} add up to {key} {found}, but TRACE_END says {counters.get(key)}")
