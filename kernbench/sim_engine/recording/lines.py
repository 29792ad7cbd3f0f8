"""Lines that Python writes: few, and of any event type."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from kernbench.cmdq.entries import Entry
from kernbench.sim_engine.run.commands import Command
from kernbench.trace.schema import BY_NAME

#: Fields of an entry that stand on all its events, where they are not 0.
COMMON = ("core_id", "npu_id", "tenant_id", "thread_id")

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def text(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return _ENCODE(value).encode()


def line(name: str, cycle: int, fields: dict[str, Any], entry: Entry | Command | None = None) -> bytes:
    """One event and a line feed: its fields in the order of the schema, without those that are None. `entry`: whose it is."""
    out: dict[str, Any] = {"event_type": name, "t_cycle": cycle}
    out.update((f.name, fields[f.name]) for f in BY_NAME[name].fields if fields.get(f.name) is not None)
    if entry is not None:
        out.update(common_of(entry))
    return text(out) + b"\n"


def common_of(entry: Entry | Command) -> dict[str, int]:
    """The common fields of an entry that are not what TRACE_META.defaults says."""
    return {name: entry.meta[name] for name in COMMON if entry.meta.get(name)}


def exact_text(number: Fraction) -> str:
    """A rational as text: an integer, the shortest decimal of the nearest float where that is exact, else `p/q`."""
    if number.denominator == 1:
        return str(number.numerator)
    shortest = repr(number.numerator / number.denominator)
    return shortest if Fraction(shortest) == number else f"{number.numerator}/{number.denominator}"
