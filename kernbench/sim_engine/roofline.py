"""Lower bounds of a kernel run from what it did: no schedule of the same work on the same machine takes fewer cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.common.units import ceil_div
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import BoundShare


@dataclass(frozen=True, slots=True)
class Roof:
    """One bound."""

    name: str  #: the channel or link, or the engines of a PE: `sip0.cube0.pe0 te`
    kind: str  #: DRAM, link, te, ve
    cycles: int


def roofs(result: Result, plan: Plan) -> list[Roof]:
    """The highest bound of each kind, falling.

    A channel or link needs its bytes over its capacity; the tensor (vector) engines of a PE need their busy cycles, spread over
    all of them.
    """
    found: dict[str, Roof] = {}
    for name, capacity in zip(plan.resources, plan.capacities, strict=True):
        if name in result.counters:
            kind = {"dram": "DRAM", "noc": "link"}[naming.counted(name)]
            _keep(found, Roof(name, kind, ceil_div(result.counters[name]["bytes"], capacity)))
    busy: dict[tuple[str, str], list[int]] = {}
    for name, counters in result.counters.items():
        kind = naming.counted(name)
        if kind in ("te", "ve"):
            busy.setdefault((naming.parent(name), kind), []).append(counters["busy"])
    for (place, kind), cycles in busy.items():
        _keep(found, Roof(f"{place} {kind}".strip(), kind, ceil_div(sum(cycles), len(cycles))))
    return sorted(found.values(), key=lambda roof: -roof.cycles)


def _keep(found: dict[str, Roof], roof: Roof) -> None:
    if roof.kind not in found or roof.cycles > found[roof.kind].cycles:
        found[roof.kind] = roof


def roof_share(result: Result, bounds: Sequence[Roof]) -> BoundShare:
    """The highest roof beside what the run took, and the others by their names."""
    best = bounds[0]
    others = tuple((roof.name, roof.cycles) for roof in bounds[1:] if roof.cycles)
    return BoundShare(best.name, best.cycles, result.cycles, others)
