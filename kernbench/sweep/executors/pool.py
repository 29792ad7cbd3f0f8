"""A pool of processes on this machine. The pool knows which task each process runs, so the death of a process counts only for
this task."""

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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

import kernbench.common
from kernbench.common.errors import InputError, Problem
from kernbench.common.kept_results import shared_results
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.sweep.machines import Machines
from kernbench.sweep.points import Task
from kernbench.sweep.spec import Limits
from kernbench.sweep.store.tables import Row, failed_row
from kernbench.sweep.work import Context


class Start(msgspec.Struct, frozen=True):
    """The first message to a process."""

    context: Context
    seconds: float | None  #: limits of a run
    memory: int | None
    allow_code: tuple[str, ...] = ()  #: paths of code that targets and machines may name
    package: str = ""  #: path of the kernbench of the parent


_ENCODER = msgspec.msgpack.Encoder()
_STARTS = msgspec.msgpack.Decoder(Start)
_CONTEXTS = msgspec.msgpack.Decoder(Context)
_TASKS = msgspec.msgpack.Decoder(list[Task])
_ROWS = msgspec.msgpack.Decoder(Row)
_TEXTS = msgspec.msgpack.Decoder(str)


def encoded(value: Any) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(value)


def read_start(data: bytes) -> Start:
    """The first message to a process."""
    return _STARTS.decode(data)


def read_context(data: bytes) -> Context:
    """The common data of all tasks of a sweep."""
    return _CONTEXTS.decode(data)


def read_tasks(data: bytes) -> list[Task]:
    """Tasks for a process, to be run in order."""
    return _TASKS.decode(data)


def read_row(data: bytes) -> Row:
    """A process's answer to a task."""
    return _ROWS.decode(data)


def read_text(data: bytes) -> str:
    """The first answer of a process: why it cannot work; empty if it can."""
    return _TEXTS.decode(data)


SAFE = "PYTHONSAFEPATH"  #: the environment variable for `-P`
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
    """Python's path without the current directory, `""`, and without other relative directories; kernbench itself stays on the
    path."""
    path = [place for place in sys.path if os.path.isabs(place)]
    own = str(package_folder().parent)
    if own not in path and any(os.path.abspath(place) == own for place in sys.path):
        path.append(own)  # last on the path, because the directory may contain other modules
    return path


@contextmanager
def safe_processes() -> Iterator[None]:
    """Context in which new Python processes, such as those of `multiprocessing` with `python -c`, do the same."""
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
    """The folder of this kernbench package."""
    return Path(kernbench.common.__file__).resolve().parents[1]


TICK_SECONDS = 0.1  # [s] interval in which the pool returns control
GATHER_SECONDS = 0.05  # [s] answers that arrive within this time are read together
AHEAD_SECONDS = 0.2  # [s] work that a process has in advance, so that no process waits for its next task
MAX_AHEAD = 32  # limit of the tasks of a process: their messages fit into a pipe
GRACE_SECONDS = 5.0  # [s] after the time limit, before a process that does not answer is killed
MAX_DEATHS = 3  # processes that may die in a task before it is given up


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
            start_new_session=True,  # Ctrl-C is handled by the parent
        )

    def end(self) -> int:
        """Kill the worker. Returns the exit code, or the negative number of the signal that ended the worker."""
        self._process.kill()
        return self._process.wait()


