"""The lines of a reference trace: every event gets its place in the order, and its fields the order of the schema."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, NamedTuple

from kernbench.trace import schema

DMA, TE, VE, MEMORY, TRACE, CONTROL = range(6)  # kinds of engines, in the order of lines
BEFORE_ALL = -1  # in place of a job: before the jobs of its kind and engine
NO_CHANNEL = -1
COMMON = ("core_id", "npu_id", "tenant_id", "thread_id")  # of a command; 0 where its entry does not say


class Who(NamedTuple):
    """Whose event it is: the part of the order that no cycle, phase or event type decides."""

    kind: int
    engine: int = 0
    job: int = 0
    channel: int = NO_CHANNEL  # DRAM channel of a flow's events


class Lines:
    """Collects events in any order of places; equal places stay in the order in which they came."""

    def __init__(self, level: str, program: dict[str, Any]) -> None:
        self.level = schema.LEVELS.index(level)
        self.common: dict[int, dict[str, int]] = {}
        for index, entry in enumerate(program["cmdq"]):
            given = {name: entry[name] for name in COMMON if entry.get(name, 0) != 0}
            self.common[entry.get("id", index)] = given
        self.placed: list[tuple[tuple[int, ...], bytes]] = []

    def wants(self, level: str) -> bool:
        """Whether events of `level` are written."""
        return schema.LEVELS.index(level) <= self.level

    def add(
        self,
        name: str,
        cycle: int,
        who: Who,
        fields: dict[str, Any],
        phase: int | None = None,
        level: str | None = None,
    ) -> None:
        """One event, if the trace's level holds it; `phase` and `level` where they are not those of the schema's table."""
        event = schema.BY_NAME[name]
        if not self.wants(event.level if level is None else level):
            return
        place = (cycle, event.phase if phase is None else phase, *who, event.number)
        self.placed.append((place, line(name, cycle, fields, self.common.get(fields.get("cmd_id", -1), {}))))

    def sorted(self) -> list[bytes]:
        """All lines between the first and the last of the file."""
        return [text for _, text in sorted(self.placed, key=lambda item: item[0])]


def line(name: str, cycle: int, fields: dict[str, Any], common: dict[str, int] | None = None) -> bytes:
    """One event as a line: its fields in the order of the schema, without those that are None."""
    event = schema.BY_NAME[name]
    out: dict[str, Any] = {"event_type": name, "t_cycle": cycle}
    left = dict(fields)
    for field in event.fields:
        value = left.pop(field.name, None)
        if value is not None:
            out[field.name] = value
        elif field.required:
            raise ValueError(f"{name} at cycle {cycle} has no {field.name}")
    if left:
        raise ValueError(f"{name} has no field {', '.join(left)}")
    out.update(common or {})
    return json.dumps(out, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def exact_text(number: Fraction) -> str:
    """A rational as text: an integer, the shortest decimal of the nearest float where that is exact, else `p/q`."""
    if number.denominator == 1:
        return str(number.numerator)
    shortest = repr(number.numerator / number.denominator)
    return shortest if Fraction(shortest) == number else f"{number.numerator}/{number.denominator}"
