"""Run test files of others in a process of their own, and read the outcomes of their cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[2]


class NothingRan(Exception):
    """No case of a file ran; the text has what pytest says."""


def outcomes_of(
    checkout: Path, files: Sequence[Path], settings: Mapping[str, Any], *, chosen: str = "", seconds: int | None = None,
    paths: Sequence[Path] = (), environment: Mapping[str, str] = {},
) -> list[dict[str, Any]]:  # fmt: skip
    """The outcome of each case of some files of one folder, in the order in which they ran.

    `settings`: those of the plugin, by names without KB_PEERS_. `chosen`: cases by name, as `-k` of pytest. `seconds`: stop
    after that time. `paths`: folders that Python imports from. NothingRan if no case ran.
    """
    below, checkout = files[0].resolve().parent, checkout.resolve()
    names = ", ".join(one.name for one in files)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcomes"
        out.touch()
        places = [str(HERE), *map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
        given = {f"KB_PEERS_{name.upper()}": str(value) for name, value in settings.items()}
        own = {
            "TRITON_INTERPRET": "1",
            "TORCHDYNAMO_DISABLE": "1",  # torch.compile needs Triton's compiler
            "PYTHONPATH": os.pathsep.join(places),
            "KB_PEERS_CHECKOUT": str(checkout),
            "KB_PEERS_OUT": str(out),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider"]
        command += ["-p", "tests.triton_peers.plugin", "--rootdir", str(below), "--confcutdir", str(below), "-c", os.devnull]
        command += ["--import-mode=prepend", "--continue-on-collection-errors", *(["-k", chosen] if chosen else [])]
        command += [str(one.resolve()) for one in files]
        try:
            done = subprocess.run(
                command, env={**os.environ, **environment, **own, **given}, capture_output=True, text=True, check=False,
                timeout=seconds,
            )  # fmt: skip
            said = done.stdout[-3000:] + done.stderr[-2000:]
        except subprocess.TimeoutExpired:
            said = f"stopped after {seconds} s"
            print(f"{names}: {said}; the cases before that are counted", file=sys.stderr)
        found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    if not found:
        raise NothingRan(f"{names}: no case ran\n{said}")
    return found


def print_table(heads: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
    """A table whose first column is text and whose others are numbers."""
    cells = [[f"{one:,}" if isinstance(one, int) else str(one) for one in row] for row in [heads, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    for row in cells:
        print("  ".join([row[0].ljust(widths[0]), *(one.rjust(w) for one, w in zip(row[1:], widths[1:], strict=True))]))
