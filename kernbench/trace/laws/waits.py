"""Laws of waits: STALL_EVENT and RESUME_EVENT pair, their durations are right, and a conflict is one."""

from __future__ import annotations

from kernbench.trace.events import Record
from kernbench.trace.laws.law import Context, Handler, Job, Law

Key = tuple[int, str, int | None]  # job, reason, channel


class Waits(Law):
    """Waits that are open, by job, reason and channel."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._open: dict[Key, int] = {}  # since when

    def handlers(self) -> dict[str, Handler]:
        return {"STALL_EVENT": self._stall, "RESUME_EVENT": self._resume, "SRAM_CONFLICT": self._conflict}

    def _job(self, record: Record) -> Job | None:
        job = self.context.jobs.get(record.job_id)
        if job is None and not self.context.partial:
            self.context.say("pair", f"{record.event.name} of job {record.job_id}, which is not issued, or over")
        return job

    def _stall(self, record: Record) -> None:
        job = self._job(record)
        key = record.job_id, record.reason, record.channel
        if key in self._open:
            self.context.say("waits", f"job {record.job_id} begins to wait for {record.reason} twice")
        elif job is not None:
            job.waits += 1
        self._open[key] = record.t_cycle

    def _resume(self, record: Record) -> None:
        job = self._job(record)
        if job is not None and record.reason == "bank_conflict":
            job.held += record.duration_cycles
        since = self._open.pop((record.job_id, record.reason, record.channel), None)
        if since is None:
            if not self.context.partial:
                self.context.say("waits", f"job {record.job_id} resumes from {record.reason}, but does not wait for it")
            return
        if job is not None:
            job.waits -= 1
        if record.duration_cycles != record.t_cycle - since:
            text = f"job {record.job_id} waits for {record.reason} from {since} to {record.t_cycle}"
            self.context.say("latency", f"{text}, but duration_cycles is {record.duration_cycles}")

    def _conflict(self, record: Record) -> None:
        if record.num_requests <= record.allowed:
            text = f"bank {record.bank_id} denies a request, but {record.num_requests} ask and {record.allowed} are allowed"
            self.context.say("waits", text)

    def close(self, job: Job) -> None:
        if job.waits:
            for key in [key for key in self._open if key[0] == job.number]:
                del self._open[key]
                self.context.say("waits", f"job {job.number} is over, but still waits for {key[1]}", job.end_line)
        if self.context.full and not self.context.partial and job.kind != "DMA" and job.held != job.stalled:
            text = f"was held {job.held} cycles by RESUME_EVENTs, but its stall_cycles is {job.stalled}"
            self.context.say("cycles", f"job {job.number} on {job.unit} {text}", job.end_line)
