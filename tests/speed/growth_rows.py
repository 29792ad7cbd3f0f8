"""How time and memory grow with the machine and with the program."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.config import load_config
from kernbench_core import Core, Status
from tests.speed.measure import core_jobs, engine_ticks
from tests.speed.sample import Sample
from tests.speed.workloads import GROUP, LOADS, Jobs, Tables, cmdq, jobs_for, machine_of_groups, npu_machine, program_of_groups

LOAD = LOADS["compute"]
CYCLES = 2000  # of each machine, in which no engine runs out of work
LINEAR = 1.5  #: cost for each PE or entry grows at most so many times
PE_BYTES, ENTRY_BYTES = 1500, 200


@dataclass(frozen=True, slots=True)
class Growth:
    """A machine or a program of some size."""

    what: str  #: "PEs" or "entries"
    size: int
    cost: Sample  #: PEs: ns per engine-tick of stepping; entries: ns per entry, skipping
    nbytes: float  #: of state, for each more PE or entry


def growth_rows(quick: bool) -> list[Growth]:
    """PEs 64 to 4,096; entries 1,000 to 10 million (quick: 100,000)."""
    config = load_config(npu_machine(LOAD, GROUP))
    sizes = (1_000, 100_000) if quick else (1_000, 100_000, 10_000_000)
    return [*_pes(config, (64, 512, 4096), 3 if quick else 5), *_entries(config, sizes)]


def _lowered(config: object, jobs: Jobs) -> Tables:
    return lower_program(load_program(cmdq(LOAD, jobs, range(GROUP))), config)  # type: ignore[arg-type]


def _pes(config: object, sizes: tuple[int, ...], repeats: int) -> list[Growth]:
    one, program = lower_machine(config), _lowered(config, jobs_for(LOAD, GROUP, CYCLES))  # type: ignore[arg-type]
    rows: list[Growth] = []
    before = (0, 0.0)
    for pes in sizes:
        tables = machine_of_groups(one, pes // GROUP, GROUP), program_of_groups([program] * (pes // GROUP), GROUP)
        spent = []
        for _ in range(repeats):
            core = Core(*tables)
            began = time.process_time()
            core.run(CYCLES, skip=False)
            spent.append(time.process_time() - began)
        ticks = engine_ticks(core_jobs(core), [r["busy"] for r in core.counters()["resources"]], core.cycle)
        state = len(core.snapshot()) - pes * len(program["op"]) / GROUP * _entry_bytes(config)
        rows.append(Growth("PEs", pes, Sample(one / ticks * 1e9 for one in spent), (state - before[1]) / (pes - before[0])))
        before = (pes, state)
    return rows


def _entry_bytes(config: object) -> float:
    """Of state, for an entry: half of them transfers, half TE and VE jobs."""
    one = lower_machine(config)  # type: ignore[arg-type]
    few, many = (_lowered(config, jobs) for jobs in (Jobs(4, 2, 2), Jobs(40, 20, 20)))
    tables = machine_of_groups(one, 1, GROUP)
    return (len(Core(tables, many).snapshot()) - len(Core(tables, few).snapshot())) / (len(many["op"]) - len(few["op"]))


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
        rows.append(Growth("entries", n, Sample(spent), _entry_bytes(config)))
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


def growth_table(rows: list[Growth]) -> str:
    """As text, with the goals."""
    out = [f"growth (goals: linear within {LINEAR:g} times, under {PE_BYTES} bytes a PE and {ENTRY_BYTES} a CMDQ entry)"]
    for row in rows:
        unit = "ns an engine-tick, stepping" if row.what == "PEs" else "ns an entry, skipping"
        cost = f"{row.cost:8.2f} {row.cost.about:7} {unit:28}"
        out.append(f"  {row.size:10,} {row.what:8} {cost} {row.nbytes:7.0f} bytes of state each")
    return "\n".join(out)
