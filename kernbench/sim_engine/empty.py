"""The warning of a run in which nothing ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.cmdq.program import Program
from kernbench.common import naming


def empty_warnings(
    program: Program, status: str, counters: Mapping[str, Any], components: Mapping[str, Mapping[str, int]]
) -> list[dict[str, Any]]:
    """`Result.warnings` of a run that is over and had no job: its program has none, or its bench launched nothing."""
    others = [counts for name, counts in components.items() if name != naming.HOST]
    if status != "done" or not program.nothing or any(one.get("jobs") for one in (*counters.values(), *others)):
        return []
    what = "nothing was launched" if naming.HOST in components else f"the program has {program.nothing}"
    return [{"code": "EMPTY", "cycle": 0, "message": f"{what}: nothing ran"}]
