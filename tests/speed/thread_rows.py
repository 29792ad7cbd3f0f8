"""`python -m tests.speed.thread_rows`: elapsed time with one thread over that with two, in turn. No test.

On a busy computer, elapsed times do not show what threads save. CPU times of threads give a bound: how much two threads would
save if each had a processor of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kernbench.runtime_api.discovery import load_bench
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.engine import GraphEngine
from kernbench.sim_engine.op_log import OpLogger
from kernbench_core import Core
from tests.speed.goals import Goal, goal_lines
from tests.speed.sample import Sample
from tests.speed.workloads import LOADS, core_tables, jobs_for

PES, CYCLES, QUICK_CYCLES = 1024, 20_000, 5_000
GOAL = 1.7


@dataclass(frozen=True, slots=True)
class Threads:
    """A piece of work in one thread and in two."""

    work: str
    one: Sample  #: [s] of elapsed time
    ratio: Sample  #: elapsed time in one thread over that in two, within a round
    bound: Sample  #: CPU time in one thread over that of what two threads cannot do at the same time, within a round


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run took."""

    elapsed: float  #: [s]
    cpu: float  #: [s] of all threads
    main: float  #: [s] of CPU time of the thread that called the run


def thread_rows(quick: bool) -> list[Threads]:
    """Programs of 1,024 PEs under each load, and the replay of a GEMM."""
    rounds = 3 if quick else 5
    rows = []
    for load in LOADS.values():
        cycles = QUICK_CYCLES if quick else CYCLES
        tables = core_tables(load, PES, jobs_for(load, PES, cycles))
        rows.append(_row(f"{load.name}, {PES:,} PEs", partial(_program, tables, cycles), rounds))
    log = _log(512 if quick else 2048)
    rows.append(_row("Phase 2 of a GEMM on sip_4x4", partial(_replay, log), rounds))
    return rows


def _row(work: str, run: Callable[[int], Spent], rounds: int) -> Threads:
    found = [(run(1), run(2)) for _ in range(rounds)]
    ratio = Sample(one.elapsed / two.elapsed for one, two in found)
    return Threads(work, Sample(one.elapsed for one, _ in found), ratio, Sample(one.cpu / _busiest(two) for one, two in found))


def _busiest(two: Spent) -> float:
    """[s] CPU time of the busiest of the two threads, one of which is the main thread."""
    return max(two.main, two.cpu - two.main)


def _spent(work: Callable[[], object]) -> Spent:
    elapsed, cpu, main = time.perf_counter(), time.process_time(), time.thread_time()
    work()
    return Spent(time.perf_counter() - elapsed, time.process_time() - cpu, time.thread_time() - main)


def _program(tables: Any, cycles: int, threads: int) -> Spent:
    core = Core(*tables, threads=threads)
    return _spent(lambda: core.run(cycles))


def _log(size: int) -> OpLogger:
    engine = GraphEngine("sip_4x4")
    machine = engine.prepare(load_bench("gemm"), m=size, n=size, k=size)
    machine.run()
    engine.check()
    return engine.op_log


def _replay(log: OpLogger, threads: int) -> Spent:
    replay = DataExecutor(log, threads=threads)
    return _spent(replay.run)


def thread_table(rows: list[Threads]) -> str:
    """The rows for a person."""
    lines = [f"  {'work':28} {'one thread':>10}          one over two   bound by CPU time"]
    for row in rows:
        lines.append(
            f"  {row.work:28} {row.one:8.3f} s {row.one.about:8} {row.ratio:5.2f}x {row.ratio.about:8}"
            f" {row.bound:5.2f}x {row.bound.about}"
        )
    return "\n".join(lines)


def thread_goals(rows: list[Threads]) -> list[Goal]:
    """Of elapsed time."""
    return [Goal(f"{row.work}: elapsed time of one thread over that of two", row.ratio, GOAL, "x", more=True) for row in rows]


if __name__ == "__main__":
    ROWS = thread_rows("--quick" in sys.argv)
    print(f"{thread_table(ROWS)}\n{goal_lines(thread_goals(ROWS))}")
