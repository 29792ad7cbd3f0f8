"""The slow, obvious tracer: looks at the reference simulator before and after each phase and writes down what changed.

`docs/model/traces.md` says in words what is written when. Of kernbench it knows the schema alone.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .ref_banks import Request
from .ref_cache import WriteBack
from .ref_control import Record
from .ref_dma import DmaJob, Flow
from .ref_engines import ServiceEngine, Work
from .ref_geometry import Range, mesh_links, overlap
from .ref_machine import completed
from .ref_trace_accesses import Accesses
from .ref_trace_conflicts import NAMES, Conflicts
from .ref_trace_jobs import Job, JobLines, where
from .ref_trace_lines import CONTROL, MEMORY, Lines, Who, line
from .ref_trace_meta import CHANNELS, arrive, enqueue, meta_line, unit_of
from .ref_trace_windows import Windows
from .reference import OverlapError, Simulation

START, MOVE, BACKPRESSURE, CLOSE = 3, 6, 7, 8  # phases of events that have more than one
OPEN_ENDS = {"aborted": "TIMEOUT", "deadlock": "DEADLOCK", "failed": "CANCELLED", "interrupted": "CANCELLED"}
COUNTERS = ("jobs", "busy", "idle", "stalled", "queue_full", "priority_deferred", "bytes", "macs", "ops")  # their order


def reference_trace(
    machine: dict[str, Any],
    program: dict[str, Any],
    level: str = "access",
    window: int = 1024,
    until: int | None = None,
    meta: dict[str, Any] | None = None,
) -> list[bytes]:
    """The trace of a run, a line an item, without newlines.

    `until`: the run is interrupted before this cycle. `meta`: fields of TRACE_META that only the package knows.
    """
    complete = completed(machine)
    first = meta_line(machine, complete, program, level, window, meta or {})
    interrupted = until is not None and until < complete["max_cycles"]
    if interrupted:
        complete["max_cycles"] = until
    lines = Lines(level, program)
    run = TracedSimulation(complete, program, lines, window)
    result = run.run()
    if interrupted and result["status"] == "aborted":
        result["status"] = "interrupted"
    run.close(result)
    between = lines.sorted()
    energy = run.windows.energy_pj(result["cycles"])
    energy["total"] = sum(energy.values(), Fraction(0))
    last = {
        "status": result["status"],
        "cycles": result["cycles"],
        "events": len(between),
        "counters": {name: _ordered(count) for name, count in result["counters"].items()},
        "energy_pj": {part: float(pj) for part, pj in sorted(energy.items())},
    }
    return [first, *between, line("TRACE_END", result["cycles"], last)]


def _ordered(count: dict[str, Any]) -> dict[str, Any]:
    """An engine's counters in the order of docs/model/formats.md."""
    return {name: count[name] for name in COUNTERS if name in count} if "jobs" in count else count


