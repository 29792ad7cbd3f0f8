"""Mutated files of every format that is read: the short form of the fuzzer. `make fuzz` is the long one (docs/fuzzing.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.property.fuzz.campaign import FORMATS

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 4  # of each format
SEED = 24

#: Formats whose readers are known to break, and why: taken out when they are repaired.
PENDING: dict[str, str] = {}


def run_fuzzer(keep: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests.property.fuzz`."""
    command = [sys.executable, "-m", "tests.property.fuzz", "--jobs", "1", "--keep", str(keep), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def counts(said: str) -> dict[str, tuple[int, int, int]]:
    """By format: how many inputs there were, and how many of them ran and were refused."""
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in rows if row and row[0] in FORMATS}


def test_nothing_breaks(tmp_path: Path) -> None:
    """Mutated files, and a link, a pipe or a folder in the place of a file for every reader. One process imports all once."""
    assert set(PENDING) <= set(FORMATS)
    names = [name for name in FORMATS if name not in PENDING]
    arguments = ["--formats", ",".join(names), "--each", str(INPUTS), "--seed", str(SEED), "--bases", "2", "--kinds", "1"]
    done = run_fuzzer(tmp_path / "keep", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "special" in done.stdout
    found = counts(done.stdout)
    assert list(found) == names
    for name, (inputs, ran, refused) in found.items():
        assert inputs >= INPUTS and ran and refused, name  # neither is all refused, nor does nothing change anything
