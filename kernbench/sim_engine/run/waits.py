"""Entries that waited although their dependencies had ended, with the length and the reason of each wait.

A job that is issued when its dependencies have ended, and starts when it is issued, waits for nothing. Between them, there are
four kinds of waits:

    enqueue      from the end of the last dependency (0 without one) to the arrival in the queue of an entry that the host
                 writes
    barrier      from there to the end of the last barrier before it in the file; all entries that wait for one barrier are
                 one wait, that of the entry that waited longest
    issue width  from there to its issue: others filled the cycle's `control.issue_width`
    queue        from its issue to its start: its engine was taken

A wait that has not ended is counted up to the current cycle.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from kernbench.cmdq import Entry, Program
from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.result import EntryTimes, Result

if TYPE_CHECKING:
    from kernbench.sim_engine.run.state import EngineState, MachineState

Reason = Literal["queue", "barrier", "issue width", "enqueue"]


class Wait(msgspec.Struct, frozen=True):
    """One wait of one entry."""

    reason: Reason
    index: int  #: of the entry in the program
    id: int
    opcode: str
    engine: str  #: that runs the entry
    since: int
    until: int | None  #: None while it waits
    cycles: int
    others: int = 0  #: further entries that wait for the same barrier
    behind: int | None = None  #: id of the barrier, or of the job whose end allowed it to start, if known
    behind_opcode: str = ""


def waits_of(
    result: Result, program: Program, units: Sequence[str], arrivals: Sequence[int | None] | None = None
) -> list[Wait]:
    """Every wait of the run, in file order. `behind` of queue waits is for `longest_waits`.

    `units`: who runs each entry. `arrivals`: the cycle in which each entry arrives in the queue, or None if the host has not
    begun to write it.
    """
    times, entries = result.entries, program.entries
    found: list[Wait] = []
    at_barrier: dict[int, int] = {}  # by barrier: index of its wait in `found`
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
        arrival = 0 if arrivals is None else arrivals[entry.index]
        if arrival is None or arrival > ready:
            here = None if arrival is None or arrival > result.cycles else arrival
            found.append(_span(replace(blank, reason="enqueue"), ready, here, result.cycles))
            if here is None:
                continue
            ready = here
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


def longest_waits(
    waits: Sequence[Wait], result: Result, units: Sequence[str], count: int, arrays: Collection[str] = ()
) -> list[Wait]:
    """The `count` longest waits, in descending order and then in file order, each with the event that it waited for.
    `arrays`: engines whose jobs overlap."""
    longest = heapq.nsmallest(count, waits, key=lambda wait: (-wait.cycles, wait.index))
    runs = {wait.engine: _runs(wait.engine, result, units) for wait in longest if wait.reason == "queue"}
    found = []
    for wait in longest:
        if wait.reason == "queue" and wait.engine in arrays:
            found.append(_after_array(wait, runs[wait.engine]))
        else:
            found.append(_blamed(wait, runs[wait.engine]) if wait.reason == "queue" else wait)
    return found


def _after_array(wait: Wait, runs: list[EntryTimes]) -> Wait:
    """Includes the job that held the array up to the start: of the jobs that started before it, the last one."""
    before = [times for times in runs if times.start is not None and (wait.until is None or times.start < wait.until)]
    behind = max(before, key=lambda times: times.start or 0, default=None)
    return wait if behind is None else replace(wait, behind=behind.id, behind_opcode=behind.opcode)


def _runs(engine: str, result: Result, units: Sequence[str]) -> list[EntryTimes]:
    """The started jobs of an engine by their ends; those that have not ended come last."""
    never = result.cycles + 1
    mine = [times for times, unit in zip(result.entries, units, strict=True) if unit == engine]
    return sorted((times for times in mine if times.start is not None), key=lambda times: _end(times, never))


def _end(times: EntryTimes, never: int) -> int:
    return never if times.end is None else times.end


def _blamed(wait: Wait, runs: list[EntryTimes]) -> Wait:
    """Includes the job of the engine that ended last before the start; for a wait that is not over, a running job."""
    behind = None
    if wait.until is None:
        behind = next((times for times in runs if times.end is None), None)
    else:
        never = wait.until + 1
        last = bisect_right(runs, wait.until, key=lambda times: _end(times, never))
        if last and _end(runs[last - 1], never) > wait.since:
            behind = runs[last - 1]
    return wait if behind is None else replace(wait, behind=behind.id, behind_opcode=behind.opcode)


class PeQueues(Protocol):
    """Queues between PEs."""

    def waits(self) -> list[dict[str, Any]]:
        """For each PE that cannot continue: `rank` and `waits_for` (ranks), `reason` (message, credit), where, and `circle`."""

    def unreceived(self, cycle: int) -> list[dict[str, Any]]:
        """A warning for each queue with messages that were not received."""


class InFlight:
    """The waits of jobs that were issued and have not ended: for an engine, a component that replaces it, the bus of a
    channel, or banks.
    """

    def __init__(self, plan: Plan, state: MachineState, components: Collection[str]) -> None:
        self.plan, self.components = plan, components
        self.engines: dict[str, EngineState] = {engine.name: engine for engine in state.engines}

    def wait(self, entry: Entry, time: EntryTimes) -> tuple[list[int], int, str]:
        """`waits_for`, `since` and `reason` of such an entry."""
        assert time.issue is not None
        since = time.issue if time.start is None else time.start
        name = self._engine(entry)
        if name in self.components:
            return [], since, f"component {name}"
        engine = self.engines[name]
        if time.start is None:
            at_work = [job.id for job in engine.jobs] if engine.entry is None else [engine.entry]
            return at_work, since, f"queue of {name}"
        flows = [flow for job in engine.jobs if job.id == entry.id for flow in job.flows]
        held = [flow.held_since for flow in flows if flow.held_since is not None]
        if held:
            return [], min(held), "scratchpad banks"
        channels = [flow.channel for flow in flows if flow.waits == "line" and flow.channel is not None]
        return [], since, f"the bus of {', '.join(channels)}" if channels else name

    def _engine(self, entry: Entry) -> str:
        if entry.engine == "dma":
            return self.plan.dma[self.plan.transfer(entry.index)["engine"]]
        return self.plan.compute[self.plan.service(entry.index)["engine"]]


def who_waits(
    program: Program,
    times: Sequence[EntryTimes],
    gate: int,
    in_flight: InFlight,
    queues: PeQueues | None = None,
    *,
    absent: Collection[int] = (),
) -> list[dict[str, Any]]:
    """For each entry that has not ended, in file order: `waits_for` (ids), `since` (cycle) and a `reason`.

    `gate` is the position of the first barrier that is not complete, or -1. `absent`: positions of entries that the host has
    not put into the queue. An entry waits since the last of its conditions that was met; since 0 if no condition was met. PEs
    that wait at their queues come after them.
    """
    entries = program.entries
    before = predecessors(entries)
    out: list[dict[str, Any]] = []
    for entry, time in zip(entries, times, strict=True):
        if time.end is not None:
            continue
        if time.issue is not None:
            ids, since, reason = in_flight.wait(entry, time)
            out.append({"id": entry.command_id, "opcode": entry.opcode, "waits_for": ids, "since": since, "reason": reason})
            continue
        missing = [i for i in before[entry.index] if times[i].end is None]
        got = [end for i in before[entry.index] if (end := times[i].end) is not None]
        reason = "dependency"
        if entry.index in absent and not missing:
            reason = "enqueue by the host"
        elif entry.opcode == "END" and not missing:
            missing = [i for i in range(entry.index) if times[i].end is None]
            reason = "everything before END"
        elif not missing and 0 <= gate < entry.index:
            missing = [gate]
            reason = "barrier"
        out.append(
            {
                "id": entry.command_id,
                "opcode": entry.opcode,
                "waits_for": list(dict.fromkeys(entries[i].command_id for i in missing)),
                "since": max(got, default=0),
                "reason": reason,
            }
        )
    if any(entry.meta.get("jobs", 1) > 1 for entry in entries):  # of several jobs of a command, the first says why
        out = list({one["id"]: one for one in reversed(out)}.values())[::-1]
    return out if queues is None else [*out, *queues.waits()]


def _held(one: dict[str, Any]) -> str:
    if not one["held"]:
        return ""
    return (
        f"; the message was sent ({one['held']}), and no slot is free for it: let go of tensors that were received, "
        "give recv a copy_to, or install more slots"
    )


def wait_lines(waiting: Sequence[dict[str, Any]]) -> list[str]:
    """PEs that wait for each other, as sentences: first the wait-for cycle, then the wait of each PE. PEs of the cycle come
    first."""
    pes = [one for one in waiting if "rank" in one]
    around = sorted((one for one in pes if one["circle"] is not None), key=lambda one: int(one["circle"]))
    stuck = {one["rank"] for one in pes}
    lines = []
    if around:
        ranks = [*(f"rank {one['rank']}" for one in around), f"rank {around[0]['rank']}"]
        lines.append(f"they wait in a circle: {' -> '.join(ranks)}")
    for one in [*around, *(one for one in pes if one["circle"] is None)]:
        what = "a message" if one["reason"] == "message" else "a free slot"
        side = f"{one['direction']}" + (f" of plane {one['plane']}" if one["plane"] else "")
        last = f"last received: {one['last_send']} by {one['last_recv']}" if one["last_recv"] else "nothing was received"
        over = "" if one["waits_for"] in stuck else f"; rank {one['waits_for']} runs no program"
        lines.append(
            f"rank {one['rank']} ({one['pe']}) waits for {what} of rank {one['waits_for']}, {side}, since cycle "
            f"{one['since']:,} ({one['line']}); {one['used']} of {one['slots']} slots are taken, {last}{over}{_held(one)}"
        )
    return lines
