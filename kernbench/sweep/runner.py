"""Runs what of a sweep is missing in its store. A result counts when it is on the disk, and not before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Protocol

from kernbench.common.errors import InputError
from kernbench.sweep.points import Point, Task
from kernbench.sweep.row import Row
from kernbench.sweep.spec import Budget
from kernbench.sweep.store import Store

COMMIT_SECONDS = 0.25  # a result waits at most so long for others before it is written
COMMIT_ROWS = 256
NO_BUDGET = Budget()

Stored = Callable[[Sequence[Row]], None]  #: is told of results that are on the disk


class Executor(Protocol):
    """Whoever runs tasks."""

    def results(self, tasks: Iterable[Task]) -> Iterator[Row | None]:
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
    """The tasks without a result, each key once; with `retry` also those that failed."""
    known = store.statuses([point.task.key for point in points])
    wanted: dict[str, Task] = {}
    for point in points:
        status = known.get(point.task.key)
        if status is None or (retry and status not in ("done", "aborted", "deadlock")):
            wanted.setdefault(point.task.key, point.task)
    return list(wanted.values())


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
    begin = time.monotonic()

    def within_budget() -> Iterator[Task]:
        for i, task in enumerate(tasks):
            if budget.points is not None and i >= budget.points:
                outcome.stopped = f"its budget of {budget.points:,} points"
                return
            if budget.seconds is not None and time.monotonic() - begin >= budget.seconds:
                outcome.stopped = f"its budget of {budget.seconds:g} s"
                return
            yield task

    waiting: list[Row] = []
    written = begin

    def write() -> None:
        if waiting:
            rows, waiting[:] = list(waiting), []
            store.add(rows)
            outcome.ran += len(rows)
            outcome.by_status.update(row.status for row in rows)
            stored(rows)

    with closing(executor.results(within_budget())) as results:  # type: ignore[type-var]
        try:
            for row in results:
                if row is not None:
                    waiting.append(row)
                if len(waiting) >= COMMIT_ROWS or time.monotonic() - written >= COMMIT_SECONDS:
                    write()
                    written = time.monotonic()
        except BaseException:
            with suppress(InputError):  # the store itself may be what failed
                write()
            raise
        write()
    return outcome
