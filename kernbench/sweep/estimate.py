"""What a sweep will take: how many points, how many of them are known, and how long the rest runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from kernbench.sweep.points import Points
from kernbench.sweep.runner import in_shard, missing
from kernbench.sweep.store import Store
from kernbench.sweep.work import Work

TRIED = 5  # points that are run for it, spread over those that are missing
TRIED_SECONDS = 3.0  # after which no further one is
START_SECONDS = 0.7  # until the processes of a pool work


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of one shard."""

    points: int  #: of the shard
    known: int  #: whose results are in the store
    to_run: int  #: within the budget
    tried: int  #: points that were run for the estimate; their results are not kept
    seconds: float | None  #: for those to run; None where there is nothing to go by


def estimate(points: Points, place: Path, shard: tuple[int, int], workers: int) -> Estimate:
    """The estimate; a store is looked at where there is one, and nothing is written."""
    mine = in_shard(points.points, shard)
    tasks = list({point.task.key: point.task for point in mine}.values())
    known = len(mine) - len(tasks)
    if place.exists():
        with Store.read(place) as store:
            tasks = missing(mine, store, retry=False)
        known = len(mine) - len(tasks)
    budget = points.spec.budget
    to_run = len(tasks) if budget.points is None else min(len(tasks), budget.points)
    work = Work(points.spec.targets, points.spec.machines)
    took: list[float] = []
    begin = time.monotonic()
    for i in range(min(TRIED, len(tasks))):
        if took and time.monotonic() - begin > TRIED_SECONDS:
            break
        took.append(work.run(tasks[i * (len(tasks) - 1) // max(1, min(TRIED, len(tasks)) - 1)]).seconds)
    if not took:
        return Estimate(len(mine), known, to_run, 0, 0.0 if to_run == 0 else None)
    seconds = sum(took) / len(took) * to_run / workers + START_SECONDS
    if budget.seconds is not None:
        seconds = min(seconds, budget.seconds)
    return Estimate(len(mine), known, to_run, len(took), seconds)
