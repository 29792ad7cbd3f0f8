"""Runs user code inside a run (kernels, host programs, workers of `dist`), and restricts what the code may call.

It runs in greenlets of this process. An exception of user code becomes an error with its source line. Calls that would end or
fork the process, or change its signal handlers, are replaced while a machine runs, and kernels and workers may not call them.
It is no sandbox.
"""

from __future__ import annotations

import _thread
import os
import posix
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from types import FrameType, TracebackType
from typing import Any

from greenlet import getcurrent

from kernbench.common.errors import text_of
from kernbench.common.interrupts import put_place
from kernbench.triton_emu.errors import KernelError, line_of, raised_line, users_frame

start_thread = _thread.start_new_thread  #: for kernbench itself, also while a machine runs
MAX_CHARACTERS = 10_000  #: most characters of an exception's text; a longer text is cut
#: Debuggers may trace, install handlers and start threads wherever they are called from.
DEBUGGERS = frozenset({"bdb", "pdb", "ipdb", "IPython", "pudb", "pydevd", "_pydevd_bundle", "debugpy"})

_ENDS = "it would end the whole simulation; return from it, or raise an exception"
_COPIES = "it would make a second simulation; start processes by subprocess, outside of kernels"
_DEAFENS = "the simulator's own handlers could not stop the run any more; do it outside of kernels"
_TRACES = "it would trace or change the simulator itself; do it outside of kernels"
_THREADS = "the simulator runs all kernels in one thread; do it outside of kernels"
_CLOSES = "the result is written there; leave it open"

Caught = BaseException


def failure_of(error: Caught, who: str, place: str, *, host: bool = False) -> Caught:
    """The exception to raise instead of one that ended a user's code; its traceback begins in that code.

    An interrupt stays an interrupt, and names the line. Ordinary exceptions stay too. Others become a KernelError: those that
    are no errors to Python, memory that is not there, and exceptions whose text cannot be shown. `who`: `the kernel scale`.
    `host`: it is the host's program, which needs no note of the place, and whose memory is that of the run.
    """
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    line = raised_line(frames)
    if isinstance(error, KeyboardInterrupt):
        return put_place(error, f"{line}, {place}")
    try:
        rule = "" if host and isinstance(error, MemoryError) else _rule(error, who)
    except KeyboardInterrupt as stopped:  # the text of an exception comes from user code, which may run forever
        return put_place(stopped, f"{line}, {place}")
    if rule:
        error = KernelError(f"{line}: {rule}").with_traceback(frames)
    error.user_traceback = frames  # type: ignore[attr-defined]
    if not host:
        error.add_note(place)
    return error


def _rule(error: Caught, who: str) -> str:
    """The reason to replace an exception; empty if it is kept."""
    text, name = text_of(error), type(error).__name__
    if isinstance(error, SystemExit):
        return f"{who} called exit({text_of(error.code, repr) or '...'}); it ends when it returns"
    if isinstance(error, MemoryError):
        return f"there is not enough memory for what {who} asks for{f': {text}' if text else ''}"
    if text is None:
        return f"{who} raised {name}, whose text cannot be had: its __str__ fails"
    if not isinstance(error, Exception):
        return f"{who} raised {name}{f': {text}' if text else ''}, which is not an Exception; raise one that is"
    if len(text) > MAX_CHARACTERS:
        return f"{who} raised {name}, whose text has {len(text):,} characters: {text[:200]}..."
    if not isinstance(getattr(error, "__notes__", []), list) or not _takes_fields(error):
        return f"{who} raised {name}: {text}"
    return ""


def _takes_fields(error: Caught) -> bool:
    """Whether its class allows additional attributes."""
    return type(error).__setattr__ is BaseException.__setattr__


def strayed(who: str, frame: FrameType | None) -> KernelError:
    """The code has switched to another greenlet itself; `frame`: its current frame."""
    found = users_frame(frame)
    line = f"{line_of(found)}: " if found is not None else ""
    made = KernelError(f"{line}{who} switched greenlets by itself; the simulator alone resumes kernels, the host and workers")
    if found is not None:
        made.__traceback__ = made.user_traceback = TracebackType(  # type: ignore[attr-defined]
            None, found, found.f_lasti, found.f_lineno
        )
    return made


# Calls that are refused --------------------------------------------------------------------------------------------------


def _always(*args: Any) -> bool:
    return True


def _unhandled(number: int) -> bool:
    """Signals that Python handles are interrupts like others."""
    return number != 0 and not callable(signal.getsignal(number))


def _own_process(pid: int, number: int) -> bool:
    return pid in (0, -1, os.getpid(), -os.getpgrp()) and _unhandled(number)


