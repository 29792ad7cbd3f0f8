"""Threads of this process: the core runs without the GIL, and all threads share parsed programs and checked machines."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from kernbench.sweep.points import Task
from kernbench.sweep.store.tables import Row
from kernbench.sweep.work import Work

TICK_SECONDS = 0.1  # [s] interval in which the threads return control


class Threads:
    """Runs tasks on `count` threads. Only for programs: Python components would wait for each other."""

    def __init__(self, work: Work, count: int) -> None:
        self._work = work
        self._count = count

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """A row for each finished task, and None from time to time. Closing it waits for the runs that have begun."""
        source = iter(tasks)
        with ThreadPoolExecutor(self._count) as pool:
            running: set[Future[Row]] = set()
            try:
                while True:
                    while len(running) < 2 * self._count and (task := next(source, None)) is not None:
                        running.add(pool.submit(self._work.run, task))
                    if not running:
                        return
                    done, running = wait(running, TICK_SECONDS, FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
                    yield None
            finally:
                for future in running:
                    future.cancel()
