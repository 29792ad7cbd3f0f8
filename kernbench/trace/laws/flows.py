"""Laws of flows and their accesses: pairs of events on channels and links, sums of bytes, suspensions."""

from __future__ import annotations

from fractions import Fraction

from kernbench.trace.laws.law import Context, Flow, Job, Law
from kernbench.trace.laws.line import Line

#: Indices in `Flows.events`.
_DRAM_START, _DRAM_END, _DRAM_SUSPEND, _DRAM_RESUME, _NOC_START, _NOC_END, _MEMORY_ACCESS, _SRAM_ACCESS = range(8)
#: Indices in `Waits.events`.
_STALL, _RESUME, _CONFLICT = range(3)


class Flows(Law):
    """DRAM_TX, NOC_TX, MEM_ACCESS_EVENT and SRAM_ACCESS, by transfer."""

    events = (
        "DRAM_TX_START", "DRAM_TX_END", "DRAM_TX_SUSPEND", "DRAM_TX_RESUME", "NOC_TX_START", "NOC_TX_END",
        "MEM_ACCESS_EVENT", "SRAM_ACCESS",
    )  # fmt: skip

    def check(self, record: Line, event: int) -> None:
        if event == _DRAM_START:
            self._start(record)
        elif event == _DRAM_END:
            self._end(record)
        elif event == _DRAM_SUSPEND:
            self._suspend(record)
        elif event == _DRAM_RESUME:
            self._resume(record)
        elif event == _NOC_START:
            self._enter(record)
        elif event == _NOC_END:
            self._leave(record)
        elif event == _MEMORY_ACCESS:
            self._access(record)
        else:
            self._touch(record)

    def _job(self, record: Line, what: str) -> Job | None:
        job = self.context.job(record.job_id)
        if job is None or job.start < 0:
            if not self.context.partial:
                self.context.report("pair", f"{what} of job {record.job_id}, which does not run")
            return None
        return job

    def _flow(self, record: Line, what: str) -> Flow | None:
        """The open flow of an event; if there is none, a violation is reported."""
        job = self._job(record, what)
        if job is None:
            return None
        flow = job.flows.get(record.channel)
        if flow is None or flow.ended:
            if not self.context.partial:
                text = f"{what} of job {record.job_id} on channel {record.channel}, where it has no open flow"
                self.context.report("pair", text)
            return None
        return flow

    def _start(self, record: Line) -> None:
        job = self._job(record, "DRAM_TX_START")
        if job is None:
            return
        if record.channel in job.flows:
            self.context.report("pair", f"job {job.number} has two flows on channel {record.channel}")
        self._joins(job, record, False)

    def _joins(self, job: Job, record: Line, bare: bool) -> None:
        job.flows[record.channel] = Flow(record.size_bytes, bare)
        if record.t_cycle - job.start != job.head:  # unlike their sum, the difference of two cycles needs no more than 64 bits
            head_end = sum([job.start, job.head])
            text = f"a flow of job {job.number} joins at {record.t_cycle}, but its head latency ends at {head_end}"
            self.context.report("latency", text)

    def _end(self, record: Line) -> None:
        flow = self._flow(record, "DRAM_TX_END")
        if flow is None:
            return
        flow.ended = True
        if flow.bare and not self.context.partial:
            text = f"DRAM_TX_END of job {record.job_id} on channel {record.channel}, where it has no open flow"
            self.context.report("pair", text)
        if record.size_bytes != flow.size:
            text = f"begins with {flow.size} bytes and ends with {record.size_bytes}"
            self.context.report("bytes", f"the flow of job {record.job_id} on channel {record.channel} {text}")

    def _suspend(self, record: Line) -> None:
        flow = self._flow(record, "DRAM_TX_SUSPEND")
        if flow is not None:
            if flow.out:
                self.context.report("waits", f"the flow of job {record.job_id} on channel {record.channel} is suspended twice")
            flow.out = True

    def _resume(self, record: Line) -> None:
        flow = self._flow(record, "DRAM_TX_RESUME")
        if flow is not None:
            if not flow.out and not self.context.partial:
                text = f"the flow of job {record.job_id} on channel {record.channel} resumes, but is not suspended"
                self.context.report("waits", text)
            flow.out = False

    def _enter(self, record: Line) -> None:
        job = self._job(record, "NOC_TX_START")
        if job is not None and record.channel not in job.flows:
            self._joins(job, record, True)
        flow = self._flow(record, "NOC_TX_START")
        if flow is None:
            return
        if record.unit in flow.links:
            text = f"the flow of job {record.job_id} on channel {record.channel} enters {record.unit} twice"
            self.context.report("pair", text)
        flow.links[record.unit] = False
        if record.size_bytes != flow.size:
            text = f"has {record.size_bytes} bytes on {record.unit} and {flow.size} on its channel"
            self.context.report("bytes", f"the flow of job {record.job_id} on channel {record.channel} {text}")

    def _leave(self, record: Line) -> None:
        job = self._job(record, "NOC_TX_END")
        flow = None if job is None else job.flows.get(record.channel)
        if flow is None or flow.links.get(record.unit, True):
            if not self.context.partial:
                text = f"the flow of job {record.job_id} on channel {record.channel} leaves {record.unit}, where it is not"
                self.context.report("pair", text)
            return
        flow.links[record.unit] = True
        flow.ended = flow.ended or (flow.bare and all(flow.links.values()))

    # Most events of a file come to the next two methods. They first check the usual case, and search for the violation only if
    # that check fails.

    def _access(self, record: Line) -> None:
        job = self.context.job(record.job_id)
        if job is not None and job.start >= 0:
            flow = job.flows.get(record.channel)
            if flow is not None and not flow.ended:
                flow.accessed += record.size_bytes
                return
        self._flow(record, "MEM_ACCESS_EVENT")

    def _touch(self, record: Line) -> None:
        job = self.context.job(record.job_id)
        if job is None or job.start < 0:
            job = self._job(record, "SRAM_ACCESS")
        if job is not None:
            job.accessed += record.size_bytes
            if record.by != job.kind:
                self.context.report("pair", f"SRAM_ACCESS by {record.by} of job {job.number}, which is on {job.unit}")

    def close(self, job: Job) -> None:
        """All that a transfer had to do."""
        if job.kind != "DMA" or not self.context.full or self.context.partial:
            return
        moved = _bytes_of_flows(job)
        ratio = 1 if moved == job.size else self._ratio(job, moved)
        self._add_up(job, "flows", ratio * moved, 1)
        scratchpads, memories = job.ends_in
        self._add_up(job, "SRAM_ACCESS events", job.accessed, scratchpads)
        for channel in sorted(job.flows):
            flow = job.flows[channel]
            if not flow.ended:
                text = f"the flow of job {job.number} on channel {channel} has no DRAM_TX_END, but the job is over"
                self.context.report("pair", text, job.end_line)
            if flow.accessed != ratio * memories * flow.size:
                text = f"the flow of job {job.number} on channel {channel} has {flow.size} bytes"
                self.context.report("bytes", f"{text}, but its MEM_ACCESS_EVENTs {flow.accessed}", job.end_line)
            for link, over in flow.links.items():
                if not over:
                    text = f"the flow of job {job.number} on channel {channel} does not leave {link}, but the job is over"
                    self.context.report("pair", text, job.end_line)

    def _ratio(self, job: Job, flows: int) -> int | Fraction:
        """Bytes of a transfer for each byte of its flows: 1, or the ratio of a codec."""
        found = Fraction(job.size, flows or 1)
        return found if found in self.context.ratios else 1

    def _add_up(self, job: Job, what: str, found: int | Fraction, times: int) -> None:
        if found != job.size * times:
            moved = f"{job.size} bytes" if times == 1 else f"{times} x {job.size} bytes"
            self.context.report("bytes", f"job {job.number} moves {moved}, but its {what} {found}", job.end_line)


