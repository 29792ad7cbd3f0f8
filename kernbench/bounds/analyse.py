"""What can be said of a program on a machine before it runs: entries, bytes, MACs, ops, bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kernbench.bounds.program import Bounds, bounds_of, jobs_alone, lower_bounds
from kernbench.bounds.system import plan_bounds
from kernbench.cmdq.entries import HostEntry, PairEntry
from kernbench.cmdq.footprint import bytes_of, transfer_of, work_of
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.config.schema import NpuConfig

__all__ = ["Bounds", "ProgramSummary", "lower_bounds", "summarise"]


@dataclass(frozen=True)
class ProgramSummary:
    """A program at a glance, for `kbsim program check|show`."""

    name: str
    entries: int
    opcodes: dict[str, int]  #: entries by opcode, in the order of their first use
    jobs: dict[str, int]  #: entries by engine: `dma0`, `te1`, ...; every engine of the machine
    dram_read: dict[str, int]  #: [byte] per DRAM channel, alignment included
    dram_written: dict[str, int]  #: [byte] per DRAM channel, alignment included
    elsewhere: int  #: [byte] over no DRAM channel: between scratchpads, and from and to SRAMs
    asked_bytes: int  #: [byte] of all transfers without alignment
    macs: dict[str, int]  #: per tensor engine
    ops: dict[str, int]  #: per vector engine, `length * batch` of its jobs
    bounds: Bounds

    @property
    def moved_bytes(self) -> int:
        """Bytes that travel."""
        return sum(self.dram_read.values()) + sum(self.dram_written.values()) + self.elsewhere


def summarise(program: Program, config: NpuConfig) -> ProgramSummary:
    """The summary of a program that `check_program` accepts for this machine."""
    engines = {
        kind: [naming.engine(kind, i) for i in range(getattr(config, kind).engines)] for kind in ("dma", "te", "ve")
    }
    work = {kind: dict.fromkeys(engines[kind], 0) for kind in ("te", "ve")}
    jobs = {name: 0 for kind in engines for name in engines[kind]}
    traffic = {write: [0] * config.dram.channels for write in (False, True)}
    asked = 0
    alone = jobs_alone(program.entries, config)
    for entry, job in zip(program.entries, alone, strict=True):
        if entry.engine == "control":
            continue
        name = naming.engine(entry.engine, entry.engine_id)
        jobs[name] += 1
        if job.transfer is not None:
            asked += job.transfer.bytes_total
            channels = traffic[job.transfer.write]
            for channel, nbytes in enumerate(job.dram):
                channels[channel] += nbytes
        else:
            work[entry.engine][name] += work_of(entry)
    names = [naming.dram_channel(c) for c in range(config.dram.channels)]
    return ProgramSummary(
        name=program.name,
        entries=len(program.entries),
        opcodes=dict(Counter(entry.opcode for entry in program.entries)),
        jobs=jobs,
        dram_read=dict(zip(names, traffic[False], strict=True)),
        dram_written=dict(zip(names, traffic[True], strict=True)),
        elsewhere=0,
        asked_bytes=asked,
        macs=work["te"],
        ops=work["ve"],
        bounds=bounds_of(program.entries, alone, config),
    )


def summarise_plan(program: Program, plan: Plan) -> ProgramSummary:
    """The summary of a program from its plan on a system: only nodes that the program names are in it."""
    jobs = dict.fromkeys((*plan.dma, *plan.compute), 0)
    names = plan.resources[: plan.channels]
    traffic = {write: dict.fromkeys(names, 0) for write in (False, True)}
    engines = list(zip(plan.compute, plan.machine["compute"], strict=True))
    work = {kind: {name: 0 for name, engine in engines if engine["kind"] == kind} for kind in (1, 2)}  # TE, VE
    asked = elsewhere = 0
    for entry, unit in zip(program.entries, plan.units, strict=True):
        if entry.engine == "control":
            continue
        jobs[unit] += 1
        if entry.engine == "dma":
            if isinstance(entry, PairEntry | HostEntry):
                asked += bytes_of(entry.num_elements, entry.qbits)
            else:
                asked += transfer_of(entry, plan.pe).bytes_total
            row = plan.transfer(entry.index)
            first = plan.machine["memories"][row["memory"]]["first"]
            for channel, nbytes in enumerate(plan.channel_bytes(entry.index)):
                if first < 0:
                    elsewhere += nbytes
                else:
                    traffic[bool(row["write"])][names[first + channel]] += nbytes
        elif entry.engine != "cpu":
            work[1 if entry.engine == "te" else 2][unit] += work_of(entry)
    return ProgramSummary(
        name=program.name,
        entries=len(program.entries),
        opcodes=dict(Counter(entry.opcode for entry in program.entries)),
        jobs=jobs,
        dram_read=traffic[False],
        dram_written=traffic[True],
        elsewhere=elsewhere,
        asked_bytes=asked,
        macs=work[1],
        ops=work[2],
        bounds=plan_bounds(program, plan),
    )
