"""How fast traces are read, measured and checked, and in how much memory: figures on a lawful trace of any length."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.speed.goals import Goal
from tests.trace_samples import lawful_lines

EVENTS_A_COPY = 73
GOAL_METRICS, GOAL_MIB = 0.5, 300.0  # million events a second; memory, whatever the length
ROOT = Path(__file__).resolve().parents[2]
#: Each is run by itself: peak memory is that of a process. It prints CPU seconds and the peak in MB.
_JOBS = {
    "read": "sum(map(len, open_trace(path).batches()))",
    "metrics": "metrics(open_trace(path)).run.events",
    "validate": "validate(open_trace(path)).events",
}
_SCRIPT = """
import sys, time
from kernbench.trace import metrics, open_trace
from kernbench.trace.validate import validate
from tests.speed.peak import peak_mib
path = sys.argv[1]
before = time.process_time()
events = {job}
seconds = time.process_time() - before
print(events, seconds, peak_mib())
"""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What one job took."""

    job: str
    events: int
    seconds: float  #: CPU time
    peak_mib: float  #: of the whole process

    @property
    def events_per_second(self) -> float:
        """Of CPU time."""
        return self.events / self.seconds


def trace_rows(events: int = 1_000_000) -> list[TraceRow]:
    """Reading, metrics and laws of a trace of about so many events, a process each."""
    copies = max(1, events // EVENTS_A_COPY)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.jsonl"
        with path.open("wb") as file:
            file.writelines(line + b"\n" for line in lawful_lines(copies))
        return [_row(job, path) for job in _JOBS]


def _row(job: str, path: Path) -> TraceRow:
    script = _SCRIPT.format(job=_JOBS[job])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    events, seconds, peak = done.stdout.split()
    return TraceRow(job, int(events), float(seconds), float(peak))


def trace_table(rows: list[TraceRow]) -> str:
    """As text."""
    lines = [f"  a trace of {rows[0].events:,} events"]
    for row in rows:
        lines.append(
            f"  {row.job:9} {row.seconds:7.2f} s {row.events_per_second / 1e6:6.2f} M events/s {row.peak_mib:5.0f} MiB"
        )
    return "\n".join(lines)


def trace_goals(rows: list[TraceRow]) -> list[Goal]:
    """Of the metrics; `wait_rows` has the goal of `trace validate`."""
    metrics = next(row for row in rows if row.job == "metrics")
    return [
        Goal("metrics of a trace", metrics.events_per_second / 1e6, GOAL_METRICS, "M events/s", more=True),
        Goal("metrics of a trace: memory", metrics.peak_mib, GOAL_MIB, "MiB"),
    ]
