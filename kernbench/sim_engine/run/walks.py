"""Which walk a run takes: the plain model alone, or the model with its fast paths."""

from __future__ import annotations

import os

from kernbench.common.errors import InputError, Problem

WALKS = ("plain", "fast")
VARIABLE = "KERNBENCH_WALK"


def walk_of(asked: str | None, where: str = "walk") -> str:
    """The walk that is asked for, else that of the environment variable KERNBENCH_WALK, else `fast`.

    InputError where it is neither `plain` nor `fast`.
    """
    if asked is None:
        asked, where = os.environ.get(VARIABLE) or "fast", VARIABLE
    if asked not in WALKS:
        raise InputError(Problem("walk of the run", f"it must be one of {', '.join(WALKS)}", where, asked))
    return asked
