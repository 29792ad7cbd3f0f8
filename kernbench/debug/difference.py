"""The first cycle in which two runs differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernbench.debug.state import State
from kernbench.debug.timeline import Timeline

CHUNK = 64  # [cycle] between two comparisons, before the first difference is known
HELD = 6  # lines of a difference in a text


@dataclass(frozen=True, slots=True)
class Difference:
    """The first cycle after which two runs differ."""

    cycle: int
    facts: tuple[tuple[str, Any, Any], ...]  #: name, value in this run, value in the other run

    def lines(self) -> list[str]:
        """The difference as text."""
        made = [f"the runs differ first after cycle {self.cycle:,}" if self.cycle else "the runs differ from the beginning"]
        made += [f"  {name}: {_text(here)} here, {_text(there)} there" for name, here, there in self.facts[:HELD]]
        return made + ([f"  and {len(self.facts) - HELD} more"] if len(self.facts) > HELD else [])


def _text(value: Any) -> str:
    return "none" if value is None or value == "" else f"{value:,}" if isinstance(value, int) else str(value)


def first_difference(here: Timeline, there: Timeline, progress: Callable[[int], None] | None = None) -> Difference | None:
    """Compare the states every 64 cycles, including counters and times of entries, and then cycle by cycle in the interval in
    which they differ.

    Counters only grow and times never change, so a difference in the work in between remains visible. None if there is no
    difference up to the end of both runs.
    """
    same, at = 0, 0
    while True:
        here.seek(at)
        there.seek(at)
        if _differs(here, there):
            break
        if at > here.cycle and at > there.cycle:
            return None
        if progress is not None:
            progress(at)
        same, at = at, at + CHUNK
    for cycle in range(same, at + 1):
        here.seek(cycle)
        there.seek(cycle)
        found = _differs(here, there)
        if found:
            return Difference(min(cycle, max(here.cycle, there.cycle)), found)
    raise AssertionError("a difference was found at the end of the chunk")


def _differs(here: Timeline, there: Timeline) -> tuple[tuple[str, Any, Any], ...]:
    ours, theirs = State(here).facts(), State(there).facts()
    if ours == theirs:
        return ()
    both = [name for name in ours if name in theirs or "entry[" in name]
    both += [name for name in theirs if name not in ours and "entry[" in name]
    return tuple((name, ours.get(name), theirs.get(name)) for name in both if ours.get(name) != theirs.get(name))