class TracedSimulation(Simulation):
    """A run that tells of itself."""

    def __init__(self, machine: dict[str, Any], program: dict[str, Any], lines: Lines, window: int) -> None:
        super().__init__(machine, program)
        self.lines = lines
        self.jobs: dict[int, Job] = {}  # by number
        self.number_of: dict[int, int] = {}  # of the job, by id() of its entry
        self.links = mesh_links(machine["noc"]) if machine["noc"] is not None else []
        self.links += [] if machine["llc"] is None else ["llc"]
        self.joined: set[Flow] = set()  # past their head latency
        self.suspended: set[Flow] = set()
        self.written: set[WriteBack] = set()  # queues that are members
        self.failed: Record | None = None
        self.job_lines = JobLines(lines, self.control, machine)
        self.accesses = Accesses(lines, machine, self.spm)
        self.conflicts = Conflicts(lines, self.banks, lambda request: self.jobs[request.order[2]])
        self.windows = Windows(self, lines, window)
        self.here = {record.id for record in self.control.records if record.arrival == 0}  # ids of entries in the queue
        enqueue(lines, self.control, machine)

    def named_services(self) -> list[tuple[str, ServiceEngine]]:
        """TEs and VEs by name."""
        te = [(f"te{i}", engine) for i, engine in enumerate(self.te)]
        return te + [(f"ve{i}", engine) for i, engine in enumerate(self.ve)]

    def _job(self, entry: dict[str, Any]) -> Job:
        return self.jobs[self.number_of[id(entry)]]

    # P2

    def _arrived(self, record: Record, cycle: int) -> None:
        self.here.add(record.id)
        arrive(self.lines, self.control, self.machine, record)

    def _submit(self, record: Record) -> None:
        super()._submit(record)
        if record.opcode.startswith("TE_"):
            work: DmaJob | Work = self.te[record.entry.get("te_id", 0)].queue[-1]
        elif record.opcode.startswith("VE_"):
            work = self.ve[record.entry.get("ve_id", 0)].queue[-1]
        else:
            work = self.dma[record.entry.get("dma_id", 0)].pending[-1]
        job = Job(record, work.seq, work)
        self.jobs[job.number] = job
        self.number_of[id(record.entry)] = job.number
        assert record.issue is not None
        self.job_lines.issued(job, record.issue)

    def _completed(self, record: Record) -> None:
        assert record.end is not None
        self.job_lines.completed(record, record.end)

    # P3

    def _start(self, cycle: int) -> None:
        pending = [job for engine in self.dma for job in engine.pending]
        reason_before = {job.seq: job.stall_reason for job in pending}
        try:
            super()._start(cycle)
        finally:
            for job in pending:
                if job.stall_reason is not None and reason_before[job.seq] is None:
                    self._stalled(job, job.stall_reason, cycle)

    def _stalled(self, job: DmaJob, reason: str, cycle: int) -> None:
        active = self.dma[job.engine].active
        if reason == "queue_full":
            by_job = min((j.start, j.seq) for j in active if j.channel == job.channel)[1]
        else:
            by_job = max(j.seq for j in active if j.start == cycle)
        traced = self.jobs[job.seq]
        traced.stalled_at = cycle
        fields = {**traced.names, "reason": reason, "channel": CHANNELS.index(job.channel), "by_job": by_job}
        self.lines.add("STALL_EVENT", cycle, traced.who, fields, phase=START)

    def _record_start(self, cycle: int, record: Record, reads: list[Range], writes: list[Range]) -> None:
        job = self._job(record.entry)
        early = self._overlapped(reads, writes)
        try:
            super()._record_start(cycle, record, reads, writes)
        except OverlapError:
            assert early is not None
            self._fails(cycle, job, early)
            raise
        if not self.caches or not isinstance(job.work, DmaJob):
            self.job_lines.started(job, cycle)
            self.accesses.started(job)
        if early is not None and self.machine["spm"]["check_overlap"] == "warn":
            self._warn_overlap(cycle, job, early)
        if isinstance(job.work, DmaJob) and job.work.stall_reason is not None:
            fields = {**job.names, "reason": job.work.stall_reason, "duration_cycles": cycle - job.stalled_at}
            fields["channel"] = CHANNELS.index(job.work.channel)
            self.lines.add("RESUME_EVENT", cycle, job.who, fields, phase=START)

    def _looked_up(self, cycle: int, transfer: DmaJob, count: dict[str, int]) -> None:
        job = self.jobs[transfer.seq]
        self.job_lines.started(job, cycle)
        self.accesses.started(job)
        self.lines.add("CACHE_LOOKUP", cycle, job.who, {**job.names, "tx_id": job.number, **count})

    def _overlapped(self, reads: list[Range], writes: list[Range]) -> Record | None:
        """The first command in file order that runs on a range that the new one may not touch."""
        found = []
        for record, other_reads, other_writes in self.running:
            clash = [(a, b) for a in writes for b in other_reads + other_writes]
            clash += [(a, b) for a in reads for b in other_writes]
            if any(overlap(a, b) for a, b in clash):
                found.append(record)
        return min(found, key=self.control.records.index, default=None)

    def _warn_overlap(self, cycle: int, job: Job, early: Record) -> None:
        text = (
            f"{where(job.record, self.control)} starts while {where(early, self.control)} still runs, and their scratchpad "
            "ranges overlap where at least one writes"
        )
        fields = {**job.names, "component": NAMES[job.who.kind], "code": "OVERLAP", "msg": text}
        if "layer_id" in job.record.entry:
            fields["layer_id"] = job.record.entry["layer_id"]
        self.lines.add("WARN", cycle, job.who, fields)

    def _fails(self, cycle: int, job: Job, early: Record) -> None:
        self.failed = job.record
        text = (
            f"cycle {cycle}: {where(job.record, self.control)} may not start while {where(early, self.control)} still runs: "
            "their scratchpad ranges overlap where at least one writes (spm.check_overlap: error); "
            "add a dependency or move one of the tiles"
        )
        fields = {"cmd_id": job.record.id, "job_id": job.number, "component": NAMES[job.who.kind]}
        self.lines.add("ERROR", cycle, job.who, {**fields, "code": "OVERLAP", "msg": text})

    # P4

    def _share(self, cycle: int) -> None:
        super()._share(cycle)
        for queue in self._queues:
            if (queue in self.members) != (queue in self.written):
                name = "WRITE_BACK_START" if queue in self.members else "WRITE_BACK_END"
                self.written ^= {queue}
                fields = {"channel": queue.channel, "unit": queue.dram}
                self.lines.add(name, cycle, Who(MEMORY, channel=queue.channel), fields)
        for flow in self._flows():
            if flow not in self.joined and cycle >= flow.job.start + flow.job.head:
                self.joined.add(flow)
                self._enters(flow, cycle)
            if flow not in self.joined or not flow.left:
                continue
            if flow not in self.members and flow not in self.suspended:
                self.suspended.add(flow)
                self._flow_line("DRAM_TX_SUSPEND", flow, cycle, reason="backpressure" if flow.out else "fifo")
            elif flow in self.members and flow in self.suspended:
                self.suspended.remove(flow)
                self._flow_line("DRAM_TX_RESUME", flow, cycle)

    def _enters(self, flow: Flow, cycle: int) -> None:
        self._flow_line("DRAM_TX_START", flow, cycle, size_bytes=flow.left, weight=flow.job.weight)
        for link in flow.route[1:]:
            self._flow_line("NOC_TX_START", flow, cycle, unit=link, link_id=self.links.index(link), size_bytes=flow.left)

    def _flow_line(self, name: str, flow: Flow, cycle: int, **fields: Any) -> None:
        job = self.jobs[flow.job.seq]
        names = {**job.names, "tx_id": job.number, "channel": flow.channel, "unit": flow.route[0]}
        self.lines.add(name, cycle, job.of_channel(flow.channel), {**names, **fields})

    # P5

    def _bank(self, cycle: int) -> None:
        super()._bank(cycle)
        self.conflicts.cycle(cycle)

    # P6

    def _move(self, cycle: int) -> None:
        served = [flow for flow in self._flows() if flow.request is not None and not flow.request.missing]
        pressed = [job for engine in self.dma for job in engine.active if job.backpressured]
        for flow in served:
            assert flow.request is not None
            job = self.jobs[flow.job.seq]
            way = self.windows.read if not flow.job.is_store else self.windows.write
            way.update(dict.fromkeys(flow.route, flow.request_bytes))
            self.accesses.flow_served(job, flow, flow.request, cycle)
            self._resumed(job, flow.request, cycle)
        for _, service in self.named_services():
            if service.job is not None and service.request is not None and not service.request.missing:
                job = self.jobs[service.job.seq]
                self.accesses.work_served(job, service, service.request, cycle)
                self._resumed(job, service.request, cycle)
        super()._move(cycle)
        for transfer in pressed:
            if not transfer.backpressured:
                job = self.jobs[transfer.seq]
                fields = {**job.names, "reason": "backpressure", "duration_cycles": cycle - job.pressed_at}
                fields["channel"] = job.pressed_channel
                self.lines.add("RESUME_EVENT", cycle, job.of_channel(job.pressed_channel), fields, phase=MOVE)

    def _written_back(self, queue: WriteBack, moved: int) -> None:
        super()._written_back(queue, moved)
        self.windows.write.update(dict.fromkeys(queue.route, moved))

    def _resumed(self, job: Job, request: Request, cycle: int) -> None:
        """A request is served; it was held if it had been denied."""
        if request.first_denied is None:
            return
        held = cycle - request.first_denied
        job.held += held
        fields = {**job.names, "reason": "bank_conflict", "duration_cycles": held}
        who = job.who
        if isinstance(job.work, DmaJob):
            fields["channel"] = request.order[3]
            who = job.of_channel(request.order[3])
        self.lines.add("RESUME_EVENT", cycle, who, fields, phase=MOVE, level="full")

    # P7, and the end of windows

    def _complete(self, cycle: int) -> None:
        running = [job for job in self.jobs.values() if job.record.start is not None and job.record.end is None]
        flows = self._flows()
        pressed = {flow.job.seq for flow in flows if flow.out}
        super()._complete(cycle)
        for flow in flows:
            if flow.moved_at == cycle and not flow.left:
                self._leaves(flow, cycle + 1)
            if flow.out and flow.job.seq not in pressed:  # the first flow of its job, by channel
                pressed.add(flow.job.seq)
                job = self.jobs[flow.job.seq]
                job.pressed_at, job.pressed_channel = cycle, flow.channel
                fields = {**job.names, "reason": "backpressure", "channel": flow.channel}
                self.lines.add("STALL_EVENT", cycle, job.of_channel(flow.channel), fields, phase=BACKPRESSURE)
        for job in sorted(running, key=lambda job: job.who):
            if job.record.end is not None:
                self._ends(job, job.record.end)
        self.windows.end_of_cycle(cycle)

    def _leaves(self, flow: Flow, end: int) -> None:
        total = sum(nbytes for _, nbytes in flow.pieces)
        self._flow_line("DRAM_TX_END", flow, end, size_bytes=total)
        for link in flow.route[1:]:
            self._flow_line("NOC_TX_END", flow, end, unit=link, link_id=self.links.index(link))

    def _ends(self, job: Job, end: int) -> None:
        self.job_lines.ended(job, end)
        work = job.work
        if isinstance(work, Work):
            traffic = self.machine["te" if job.record.opcode.startswith("TE_") else "ve"]["spm_traffic"]
            touched = sum(end - start for start, end in work.reads + work.writes) if traffic else 0
            self.windows.energy.job_ended(work.entry, work.amount, touched)

    # The end of the run

    def close(self, result: dict[str, Any]) -> None:
        """The last window, why the run ended, and an end for every open command."""
        status, cycles = result["status"], result["cycles"]
        self.windows.end_of_run(cycles)
        still_open = [record for record in self.control.records if record.end is None]
        if status in ("aborted", "deadlock"):
            code = "MAX_CYCLES" if status == "aborted" else "DEADLOCK"
            why = f"the run was stopped at max_cycles = {cycles}" if status == "aborted" else "nothing can ever happen again"
            text = f"cycle {cycles}: {why}; {len(still_open)} commands are not complete, the first is "
            text += where(still_open[0], self.control)
            self.lines.add("ERROR", cycles, Who(CONTROL), {"component": "CPU", "code": code, "msg": text})
        for record in still_open:
            if record.id not in self.here:
                continue
            how = "ERROR" if record is self.failed else OPEN_ENDS[status]
            fields = {"cmd_id": record.id, "unit": unit_of(record.entry), "status": how}
            self.lines.add("CMD_END", cycles, Who(CONTROL), fields, phase=CLOSE)
