"""Contiguous runs of transfers and lines of operand regions: what accesses in a reference trace are about."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .ref_banks import Request
from .ref_cache import Part
from .ref_engines import ServiceEngine, Work
from .ref_geometry import Range, Scratchpad, ceil_div


@dataclass
class Run:
    """Consecutive DRAM bytes of a flow inside one row and one interleave chunk; its scratchpad bytes follow each other too."""

    dram: int
    spm: int
    size: int
    moved: int = 0
    first_asked: int | None = None
    conflict: bool = False


@dataclass
class Moved:
    """The part of a run that one served request moved."""

    run: Run
    spm: int
    size: int


def runs_by_channel(rows: list[tuple[int, int]], spm_addr: int, channels: int, interleave: int) -> dict[int, deque[Run]]:
    """The runs of each flow of a transfer of aligned `rows`, in the flow's own order; one channel has no chunks."""
    flows: dict[int, deque[Run]] = {}
    at = spm_addr
    for start, nbytes in rows:
        dram, end = start, start + nbytes
        while dram < end:
            chunk_end = end if channels == 1 else (dram // interleave + 1) * interleave
            size = min(end, chunk_end) - dram
            flows.setdefault(dram // interleave % channels, deque()).append(Run(dram, at, size))
            dram += size
            at += size
    return flows


def runs_by_source(
    parts: list[list[Part]], spm_addr: int, channels: int, interleave: int, number: int
) -> dict[int, deque[Run]]:
    """The same behind a last-level cache: bytes of one row that go on over one channel, or over the cache alone (`number`)."""
    flows: dict[int, deque[Run]] = {}
    at = spm_addr
    for row in parts:
        last: tuple[int, int] | None = None
        for address, nbytes, cached in row:
            for byte in range(address, address + nbytes):
                chunk = 0 if cached or channels == 1 else byte // interleave
                here = (number if cached else chunk % channels, chunk)
                if here != last:
                    flows.setdefault(here[0], deque()).append(Run(byte, at, 0))
                flows[here[0]][-1].size += 1
                last = here
                at += 1
    return flows


def move(runs: deque[Run], nbytes: int, request: Request) -> list[Moved]:
    """`nbytes` of a flow move by one request: the parts of runs that it moves, in order; runs that are done are taken out."""
    out = []
    while nbytes:
        run = runs[0]
        size = min(nbytes, run.size - run.moved)
        if run.first_asked is None:
            run.first_asked = request.opened
        run.conflict |= request.first_denied is not None
        out.append(Moved(run, run.spm + run.moved, size))
        run.moved += size
        nbytes -= size
        if run.moved == run.size:
            runs.popleft()
    return out


@dataclass
class Streamed:
    """An operand region of a running job: what its requests were like so far."""

    region: Range
    reads: bool
    first_asked: int | None = None
    conflict: bool = False

    def part(self, engine: ServiceEngine, job: Work) -> Range | None:
        """The bytes of the region on the lines that the open body cycle of `job` asks for; None where it asks for none."""
        spm, step = engine.spm, job.done - job.init
        start, end = self.region
        share = ceil_div(end - start, job.streaming)
        asked = list(spm.lines_beginning_in(min(start + step * share, end), min(start + (step + 1) * share, end)))
        if step == 0:
            asked.append(start // spm.width)
        if not asked:
            return None
        return max(start, min(asked) * spm.width), min(end, (max(asked) + 1) * spm.width)


def streams_of(job: Work) -> list[Streamed]:
    """The regions of a job: what it reads, then what it writes."""
    return [Streamed(r, True) for r in job.reads] + [Streamed(r, False) for r in job.writes]


def bank_of(spm: Scratchpad, addr: int) -> int:
    """Bank of a flat scratchpad address."""
    return spm.bank_of_line(addr // spm.width)
