"""What can be said of a program on a system before it runs: `kernbench.bounds.analyse`, from a plan."""

from __future__ import annotations

from collections import Counter

from kernbench.bounds.analyse import ProgramSummary
from kernbench.bounds.system import plan_bounds
from kernbench.cmdq.entries import HostEntry, PairEntry
from kernbench.cmdq.footprint import bytes_of, transfer_of, work_of
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program


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
