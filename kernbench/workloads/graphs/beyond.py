"""Why a run takes longer than its roofline: the cycles beyond the largest bound, divided by reason.

The bound is the time of one kind of engine (or of the DRAM) with all of its necessary work at full rate. Every further cycle of
these engines is one of the following: further work, the first and last cycles of a job, a wait inside a job, or a cycle without
a job. The reason of a cycle without a job is the kind of engine that worked in this cycle. The parts are measured, and add up
to the cycles beyond the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: The reasons, in the order of `--json`.
REASONS = ("work", "ends", "waits", "uneven", "te", "ve", "dma", "none")
KINDS = ("te", "ve", "dma")


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a run. Times in cycles; `body` and `ends` are 0 for a transfer."""

    kind: str  #: `te`, `ve` or `dma`
    row: int  #: number of the node
    start: int
    end: int
    body: int = 0
    ends: int = 0  #: first and last cycles, in which the job does not stream


@dataclass(frozen=True, slots=True)
class ExcessCause:
    """The cycles beyond the bound that have the same reason, and the operator with the most of them."""

    reason: str
    cycles: int
    op: str
    of_op: int  #: [cycle]
    jobs: int = 0  #: number of jobs, for reasons that lie in jobs


class Timeline:
    """How many jobs of each kind are active between two events of a run."""

    def __init__(self, jobs: Sequence[Job], ends: Sequence[int]) -> None:
        starts = np.array([job.start for job in jobs], np.int64)
        stops = np.array([job.end for job in jobs], np.int64)
        times = np.unique(np.concatenate([[0], starts, stops, np.asarray(ends, np.int64)]))
        self.lengths = np.diff(times)
        self.rows = np.minimum(np.searchsorted(np.asarray(ends), times[:-1], "right"), len(ends) - 1)
        self.active: dict[str, Any] = {}
        for kind in KINDS:
            chosen = np.array([job.kind == kind for job in jobs], bool)
            steps = np.zeros(len(times), np.int64)
            np.add.at(steps, np.searchsorted(times, starts[chosen]), 1)
            np.add.at(steps, np.searchsorted(times, stops[chosen]), -1)
            self.active[kind] = np.cumsum(steps)[:-1]

    def by_row(self, where: Any, weight: Any = 1) -> Counter[int]:
        """Cycles, times `weight`, of the chosen intervals, by node."""
        cycles = np.where(where, self.lengths * weight, 0)
        totals = np.bincount(self.rows, cycles)
        return Counter({row: round(total) for row, total in enumerate(totals.tolist()) if total})


def excess_causes(
    kind: str, bound: int, engines: int, jobs: Sequence[Job], ends: Sequence[int], needed: Counter[int], ops: Sequence[str]
) -> list[ExcessCause]:
    """The cycles beyond a bound of one kind of engine, largest part first. Fractions of cycles are in the largest part.

    `engines`: number of engines of this kind; for `dma`, 1, because all of them share the DRAM. `ends`: the cycle at which each
    node ends, ascending. `needed`: engine cycles of the necessary work by node, of tensor or vector engines; `ops`: operators.
    """
    line, own = Timeline(jobs, ends), [job for job in jobs if job.kind == kind]
    busy = line.active[kind]
    found: dict[str, Counter[int]] = {reason: Counter() for reason in REASONS}
    if kind == "dma":
        active = line.by_row(busy > 0)  # with the cycles in which transfers are slower than the DRAM
        found["work"] = active
        needed = Counter({row: cycles * bound // active.total() for row, cycles in active.items()})
    else:
        for job in own:
            found["work"][job.row] += job.body
            found["ends"][job.row] += job.ends
            found["waits"][job.row] += job.end - job.start - job.body - job.ends
        found["uneven"] = line.by_row(busy > 0, engines - busy)
    found["work"].subtract(needed)
    idle = busy == 0
    for other in KINDS:
        if other != kind:
            found[other] = line.by_row(idle & (line.active[other] > 0), engines)
            idle &= line.active[other] == 0
    found["none"] = line.by_row(idle, engines)
    count = Counter(job.row for job in own)
    made = [_part(reason, rows, engines, ops, count) for reason, rows in found.items()]
    made = sorted((part for part in made if part.cycles > 0), key=lambda part: (-part.cycles, REASONS.index(part.reason)))
    if made:
        left = ends[-1] - bound - sum(part.cycles for part in made)
        whole = made[0].cycles + left
        made[0] = replace(made[0], cycles=whole, of_op=min(made[0].of_op, whole))
    return made


def _part(reason: str, rows: Counter[int], engines: int, ops: Sequence[str], jobs: Counter[int]) -> ExcessCause:
    by_op = Counter[str]()
    for row, cycles in rows.items():
        by_op[ops[row]] += cycles
    total = sum(by_op.values()) // engines
    op = max(sorted(by_op), key=lambda name: by_op[name], default="")
    return ExcessCause(
        reason, total, op, min(by_op[op] // engines, total), sum(jobs.values()) if reason in ("ends", "waits") else 0
    )
