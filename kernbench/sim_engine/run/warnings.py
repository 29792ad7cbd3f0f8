"""Warnings of jobs that started while another still used their part of a scratchpad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernbench.cmdq.entries import Entry
from kernbench.cmdq.program import Program
from kernbench.common import naming


def overlap_warnings(entries: Sequence[Entry], starts: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """`Result.warnings` of `pairs` of positions (late, early), by cycle; `starts`: of each entry, below 0 where it has none."""
    found = [
        {
            "code": "OVERLAP",
            "cycle": starts[late],
            "entry": entries[late].id,
            "with": entries[early].id,
            "message": f"{entries[late].where} starts while {entries[early].where} still runs, and their scratchpad "
            "ranges overlap where at least one writes",
        }
        for late, early in pairs
        if starts[late] >= 0
    ]
    return sorted(found, key=lambda w: (w["cycle"], w["entry"]))


def empty_warnings(
    program: Program, status: str, counters: Mapping[str, Any], components: Mapping[str, Mapping[str, int]]
) -> list[dict[str, Any]]:
    """`Result.warnings` of a run that is over and had no job: its program has none, or its bench launched nothing."""
    others = [counts for name, counts in components.items() if name != naming.HOST]
    if status != "done" or not program.nothing or any(one.get("jobs") for one in (*counters.values(), *others)):
        return []
    what = "nothing was launched" if naming.HOST in components else f"the program has {program.nothing}"
    return [{"code": "EMPTY", "cycle": 0, "message": f"{what}: nothing ran"}]
