"""Conditions that end a run early, and the walk that takes it there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kernbench.common.errors import InputError, Problem

FOREVER = 2**62  # [cycle]
_CONDITIONS = "end:ID, start:ID, stall, conflict or cycle:N"


def stops_of(until: str, position: Mapping[int, int]) -> tuple[int, dict[str, Any]]:
    """The limit and the stop condition of end:ID, start:ID, stall, conflict or cycle:N; `position`: of entries, by id."""
    if not isinstance(until, str):
        remedy = f'write until="cycle:{until}"' if isinstance(until, int) else ""
        raise InputError(Problem("Machine.run", f"it must be a text: {_CONDITIONS}", "until", until, remedy))
    kind, _, value = until.partition(":")
    if until in ("stall", "conflict"):
        return FOREVER, {until: True}
    if kind in ("end", "start", "cycle") and value.isascii() and value.isdigit() and len(value) < 19:
        if kind == "cycle":
            return int(value), {}
        if int(value) in position:
            return FOREVER, {f"{kind}_of": position[int(value)]}
        raise InputError(Problem("Machine.run", "no entry of the program has this id", "until", until))
    raise InputError(Problem("Machine.run", f"it must be {_CONDITIONS}", "until", until))


WALKS = ("plain", "fast")
VARIABLE = "KERNBENCH_WALK"


def walk_of(asked: str | None, where: str = "walk") -> str:
    """The requested walk; by default that of the environment variable KERNBENCH_WALK, or `fast`.

    InputError if it is neither `plain` nor `fast`.
    """
    if asked is None:
        asked, where = os.environ.get(VARIABLE) or "fast", VARIABLE
    if asked not in WALKS:
        raise InputError(Problem("walk of the run", f"it must be one of {', '.join(WALKS)}", where, asked))
    return asked
