"""The core's counters under the names of FORMATS.md."""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.lower import resource_names
from kernbench.common import naming
from kernbench.config import NpuConfig


def named_counters(config: NpuConfig, raw: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Counters of MODEL section 10 by engine, channel, link and scratchpad; `raw`: lists in the order of the core's tables."""
    out: dict[str, Any] = {}
    for k, c in enumerate(raw["dma"]):
        out[naming.engine("dma", k)] = {
            "jobs": c["jobs"],
            "busy": c["busy"],
            "idle": c["idle"],
            "stalled": {"backpressure": c["backpressure"], "bank_conflict": c["bank_conflict"]},
            "queue_full": c["queue_full"],
            "priority_deferred": c["priority_deferred"],
            "bytes": c["bytes"],
        }
    for c in raw["compute"]:
        kind, work = ("te", "macs") if c["kind"] == 1 else ("ve", "ops")
        out[naming.engine(kind, c["id"])] = {
            "jobs": c["jobs"],
            "busy": c["busy"],
            "idle": c["idle"],
            "stalled": {"bank_conflict": c["bank_conflict"]},
            work: c["work"],
        }
    for name, c in zip(resource_names(config), raw["resources"], strict=True):
        if c["busy"] or name.startswith("dram."):  # of a mesh's links, those that ever had a member
            out[name] = c
    out[naming.SPM] = raw["spm"][0]
    return out
