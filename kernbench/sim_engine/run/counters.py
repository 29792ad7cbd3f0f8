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
        out[name] = _engine(c, ("backpressure", "bank_conflict"))
    for name, c in zip(plan.compute, raw["compute"], strict=True):
        counted = {WORK[c["kind"]] if key == "work" else key: count for key, count in c.items() if key not in ("kind", "id")}
        out[name] = _engine(counted, ("bank_conflict",))
    for k, (name, c) in enumerate(zip(plan.resources, raw["resources"], strict=True)):
        # Links that ever had a member; on a whole system also channels.
        if c["busy"] or (not plan.whole and (k < plan.channels or k in plan.caches)):
            out[name] = c
    out.update(zip(plan.scratchpads, raw["spm"], strict=False))  # after them, scratchpads without banks
    return out


def _engine(counts: Mapping[str, int], stalls: tuple[str, ...]) -> dict[str, Any]:
    """The counters of an engine under the names of the core; stalled cycles by reason become one counter `stalled`."""
    own = {key: count for key, count in counts.items() if key not in stalls}
    cycles = {key: own.pop(key) for key in ("jobs", "busy", "idle")}
    return {**cycles, "stalled": {key: counts[key] for key in stalls}, **own}


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
