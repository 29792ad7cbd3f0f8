"""Instructions of one more op, counted by callgrind. `python -m tests.speed.instructions`.

Neither the clock nor other work of the computer changes these figures.

An op costs the difference of a long and a short run, without garbage collection. Both runs are in one process, after a run that
fills the caches of the process. Between the runs, the process calls a function that nobody else calls; callgrind writes what it
has counted whenever this function begins. Sends and kernels have a process each, and both run at the same time.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.speed.ccl_rows import sends
from tests.speed.goals import Goal, goal_lines
from tests.speed.kernel_rows import PES, PRELOADED, dots, loads, run

FLAT_GOAL = 1.1  #: a send's instructions at the most ranks over those at the fewest
SYSTEM = "sip_4x4"  #: for sends: a larger one takes longer to build
RANKS = (16, 128)
SENDS = 2048  #: in all, whatever the ranks, that the long run has more than the short one
OPS = (PRELOADED, 2 * PRELOADED)  #: a PE, of the short and the long run of a kernel: the short one has loaded each tile once
RUNS = (0, 0, 1)  #: of a kind: one that fills the caches of the process, the short one, the long one
MARK = "getsid"  #: of the C library; `os.getsid` calls it


@dataclass(frozen=True)
class Cost:
    """One more op of a kind."""

    name: str
    ranks: int  #: or PEs that do the same
    instructions: float


@dataclass(frozen=True)
class Kind:
    """An op, and how to run some of it."""

    name: str
    ranks: int
    counts: tuple[int, int]  #: ops of a rank, in the short and in the long run
    run: Callable[[int], object]


def _kernel(name: str, kernel: Callable[..., None], logged: bool) -> Kind:
    return Kind(name, PES, OPS, lambda count: run(kernel, count, logged))


GROUPS = {
    "sends": tuple(
        Kind("send", ranks, (1, 1 + SENDS // ranks), lambda count, ranks=ranks: sends(ranks, count, SYSTEM))  # type: ignore[misc]
        for ranks in RANKS
    ),
    "kernels": (
        _kernel("load, with the op log", loads, True),
        _kernel("load, without", loads, False),
        _kernel("product, with the op log", dots, True),
        _kernel("product, without", dots, False),
    ),
}  #: kinds that are counted in one process


def missing() -> str:
    """Why nothing can be counted here, or nothing."""
    return "" if shutil.which("valgrind") else "there is no valgrind"


def instruction_rows() -> list[Cost]:
    """Costs of a send by ranks, of a load and a product with the op log and without; none where nothing can be counted."""
    if missing():
        return []
    with ThreadPoolExecutor(len(GROUPS)) as pool:
        return [cost for costs in pool.map(_costs, GROUPS) for cost in costs]


def _costs(group: str) -> list[Cost]:
    """Of the kinds of a group, in a process under callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        tool = [
            "valgrind",
            "--tool=callgrind",
            f"--dump-before={MARK}",
            "--dump-line=no",
            f"--callgrind-out-file={folder}/counts",
        ]
        told = [*tool, sys.executable, "-m", "tests.speed.instructions", group]
        done = subprocess.run(told, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})
        if done.returncode:
            raise RuntimeError(f"{' '.join(told)} failed:\n{done.stderr}")
        kinds = GROUPS[group]
        parts = [_total(Path(folder) / f"counts.{part}") for part in range(1, 1 + len(RUNS) * len(kinds))]
    _, short, long = (parts[turn :: len(RUNS)] for turn in range(len(RUNS)))
    return [
        Cost(kind.name, kind.ranks, (many - few) / ((kind.counts[1] - kind.counts[0]) * kind.ranks))
        for kind, few, many in zip(kinds, short, long, strict=True)
    ]


def _total(counts: Path) -> int:
    """Of the part of the run that callgrind wrote into this file."""
    total = re.search(r"^(?:summary|totals): (\d+)", counts.read_text(encoding="utf-8"), re.MULTILINE)
    assert total is not None, counts
    return int(total[1])


def count(group: str) -> None:
    """Run each kind three times, with a mark after each run."""
    gc.disable()
    for kind in GROUPS[group]:
        for turn in RUNS:
            kind.run(kind.counts[turn])
            os.getsid(0)


def instruction_table(rows: list[Cost]) -> str:
    """The rows for a person."""
    if not rows:
        return f"  not counted: {missing()}"
    kinds = {True: "ranks", False: "PEs"}
    return "\n".join(
        f"  {row.name:26} {row.ranks:6,} {kinds[row.name == 'send']:5} {row.instructions:10,.0f} instructions" for row in rows
    )


def instruction_goals(rows: list[Cost]) -> list[Goal]:
    """A send takes as many instructions on many ranks as on few."""
    counts = [row.instructions for row in rows if row.name == "send"]
    ratio = f"instructions of a send between {RANKS[-1]} ranks over {RANKS[0]}"
    return [Goal(ratio, counts[-1] / counts[0], FLAT_GOAL, "times")] if counts else []


if __name__ == "__main__":
    if len(sys.argv) > 1:  # in a process under callgrind
        count(sys.argv[1])
    else:
        FOUND = instruction_rows()
        print(f"{instruction_table(FOUND)}\n{goal_lines(instruction_goals(FOUND))}")
