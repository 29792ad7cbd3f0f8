"""Sweeps for tests: small programs on a small machine, and `kbsim sweep` in a process of its own."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from kernbench.sweep.executors.threads import Threads
from kernbench.sweep.points import points_of
from kernbench.sweep.report.table import csv_bytes, read_table
from kernbench.sweep.runner import Executor, Outcome, run_missing
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import keep_sweep
from kernbench.sweep.work import Work
from tests.cli.samples import write_samples

SPEC = """\
schema: kernbench/sweep/1
targets: [tiles.json]
machine: small.yaml
axes:
  dram.t_setup_cycles: [10, 50]
  te.macs_per_cycle: {from: 64, to: 1024, count: 3, scale: log}
"""

#: 240 points
GRID = """\
schema: kernbench/sweep/1
targets: [tiles.json]
machine: small.yaml
axes:
  dram.t_setup_cycles: {from: 1, to: 60}
  te.macs_per_cycle: [64, 128, 256, 512]
"""


def write_spec(folder: Path, text: str = SPEC, name: str = "s.yaml") -> Path:
    """A spec with the samples of the command line beside it."""
    write_samples(folder)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def run_spec(path: Path, store: Path, executor: Executor | None = None, **options: object) -> Outcome:
    """Run a spec here, on two threads unless an executor is given; it may name benches beside it."""
    spec = load_spec(path, allow_code=path.parent)
    points = points_of(spec)
    with Store.write(store) as opened:
        keep_sweep(opened, points)
        chosen = executor or Threads(Work(spec.targets, spec.machines, spec.area), 2)
        return run_missing(points.points, opened, chosen, **options)  # type: ignore[arg-type]


def table_of(store: Path, sweep: str | None = None) -> bytes:
    """The table as CSV."""
    with Store.read(store) as opened:
        return csv_bytes(read_table(opened, sweep))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Whether a process is there, and more than a name that nobody has waited for."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stored_keys(store: str) -> set[str]:
    """The keys of completed results in a store, which must be sound."""
    with closing(sqlite3.connect(store)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {key for (key,) in database.execute("SELECT key FROM results WHERE status = 'done'")}


def acknowledged(lines: str) -> set[str]:
    """The keys of results that `kbsim sweep run --lines` has reported."""
    return {json.loads(line)["key"] for line in lines.splitlines()}
