"""Which entries waited although nothing that they depend on was missing, how long, and for what.

A job that is issued when its dependencies have ended, and starts when it is issued, waits for nothing. What lies
between is one of three waits:

    barrier      from the end of the last dependency (0 without one) to the end of the last barrier before it in the
                 file; all entries that wait for one barrier are one wait, that of the entry that waited longest
    issue width  from there to its issue: others filled the cycle's `control.issue_width`
    queue        from its issue to its start: its engine was taken

A wait that has not ended is counted up to the current cycle.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kernbench.cmdq import Program
from kernbench.cmdq.depend import predecessors
from kernbench.sim_engine.result import EntryTimes, Result

Reason = Literal["queue", "barrier", "issue width"]


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait of one entry."""

    reason: Reason
    index: int  #: of the entry in the program
    id: int
    opcode: str
    engine: str  #: that runs the entry
    since: int
    until: int | None  #: None: it still waits
    cycles: int
    others: int = 0  #: further entries that wait for the same barrier
    behind: int | None = None  #: id of the barrier, or of the job whose end let it start, as far as it is known
    behind_opcode: str = ""


def waits_of(result: Result, program: Program, units: Sequence[str]) -> list[Wait]:
    """Every wait of the run, in file order; `units`: who runs each entry. `behind` of queue waits is for `longest_waits`."""
    times, entries = result.entries, program.entries
    found: list[Wait] = []
    at_barrier: dict[int, int] = {}  # barrier: position of its wait in `found`
    gate: int | None = None
    for entry, before in zip(entries, predecessors(entries), strict=True):
        if entry.opcode == "BARRIER":
            gate = entry.index
        if entry.engine == "control":
            continue
        ends = [times[i].end for i in before]
        ready = max((end for end in ends if end is not None), default=0)
        if None in ends:
            continue
        issue, start = times[entry.index].issue, times[entry.index].start
        blank = Wait("queue", entry.index, entry.id, entry.opcode, units[entry.index], 0, None, 0)
        passed = None if gate is None else times[gate].end
        if gate is not None and (passed is None or passed > ready):
            wait = _span(replace(blank, reason="barrier", behind=entries[gate].id), ready, passed, result.cycles)
            _add_to_barrier(found, at_barrier, gate, wait)
            ready = result.cycles if passed is None else passed
        if issue is None or issue > ready:
            found.append(_span(replace(blank, reason="issue width"), ready, issue, result.cycles))
        if issue is not None:
            found.append(_span(blank, issue, start, result.cycles))
    return [wait for wait in found if wait.cycles]


def _span(wait: Wait, since: int, until: int | None, now: int) -> Wait:
    return replace(wait, since=since, until=until, cycles=(now if until is None else until) - since)


def _add_to_barrier(found: list[Wait], at_barrier: dict[int, int], gate: int, wait: Wait) -> None:
    """Keep of all waits for a barrier the longest, and the number of the others."""
    if gate not in at_barrier:
        at_barrier[gate] = len(found)
        found.append(replace(wait, behind_opcode="BARRIER"))
        return
    known = found[at_barrier[gate]]
    longer = wait if wait.cycles > known.cycles else known
    found[at_barrier[gate]] = replace(longer, behind_opcode="BARRIER", others=known.others + 1)


def longest_waits(waits: Sequence[Wait], result: Result, units: Sequence[str], count: int) -> list[Wait]:
    """The `count` longest, falling, ties in file order, each with what it waited for."""
    longest = heapq.nsmallest(count, waits, key=lambda wait: (-wait.cycles, wait.index))
    runs = {wait.engine: _runs(wait.engine, result, units) for wait in longest if wait.reason == "queue"}
    return [_blamed(wait, runs[wait.engine]) if wait.reason == "queue" else wait for wait in longest]


def _runs(engine: str, result: Result, units: Sequence[str]) -> list[EntryTimes]:
    """The started jobs of an engine by their ends; those that have not ended come last."""
    never = result.cycles + 1
    mine = [times for times, unit in zip(result.entries, units, strict=True) if unit == engine]
    return sorted((times for times in mine if times.start is not None), key=lambda times: _end(times, never))


def _end(times: EntryTimes, never: int) -> int:
    return never if times.end is None else times.end


def _blamed(wait: Wait, runs: list[EntryTimes]) -> Wait:
    """With the job of the engine whose end was the last before the start; for a wait that goes on, a job that runs."""
    behind = None
    if wait.until is None:
        behind = next((times for times in runs if times.end is None), None)
    else:
        never = wait.until + 1
        last = bisect_right(runs, wait.until, key=lambda times: _end(times, never))
        if last and _end(runs[last - 1], never) > wait.since:
            behind = runs[last - 1]
    return wait if behind is None else replace(wait, behind=behind.id, behind_opcode=behind.opcode)
