"""Who waits for what when nothing can ever happen again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kernbench.cmdq import Program
from kernbench.cmdq.depend import predecessors
from kernbench.sim_engine.result import EntryTimes


class PeQueues(Protocol):
    """Queues between PEs."""

    def waits(self) -> list[dict[str, Any]]:
        """For each PE that cannot go on: `rank` and `waits_for` (ranks), `reason` (message, credit), where, and `circle`."""

    def unreceived(self, cycle: int) -> list[dict[str, Any]]:
        """A warning for each queue with messages that nobody received."""


def who_waits(
    program: Program, times: Sequence[EntryTimes], gate: int, queues: PeQueues | None = None
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
