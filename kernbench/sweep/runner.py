"""Runs what of a sweep is missing in its store. A result counts when it is on the disk, and not before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Protocol

from kernbench.common.errors import InputError
from kernbench.sweep.points import Point, Task
from kernbench.sweep.spec import Budget
from kernbench.sweep.store import Store
from kernbench.sweep.store.row import Row

COMMIT_SECONDS = 0.25  # a result waits at most so long for others before it is written
COMMIT_ROWS = 256
NO_BUDGET = Budget()

Stored = Callable[[Sequence[Row]], None]  #: is told of results that are on the disk


class Executor(Protocol):
    """Whoever runs tasks."""

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """A row for each task, in any order, each once; None now and then, at least every second."""
        ...


@dataclass
class Outcome:
    """What a run of a sweep came to."""

    points: int  #: of this shard
    known: int  #: whose results were there before
    ran: int = 0
    by_status: Counter[str] = field(default_factory=Counter)  #: of those that ran
    stopped: str = ""  #: by which budget

    @property
    def failed(self) -> int:
        """Results that are no answer of the model, of those that ran."""
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
        """Write what waits, and only then tell of it."""
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
            with suppress(InputError):  # the store itself may be what failed
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
