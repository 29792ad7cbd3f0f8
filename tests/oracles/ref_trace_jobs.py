"""Commands and jobs in a reference trace: what is written when they are issued, start and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .ref_control import Control, Record
from .ref_dma import DmaJob
from .ref_engines import Work
from .ref_geometry import aligned_rows, dram_rows
from .ref_trace_lines import CONTROL, DMA, TE, VE, Lines, Who
from .ref_trace_meta import CHANNELS, kind_of, unit_of

KINDS = {"dma": DMA, "te": TE, "ve": VE}
ISSUE = 2  # phase


@dataclass
class Job:
    """An issued engine job, with what the trace has to remember of it."""

    record: Record
    number: int
    work: DmaJob | Work
    stalled_at: int = 0  # queue_full, priority_deferred: the cycle of its STALL_EVENT
    pressed_at: int = 0  # backpressure: likewise
    pressed_channel: int = 0  # DRAM channel of the flow that went out first
    held: int = 0  # cycles held by bank conflicts
    who: Who = field(init=False)

    def __post_init__(self) -> None:
        kind = kind_of(self.record.opcode)
        self.who = Who(KINDS[kind], self.record.entry.get(f"{kind}_id", 0), self.number)

    def of_channel(self, channel: int) -> Who:
        """The place of an event of its flow on a DRAM channel."""
        return self.who._replace(channel=channel)

    @property
    def names(self) -> dict[str, Any]:
        """The fields that say whose event it is."""
        return {"unit": unit_of(self.record.entry), "job_id": self.number, "cmd_id": self.record.id}

    @property
    def job_type(self) -> str:
        """As JOB_ISSUE names it: TE_GEMM, VE_SOFTMAX, DMA_READ, DMA_WRITE."""
        if isinstance(self.work, DmaJob):
            return "DMA_WRITE" if self.work.is_store else "DMA_READ"
        return self.record.opcode.removesuffix("_TILE")


class JobLines:
    """Writes CMD_*, JOB_*, *_START, *_END, ENGINE_EVENT and what a command says at its end."""

    def __init__(self, lines: Lines, control: Control, machine: dict[str, Any]) -> None:
        self.lines = lines
        self.control = control
        self.machine = machine
        self.issued_before = 0  # commands issued so far: the place of the next one in phase 2
        self.open_tokens: dict[int, list[Record]] = {}
        for record in control.records:
            if "token_idx" in record.entry:
                self.open_tokens.setdefault(record.entry["token_idx"], []).append(record)
        self.start_of_token: dict[int, int] = {}

    def issued(self, job: Job, cycle: int) -> None:
        """P2: control hands a job to its engine."""
        entry = job.record.entry
        tile = "vec_chunk_id" if job.who.kind == VE else "tile_id"
        fields = {**job.names, "job_type": job.job_type, tile: entry.get("tile_id"), "phase": entry.get("phase")}
        self.lines.add("JOB_ISSUE", cycle, self._next_issued(), fields)

    def completed(self, record: Record, cycle: int) -> None:
        """P2: a control entry is issued and over at once."""
        who = self._next_issued()
        self._token_starts(record, cycle)
        self.lines.add("CMD_START", cycle, who, {"cmd_id": record.id, "unit": "control"}, phase=ISSUE)
        self._command_ends(record, cycle, who, ISSUE)

    def _next_issued(self) -> Who:
        self.issued_before += 1
        return Who(CONTROL, job=self.issued_before)

    def started(self, job: Job, cycle: int) -> None:
        """P3: a job starts."""
        self._token_starts(job.record, cycle)
        self.lines.add("CMD_START", cycle, job.who, {"cmd_id": job.record.id, "unit": job.names["unit"]})
        name = {DMA: "DMA_START", TE: "TE_START", VE: "VE_START"}[job.who.kind]
        fields = self._transfer(job) if isinstance(job.work, DmaJob) else self._service(job, job.work)
        self.lines.add(name, cycle, job.who, {**job.names, **fields, "phase": job.record.entry.get("phase")})

    def _transfer(self, job: Job) -> dict[str, Any]:
        work = job.work
        assert isinstance(work, DmaJob)
        rows = aligned_rows(dram_rows(work.entry, self.machine["kv_layouts"]), self.machine["dma"]["alignment_bytes"])
        source, target = rows[0][0], work.range[0]
        return {
            "tx_id": job.number,
            "channel": CHANNELS.index(work.channel),
            "direction": "SRAM_TO_DRAM" if work.is_store else "DRAM_TO_SRAM",
            "src_addr": target if work.is_store else source,
            "dst_addr": source if work.is_store else target,
            "size_bytes": work.range[1] - work.range[0],
            "head_cycles": work.head,
            "weight": work.weight,
        }

    @staticmethod
    def _service(job: Job, work: Work) -> dict[str, Any]:
        entry, times = work.entry, {"body_cycles": work.body, "total_cycles": work.total}
        if job.who.kind == VE:
            op = job.job_type.removeprefix("VE_")
            return {"op_type": op, "len": entry["length"], "batch": entry.get("batch", 1), **times}
        tile = {f"tile_{axis}": entry[axis] for axis in "mnk"}
        return {**{axis: entry[axis] for axis in "mnk"}, **tile, **times}

    def ended(self, job: Job, end: int) -> None:
        """P7 of the cycle before `end`: the job is complete."""
        record, names = job.record, job.names
        assert record.issue is not None and record.start is not None
        self._command_ends(record, end, job.who, None)
        done = {**names, "job_type": job.job_type, "latency_cycles": end - record.issue}
        self.lines.add("JOB_DONE", end, job.who, done)
        latency = {"latency_cycles": end - record.start}
        nbytes = None
        if isinstance(job.work, DmaJob):
            nbytes = job.work.range[1] - job.work.range[0]
            of = {"tx_id": job.number, "channel": CHANNELS.index(job.work.channel)}
            self.lines.add("DMA_END", end, job.who, {**names, **of, **latency})
        elif job.who.kind == TE:
            of = {"mac_count": job.work.amount, "stall_cycles": job.held}
            self.lines.add("TE_END", end, job.who, {**names, **of, **latency})
        else:
            of = {"op_count": job.work.amount, "stall_cycles": job.held}
            self.lines.add("VE_END", end, job.who, {**names, **of, **latency})
        whole = {**names, "start_cycle": record.start, "end_cycle": end, "bytes": nbytes}
        self.lines.add("ENGINE_EVENT", end, job.who, whole)

    def _command_ends(self, record: Record, end: int, who: Who, phase: int | None) -> None:
        entry, cmd = record.entry, {"cmd_id": record.id}
        self.lines.add("CMD_END", end, who, {**cmd, "unit": unit_of(entry), "status": "OK"}, phase=phase)
        if "irq_line" in entry:
            irq = {**cmd, "token": entry.get("token"), "irq_line": entry["irq_line"]}
            self.lines.add("IRQ_EMIT", end, who, irq, phase=phase)
        if "token" in entry:
            token = {**cmd, "token": entry["token"], "status": "OK"}
            self.lines.add("TOKEN_COMPLETE", end, who, token, phase=phase)
        if "marker" in entry:
            self.lines.add("MARKER", end, who, {**cmd, "marker": entry["marker"]}, phase=phase)
        self._token_ends(record, end, who, phase)

    def _token_starts(self, record: Record, cycle: int) -> None:
        if "token_idx" in record.entry:
            self.start_of_token.setdefault(record.entry["token_idx"], cycle)

    def _token_ends(self, record: Record, end: int, who: Who, phase: int | None) -> None:
        """TOKEN, when `record` is the last command of its token."""
        token = record.entry.get("token_idx")
        if token is None:
            return
        self.open_tokens[token].remove(record)
        if not self.open_tokens[token]:
            start = self.start_of_token[token]
            fields = {"token_idx": token, "start_cycle": start, "latency_cycles": end - start}
            fields |= {"phase": record.entry.get("phase")}
            self.lines.add("TOKEN", end, who, fields, phase=phase)


def where(record: Record, control: Control) -> str:
    """How messages name a command."""
    return f"cmdq[{control.records.index(record)}] (id {record.id}, {record.opcode})"
