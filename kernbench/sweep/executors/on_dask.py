"""A Dask cluster: an existing one, or processes on this machine. Results come back in chunks, as soon as each chunk is done."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.sweep.executors.pool import encoded, read_context, read_row, read_tasks, safe_processes
from kernbench.sweep.points import Task
from kernbench.sweep.store.tables import Row, failed_row
from kernbench.sweep.work import Context, Work

CHUNK = 20  # tasks in one task of Dask, because Dask's overhead is about a millisecond
AHEAD = 4  # chunks for each thread of the cluster, in flight at a time
TICK_SECONDS = 0.1
START_SECONDS = 15  # [s] longest wait for a scheduler
_MAKING = threading.Lock()


class OnDask:
    """Runs tasks on the workers of a scheduler; without an address, on `jobs` processes of its own cluster.

    Dask runs a chunk again if its worker died; each result comes back once.
    """

    def __init__(self, context: Context, scheduler: str | None, jobs: int, allow_code: AllowCode = ()) -> None:
        self._distributed = _distributed()
        self._content = encoded(context)
        self._allowed = AllowedCode.of(allow_code).paths
        self._scheduler = scheduler
        self._jobs = jobs

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """A row for each finished task, and None from time to time. Closing it cancels running tasks."""
        with safe_processes(), self._client() as client:
            context = client.submit(_given, self._content, key=f"kernbench-{_digest(self._content)}", pure=True)
            yield from self._rows(client, context, iter(tasks))

    def _client(self) -> Any:
        """A client; a cluster that it started ends with it."""
        distributed = self._distributed
        if self._scheduler is not None:
            try:
                return distributed.Client(self._scheduler, timeout=START_SECONDS)
            except (OSError, ValueError) as error:
                remedy = "start dask scheduler and dask worker, or leave --scheduler out"
                rule = f"the scheduler does not answer: {error}"
                raise InputError(Problem("kbsim sweep run", rule, "--scheduler", self._scheduler, remedy)) from None
        import dask

        quiet = {"distributed.worker.daemon": False, "logging.distributed": "error"}
        with dask.config.set(quiet):
            return distributed.Client(
                n_workers=self._jobs, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1",
                silence_logs="CRITICAL",
            )  # fmt: skip

    def _rows(self, client: Any, context: Any, source: Iterator[Task]) -> Iterator[Row | None]:
        on_way: dict[Any, list[Task]] = {}
        again: list[list[Task]] = []
        try:
            while True:
                most = AHEAD * max(1, sum(client.nthreads().values()))
                while len(on_way) < most:
                    chunk = again.pop() if again else list(islice(source, CHUNK))
                    if not chunk:
                        break
                    on_way[client.submit(run_chunk, context, encoded(chunk), self._allowed, pure=False)] = chunk
                if not on_way:
                    return
                for future in self._done(on_way):
                    yield from self._answer(future, on_way.pop(future), again)
                yield None
        finally:
            for future in on_way:
                future.cancel()

    def _done(self, on_way: dict[Any, list[Task]]) -> list[Any]:
        try:
            return list(self._distributed.wait(list(on_way), timeout=TICK_SECONDS, return_when="FIRST_COMPLETED").done)
        except (TimeoutError, self._distributed.TimeoutError):
            return []

    def _answer(self, future: Any, chunk: list[Task], again: list[list[Task]]) -> Iterator[Row]:
        """The rows of a chunk; a chunk that cost too many workers is divided until the task that causes this is alone."""
        try:
            rows = future.result()
        except InputError:
            raise
        except Exception as error:
            if len(chunk) > 1:
                again += [[task] for task in chunk]
                return
            text = f"{type(error).__name__}: {error}".split("\n")[0]
            yield failed_row(chunk[0].key, "crashed", text)
            return
        for row in rows:
            yield read_row(row)


def run_chunk(content: bytes, chunk: bytes, allow_code: tuple[str, ...] = ()) -> list[bytes]:
    """On a worker: the rows of some tasks. Targets and machines are made once in each process."""
    with _MAKING:
        work = _work(content, allow_code)
    return [encoded(work.run(task)) for task in read_tasks(chunk)]


def _given(content: bytes) -> bytes:
    """The context as a result of the cluster: it is sent once to each worker that needs it."""
    return content


@lru_cache(maxsize=4)
def _work(content: bytes, allow_code: tuple[str, ...]) -> Work:
    return Work.of(read_context(content), allow_code)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        remedy = "pip install 'kernbench[dask]'"
        raise InputError(Problem("kbsim sweep run", "--executor dask needs dask and distributed", remedy=remedy)) from None
    return distributed
