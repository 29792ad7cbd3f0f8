"""What the laws at the end of every run cost: CPU time of looking, beside that of the run. No test."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kernbench.bounds.laws import check_laws
from kernbench.cli.target import load_target
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import Machine
from tests.speed.goals import Goal, goal_lines
from tests.speed.sample import Sample

GOAL = 3.0  #: [%] of a run's time
RUNS = (("llama2-7b-decode", "npu_mobile"), ("llama2-7b-decode", "npu_server"), ("llama2-7b-prefill", "npu_server"))


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A run, from its program to its end without laws, and the laws."""

    program: str
    machine: str
    entries: int
    run_ms: Sample
    check_ms: Sample
    percent: Sample  #: of the run, within a round


def check_rows(repeats: int = 5) -> list[CheckRow]:
    """All programs."""
    return [_row(*named, repeats) for named in RUNS]


def _row(program: str, config: str, repeats: int) -> CheckRow:
    spec: NpuConfig = load_config(config, kind=NpuConfig)
    loaded = load_target(program, spec)
    runs, checks = [], []
    for _ in range(repeats):
        machine = Machine(spec, loaded)
        machine.checks = False
        begin = time.process_time()
        machine.run()
        ran = time.process_time()
        check_laws(machine.plan, machine.cycle, machine.status, machine._core, [])
        runs.append(ran - begin)
        checks.append(time.process_time() - ran)
    return CheckRow(program, config, len(loaded.entries), *_samples(runs, checks))


def _samples(runs: list[float], checks: list[float]) -> tuple[Sample, Sample, Sample]:
    percent = Sample(100 * check / run for run, check in zip(runs, checks, strict=True))
    return Sample(run * 1000 for run in runs), Sample(check * 1000 for check in checks), percent


def check_table(rows: list[CheckRow]) -> str:
    """One line a row."""
    named = [f"  {row.program:18} {row.machine:11} {row.entries:6,} entries" for row in rows]
    return "\n".join(
        f"{name} {row.run_ms:8.1f} ms, laws {row.check_ms:6.2f} ms, {row.percent:6.2f} % {row.percent.about}"
        for name, row in zip(named, rows, strict=True)
    )


def check_goals(rows: list[CheckRow]) -> list[Goal]:
    """One for each run."""
    named = {f"{row.program} on {row.machine}": row.percent for row in rows}
    return [Goal(f"laws after {name}, of the run", percent, GOAL, "%") for name, percent in named.items()]


if __name__ == "__main__":
    FOUND = check_rows()
    print(f"{check_table(FOUND)}\n{goal_lines(check_goals(FOUND))}")
