"""Backward passes of torch, each in a thread of its own.

The engine of torch keeps the state of a pass in the thread. A hook of a gradient that calls a collective suspends its worker
in the middle of a pass, and the next worker begins its own pass. All workers run in one thread, so torch would take the second
pass for a part of the first one. Only one thread runs at a time: the worker waits for the thread of its pass, and makes the
calls of the hooks in its place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from queue import SimpleQueue
from typing import Any

from greenlet import getcurrent

from kernbench.triton_emu.user_code import start_thread

_thread = threading.local()  #: `inside`: the pass that this thread runs
_RUN = "_engine_run_backward"


class Pass:
    """A backward pass in a thread, and the calls that its hooks make."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self._asked: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._answers: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def run(self, call: Callable[[], Any]) -> Any:
        """Run a pass in a thread, and answer its calls as those of this worker."""
        from kernbench.ccl.dist.workers import ask  # which imports this module

        start_thread(self._threaded, (call,))
        stopped: BaseException | None = None
        while True:
            kind, value = self._asked.get()
            if kind == "ended":
                if stopped is not None:
                    raise stopped
                return value
            if kind == "failed":
                raise stopped or value
            if stopped is None:
                try:
                    self._answers.put(("answer", ask(value)))
                    continue
                except BaseException as error:
                    stopped = error
            self._answers.put(("error", stopped))

    def _threaded(self, call: Callable[[], Any]) -> None:
        _thread.inside = self
        try:
            self._asked.put(("ended", call()))
        except BaseException as error:
            self._asked.put(("failed", error))

    def ask(self, request: Any) -> Any:
        """Pass the call of a hook to the worker, and return its result."""
        self._asked.put(("call", request))
        kind, value = self._answers.get()
        if kind == "error":
            raise value
        return value


def inside() -> Pass | None:
    """Return the pass that runs in this thread."""
    return getattr(_thread, "inside", None)


def _in_thread(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        worker = getattr(getcurrent(), "of_group", None)
        if worker is None or inside() is not None:
            return original(*args, **kwargs)
        return Pass(worker).run(lambda: original(*args, **kwargs))

    return run


def divert() -> None:
    """Let torch, if it is imported, run the backward passes of workers in threads."""
    autograd = sys.modules.get("torch.autograd")
    found = getattr(autograd, _RUN, None)
    if found is not None and not hasattr(found, "__wrapped__"):
        setattr(autograd, _RUN, _in_thread(found))


@contextmanager
def diverted() -> Iterator[None]:
    """Let torch run backward passes in threads, until the end of a `with` block."""
    divert()
    try:
        yield
    finally:
        autograd = sys.modules.get("torch.autograd")
        found = getattr(getattr(autograd, _RUN, None), "__wrapped__", None)
        if found is not None:
            setattr(autograd, _RUN, found)