def _bytes_of_flows(job: Job) -> int:
    return sum([flow.size for flow in job.flows.values()])


Key = tuple[int, str, int]  # job, reason, channel, which may be omitted


class Waits(Law):
    """Waits that are open, by job, reason and channel."""

    events = ("STALL_EVENT", "RESUME_EVENT", "SRAM_CONFLICT")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._open: dict[Key, int] = {}  # the cycle in which the wait began

    def check(self, record: Line, event: int) -> None:
        if event == _STALL:
            self._stall(record)
        elif event == _RESUME:
            self._resume(record)
        else:
            self._conflict(record)

    def _job(self, record: Line) -> Job | None:
        job = self.context.job(record.job_id)
        if job is None and not self.context.partial:
            self.context.report("pair", f"{record.event.name} of job {record.job_id}, which is not issued, or over")
        return job

    def _stall(self, record: Line) -> None:
        job = self._job(record)
        key = record.job_id, record.reason, record.channel
        if key in self._open:
            self.context.report("waits", f"job {record.job_id} begins to wait for {record.reason} twice")
        elif job is not None:
            job.waits += 1
        self._open[key] = record.t_cycle

    def _resume(self, record: Line) -> None:
        job = self._job(record)
        if job is not None and record.reason == "bank_conflict":
            job.held += record.duration_cycles
        since = self._open.pop((record.job_id, record.reason, record.channel), None)
        if since is None:
            if not self.context.partial:
                self.context.report("waits", f"job {record.job_id} resumes from {record.reason}, but does not wait for it")
            return
        if job is not None:
            job.waits -= 1
        if record.duration_cycles != record.t_cycle - since:
            text = f"job {record.job_id} waits for {record.reason} from {since} to {record.t_cycle}"
            self.context.report("latency", f"{text}, but duration_cycles is {record.duration_cycles}")

    def _conflict(self, record: Line) -> None:
        if record.num_requests <= record.allowed:
            text = f"bank {record.bank_id} denies a request, but {record.num_requests} ask and {record.allowed} are allowed"
            self.context.report("waits", text)

    def close(self, job: Job) -> None:
        if job.waits:
            for key in [key for key in self._open if key[0] == job.number]:
                del self._open[key]
                self.context.report("waits", f"job {job.number} is over, but still waits for {key[1]}", job.end_line)
        if self.context.full and not self.context.partial and job.kind != "DMA" and job.held != job.stalled:
            text = f"was held {job.held} cycles by RESUME_EVENTs, but its stall_cycles is {job.stalled}"
            self.context.report("cycles", f"job {job.number} on {job.unit} {text}", job.end_line)
