"""Runs the points of a sweep that have no result in its store. A result counts only after it is on the disk."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kernbench.common.errors import InputError
from kernbench.sweep.points import Point, Points, Task
from kernbench.sweep.spec import Budget
from kernbench.sweep.store import Store
from kernbench.sweep.store.tables import Row
from kernbench.sweep.work import Work

COMMIT_SECONDS = 0.25  # [s] the longest time that a result waits for other results before it is written
COMMIT_ROWS = 256
NO_BUDGET = Budget()

Stored = Callable[[Sequence[Row]], None]  #: called with results that are on disk


class Executor(Protocol):
    """An object that runs tasks."""

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """Yields one row for each task, in any order; None from time to time, at least every second."""
        ...


@dataclass
class Outcome:
    """The outcome of a run of a sweep."""

    points: int  #: number of points of this shard
    known: int  #: number of points that had results before
    ran: int = 0
    by_status: Counter[str] = field(default_factory=Counter)  #: number of points that ran
    stopped: str = ""  #: the budget that stopped the run

    @property
    def failed(self) -> int:
        """The number of failed results of this run."""
        return sum(count for status, count in self.by_status.items() if status not in ("done", "aborted", "deadlock"))


def in_shard(points: Sequence[Point], shard: tuple[int, int]) -> list[Point]:
    """Every n-th point, from the i-th on: `(3, 16)` is the third of sixteen shards."""
    return list(points[shard[0] - 1 :: shard[1]])


def missing(points: Sequence[Point], store: Store, *, retry: bool) -> list[Task]:
    """The tasks that have no result or a damaged result, without duplicate keys; with `retry` also those that failed."""
    known = store.statuses([point.task.key for point in points])
    wanted: dict[str, Task] = {}
    for point in points:
        status = known.get(point.task.key)
        if status is None or (retry and status not in ("done", "aborted", "deadlock")):
            wanted.setdefault(point.task.key, point.task)
    return list(wanted.values())


class Writer:
    """Collects results and writes several at a time."""

    def __init__(self, store: Store, outcome: Outcome, stored: Stored) -> None:
        self._store = store
        self._outcome = outcome
        self._stored = stored
        self._waiting: list[Row] = []
        self._written = time.monotonic()

    def take(self, row: Row | None) -> None:
        """Add a result, or None. Pending results are written if they are many, or if they have waited long enough."""
        if row is not None:
            self._waiting.append(row)
        if len(self._waiting) >= COMMIT_ROWS or time.monotonic() - self._written >= COMMIT_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the pending rows, and report them only afterwards. Rows that an exception keeps from the store stay pending."""
        self._written = time.monotonic()
        if rows := self._waiting[:]:
            self._store.add(rows)
            del self._waiting[: len(rows)]
            self._outcome.ran += len(rows)
            self._outcome.by_status.update(row.status for row in rows)
            self._stored(rows)


def run_missing(
    points: Sequence[Point],
    store: Store,
    executor: Executor,
    *,
    budget: Budget = NO_BUDGET,
    retry: bool = False,
    stored: Stored = lambda rows: None,
) -> Outcome:
    """Run the points that have no result yet. After an interrupt, all results that had arrived are stored."""
    tasks = missing(points, store, retry=retry)
    outcome = Outcome(len(points), len(points) - len(tasks))
    writer = Writer(store, outcome, stored)
    with closing(executor.results(_within(budget, tasks, outcome))) as results:
        try:
            for row in results:
                writer.take(row)
        except BaseException:
            with suppress(InputError):  # the store itself may have failed
                writer.write()
            raise
        writer.write()
    return outcome


def _within(budget: Budget, tasks: Sequence[Task], outcome: Outcome) -> Iterator[Task]:
    """The tasks within the budget."""
    begin = time.monotonic()
    for i, task in enumerate(tasks):
        if budget.points is not None and i >= budget.points:
            outcome.stopped = f"its budget of {budget.points:,} points"
            return
        if budget.seconds is not None and time.monotonic() - begin >= budget.seconds:
            outcome.stopped = f"its budget of {budget.seconds:g} s"
            return
        yield task


TRIED = 5  # number of missing points that are run for an estimate; they are evenly spaced
TRIED_SECONDS = 3.0  # [s] no further point begins after this time
START_SECONDS = 0.7  # [s] time until the processes of a pool are ready


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate for one shard."""

    points: int  #: number of points of the shard
    known: int  #: number of points whose results are in the store
    to_run: int  #: number of points to run within the budget
    tried: int  #: number of points that were run for the estimate; their results are not kept
    seconds: float | None  #: [s] estimate for the remaining points, or None


def estimate(points: Points, place: Path, shard: tuple[int, int], workers: int) -> Estimate:
    """The estimate; an existing store is read, and nothing is written."""
    mine = in_shard(points.points, shard)
    tasks = list({point.task.key: point.task for point in mine}.values())
    known = len(mine) - len(tasks)
    if os.path.exists(place):
        with Store.read(place) as store:
            tasks = missing(mine, store, retry=False)
        known = len(mine) - len(tasks)
    budget = points.spec.budget
    to_run = len(tasks) if budget.points is None else min(len(tasks), budget.points)
    work = Work(points.spec.targets, points.spec.machines, points.spec.area)
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
