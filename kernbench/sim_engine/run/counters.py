"""The core's counters and warnings under the names of docs/model/formats.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernbench.cmdq.entries import Entry
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench_core.numbers import EngineType

WORK = {EngineType.TE: "macs", EngineType.VE: "ops", EngineType.COMPONENT: "launches"}


def named_counters(plan: Plan, raw: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Counters (docs/model/counters.md) by engine, channel, link and scratchpad; `raw`: lists in the order of the core."""
    out: dict[str, Any] = {}
    for name, c in zip(plan.dma, raw["dma"], strict=True):
        out[name] = {
            "jobs": c["jobs"],
            "busy": c["busy"],
            "idle": c["idle"],
            "stalled": {"backpressure": c["backpressure"], "bank_conflict": c["bank_conflict"]},
            "queue_full": c["queue_full"],
            "priority_deferred": c["priority_deferred"],
            "bytes": c["bytes"],
        }
    for name, c in zip(plan.compute, raw["compute"], strict=True):
        out[name] = {
            "jobs": c["jobs"],
            "busy": c["busy"],
            "idle": c["idle"],
            "stalled": {"bank_conflict": c["bank_conflict"]},
            WORK[c["kind"]]: c["work"],
        }
    for k, (name, c) in enumerate(zip(plan.resources, raw["resources"], strict=True)):
        # Links that ever had a member; on a whole system also channels.
        if c["busy"] or (not plan.whole and (k < plan.channels or k in plan.caches)):
            out[name] = c
    out.update(zip(plan.scratchpads, raw["spm"], strict=False))  # after them, scratchpads without banks
    return out


def overlap_warnings(entries: Sequence[Entry], starts: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """`Result.warnings` for `pairs` of positions (late, early), by cycle. `starts`: of each entry, negative if it did not
    start.
    """
    found = [
        {
            "code": "OVERLAP",
            "cycle": starts[late],
            "entry": entries[late].command_id,
            "with": entries[early].command_id,
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
