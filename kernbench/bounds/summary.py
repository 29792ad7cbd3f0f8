"""Facts about a program on a machine, known before it runs: entries, bytes, MACs, ops, bounds."""

from __future__ import annotations

from collections import Counter

import msgspec

from kernbench.bounds.program import Bounds, lower_bounds, plan_bounds
from kernbench.cmdq.entries import HostEntry
from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.cmdq.program import Program
from kernbench.config import NpuConfig, SystemConfig
from kernbench_core.numbers import EngineType

__all__ = ["Bounds", "ProgramSummary", "lower_bounds", "summarise"]


class ProgramSummary(msgspec.Struct, frozen=True):
    """The summary of a program, for `kbsim program check|show`."""

    name: str
    entries: int
    opcodes: dict[str, int]  #: entries by opcode, in the order of their first use
    jobs: dict[str, int]  #: entries by engine: `dma0`, `te1`, ...; every engine of the machine
    dram_read: dict[str, int]  #: [byte] per DRAM channel, alignment included
    dram_written: dict[str, int]  #: [byte] per DRAM channel, alignment included
    elsewhere: int  #: [byte] that pass no DRAM channel: between scratchpads, and from and to SRAMs
    asked_bytes: int  #: [B] of all transfers, without alignment
    macs: dict[str, int]  #: per tensor engine
    ops: dict[str, int]  #: per vector engine, `length * batch` of its jobs
    bounds: Bounds

    @property
    def moved_bytes(self) -> int:
        """The transferred bytes."""
        return sum(self.dram_read.values()) + sum(self.dram_written.values()) + self.elsewhere


def summarise(program: Program, config: NpuConfig | SystemConfig) -> ProgramSummary:
    """The summary of a program on a machine; InputError if it is not valid there."""
    return summarise_plan(program, plan_program(program, config))


def summarise_plan(program: Program, plan: Plan) -> ProgramSummary:
    """The summary of a program from its plan. On a system, it contains only nodes that the program names."""
    jobs = dict.fromkeys((*plan.dma, *plan.compute), 0)
    for entry, unit in zip(plan.rows(program).entries, plan.units, strict=True):
        if entry.engine != "control":
            jobs[unit] += 1
    names = plan.resources[: plan.channels]
    traffic = {write: dict.fromkeys(names, 0) for write in (0, 1)}
    elsewhere = 0
    moves = plan.program["dma"]
    first = [memory["first"] for memory in plan.machine["memories"]]
    for memory, write, moved in zip(moves["memory"].tolist(), moves["write"].tolist(), plan.on_channels, strict=True):
        if first[memory] < 0:
            elsewhere += sum(moved)
            continue
        for channel, nbytes in enumerate(moved, first[memory]):
            traffic[write][names[channel]] += nbytes
    works = plan.program["compute"]
    kinds = [engine["kind"] for engine in plan.machine["compute"]]
    work = {kind: {name: 0 for name, one in zip(plan.compute, kinds, strict=True) if one == kind} for kind in kinds}
    for engine, count in zip(works["engine"].tolist(), works["work"].tolist(), strict=True):
        work[kinds[engine]][plan.compute[engine]] += count
    return ProgramSummary(
        name=program.name,
        entries=len(program.entries),
        opcodes=dict(Counter(entry.opcode for entry in program.entries)),
        jobs=jobs,
        dram_read=traffic[0],
        dram_written=traffic[1],
        elsewhere=elsewhere,
        asked_bytes=_asked_bytes(program, plan),
        macs=work.get(EngineType.TE, {}),
        ops=work.get(EngineType.VE, {}),
        bounds=plan_bounds(program, plan),
    )


def _asked_bytes(program: Program, plan: Plan) -> int:
    """[B] of all transfers, without alignment; for host copies, the aligned bytes."""
    moves = plan.program["dma"]
    asked: int = sum(rows * nbytes for rows, nbytes in zip(moves["rows"].tolist(), moves["row_bytes"].tolist(), strict=True))
    copies = [entry for entry in plan.rows(program).entries if isinstance(entry, HostEntry)]
    return asked + sum(bytes_of(entry.num_elements, entry.qbits) - plan.bytes_of(entry.index) for entry in copies)
