"""Laws of the counters: the sums of the events of jobs, flows and waits equal the counters of TRACE_END."""

from __future__ import annotations

from typing import Any

from kernbench.common.naming import cache_of, joins_routers
from kernbench.trace.laws.law import Context, Law
from kernbench.trace.laws.line import Line
from kernbench.trace.metric.collect import KINDS

#: Counters that the result does not have: those of a link that no transfer can use, and of a channel of a system that no
#: transfer used.
UNUSED: dict[str, Any] = {"bytes": 0, "busy": 0, "member_cycles": 0}
_QUEUES = ("queue_full", "priority_deferred")
#: Indices in `Counters.events`.
_DMA_START, _TE_START, _VE_START, _DMA_END, _TE_END, _VE_END, _JOB_DONE, _STALL, _RESUME = range(9)
_DRAM_START, _NOC_START, _DRAM_SUSPEND, _DRAM_RESUME, _DRAM_END, _NOC_END = range(9, 15)
_WRITE_BACK_START, _WRITE_BACK_END = range(15, 17)
NO_JOB = -1  #: the job number of write-backs of a cache


class Unit:
    """The sums of a unit: the cycles in which it had a job or a member, and the work that it did."""

    def __init__(self) -> None:
        self.cycles = 0  #: covered by closed intervals
        self.running = 0  #: number of open intervals
        self.since = 0  #: if an interval is open: the cycle since which there was no gap
        self.members = 0  #: [member-cycle] of flows that are over or suspended
        self.jobs = 0
        self.bytes = 0
        self.macs = 0
        self.ops = 0
        self.queue_full = 0
        self.priority_deferred = 0

    def begin(self, t_cycle: int) -> None:
        """An interval begins."""
        if not self.running:
            self.since = t_cycle
        self.running += 1

    def end(self, t_cycle: int) -> None:
        """An interval ends. The law of pairs reports an interval that never started; in the sums it starts at cycle 0."""
        if not self.running:
            self.cycles = t_cycle
            self.since = 0
            return
        self.running -= 1
        if not self.running:
            self.cycles += t_cycle - self.since

    def until(self, t_cycle: int) -> int:
        """Cycles covered before `t_cycle`, including those of open intervals."""
        return self.cycles + (t_cycle - self.since if self.running else 0)

    def waited(self, reason: str, cycles: int) -> None:
        """A job waited in a queue."""
        if reason == "queue_full":
            self.queue_full += cycles
        else:
            self.priority_deferred += cycles


class Member:
    """An open flow."""

    def __init__(self, units: list[Unit], since: int) -> None:
        self.units = units  #: the channel and links on which it is a member
        self.since = since  #: the cycle in which it became a member; -1 while it is suspended


