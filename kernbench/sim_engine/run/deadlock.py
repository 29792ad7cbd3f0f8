"""Who waits for what when nothing can ever happen again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from kernbench.cmdq import Entry, Program
from kernbench.cmdq.depend import predecessors
from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.result import EntryTimes
from kernbench.sim_engine.run.state import EngineState, MachineState


class PeQueues(Protocol):
    """Queues between PEs."""

    def waits(self) -> list[dict[str, Any]]:
        """For each PE that cannot go on: `rank` and `waits_for` (ranks), `reason` (message, credit), where, and `circle`."""

    def unreceived(self, cycle: int) -> list[dict[str, Any]]:
        """A warning for each queue with messages that nobody received."""


class OnItsWay:
    """What jobs wait for that were issued and have not ended: an engine, a component in its place, a channel's bus, banks."""

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
    program: Program, times: Sequence[EntryTimes], gate: int, on_its_way: OnItsWay, queues: PeQueues | None = None
) -> list[dict[str, Any]]:
    """For each entry that has not ended, in file order: `waits_for` (ids), `since` (cycle) and a `reason`.

    `gate` is the position of the first barrier that is not complete, or -1. An entry waits since the last of the things that it
    waited for and got; 0 where it got none. Behind them stand PEs that wait at their queues.
    """
    entries = program.entries
    before = predecessors(entries)
    out = []
    for entry, time in zip(entries, times, strict=True):
        if time.end is not None:
            continue
        if time.issue is not None:
            ids, since, reason = on_its_way.wait(entry, time)
            out.append({"id": entry.id, "opcode": entry.opcode, "waits_for": ids, "since": since, "reason": reason})
            continue
        missing = [i for i in before[entry.index] if times[i].end is None]
        got = [end for i in before[entry.index] if (end := times[i].end) is not None]
        reason = "dependency"
        if entry.opcode == "END" and not missing:
            missing = [i for i in range(entry.index) if times[i].end is None]
            reason = "everything before END"
        elif not missing and 0 <= gate < entry.index:
            missing = [gate]
            reason = "barrier"
        out.append(
            {
                "id": entry.id,
                "opcode": entry.opcode,
                "waits_for": [entries[i].id for i in missing],
                "since": max(got, default=0),
                "reason": reason,
            }
        )
    return out if queues is None else [*out, *queues.waits()]


def _held(one: dict[str, Any]) -> str:
    if not one["held"]:
        return ""
    return (
        f"; the message was sent ({one['held']}), and no slot is free for it: let go of tensors that were received, "
        "give recv a copy_to, or install more slots"
    )


def wait_lines(waiting: Sequence[dict[str, Any]]) -> list[str]:
    """PEs that wait for each other as sentences: the circle first, then what each PE waits for, those in the circle first."""
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
