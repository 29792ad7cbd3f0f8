"""How time and memory grow with the machine and with the program. `python -m tests.speed.growth_rows`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.config import load_config
from kernbench_core import Core, Status
from tests.speed.allocated import allocated_bytes
from tests.speed.goals import Goal, goal_lines
from tests.speed.measure import core_jobs, engine_ticks
from tests.speed.sample import Sample
from tests.speed.workloads import GROUP, LOADS, Jobs, Tables, cmdq, jobs_for, machine_of_groups, npu_machine, program_of_groups

LOAD = LOADS["compute"]
CYCLES = 2000  # of each machine, in which no engine runs out of work
LINEAR = 1.5  #: cost for each PE or entry grows at most so many times
PE_BYTES, ENTRY_BYTES = 1500, 200  #: of a snapshot
FEW, MANY = Jobs(4, 2, 2), Jobs(40, 20, 20)  #: of a PE: what one more entry takes is counted between them
BUSY = jobs_for(LOAD, GROUP, CYCLES)  #: of a PE: no engine runs out of work


@dataclass(frozen=True, slots=True)
class Growth:
    """A machine or a program of some size."""

    what: str  #: "PEs" or "entries"
    size: int
    cost: Sample  #: PEs: ns per engine-tick of stepping; entries: ns per entry, skipping


@dataclass(frozen=True, slots=True)
class Memory:
    """What one more PE or entry takes."""

    what: str  #: "PE" or "entry"
    snapshot: float  #: [B] of a snapshot, in which a number takes as many bytes as it needs
    allocated: float | None  #: [B] that the core holds; None where the C library does not say


def growth_rows(quick: bool) -> list[Growth]:
    """PEs 64 to 4,096; entries 1,000 to 2 million (quick: 100,000)."""
    config = load_config(npu_machine(LOAD, GROUP))
    sizes = (1_000, 100_000) if quick else (1_000, 100_000, 2_000_000)
    return [*_pes(config, (64, 512, 4096), 3 if quick else 5), *_entries(config, sizes)]


def _lowered(config: object, jobs: Jobs) -> Tables:
    return lower_program(load_program(cmdq(LOAD, jobs, range(GROUP))), config)  # type: ignore[arg-type]


def _pes(config: object, sizes: tuple[int, ...], repeats: int) -> list[Growth]:
    one, program = lower_machine(config), _lowered(config, BUSY)  # type: ignore[arg-type]
    rows: list[Growth] = []
    for pes in sizes:
        tables = machine_of_groups(one, pes // GROUP, GROUP), program_of_groups([program] * (pes // GROUP), GROUP)
        spent = []
        for _ in range(repeats):
            core = Core(*tables)
            began = time.process_time()
            core.run(CYCLES, skip=False)
            spent.append(time.process_time() - began)
        ticks = engine_ticks(core_jobs(core), [r["busy"] for r in core.counters()["resources"]], core.cycle)
        rows.append(Growth("PEs", pes, Sample(seconds / ticks * 1e9 for seconds in spent)))
    return rows


def memory_rows() -> list[Memory]:
    """In the middle of a run: differences of programs, and of machines. Half of the entries are transfers."""
    config = load_config(npu_machine(LOAD, GROUP))
    few, many, busy = (_entries_of(jobs) for jobs in (FEW, MANY, BUSY))
    entry = _slope(_sizes(config, 512, FEW), _sizes(config, 512, MANY), 512 * (many - few))
    whole = _slope(_sizes(config, 64, BUSY), _sizes(config, 512, BUSY), 512 - 64)
    pe = [nbytes - busy * one for nbytes, one in zip(whole, entry, strict=True)]
    known = allocated_bytes() is not None
    return [Memory(what, one[0], one[1] if known else None) for what, one in (("PE", pe), ("entry", entry))]


def _entries_of(jobs: Jobs) -> int:
    """Of a PE."""
    return jobs.transfers + jobs.gemms + jobs.vectors


def _slope(small: tuple[int, int], large: tuple[int, int], more: int) -> list[float]:
    """[B] for each of so many more."""
    return [(b - a) / more for a, b in zip(small, large, strict=True)]


def _sizes(config: object, pes: int, jobs: Jobs) -> tuple[int, int]:
    """[B] of a snapshot and of the memory of a core with these jobs for each PE, after some cycles."""
    program = program_of_groups([_lowered(config, jobs)] * (pes // GROUP), GROUP)
    tables = machine_of_groups(lower_machine(config), pes // GROUP, GROUP), program  # type: ignore[arg-type]
    before = allocated_bytes() or 0
    core = Core(*tables)
    core.run(CYCLES)
    return len(core.snapshot()), (allocated_bytes() or 0) - before


def _entries(config: object, sizes: tuple[int, ...]) -> list[Growth]:
    machine, program = machine_of_groups(lower_machine(config), 1, GROUP), _lowered(config, Jobs(8, 4, 4))  # type: ignore[arg-type]
    rows = []
    for size in sizes:
        times = -(-size // len(program["op"]))
        n, spent, many = times * len(program["op"]), [], _repeated(program, times)
        for _ in range(3):
            core = Core({**machine, "max_cycles": 1 << 60}, many)
            began = time.process_time()
            core.run(1 << 60)
            spent.append((time.process_time() - began) / n * 1e9)
            assert core.status == Status.DONE
            del core
        rows.append(Growth("entries", n, Sample(spent)))
    return rows


def _repeated(program: Tables, times: int) -> Tables:
    """The program again and again on the same engines; it has no dependencies."""
    n = len(program["op"])
    jobs = {kind: len(program[kind]["entry"]) for kind in ("dma", "compute")}
    shift = np.where(program["op"] == 0, jobs["dma"], jobs["compute"])
    out: Tables = {name: np.tile(program[name], times) for name in ("op", "waits")}
    out["job"] = np.concatenate([program["job"] + k * shift for k in range(times)])
    out |= {"after": np.zeros(times * n + 1, dtype=np.int64), "dependents": np.zeros(0, dtype=np.int64)}
    for kind in jobs:
        out[kind] = {name: np.concatenate([column] * times) for name, column in program[kind].items()}
        out[kind]["entry"] = np.concatenate([program[kind]["entry"] + k * n for k in range(times)])
    return out


def growth_table(rows: list[Growth], memory: list[Memory]) -> str:
    """As text."""
    out = []
    for row in rows:
        unit = "ns per engine-tick, stepping" if row.what == "PEs" else "ns per entry, skipping"
        out.append(f"  {row.size:10,} {row.what:8} {row.cost:9.2f} {row.cost.about:7} {unit}")
    for one in memory:
        held = "" if one.allocated is None else f", {one.allocated:,.0f} bytes of memory of the core"
        out.append(f"  one more {one.what}: {one.snapshot:,.1f} bytes of a snapshot{held}")
    return "\n".join(out)


def growth_goals(rows: list[Growth], memory: list[Memory]) -> list[Goal]:
    """Linear growth, and the sizes of snapshots."""
    limits = {"PE": PE_BYTES, "entry": ENTRY_BYTES}
    goals = []
    for what in ("PEs", "entries"):
        costs = [row.cost for row in rows if row.what == what]
        goals.append(
            Goal(f"cost by the number of {what}: the largest over the smallest", max(costs) / min(costs), LINEAR, "times")
        )
    return goals + [Goal(f"a snapshot, for each {one.what}", one.snapshot, limits[one.what], "B") for one in memory]


if __name__ == "__main__":
    FOUND = growth_rows("--quick" in sys.argv), memory_rows()
    print(f"{growth_table(*FOUND)}\n{goal_lines(growth_goals(*FOUND))}")
