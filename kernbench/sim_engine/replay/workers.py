"""The threads that compute the tasks of a replay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.sim_engine.replay.tasks import SMALL, Task


class Work:
    """Tasks of threads, and what became of each: its results, an error, or None as long as it is not known."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.done: list[Sequence[Array] | Exception | None] = [None] * len(tasks)
        self.todo = deque(range(len(tasks)))  #: places of tasks that no thread has taken


class Workers:
    """Threads that compute tasks: other threads while the calling thread does something else, and the calling thread too while
    it waits for results.

    The other threads take the first tasks, which are the largest. The calling thread takes the last ones, so that it soon
    returns to work that the other threads wait for.
    """

    def __init__(self, threads: int) -> None:
        self._others = threads - 1
        self._pool = ThreadPoolExecutor(self._others) if self._others else None
        self._works: tuple[Work, ...] = ()  # whose results are not all known, in order
        self._ended: SimpleQueue[None] = SimpleQueue()  # an item for each task that another thread has computed

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._works = ()
        if self._pool is not None:
            self._pool.shutdown()

    def start(self, tasks: Sequence[Task]) -> Work:
        """Let other threads begin with tasks, unless starting them would take longer than the work."""
        work = Work(tasks)
        self._works += (work,)
        if self._pool is not None and not _small(tasks):
            for _ in range(min(self._others, len(tasks))):
                self._pool.submit(self._compute)
        return work

    def results(self, work: Work) -> Iterator[tuple[Task, Sequence[Array]]]:
        """The tasks of the earliest work in order, with their results, as soon as they are known. Raises the error of the first
        task that has one: an InputError if it cannot be computed. The error does not depend on the number of threads.
        """
        for place, task in enumerate(work.tasks):
            found = work.done[place]
            while found is None:
                if not self._compute_one(last=True):
                    self._ended.get()
                found = work.done[place]
            if isinstance(found, Exception):
                raise found
            yield task, found
        self._works = self._works[1:]

    def _compute(self) -> None:
        """Compute tasks until none is left. Numpy's setting to ignore overflows must be repeated in each thread."""
        with np.errstate(all="ignore"):
            while self._compute_one(last=False):
                self._ended.put(None)

    def _compute_one(self, last: bool) -> bool:
        """Compute the first or the last task of the earliest work that has one; False if none is left."""
        for work in self._works:
            try:
                place = work.todo.pop() if last else work.todo.popleft()
            except IndexError:
                continue
            try:
                work.done[place] = work.tasks[place].run()
            except Exception as error:  # of any kind, as the calling thread waits until the task is done
                work.done[place] = error
            return True
        return False


def _small(tasks: Sequence[Task]) -> bool:
    """Whether starting threads would take longer than the tasks."""
    return all(sum(one.nbytes for one in task.inputs[0]) * len(task.inputs) < SMALL for task in tasks)