class Counters(Law):
    """Sums of events by unit."""

    events = (
        "DMA_START", "TE_START", "VE_START", "DMA_END", "TE_END", "VE_END", "JOB_DONE", "STALL_EVENT", "RESUME_EVENT",
        "DRAM_TX_START", "NOC_TX_START", "DRAM_TX_SUSPEND", "DRAM_TX_RESUME", "DRAM_TX_END", "NOC_TX_END",
        "WRITE_BACK_START", "WRITE_BACK_END",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._units: dict[str, Unit] = {}
        self._flows: dict[tuple[int, int], Member] = {}  # open flows by job and channel
        self._bare: set[tuple[int, int]] = set()  # open flows without a DRAM channel
        # Links of flows without a DRAM channel to routers: no event says when the window of such a flow is full.
        self._untold: set[str] = set()
        self._sizes: dict[int, int] = {}  # [B] of open transfers
        self._waits: dict[tuple[int, str], tuple[str, int]] = {}  # waits in queues: unit, and cycle of the begin

    def check(self, record: Line, event: int) -> None:
        if event <= _VE_START:
            self._start(record)
        elif event <= _VE_END:
            self._end(record)
        elif event == _JOB_DONE:
            self._job_done(record)
        elif event == _STALL:
            self._stall(record)
        elif event == _RESUME:
            self._resume(record)
        elif event == _DRAM_START:
            self._join(record)
        elif event == _NOC_START:
            self._route(record)
        elif event == _DRAM_SUSPEND:
            self._suspend(record)
        elif event == _DRAM_RESUME:
            self._back(record)
        elif event == _DRAM_END:
            self._leave(record)
        elif event == _NOC_END:
            self._leave_link(record)
        elif event == _WRITE_BACK_START:
            self._written(record)
        else:
            self._written_back(record)

    def _unit(self, name: str) -> Unit:
        found = self._units.get(name)
        if found is None:
            found = self._units[name] = Unit()
        return found

    def _start(self, record: Line) -> None:
        self._unit(record.unit).begin(record.t_cycle)
        if record.component == "DMA":
            self._sizes[record.job_id] = record.size_bytes

    def _end(self, record: Line) -> None:
        unit, kind = self._unit(record.unit), record.component
        unit.end(record.t_cycle)
        if kind == "DMA":
            unit.bytes += self._sizes.pop(record.job_id, 0)
        elif kind == "TE":
            unit.macs += record.mac_count
        else:
            unit.ops += record.op_count

    def _job_done(self, record: Line) -> None:
        unit = self._unit(record.unit)
        unit.jobs += 1

    def _stall(self, record: Line) -> None:
        if record.reason in _QUEUES:
            self._waits[record.job_id, record.reason] = record.unit, record.t_cycle
        elif record.reason == "backpressure" and (record.job_id, 0) in self._bare:
            self._out((record.job_id, 0), sum([record.t_cycle, 1]))  # may need more than 64 bits

    def _resume(self, record: Line) -> None:
        if record.reason in _QUEUES:
            self._waits.pop((record.job_id, record.reason), None)
            self._unit(record.unit).waited(record.reason, record.duration_cycles)
        elif record.reason == "backpressure" and (record.job_id, 0) in self._bare:
            self._in((record.job_id, 0), sum([record.t_cycle, 1]))

    def _join(self, record: Line) -> None:
        unit = self._unit(record.unit)
        self._flows[record.job_id, record.channel] = Member([unit], record.t_cycle)
        unit.begin(record.t_cycle)

    def _route(self, record: Line) -> None:
        key = record.job_id, record.channel
        flow = self._flows.get(key)
        if flow is None:
            self._bare.add(key)
            flow = self._flows[key] = Member([], record.t_cycle)
        if self._over_routers(record.unit):
            return
        if self.context.flits and key in self._bare:
            self._untold.add(record.unit)
        unit = self._unit(record.unit)
        flow.units.append(unit)
        if flow.since >= 0:  # under fifo, the flow may already be suspended
            unit.begin(record.t_cycle)

    def _over_routers(self, unit: str) -> bool:
        """Whether a link counts flits instead of members (docs/model/flit_transfers.md)."""
        return self.context.flits and joins_routers(unit)

    def _suspend(self, record: Line) -> None:
        self._out((record.job_id, record.channel), record.t_cycle)

    def _back(self, record: Line) -> None:
        self._in((record.job_id, record.channel), record.t_cycle)

    def _leave(self, record: Line) -> None:
        self._gone((record.job_id, record.channel), record.t_cycle)

    def _leave_link(self, record: Line) -> None:
        """A flow with a DRAM channel leaves its links when it leaves the channel."""
        if not self._bare:
            return
        key = record.job_id, record.channel
        if key in self._bare:
            self._bare.discard(key)
            self._gone(key, record.t_cycle)

    def _written(self, record: Line) -> None:
        """Write-backs of a cache are a member of the channel and of the cache, and belong to no transfer."""
        key = NO_JOB, record.channel
        names = record.unit, cache_of(record.unit, self.context.units) or record.unit
        flow = self._flows.get(key)
        since = -1 if flow is None else flow.since
        self._flows[key] = Member([self._unit(name) for name in names], since)
        self._in(key, record.t_cycle)

    def _written_back(self, record: Line) -> None:
        self._gone((NO_JOB, record.channel), record.t_cycle)

    def _in(self, key: tuple[int, int], t_cycle: int) -> None:
        """A flow becomes a member again."""
        flow = self._flows.get(key)
        if flow is not None and flow.since < 0:
            flow.since = t_cycle
            for unit in flow.units:
                unit.begin(t_cycle)

    def _out(self, key: tuple[int, int], t_cycle: int) -> None:
        """A flow stops being a member."""
        flow = self._flows.get(key)
        if flow is not None:
            self._stops(flow, t_cycle)

    def _gone(self, key: tuple[int, int], t_cycle: int) -> None:
        """A flow is over."""
        flow = self._flows.pop(key, None)
        if flow is not None:
            self._stops(flow, t_cycle)

    def _stops(self, flow: Member, t_cycle: int) -> None:
        if flow.since >= 0:
            for unit in flow.units:
                unit.end(t_cycle)
                unit.members += t_cycle - flow.since
            flow.since = -1

    def finish(self, end: Any) -> None:
        if self.context.partial:
            return
        for (_, reason), (waits_on, since) in self._waits.items():
            self._unit(waits_on).waited(reason, end.cycles - since)
        for flow in self._flows.values():
            if flow.since >= 0:
                for member_of in flow.units:
                    member_of.members += end.cycles - flow.since
        for unit, kind in self.context.units.items():
            counters = end.counters.get(unit, UNUSED if kind in ("DRAM", "NOC") else None)
            if kind not in (*KINDS, "DRAM", "NOC"):
                continue
            if not isinstance(counters, dict):
                self.context.report("counters", f"TRACE_END has no counters of {unit}")
            elif kind in KINDS:
                self._engine(unit, kind, counters, end)
            elif self.context.full and not self._plugged() and not self._over_routers(unit) and unit not in self._untold:
                sums = self._unit(unit)
                self._same(unit, "busy", counters, sums.until(end.cycles))
                self._same(unit, "member_cycles", counters, sums.members)

    def _engine(self, unit: str, kind: str, counters: dict[str, Any], end: Any) -> None:
        stalled = counters.get("stalled")
        parts = [counters.get("busy"), *(stalled.values() if isinstance(stalled, dict) else [None]), counters.get("idle")]
        if not all(isinstance(part, int) for part in parts):
            self.context.report("counters", f"counters of {unit} have no busy, stalled and idle cycles")
            return
        if sum(parts) != end.cycles:
            text = f"{unit}: busy + stalled + idle is {sum(parts)}, but the run has {end.cycles} cycles"
            self.context.report("cycles", text)
        if self._plugged():
            return
        sums = self._unit(unit)
        covered = sums.until(end.cycles)
        if covered + counters["idle"] != end.cycles:
            text = f"{unit}: its jobs cover {covered} cycles and {counters['idle']} are idle, of {end.cycles}"
            self.context.report("cycles", text)
        self._same(unit, "jobs", counters, sums.jobs)
        if kind == "DMA":
            self._same(unit, "queue_full", counters, sums.queue_full)
            self._same(unit, "priority_deferred", counters, sums.priority_deferred)
            if end.status == "done":
                self._same(unit, "bytes", counters, sums.bytes)
        elif kind == "TE":
            self._same(unit, "macs", counters, sums.macs)
        else:
            self._same(unit, "ops", counters, sums.ops)

    def _plugged(self) -> bool:
        """Whether the machine has plugged-in components: their own jobs and flows have counters but no events."""
        return any("impl" in track for track in self.context.tracks.values())

    def _same(self, unit: str, key: str, counters: dict[str, Any], found: int) -> None:
        if counters.get(key) != found:
            self.context.report("counters", f"events of {unit} add up to {key} {found}, but TRACE_END says {counters.get(key)}")
