"""The core's counters under the names of docs/model/formats.md."""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.plan import Plan
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
        # Of links, those that ever had a member; of a whole system also of channels.
        if c["busy"] or (k < plan.channels and not plan.whole):
            out[name] = c
    out.update(zip(plan.scratchpads, raw["spm"], strict=False))  # behind them: what has no banks
    return out
