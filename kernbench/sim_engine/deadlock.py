"""Who waits for what when nothing can ever happen again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.cmdq import Program
from kernbench.cmdq.depend import predecessors
from kernbench.sim_engine.result import EntryTimes


def who_waits(program: Program, times: Sequence[EntryTimes], gate: int) -> list[dict[str, Any]]:
    """For each entry that has not ended, in file order: `waits_for` (ids), `since` (cycle) and a `reason`.

    `gate` is the position of the first barrier that is not complete, or -1. An entry waits since the last of the things that it
    waited for and got; 0 where it got none.
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
    return out
