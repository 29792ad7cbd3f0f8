"""One process of a pool: takes tasks from its parent, returns rows one by one, and ends with its parent."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from types import FrameType
from typing import NoReturn

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.sweep.executors.pool import Start, encoded, package_folder, read_start, read_tasks, search_path
from kernbench.sweep.machines import Machines
from kernbench.sweep.points import Task
from kernbench.sweep.spec import Limits
from kernbench.sweep.store.tables import Row, failed_row
from kernbench.sweep.work import TimeLimitError, Work

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Alarm:
    """Ends a run that takes too long: immediately in Python, and within 50 ms in the core, which returns this often."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.rang = False
        if seconds is not None:
            signal.signal(signal.SIGALRM, self._ring)

    def _ring(self, number: int, frame: FrameType | None) -> NoReturn:
        self.rang = True
        raise TimeLimitError(self.text)

    @property
    def text(self) -> str:
        """The values of the row."""
        return f"the run took longer than {self.seconds:g} s"

    def run(self, work: Work, task: Task) -> Row:
        """The row of a task, with status `timeout` if it took too long, even if other code caught the exception."""
        if self.seconds is None:
            return work.run(task)
        self.rang = False
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            row = work.run(task)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except TimeLimitError:
            row = failed_row(task.key, "timeout", self.text)
        if self.rang:
            return failed_row(task.key, "timeout", self.text, row.seconds)
        return row


def limit_memory(nbytes: int | None) -> None:
    """Limit the additional address space of this process; larger requests raise MemoryError."""
    if nbytes is None:
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = now + nbytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def die_with_parent(parent: int) -> None:
    """Let the process be killed when its parent ends: results that the parent can no longer store are useless."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def serve(connection: Connection, machines: Sequence[Machines] = ()) -> None:
    """Answer until the parent closes its end. `machines`: as in `Work.of`."""
    start: Start = read_start(connection.recv_bytes())
    try:
        _check_package(start.package)
        work = Work.of(start.context, start.allow_code, machines)
    except InputError as error:
        connection.send_bytes(encoded(str(error)))
        return
    limits = Limits(start.seconds, start.memory)
    alarm = Alarm(limits.seconds)
    limit_memory(limits.memory)
    encoder = msgspec.msgpack.Encoder()
    connection.send_bytes(encoded(""))
    while True:
        for task in read_tasks(connection.recv_bytes()):
            row = alarm.run(work, task)
            if row.status == "memory":
                gc.collect()
            connection.send_bytes(encoder.encode(row))


def _check_package(parents: str) -> None:
    """InputError if the parent uses another kernbench than this process, even with the same version."""
    if parents != str(package_folder()):
        rule = f"it imports kernbench from {package_folder()}, and the sweep is run by that in {parents}"
        raise InputError(Problem("worker", rule, remedy="install one of them, and leave the other one out of Python's path"))


def main(arguments: list[str]) -> int:
    """Serve the connection with this descriptor; arguments: FD PARENT."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops it
    gc.set_threshold(100_000, 20, 20)  # the same as in the command itself: runs make many objects and few reference cycles
    return _served(int(arguments[0]), int(arguments[1]))


def _served(descriptor: int, parent: int, machines: Sequence[Machines] = ()) -> int:
    die_with_parent(parent)
    with Connection(descriptor) as connection:
        try:
            serve(connection, machines)
        except (EOFError, ConnectionError):
            return 0
    return 0


def main_of_copy(
    descriptor: int, parent: int, variables: Mapping[str, str], held: Iterable[signal.Signals], machines: Sequence[Machines]
) -> None:
    """The same as `main`, in a copy of the parent: releases the files, signals, objects and search path of the parent, except
    its machines."""
    os.setsid()  # Ctrl-C is handled by the parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
    gc.freeze()  # objects of the parent are neither scanned nor collected: the store's connection still belongs to the parent
    gc.set_threshold(100_000, 20, 20)
    os.environ.update(variables)
    sys.path[:] = search_path()
    _served(descriptor, parent, machines)
