"""A whole language model: CPU time and memory, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.speed.goals import Goal

ROOT = Path(__file__).resolve().parents[2]
GOAL_S, GOAL_MIB = 30.0, 1000.0  # all layers of Llama-2-7B, 128 tokens of prompt, 16 decoded
_SCRIPT = """
import time
from kernbench.config import load_config
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from tests.speed.peak import peak_mib
begin = time.process_time()
job = Job(prompt=128, tokens=16)
programs = LlmPrograms(load_model("llama2-7b"), uniform_precision(), load_config("npu_server"), job)
run = run_llm(programs, reuse=REUSE)
spent = time.process_time() - begin
peak = peak_mib()
print(run.segments, run.simulated, sum(step.total.cycles for step in run.steps), spent, peak)
"""


@dataclass(frozen=True, slots=True)
class LlmRow:
    """What the run took."""

    segments: int
    simulated: int
    cycles: int
    seconds: float  #: CPU time
    peak_mib: float  #: of the whole process


def llm_row(*, reuse: bool = True) -> LlmRow:
    """Llama-2-7B on npu_server. `reuse`: layers that take the same are simulated once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERNBENCH_CACHE": "off"}
    script = _SCRIPT.replace("REUSE", str(reuse))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    segments, simulated, cycles, seconds, peak = done.stdout.split()
    return LlmRow(int(segments), int(simulated), int(cycles), float(seconds), float(peak))


def llm_table(rows: list[LlmRow]) -> str:
    """The run, and then the run in which nothing is reused."""
    lines = ["  layers            segments  simulated        cycles   CPU time   memory"]
    for row, name in zip(rows, ("are reused", "are not reused"), strict=False):
        counts = f"{row.segments:8,} {row.simulated:10,} {row.cycles:13,}"
        lines.append(f"  {name:17} {counts} {row.seconds:8.1f} s {row.peak_mib:4.0f} MiB")
    return "\n".join(lines)


def llm_goals(rows: list[LlmRow]) -> list[Goal]:
    """Of the run that reuses layers. A run that simulates every layer must give the same cycles."""
    once = rows[0]
    goals = [
        Goal("Llama-2-7B: CPU time", once.seconds, GOAL_S, "s"),
        Goal("Llama-2-7B: memory", once.peak_mib, GOAL_MIB, "MiB"),
    ]
    return goals + [
        Goal("Llama-2-7B: cycles that reuse of layers changes", abs(row.cycles - once.cycles), 0) for row in rows[1:]
    ]
