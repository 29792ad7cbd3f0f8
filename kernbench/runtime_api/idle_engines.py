"""Which engines of PEs never had work beside others that did, and why: what the notes of a run say of them."""

from __future__ import annotations

from collections.abc import Iterable

from kernbench.common import naming
from kernbench.common.words import counted
from kernbench.sim_engine.summary import EngineUse

_NAMES = {"te": ("tensor engine", "product"), "ve": ("vector engine", "step")}


def idle_engines(uses: Iterable[EngineUse]) -> list[str]:
    """A line for each kind of which a PE left engines without work, of the PE that left most.

    A job goes to the engine with the fewest jobs that have not ended: as many have work as jobs were under way at a time.
    """
    found: dict[str, dict[str, list[EngineUse]]] = {kind: {} for kind in _NAMES}
    for use in uses:
        if use.kind in found:
            found[use.kind].setdefault(naming.parent(use.name), []).append(use)
    return [line for kind, places in found.items() if (line := _line(kind, places))]


def _line(kind: str, places: dict[str, list[EngineUse]]) -> str:
    used = {place: sum(use.jobs > 0 for use in engines) for place, engines in places.items()}
    lacking = [place for place, engines in places.items() if 0 < used[place] < len(engines)]
    if not lacking:
        return ""
    place = min(lacking, key=lambda one: used[one])
    engine, job = _NAMES[kind]
    jobs, there = sum(use.jobs for use in places[place]), len(places[place])
    line = f"{used[place]} of {counted(there, engine)}{f' of {place}' if place else ''} had work: "
    if jobs == used[place]:
        return f"{line}the kernels had {counted(jobs, job)} in all; smaller blocks make more"
    return f"{line}the kernels had at most {counted(used[place], job)} under way at a time"
