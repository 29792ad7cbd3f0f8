"""How a process of a pool is started: it finds the modules that its parent finds, and none in the directory that it runs in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kernbench.common

SAFE = "PYTHONSAFEPATH"  #: what `-P` is in the environment
#: `python -m` and `python -c` put the current directory on the path, before the standard library; `-P` leaves it out.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from kernbench.sweep.executors.worker import main
sys.exit(main(sys.argv[1:]))
"""


def worker_command(*arguments: str) -> list[str]:
    """The command of a worker with these arguments."""
    return [sys.executable, "-P", "-c", _START, json.dumps(search_path()), *arguments]


def search_path() -> list[str]:
    """Python's path without the current directory, `""`, and what else is relative to it; kernbench itself stays on it."""
    path = [place for place in sys.path if os.path.isabs(place)]
    own = str(package_folder().parent)
    if own not in path and any(os.path.abspath(place) == own for place in sys.path):
        path.append(own)  # behind all others: beside kernbench there may be more
    return path


@contextmanager
def safe_processes() -> Iterator[None]:
    """Processes of Python that others start in here, as `multiprocessing` does with `python -c`, do the same."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE, None)
        else:
            os.environ[SAFE] = before


def package_folder() -> Path:
    """Where this kernbench is."""
    return Path(kernbench.common.__file__).resolve().parents[1]
