"""Runs the points of a sweep that have no result in its store. A result counts when it is on the disk, and not before."""

from __future__ import annotations

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

COMMIT_SECONDS = 0.25  # a result waits at most so long for others before it is written
COMMIT_ROWS = 256
NO_BUDGET = Budget()

Stored = Callable[[Sequence[Row]], None]  #: called with results that are on disk


class Executor(Protocol):
    """Something that runs tasks."""

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """A row for each task, in any order, each once; None now and then, at least every second."""
        ...


@dataclass
class Outcome:
    """The outcome of a run of a sweep."""

    points: int  #: of this shard
    known: int  #: points whose results existed before
    ran: int = 0
    by_status: Counter[str] = field(default_factory=Counter)  #: number of points that ran
    stopped: str = ""  #: by which budget

    @property
    def failed(self) -> int:
        """The number of failed results of this run."""
        return sum(count for status, count in self.by_status.items() if status not in ("done", "aborted", "deadlock"))


def in_shard(points: Sequence[Point], shard: tuple[int, int]) -> list[Point]:
    """Every n-th point, from the i-th on: `(3, 16)` is the third of sixteen shards."""
    return list(points[shard[0] - 1 :: shard[1]])


def missing(points: Sequence[Point], store: Store, *, retry: bool) -> list[Task]:
    """The tasks without a result, or with a damaged one, each key once; with `retry` also those that failed."""
    known = store.statuses([point.task.key for point in points])
    wanted: dict[str, Task] = {}
    for point in points:
        status = known.get(point.task.key)
        if status is None or (retry and status not in ("done", "aborted", "deadlock")):
            wanted.setdefault(point.task.key, point.task)
    return list(wanted.values())


class Writer:
    """Gathers results and writes them, some at a time."""

    def __init__(self, store: Store, outcome: Outcome, stored: Stored) -> None:
        self._store = store
        self._outcome = outcome
        self._stored = stored
        self._waiting: list[Row] = []
        self._written = time.monotonic()

    def take(self, row: Row | None) -> None:
        """One more, or none so far: what waits is written when it is much, or has waited."""
        if row is not None:
            self._waiting.append(row)
        if len(self._waiting) >= COMMIT_ROWS or time.monotonic() - self._written >= COMMIT_SECONDS:
            self.write()

    def write(self) -> None:
        """Write pending rows, and report them only then."""
        rows, self._waiting = self._waiting, []
        self._written = time.monotonic()
        if rows:
            self._store.add(rows)
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
    """Run the points that have no result yet. An interrupt ends it with everything stored that had come."""
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
    """The tasks that a budget allows."""
    begin = time.monotonic()
    for i, task in enumerate(tasks):
        if budget.points is not None and i >= budget.points:
            outcome.stopped = f"its budget of {budget.points:,} points"
            return
        if budget.seconds is not None and time.monotonic() - begin >= budget.seconds:
            outcome.stopped = f"its budget of {budget.seconds:g} s"
            return
        yield task


TRIED = 5  # points that are run for it, spread over those that are missing
TRIED_SECONDS = 3.0  # after which no further one is
START_SECONDS = 0.7  # until the processes of a pool work


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of one shard."""

    points: int  #: of the shard
    known: int  #: points whose results are in the store
    to_run: int  #: within the budget
    tried: int  #: points that were run for the estimate; their results are not kept
    seconds: float | None  #: estimate for the remaining points, or None


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
