"""The tracks of a timeline: a heading for every unit, below it lanes for what it does and one track a counter.

Headings stand under the unit's parent in `TRACE_META.units`; a parent that is no unit itself (`sip0.cube0`) gets a heading
too. A unit without parent stands by itself where it does work, else under its component. What a unit is there for, its jobs
or flows, is drawn on its heading. What happens at the same time on one lane is drawn on as many tracks of one name as it
takes, so that nothing on a track overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kernbench.trace.exporters.items import Track, plain

RUN = "run"  #: heading of what belongs to no unit
MAX_DEPTH = 16  #: headings above each other
#: Component: the lane that is drawn on the heading of its units, and the heading above them where they have no parent.
_MAIN = {
    "CPU": ("commands", ""),
    "DMA": ("jobs", ""),
    "TE": ("jobs", ""),
    "VE": ("jobs", ""),
    "DRAM": ("flows", "DRAM channels"),
    "NOC": ("flows", "NoC links"),
    "SRAM": ("conflicts", "Scratchpads"),
}


class Tracks:
    """Makes tracks when they are first used; `fresh` has those that nobody has fetched yet."""

    def __init__(self, units: list[Mapping[str, Any]]) -> None:
        self.fresh: list[Track] = []
        self._parents: dict[str, str] = {}
        self._mains: dict[str, str] = {}
        for unit in units:
            name = str(unit.get("unit", ""))
            main, above = _MAIN.get(str(unit.get("component", "")), ("jobs", ""))
            self._parents.setdefault(name, str(unit.get("parent") or above))
            self._mains[name] = main
        self._order = {name: rank for rank, name in enumerate(self._parents)}
        self._groups: dict[str, Track] = {}
        self._lanes: dict[tuple[str, str], list[tuple[int, int]]] = {}  # track and the end of what is on it
        self._single: dict[tuple[str, str, str], int] = {}
        self._ranks: dict[int, int] = {}
        self._made = 0

    def lane(self, unit: str, name: str, start: int, end: int) -> int:
        """The track for something from `start` to `end`: of those that are free, the one that was used last."""
        slots = self._lanes.setdefault((unit, name), [])
        best = -1
        for i, (_, free) in enumerate(slots):
            if free <= start and (best < 0 or free > slots[best][1]):
                best = i
        if best < 0:
            best = len(slots)
            slots.append((self._slot(unit, name, best), 0))
        slots[best] = (slots[best][0], end)
        return slots[best][0]

    def _slot(self, unit: str, name: str, index: int) -> int:
        group = self._group(unit)
        if self._mains.get(unit) != name:
            return self._new(_label(unit, name), "lane", group).number
        if index == 0:
            return group.number
        beside = self._new(unit, "lane", group)._replace(parent=group.parent, rank=group.rank)
        self.fresh[-1] = beside
        return beside.number

    def single(self, unit: str, name: str, kind: Literal["lane", "counter"]) -> int:
        """The one track of that name: of instants, or of a counter."""
        key = (unit, name, kind)
        if key not in self._single:
            group = self._group(unit)
            on_heading = kind == "lane" and self._mains.get(unit) == name
            self._single[key] = group.number if on_heading else self._new(_label(unit, name), kind, group).number
        return self._single[key]

    def _group(self, unit: str) -> Track:
        """The heading of a unit, below those of its parents; a circle of parents ends where it closes."""
        path = [unit]
        while path[-1] not in self._groups and len(path) < MAX_DEPTH:
            above = self._above(path[-1])
            if not above or above in path:
                break
            path.append(above)
        parent: Track | None = None
        for name in reversed(path):
            if name not in self._groups:
                self._groups[name] = self._new(name, "group", parent)
            parent = self._groups[name]
        assert parent is not None
        return parent

    def _above(self, name: str) -> str:
        return self._parents[name] if name in self._parents else name.rpartition(".")[0]

    def _new(self, name: str, kind: Literal["group", "lane", "counter"], parent: Track | None) -> Track:
        self._made += 1
        above, top = (0, self._made) if parent is None else (parent.number, parent.top)
        rank = self._order.get(name, -1) + 1 if kind == "group" else 0
        if not rank:
            rank = self._ranks[above] = self._ranks.get(above, len(self._order) if kind == "group" else 0) + 1
        track = Track(self._made, plain(name), kind, above, top, rank)
        self.fresh.append(track)
        return track


def _label(unit: str, name: str) -> str:
    return name if unit == RUN else f"{unit} {name}"
