"""The number of host threads that a run uses."""

from __future__ import annotations

import os

from kernbench.common.errors import InputError, Problem

MAX_THREADS = 1024
VARIABLE = "KERNBENCH_THREADS"


def threads_of(asked: int | None, where: str = "threads") -> int | None:
    """The requested number of threads; by default that of the environment variable KERNBENCH_THREADS, else None.

    InputError if it is not a number from 1 to MAX_THREADS.
    """
    given: object = asked
    if asked is None:
        given, where = os.environ.get(VARIABLE) or None, VARIABLE
        if given is None:
            return None
        asked = int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0
    if not 1 <= asked <= MAX_THREADS:
        raise InputError(Problem("threads of the run", f"it must be a number from 1 to {MAX_THREADS}", where, given))
    return asked