def _standard(*numbers: Any) -> bool:
    return numbers[-1] in (0, 1, 2)


def _among_standard(low: int, high: int) -> bool:
    return low <= 2 and high > 0


#: By module: name, reason of the refusal, the refused arguments, and whether debuggers may call it.
_CALLS: list[tuple[Any, str, str, Callable[..., bool], bool]] = [
    *((os, name, _ENDS, _always, False) for name in ("_exit", "abort", "execv", "execve")),
    *((os, name, _COPIES, _always, False) for name in ("fork", "forkpty")),
    (os, "kill", _ENDS, _own_process, False),
    (os, "killpg", _ENDS, lambda group, number: group in (0, os.getpgrp()) and _unhandled(number), False),
    (os, "close", _CLOSES, _standard, True),
    (os, "closerange", _CLOSES, _among_standard, True),
    (os, "dup2", _CLOSES, lambda old, new, inheritable=True: _standard(new), True),
    (signal, "raise_signal", _ENDS, _unhandled, False),
    (signal, "pthread_kill", _ENDS, lambda thread, number: _unhandled(number), False),
    *((signal, name, _DEAFENS, _always, True) for name in ("signal", "alarm", "setitimer", "pthread_sigmask", "set_wakeup_fd")),
    *((sys, name, _TRACES, _always, True) for name in ("settrace", "setprofile", "setrecursionlimit")),
    (threading.Thread, "start", _THREADS, _always, True),
    *((_thread, name, _THREADS, _always, True) for name in ("start_new_thread", "start_new")),
]
_lock = threading.Lock()
_runs = 0  # machines that run now, in all threads
_restore: list[Callable[[], None]] = []


@contextmanager
def calls_refused() -> Iterator[None]:
    """While a machine runs: the calls of `_CALLS` raise a KernelError if a kernel or worker makes them.

    Afterwards these functions, `sys.stdout` and `sys.stderr` are restored. Other code, other threads and processes that the
    host's code has forked have them all the time.
    """
    global _runs
    streams = sys.stdout, sys.stderr
    with _lock:
        _runs += 1
        if _runs == 1:
            _replace_all(streams)
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if not _runs:
                while _restore:
                    _restore.pop()()
        sys.stdout, sys.stderr = streams


def _replace_all(streams: tuple[Any, Any]) -> None:
    for owner, name, why, concerns, debuggers in _CALLS:
        named = f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__
        _replace(owner, name, _refusing_once(getattr(owner, name), f"{named}.{name}", why, concerns, debuggers))
        if owner is os and hasattr(posix, name):
            _replace(posix, name, getattr(os, name))
    for stream, called in zip(streams, ("sys.stdout", "sys.stderr"), strict=True):
        for name in ("close", "detach"):
            original = getattr(stream, name, None)
            if original is not None and hasattr(stream, "__dict__") and name not in vars(stream):
                setattr(stream, name, _refusing(original, f"{called}.{name}", _CLOSES, _always, True))
                _restore.append(lambda stream=stream, name=name: delattr(stream, name))  # type: ignore[misc]


def _replace(owner: Any, name: str, by: Any) -> None:
    original = getattr(owner, name)
    setattr(owner, name, by)
    _restore.append(lambda: setattr(owner, name, original))


def _refusing(
    original: Callable[..., Any], name: str, why: str, concerns: Callable[..., bool], debuggers: bool
) -> Callable[..., Any]:
    """A replacement of a function that kernels and workers may not call with certain arguments."""

    @wraps(original)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        who = running_user()
        if who and concerns(*args, **kwargs) and not (debuggers and _in_debugger(sys._getframe())):
            raise KernelError(f"{_current_line()}{who} called {name}: {why}")
        return original(*args, **kwargs)

    return refusing


def _current_line() -> str:
    """`kernel.py:12: `, the current line of the running code, or of the code that created its greenlet; else empty."""
    current: Any = getcurrent()
    found = users_frame(sys._getframe())
    while found is None and current is not None:
        current = current.parent
        found = users_frame(getattr(current, "gr_frame", None))
    return f"{line_of(found)}: " if found is not None else ""


_refusing_once = cache(_refusing)  # a machine may run a cycle at a time


def running_user() -> str:
    """Whose code this greenlet, or one that it was made by, runs: `the kernel scale`; empty outside of kernels and workers."""
    found: Any = getcurrent()
    while found is not None:
        who = getattr(found, "runs_for", "")
        if who:
            return str(who)
        found = found.parent
    return ""


def _in_debugger(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in DEBUGGERS:
            return True
        frame = frame.f_back
    return False
