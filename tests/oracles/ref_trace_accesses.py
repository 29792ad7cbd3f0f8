"""Accesses in a reference trace: ranges at `full`, requests at `access`, and what transfers moved."""

from __future__ import annotations

from collections import deque
from typing import Any

from .ref_banks import Request
from .ref_dma import DmaJob, Flow
from .ref_engines import ServiceEngine, Work
from .ref_geometry import Scratchpad, aligned_rows, dram_rows
from .ref_trace_jobs import Job
from .ref_trace_lines import TE, Lines, Who
from .ref_trace_runs import Moved, Run, Streamed, bank_of, move, runs_by_channel, runs_by_source, streams_of


class Accesses:
    """Writes SRAM_ACCESS and MEM_ACCESS_EVENT."""

    def __init__(self, lines: Lines, machine: dict[str, Any], spm: Scratchpad) -> None:
        self.lines = lines
        self.machine = machine
        self.spm = spm
        self.by_request = lines.wants("access")
        self.runs: dict[Flow, deque[Run]] = {}  # that have not moved whole
        self.streams: dict[int, list[Streamed]] = {}  # by job number

    def started(self, job: Job) -> None:
        """Lay out what a starting job will touch."""
        work = job.work
        if isinstance(work, Work):
            self.streams[job.number] = streams_of(work)
            return
        dma, dram = self.machine["dma"], self.machine["dram"]
        rows = aligned_rows(dram_rows(work.entry, self.machine["kv_layouts"]), dma["alignment_bytes"])
        if self.machine["llc"] is None:
            runs = runs_by_channel(rows, work.range[0], dram["channels"], dram["interleave_bytes"])
        else:
            number = max(flow.channel for flow in work.flows)
            runs = runs_by_source(work.parts, work.range[0], dram["channels"], dram["interleave_bytes"], number)
        for flow in work.flows:
            self.runs[flow] = runs[flow.channel]

    def flow_served(self, job: Job, flow: Flow, request: Request, cycle: int) -> None:
        """P6: the bytes that `flow` asked for move."""
        who = job.of_channel(flow.channel)
        assert isinstance(job.work, DmaJob)
        reads = job.work.is_store  # a store reads the scratchpad
        for part in move(self.runs[flow], flow.request_bytes, request):
            if self.by_request:
                self._access(job, who, cycle, part.spm, part.size, reads, request.first_denied is not None, request.opened)
            if part.run.moved == part.run.size:
                self._run_moved(job, flow, part, cycle)

    def _run_moved(self, job: Job, flow: Flow, part: Moved, cycle: int) -> None:
        run, who = part.run, job.of_channel(flow.channel)
        assert isinstance(job.work, DmaJob) and run.first_asked is not None
        reads = job.work.is_store
        if not self.by_request:
            self._access(job, who, cycle, run.spm, run.size, reads, run.conflict, run.first_asked)
        moved = {
            "tx_id": job.number,
            "channel": flow.channel,
            "source_engine": "DMA",
            "dram_addr": run.dram,
            "spm_addr": run.spm,
            "size_bytes": run.size,
            "direction": "SRAM_TO_DRAM" if reads else "DRAM_TO_SRAM",
            "cycles": cycle + 1 - run.first_asked,
        }
        self.lines.add("MEM_ACCESS_EVENT", cycle, who, {**job.names, **moved})

    def work_served(self, job: Job, engine: ServiceEngine, request: Request, cycle: int) -> None:
        """P6: the request of the open body cycle of a TE or VE is served."""
        assert isinstance(job.work, Work)
        denied = request.first_denied is not None
        for stream in self.streams[job.number]:
            part = stream.part(engine, job.work)
            if part is None:
                continue
            start, end = part
            if stream.first_asked is None:
                stream.first_asked = request.opened
            stream.conflict |= denied
            if self.by_request:
                self._access(job, job.who, cycle, start, end - start, stream.reads, denied, request.opened)
            elif end == stream.region[1]:
                start = stream.region[0]
                self._access(job, job.who, cycle, start, end - start, stream.reads, stream.conflict, stream.first_asked)

    def _access(
        self, job: Job, who: Who, cycle: int, addr: int, size: int, reads: bool, conflict: bool, asked: int
    ) -> None:
        fields = {
            "addr": addr,
            "size_bytes": size,
            "bank_id": bank_of(self.spm, addr),
            "access_type": "READ" if reads else "WRITE",
            "by": "DMA" if isinstance(job.work, DmaJob) else "TE" if who.kind == TE else "VE",
            "conflict": conflict,
            "cycles": cycle + 1 - asked,
        }
        self.lines.add("SRAM_ACCESS", cycle, who, {**job.names, **fields, "unit": "spm"})
