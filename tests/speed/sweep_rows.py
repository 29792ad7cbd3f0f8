"""What a sweep costs beside its simulations: time and memory for each of many points of a program of 200 entries."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernbench import Program
from kernbench.sweep.executors.choice import executor_for
from kernbench.sweep.points import Points, points_of
from kernbench.sweep.runner import run_missing
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import keep_sweep
from tests.speed.goals import Goal, goal_lines

POINTS = {False: (100, 100), True: (25, 16)}  #: levels of two axes, by whether it is to be quick
JOBS = 2
BARE = 250  # points that are run alone
GOAL_SECONDS = 300.0  #: for 10,000 points on two cores; `wait_rows` has the goal of the overhead
GOAL_MEMORY = 1.25  #: times the memory after a tenth of the results
PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One sweep, from reading its spec to the last result on the disk."""

    points: int
    seconds: float  #: of wall time
    cpu_ms: float  #: CPU time of all processes, a point
    bare_ms: float  #: of that, what the run alone takes: `Machine`, `run` and `result` of a checked machine and a read program
    overhead_ms: float  #: what is left
    ready_s: float  #: of wall time, until the first run could begin: the spec, all points checked, their keys
    first_mib: float  #: memory of the driver after a tenth of the results
    last_mib: float  #: and after all


def program() -> Program:
    """200 entries: loads, products and softmaxes."""
    made = Program("two_hundred")
    for i in range(66):
        loaded = made.dma_load(
            tensor_role="weight", qbits=4, dram_addr=i * 4096, num_elements=8192, spm_bank=2, spm_offset=(i % 4) * 4096
        )
        product = made.te_gemm(
            m=32, n=64, k=128, qbits_weight=4, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=2,
            wgt_offset=(i % 4) * 4096, ofm_bank=4, ofm_offset=(i % 2) * 4096, deps_before=[loaded],
        )  # fmt: skip
        made.ve_softmax(
            length=64, batch=32, qbits_activation=8, in_bank=4, in_offset=(i % 2) * 4096, out_bank=5, out_offset=0,
            deps_before=[product],
        )  # fmt: skip
    made.nop()
    made.end()
    return made


def spec(folder: Path, quick: bool) -> Path:
    """The spec of so many points."""
    program().save(folder / "two_hundred.json")
    setup, macs = POINTS[quick]
    path = folder / "speed.yaml"
    path.write_text(
        "schema: kernbench/sweep/1\ntargets: [two_hundred.json]\nmachine: npu_mobile\naxes:\n"
        f"  dram.t_setup_cycles: {{from: 1, to: {setup}}}\n"
        f"  te.macs_per_cycle: {{from: 64, to: {64 * macs}, step: 64}}\n",
        encoding="utf-8",
    )
    return path


@cache
def sweep_row(quick: bool = False) -> SweepRow:
    """Run it and measure, once in a process."""
    with tempfile.TemporaryDirectory() as name:
        path = spec(Path(name), quick)
        before, begin = _cpu(), time.monotonic()
        read = load_spec(path)
        points = points_of(read)
        ready = time.monotonic() - begin
        held: list[float] = []
        count = [0]

        def stored(rows: Any) -> None:
            count[0] += len(rows)
            if not held and count[0] * 10 >= len(points):
                held.append(_resident())

        with Store.write(Path(name) / "speed.sqlite") as store:
            keep_sweep(store, points)
            pool = executor_for(read, jobs=JOBS, threads=None, dask=False, scheduler=None)
            outcome = run_missing(points.points, store, pool, stored=stored)
        seconds = time.monotonic() - begin
        held.append(_resident())
        assert outcome.ran == len(points) and not outcome.failed, outcome
        cpu = (_cpu() - before) * 1000 / len(points)
        bare = _bare(points)
        return SweepRow(len(points), seconds, cpu, bare, cpu - bare, ready, held[0], held[-1])


def _bare(points: Points) -> float:
    """[ms] of CPU that a run takes without a sweep, mean of some points that are spread over all."""
    target = points.spec.targets[0]
    some = points.points[:: max(1, len(points) // BARE)]
    configs = [points.spec.machines[0].at(point.task.settings)[0] for point in some]
    begin = time.process_time()
    for config in configs:
        _, machine = target.longest(config, {})
        machine.run()
        machine.result()
    return (time.process_time() - begin) * 1000 / len(configs)


def _cpu() -> float:
    """[s] of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _resident() -> float:
    """[MiB] that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE / 2**20


def sweep_table(row: SweepRow) -> str:
    """The row for a person."""
    return "\n".join(
        [
            f"  {row.points:,} points of 200 entries on {JOBS} processes:",
            f"  {row.seconds:.1f} s, {row.points / row.seconds:.0f} points/s; the first run began after {row.ready_s:.1f} s",
            f"  CPU time a point: {row.cpu_ms:.2f} ms, {row.bare_ms:.2f} ms of a run alone, overhead {row.overhead_ms:.2f} ms",
            f"  memory of the driver: {row.first_mib:.0f} MiB after a tenth, {row.last_mib:.0f} MiB at the end",
        ]
    )


def sweep_goals(row: SweepRow) -> list[Goal]:
    """Of 10,000 points; none for fewer."""
    if row.points < 10_000:
        return []
    return [
        Goal(f"a sweep of {row.points:,} points, elapsed time", row.seconds, GOAL_SECONDS, "s"),
        Goal("its memory at the end over that after a tenth", row.last_mib / row.first_mib, GOAL_MEMORY, "times"),
    ]


if __name__ == "__main__":
    import sys

    ROW = sweep_row("--quick" in sys.argv)
    print(f"{sweep_table(ROW)}\n{goal_lines(sweep_goals(ROW))}")
