"""A pool of processes on this machine. It knows which task each of them has: a death is that task's and no other's."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

import kernbench.common
from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.sweep.points import Task
from kernbench.sweep.shared_runs import shared_runs
from kernbench.sweep.spec import Limits
from kernbench.sweep.store.tables import Row, failed_row
from kernbench.sweep.work import Context


class Start(msgspec.Struct, frozen=True):
    """The first message to a process."""

    context: Context
    seconds: float | None  #: limits of a run
    memory: int | None
    allow_code: tuple[str, ...] = ()  #: what targets and machines may name
    package: str = ""  #: path of the kernbench of the parent


_ENCODER = msgspec.msgpack.Encoder()
_STARTS = msgspec.msgpack.Decoder(Start)
_CONTEXTS = msgspec.msgpack.Decoder(Context)
_TASKS = msgspec.msgpack.Decoder(list[Task])
_ROWS = msgspec.msgpack.Decoder(Row)
_TEXTS = msgspec.msgpack.Decoder(str)


def encoded(value: Any) -> bytes:
    """Any message."""
    return _ENCODER.encode(value)


def read_start(data: bytes) -> Start:
    """The first message to a process."""
    return _STARTS.decode(data)


def read_context(data: bytes) -> Context:
    """What all tasks of a sweep share."""
    return _CONTEXTS.decode(data)


def read_tasks(data: bytes) -> list[Task]:
    """Tasks for a process, to be run in order."""
    return _TASKS.decode(data)


def read_row(data: bytes) -> Row:
    """A process's answer to a task."""
    return _ROWS.decode(data)


def read_text(data: bytes) -> str:
    """A process's first answer: why it cannot work; empty if it can."""
    return _TEXTS.decode(data)


SAFE = "PYTHONSAFEPATH"  #: what `-P` is in the environment
#: `python -m` and `python -c` put the current directory on the path, before the standard library; `-P` leaves it out.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from kernbench.sweep.executors.worker import main
sys.exit(main(sys.argv[1:]))
"""


def worker_command(*arguments: str) -> list[str]:
    """The command of a worker with these arguments."""
    return [sys.executable, "-P", "-c", _START, json.dumps(search_path()), *arguments]


def search_path() -> list[str]:
    """Python's path without the current directory, `""`, and what else is relative to it; kernbench itself stays on it."""
    path = [place for place in sys.path if os.path.isabs(place)]
    own = str(package_folder().parent)
    if own not in path and any(os.path.abspath(place) == own for place in sys.path):
        path.append(own)  # last on the path, because the directory may have other modules
    return path


