"""SIGINT, SIGTERM and SIGHUP of `kbsim`. The module is imported before all others, and thus imports nothing large."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

GRACE = 2.0  # [s] longest delay of an interrupt: the import of a user's module may never end,
INSTALLED_GRACE = 60.0  # [s] but that of installed modules ends, after some seconds on a busy computer
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 0.02  # [s] from a signal during an import, or an interrupt that is lost in a callback, to the next attempt
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Folders of Python and of kernbench. A file in another one is of the user, unless it is in `site-packages` or the like.
INSTALLED = tuple(folder + os.sep for folder in (os.path.dirname(os.__file__), _OWN, f"{_OWN}_core"))


def interrupt_between_imports() -> Callable[[], bool]:
    """Let the signals raise KeyboardInterrupt. A signal that comes during an import, or while msgspec reads types, waits until
    that ends, at the latest until GRACE is over, or INSTALLED_GRACE without code of the user. Returns a function that says
    whether a signal still waits.

    The dictionaries of C code swallow exceptions of `__hash__` and `__eq__`: an interrupt in them would be lost, and msgspec
    would make a class whose use crashes the process. A signal that the process ignores is still ignored, such as SIGHUP under
    `nohup`. A job scheduler sends SIGTERM before it kills a process, and a terminal that closes sends SIGHUP: as after Ctrl-C,
    finished results are stored and printed.

    C code that calls back, such as a weak reference or a finalizer, cannot pass an exception on, and Python only reports it. An
    interrupt that ends there is raised again later.
    """
    since: list[float] = []
    last = [int(signal.SIGINT)]
    report = sys.unraisablehook

    def handle(number: int, frame: FrameType | None) -> None:
        if _is_loading(frame):
            since.append(time.monotonic())
            if since[-1] - since[0] < (GRACE if _runs_users_code(frame) else INSTALLED_GRACE):
                _send_later(number)
                return
        since.clear()
        last[0] = number
        raise KeyboardInterrupt

    def lost(error: UnraisableHookArgs) -> None:
        if issubclass(error.exc_type, KeyboardInterrupt):
            _send_later(last[0])
        else:
            report(error)

    sys.unraisablehook = lost
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    return lambda: bool(since)


def _send_later(number: int) -> None:
    late = threading.Timer(AGAIN, _send_again, (number,))
    late.daemon = True
    late.start()


def _send_again(number: int) -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)  # ends a call in which the main thread waits, which raise_signal in a thread does not


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a frame, or one that called it, is in an import statement, or in the code of types that msgspec calls."""
    while frame is not None:
        if frame.f_globals.get("__name__") in ("typing", "types", "msgspec._utils"):
            return True
        if frame.f_code.co_name == "_load_unlocked" and frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _runs_users_code(frame: FrameType | None) -> bool:
    """Whether a frame, or one that called it, is of a module that is not installed. The script that Python was started with is
    no module that is imported."""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_globals.get("__name__")
        if name != "__main__" and not file.startswith(("<", *INSTALLED)) and "-packages" not in file:
            return True
        frame = frame.f_back
    return False