class Forked:
    """A worker that is a copy of this process: no module is imported, and no machine is checked again."""

    def __init__(self, connection: Connection, variables: Mapping[str, str], machines: Sequence[Machines]) -> None:
        from kernbench.sweep.executors.worker import main_of_copy

        held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # until the copy has its own handlers
        arguments = (connection.fileno(), os.getpid(), dict(variables), held, machines)
        self._process = get_context("fork").Process(target=main_of_copy, args=arguments, daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> int:
        """Kill the worker. Returns the exit code, or the negative number of the signal that ended the worker."""
        self._process.kill()
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        self._process.close()
        return code


def can_fork() -> bool:
    """Whether a copy of this process would work: another thread may hold a lock, for which the copy would wait forever."""
    return sys.platform == "linux" and threading.active_count() == 1


class Process:
    """One worker, as seen by its parent."""

    def __init__(self, start: bytes, variables: Mapping[str, str], fork: bool, machines: Sequence[Machines]) -> None:
        ours, theirs = Pipe()
        self.connection: Connection = ours
        self._answers = select.poll()
        self._answers.register(ours.fileno(), select.POLLIN)
        copied = fork and can_fork()
        self.process = Forked(theirs, variables, machines) if copied else Spawned(theirs, variables)
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
        """Send more tasks, to be run after its present tasks."""
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.extend(tasks)
        self._send(encoded(tasks))

    def _send(self, data: bytes) -> None:
        """If the worker is dead, the data are not read, and the pool detects this when it waits for answers."""
        with suppress(ConnectionError):
            self.connection.send_bytes(data)

    def end(self) -> str:
        """Kill the worker; return how it ended."""
        self.connection.close()
        code = self.process.end()
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class Pool:
    """Runs tasks on `jobs` processes, each run within the limits.

    `fork`: workers may be copies of this process. Code of users runs in new processes, which have no data of this process.
    `machines`: the machines of the context, if they have been made here; copies of this process do not make them again.
    """

    def __init__(
        self,
        context: Context,
        jobs: int,
        limits: Limits,
        allow_code: AllowCode = (),
        *,
        fork: bool = False,
        machines: Sequence[Machines] = (),
    ) -> None:
        paths = AllowedCode.of(allow_code).paths
        self._start = encoded(Start(context, limits.seconds, limits.memory, paths, str(package_folder())))
        self._jobs = jobs
        self.fork = fork
        self._machines = machines
        self._limits = limits
        self._processes: list[Process] = []
        self._deaths: dict[str, int] = {}
        self._variables: Mapping[str, str] = {}  # of the environment of processes
        self._unborn = 0  # consecutive processes that died before they could work
        self._mean = 1.0  # [s] recent mean duration of a run

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        """A row for each finished task, and None from time to time. Closing it kills the processes."""
        source = iter(tasks)
        again: deque[Task] = deque()
        with shared_results() as self._variables:
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
        """Give every process enough tasks, beginning with those that have the fewest."""
        ahead = max(1, min(MAX_AHEAD, int(AHEAD_SECONDS / max(self._mean, 1e-6))))
        more = True
        while more and len(self._processes) < self._jobs:
            first = self._next(source, again)
            if first is None:
                more = False
                break
            process = Process(self._start, self._variables, self.fork, self._machines)
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
        """Rows that have arrived, and rows of tasks whose processes died too often."""
        by_connection = {process.connection: process for process in self._processes}
        there = wait(list(by_connection), TICK_SECONDS)
        spare = min(len(process.tasks) for process in self._processes) - 1
        if there and spare > 0:
            # Answers accumulate meanwhile, and no process runs out of tasks, even if it is twice as fast as the mean.
            time.sleep(min(GATHER_SECONDS, spare / 2 * self._mean))
            there = list(by_connection)
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
        """The row of a process's first task; the first answer of a process says whether it can work at all."""
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
        self._mean += 0.1 * (row.seconds - self._mean)
        process.since = now
        return row

    def _died(self, process: Process, again: deque[Task]) -> Iterator[Row]:
        """Remove a dead process: the death counts for its running task, and its other tasks go to other processes."""
        how = process.end()
        self._processes.remove(process)
        again.extendleft(reversed(process.tasks))
        if not process.ready:
            self._unborn += 1
            if self._unborn >= MAX_DEATHS:
                rule = f"processes cannot be started here: {how}"
                raise InputError(Problem("sweep", rule, remedy="read the messages of the worker processes"))
        if not process.ready or not process.tasks:
            return
        task = process.tasks[0]
        self._deaths[task.key] = self._deaths.get(task.key, 0) + 1
        if self._deaths[task.key] >= MAX_DEATHS:
            again.popleft()
            text = f"{MAX_DEATHS} processes died in it, the last of {how}; out of memory, or a crash"
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
