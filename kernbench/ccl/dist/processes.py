"""Processes as in `torch.multiprocessing`, for scripts that start each rank by themselves: all of them run on one machine."""

from __future__ import annotations

import atexit
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.workers import spawn
from kernbench.common.errors import Problem

METHODS = ("spawn", "fork", "forkserver")

_waiting: list[Process] = []  #: processes that have been started and have not run, by rank
_numbers = itertools.count(1)


class Process:
    """The worker of a rank, with the interface of `multiprocessing.Process`.

    The ranks are numbered in the order of `start`. The first `join` runs all started processes on the smallest preset with
    enough PEs. Processes that nobody joins run at the end of the script. For another machine, call `spawn`.

    Parameters
    ----------
    group
        None.
    target
        The function of the worker.
    name
        The name of the process.
    args, kwargs
        The arguments of `target`.
    daemon
        A parameter of multiprocessing without effect.

    Examples
    --------
    >>> from kernbench.ccl import dist
    >>> def worker(rank, size):
    ...     dist.init_process_group("gloo", rank=rank, world_size=size)
    ...     dist.barrier()
    >>> processes = [dist.Process(target=worker, args=(rank, 2)) for rank in range(2)]
    >>> for one in processes:
    ...     one.start()
    >>> for one in processes:
    ...     one.join()
    >>> [one.exitcode for one in processes]
    [0, 0]
    """

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or f"Process-{next(_numbers)}"
        self.daemon = bool(daemon)
        self.exitcode: int | None = None  #: 0 after the end, 1 after an error
        self._target, self._args, self._kwargs = target, tuple(args), dict(kwargs or {})
        self._began = False

    def run(self) -> None:
        """Call the target. Derived classes may replace this method."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        """Make the process the next rank.

        Raises
        ------
        InputError
            If the process has been started before.
        """
        if self._began:
            raise ArgumentError(Problem("dist.Process", f"the process {self.name} has been started before"))
        if not _waiting:
            atexit.register(_run_all)
        self._began = True
        _waiting.append(self)

    def join(self, timeout: float | None = None) -> None:
        """Run all started processes, if they have not run yet. `timeout` has no effect.

        Raises
        ------
        InputError
            If the process has not been started, or as `spawn`.
        """
        if not self._began:
            raise ArgumentError(Problem("dist.Process", f"the process {self.name} has not been started"))
        if self.is_alive():
            _run_all()

    def is_alive(self) -> bool:
        """Return whether the process has been started and has not run."""
        return self._began and self.exitcode is None

    def close(self) -> None:
        """Do nothing: a process holds no resources."""

    terminate = kill = close


def _run_all() -> None:
    """Run all started processes as the ranks of one machine."""
    some = list(_waiting)
    _waiting.clear()
    atexit.unregister(_run_all)
    if not some:
        return

    def processes(rank: int) -> None:
        some[rank].exitcode = 1
        some[rank].run()
        some[rank].exitcode = 0

    try:
        spawn(processes, nprocs=len(some))
    finally:
        for one in some:
            one.exitcode = 1 if one.exitcode is None else one.exitcode


def set_start_method(method: str | None, force: bool = False) -> None:
    """Check the name of a start method, which has no effect. Raises InputError for an unknown name."""
    if method is not None and method not in METHODS:
        raise ArgumentError(Problem("dist.set_start_method", f"it must be one of {', '.join(METHODS)}", "method", method))


def get_context(method: str | None = None) -> ModuleType:
    """Return the module `kernbench.ccl.dist`, which has `Process`. Raises InputError for an unknown name."""
    set_start_method(method)
    return sys.modules["kernbench.ccl.dist"]
