"""Warnings of jobs that started while another still used their part of a scratchpad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kernbench.cmdq.entries import Entry


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
