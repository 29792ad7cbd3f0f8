"""`python -m tests.speed.thread_rows`: wall time with one thread over that with two, in turns. No test."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernbench.runtime_api.discovery import load_bench
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.engine import GraphEngine
from kernbench.sim_engine.op_log import OpLogger
from kernbench_core import Core
from tests.speed.sample import Sample
from tests.speed.workloads import LOADS, core_tables, jobs_for

PES, CYCLES, QUICK_CYCLES = 1024, 40_000, 5_000
GOAL = 1.7


@dataclass(frozen=True, slots=True)
class Threads:
    """A piece of work in one thread and in two."""

    work: str
    one: Sample  #: [s] of wall time
    ratio: Sample  #: wall time in one thread over that in two, within a round


def thread_rows(quick: bool) -> list[Threads]:
    """Programs of 1,024 PEs under each load, and the replay of a GEMM."""
    rounds = 3 if quick else 7
    rows = []
    for load in LOADS.values():
        cycles = QUICK_CYCLES if quick else CYCLES
        tables = core_tables(load, PES, jobs_for(load, PES, cycles))
        rows.append(_row(f"{load.name}, {PES:,} PEs", lambda n, t=tables, c=cycles: _program(t, n, c), rounds))  # type: ignore[misc]
    log = _log(512 if quick else 2048)
    rows.append(_row("Phase 2 of a GEMM on sip_4x4", lambda n: _replay(log, n), rounds))
    return rows


def _row(work: str, run: Callable[[int], float], rounds: int) -> Threads:
    found = [(run(1), run(2)) for _ in range(rounds)]
    return Threads(work, Sample(one for one, _ in found), Sample(one / two for one, two in found))


def _program(tables: Any, threads: int, cycles: int) -> float:
    core = Core(*tables, threads=threads)
    begin = time.perf_counter()
    core.run(cycles)
    return time.perf_counter() - begin


def _log(size: int) -> OpLogger:
    engine = GraphEngine("sip_4x4")
    machine = engine.prepare(load_bench("gemm"), m=size, n=size, k=size)
    machine.run()
    engine.check()
    return engine.op_log


def _replay(log: OpLogger, threads: int) -> float:
    begin = time.perf_counter()
    DataExecutor(log, threads=threads).run()
    return time.perf_counter() - begin


def thread_table(rows: list[Threads]) -> str:
    """The rows for a person."""
    lines = [f"wall time in one thread over that in two (goal: {GOAL})"]
    for row in rows:
        held = "holds" if row.ratio >= GOAL else "DOES NOT HOLD"
        lines.append(f"  {row.work:28} {row.one:7.3f} s {row.one.about:8} {row.ratio:5.2f} {row.ratio.about:8} {held}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(thread_table(thread_rows("--quick" in sys.argv)))
