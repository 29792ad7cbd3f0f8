"""A whole language model: CPU time and memory, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK_S, MARK_MIB = 30.0, 1000.0  # all layers of Llama-2-7B, 128 tokens of prompt, 16 decoded
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


def reuse_line(once: LlmRow, whole: LlmRow) -> str:
    """Whether simulating every layer of every step makes a difference, and what it costs."""
    same = "the same cycles" if once.cycles == whole.cycles else f"{whole.cycles:,} CYCLES, NOT THE SAME"
    return f"  without reuse of layers: {same}: {whole.seconds:.1f} s, {whole.peak_mib:.0f} MiB (mark: the same)"


def llm_line(row: LlmRow) -> str:
    """The row with its marks."""
    did = f"{row.segments} segments, {row.simulated} of them simulated, {row.cycles:,} cycles"
    marks = f"marks: <= {MARK_S:g} s, <= {MARK_MIB:g} MiB"
    return f"Llama-2-7B, 128 tokens of prompt and 16 decoded: {did}: {row.seconds:.1f} s, {row.peak_mib:.0f} MiB ({marks})"
