"""Instructions an op, by callgrind: no clock, cache or load changes them. `python -m tests.speed.instructions`.

Each figure is a long run less a short one, both in processes of their own, without garbage collection: its passes fall
where they fall.
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
from dataclasses import dataclass
from pathlib import Path

from tests.speed.ccl_rows import FLAT, SENDS, sends
from tests.speed.kernel_rows import PES, dots, loads, run

FLAT_MARK = 1.1  #: a send's instructions at the most ranks over those at the fewest
OPS = (32, 96)  #: a PE, of the short and the long run of a kernel: the short one has loaded each tile once


@dataclass(frozen=True)
class Cost:
    """One more op of a kind."""

    name: str
    ranks: int  #: or PEs that do the same
    instructions: float


def instruction_rows() -> list[Cost]:
    """Costs of a send by ranks, of a load and a product with the op log and without; none where there is no valgrind."""
    if shutil.which("valgrind") is None:
        return []
    found = [_cost("send", count, 1, 1 + SENDS // (8 * count)) for count in (FLAT[0], FLAT[-1])]
    return [*found, *(_cost(name, PES, *OPS) for name in KERNELS)]


def instruction_table(rows: list[Cost]) -> str:
    """The rows for a person."""
    if not rows:
        return "instructions an op: not counted, as there is no valgrind here"
    lines = ["instructions an op (callgrind), a long run less a short one"]
    for row in rows:
        kind = "ranks" if row.name == "send" else "PEs"
        lines.append(f"  {row.name:28} {row.ranks:6,} {kind:5} {row.instructions:10,.0f}")
    counts = [row.instructions for row in rows if row.name == "send"]
    ratio = counts[-1] / counts[0]
    held = "holds" if ratio <= FLAT_MARK else "DOES NOT HOLD"
    return "\n".join([*lines, f"  a send, last over first: {ratio:.2f}, mark {FLAT_MARK}: {held}"])


def _kernel(kernel: Callable[..., None], logged: bool) -> Callable[[int, int], None]:
    return lambda _, count: run(kernel, count, logged)


KERNELS: dict[str, Callable[[int, int], None]] = {
    "load, with the op log": _kernel(loads, True),
    "load, without": _kernel(loads, False),
    "product, with the op log": _kernel(dots, True),
    "product, without": _kernel(dots, False),
}
KINDS: dict[str, Callable[[int, int], None]] = {"send": sends, **KERNELS}


def _cost(name: str, ranks: int, few: int, many: int) -> Cost:
    short, long = (_count(name, ranks, count) for count in (few, many))
    return Cost(name, ranks, (long - short) / ((many - few) * ranks))


def _count(name: str, ranks: int, count: int) -> int:
    """Instructions of a whole process."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "counts"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={kept}"]
        told = [*tool, sys.executable, "-m", "tests.speed.instructions", name, str(ranks), str(count)]
        subprocess.run(told, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"})
        total = re.search(r"^(?:summary|totals): (\d+)", kept.read_text(encoding="utf-8"), re.MULTILINE)
    assert total is not None
    return int(total[1])


if __name__ == "__main__":
    if len(sys.argv) > 1:  # in a process under callgrind
        gc.disable()
        KINDS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
    else:
        print(instruction_table(instruction_rows()))