@contextmanager
def safe_processes() -> Iterator[None]:
    """Processes of Python that others start in here, as `multiprocessing` does with `python -c`, do the same."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE, None)
        else:
            os.environ[SAFE] = before


def package_folder() -> Path:
    """Where this kernbench is."""
    return Path(kernbench.common.__file__).resolve().parents[1]


TICK_SECONDS = 0.1  # the pool comes back so often
GATHER_SECONDS = 0.01  # answers are read together that come so soon after one of them
GATHER_RUNS = 8  # or within so many runs
AHEAD_SECONDS = 0.2  # a process has tasks for so long: none waits for its next one
MOST_AHEAD = 32  # tasks that a process has at most: their messages fit into a pipe
GRACE_SECONDS = 5.0  # past the time limit, before a process that does not answer is killed
MOST_DEATHS = 3  # processes that a task may cost before it is given up


class Spawned:
    """A worker that is a new process of Python."""

    def __init__(self, connection: Connection, variables: Mapping[str, str]) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **variables}
        self._process = subprocess.Popen(
            worker_command(str(connection.fileno()), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=[connection.fileno()],
            start_new_session=True,  # Ctrl-C is the parent's
        )

    def end(self) -> int:
        """Kill the worker. The exit code, or the negative number of the signal that ended the worker."""
        self._process.kill()
        return self._process.wait()


class Forked:
    """A worker that is a copy of this process: nothing is imported, read or checked anew."""

    def __init__(self, connection: Connection, variables: Mapping[str, str]) -> None:
        from kernbench.sweep.executors.worker import main_of_copy

        held = {signal.SIGINT, signal.SIGTERM}  # until the copy has its own handlers
        arguments = (connection.fileno(), os.getpid(), dict(variables), held)
        self._process = get_context("fork").Process(target=main_of_copy, args=arguments, daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> int:
        """Kill the worker. The exit code, or the negative number of the signal that ended the worker."""
        self._process.kill()
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        self._process.close()
        return code


def can_fork() -> bool:
    """Whether a copy of this process works: another thread may hold a lock, which the copy would wait for without end."""
    return sys.platform == "linux" and threading.active_count() == 1


class Process:
    """One worker, as its parent sees it."""

    def __init__(self, start: bytes, variables: Mapping[str, str], fork: bool) -> None:
        ours, theirs = Pipe()
        self.connection: Connection = ours
        self._answers = select.poll()
        self._answers.register(ours.fileno(), select.POLLIN)
        self.process = (Forked if fork and can_fork() else Spawned)(theirs, variables)
        theirs.close()
        self.greeting: bytes | None = start
        self.ready = False
        self.tasks: deque[Task] = deque()  #: in the order of execution
        self.since = time.monotonic()  #: start time of the first of them

    def answered(self) -> bool:
        """Whether an answer, or the end of the worker, can be read now."""
        return bool(self._answers.poll(0))

    def greet(self) -> None:
        """Send the common data of the sweep to a worker that is ready."""
        if self.greeting is not None:
            self._send(self.greeting)
            self.greeting = None

    def give(self, tasks: list[Task]) -> None:
        """Send more tasks, after those that it has."""
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.extend(tasks)
        self._send(encoded(tasks))

    def _send(self, data: bytes) -> None:
        """If the worker is dead, nobody reads this, and the pool notices when it listens."""
        with suppress(ConnectionError):
            self.connection.send_bytes(data)

    def end(self) -> str:
        """Kill it; how it ended."""
        self.connection.close()
        code = self.process.end()
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class Pool:
    """Runs tasks on `jobs` processes, each run within the limits.

    `fork`: workers may be copies of this process. Code of users runs in new processes, which know nothing of this one.
    """

    def __init__(
        self, context: Context, jobs: int, limits: Limits, allow_code: AllowCode = (), *, fork: bool = False
    ) -> None:
        paths = AllowedCode.of(allow_code).paths
        self._start = encoded(Start(context, limits.seconds, limits.memory, paths, str(package_folder())))
        self._jobs = jobs
        self.fork = fork
        self._limits = limits
        self._processes: list[Process] = []
        self._deaths: dict[str, int] = {}
        self._variables: Mapping[str, str] = {}  # of the environment of processes
        self._unborn = 0  # processes in a row that died before they could work
        self._mean = 1.0  # [s] of a task, lately

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """A row for each finished task, and None from time to time. Closing it kills the processes."""
        source = iter(tasks)
        again: deque[Task] = deque()
        with shared_runs() as self._variables:
            try:
                while True:
                    self._fill(source, again)
                    if not any(process.tasks for process in self._processes):
                        return
                    yield from self._heard(again)
                    yield from self._overdue(again)
                    yield None
            finally:
                for process in self._processes:
                    process.end()
                self._processes = []

    def _fill(self, source: Iterator[Task], again: deque[Task]) -> None:
        """Give every process enough to do, those first that have least."""
        ahead = max(1, min(MOST_AHEAD, int(AHEAD_SECONDS / max(self._mean, 1e-6))))
        more = True
        while more and len(self._processes) < self._jobs:
            first = self._next(source, again)
            if first is None:
                more = False
                break
            process = Process(self._start, self._variables, self.fork)
            process.tasks.append(first)  # sent when it is ready
            self._processes.append(process)
        for process in self._processes:
            process.greet()
        for process in self._processes:
            if not more or not process.ready or len(process.tasks) > ahead // 2:
                continue
            given: list[Task] = []
            while more and len(process.tasks) + len(given) < ahead:
                task = self._next(source, again)
                more = task is not None
                if task is not None:
                    given.append(task)
            if given:
                process.give(given)

    @staticmethod
    def _next(source: Iterator[Task], again: deque[Task]) -> Task | None:
        return again.popleft() if again else next(source, None)

    def _heard(self, again: deque[Task]) -> Iterator[Row]:
        """Rows that have arrived, and those of tasks whose process died once too often."""
        by_connection = {process.connection: process for process in self._processes}
        there = wait(list(by_connection), TICK_SECONDS)
        if there and all(len(process.tasks) > 1 for process in self._processes):
            time.sleep(min(GATHER_SECONDS, GATHER_RUNS * self._mean))  # answers gather meanwhile, and no process waits
        for connection in there:
            assert isinstance(connection, Connection)
            process = by_connection[connection]
            try:
                while process.answered():
                    row = self._answer(process, process.connection.recv_bytes())
                    if row is not None:
                        yield row
            except (EOFError, ConnectionError):
                yield from self._died(process, again)

    def _answer(self, process: Process, data: bytes) -> Row | None:
        """The row of a process's first task; its first answer is whether it can work at all."""
        now = time.monotonic()
        if not process.ready:
            if refusal := read_text(data):
                raise InputError(Problem("sweep", refusal))
            process.ready = True
            first = list(process.tasks)
            process.tasks.clear()
            process.give(first)
            self._unborn = 0
            return None
        row = read_row(data)
        process.tasks.popleft()
        self._mean += 0.1 * (now - process.since - self._mean)
        process.since = now
        return row

    def _died(self, process: Process, again: deque[Task]) -> Iterator[Row]:
        """Remove a dead process: its running task counts a death, and tasks that it has not started go to others."""
        how = process.end()
        self._processes.remove(process)
        again.extendleft(reversed(process.tasks))
        if not process.ready:
            self._unborn += 1
            if self._unborn >= MOST_DEATHS:
                rule = f"processes cannot be started here: {how}"
                raise InputError(Problem("sweep", rule, remedy="read the messages of the worker processes"))
        if not process.ready or not process.tasks:
            return
        task = process.tasks[0]
        self._deaths[task.key] = self._deaths.get(task.key, 0) + 1
        if self._deaths[task.key] >= MOST_DEATHS:
            again.popleft()
            text = f"{MOST_DEATHS} processes died in it, the last of {how}; out of memory, or a crash"
            yield failed_row(task.key, "crashed", text)

    def _overdue(self, again: deque[Task]) -> Iterator[Row]:
        """Kill processes that exceed the time limit."""
        if self._limits.seconds is None:
            return
        latest = time.monotonic() - self._limits.seconds - GRACE_SECONDS
        for process in [one for one in self._processes if one.ready and one.tasks and one.since < latest]:
            task = process.tasks.popleft()
            process.end()
            self._processes.remove(process)
            again.extendleft(reversed(process.tasks))
            text = f"the run took longer than {self._limits.seconds:g} s, and its process was killed"
            yield failed_row(task.key, "timeout", text)
