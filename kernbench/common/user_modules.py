"""Runs a module of the user: anything that ends the module, or would end the process, is reported with its line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType, TracebackType
from typing import Any

from kernbench.common.errors import InputError

ENDING = ("_exit", "abort", "fork", "forkpty")  #: functions of `os` that end this process or duplicate it
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if hasattr(signal, name))
_replacing = threading.RLock()


class Unloadable(Exception):
    """A module whose import does not complete. `place` is the file and line, `rule` says what happened there."""

    def __init__(self, place: str, rule: str) -> None:
        super().__init__(f"{place}: {rule}")
        self.place = place
        self.rule = rule


def execute(spec: ModuleSpec) -> ModuleType:
    """Create and run the module of a spec, as `import` does. Raises as `loading`."""
    module = module_from_spec(spec)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = module  # dataclasses and inspect look up the module of a class there
    try:
        if spec.loader is not None:  # a namespace package has no loader and no code
            with loading(spec.origin or spec.name):
                spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            sys.modules.pop(spec.name, None)
        else:
            sys.modules[spec.name] = before
        raise
    return sys.modules.get(spec.name, module)


@contextmanager
def loading(file: str) -> Iterator[None]:
    """Run the code of a module inside this context. Any exception of the module except InputError becomes Unloadable.

    A real interrupt, and an exception of another signal handler, pass through, because the module did not cause them.
    """
    came: Callable[[], bool] = bool
    try:
        with _signals_noticed() as came, _process_goes_on():
            yield
    except BaseException as error:
        if isinstance(error, InputError) or came():
            raise
        raise _unloadable(error, file) from error


def _unloadable(error: BaseException, file: str) -> Unloadable:
    """The last line of the file in the traceback of the error; for a file that is not valid Python, the line of the syntax
    error."""
    if isinstance(error, SyntaxError):
        return Unloadable(f"{error.filename or file}:{error.lineno or 1}", f"this is not valid Python: {error.msg}")
    line, frame = 1, error.__traceback__
    while frame is not None:
        line = frame.tb_lineno if _is_of(frame, file) else line
        frame = frame.tb_next
    return Unloadable(f"{file}:{line}", f"the file cannot be imported: {_words(error)}")


def _is_of(frame: TracebackType, file: str) -> bool:
    return frame.tb_frame.f_code.co_filename == file


def _words(error: BaseException) -> str:
    """`TypeError: text`, or only the type if the text is not available."""
    try:
        said = str(error)
    except Exception:  # `__str__` of the user's class can raise any exception
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


@contextmanager
def _process_goes_on() -> Iterator[None]:
    """Make `os._exit`, `os.abort` and `os.fork` raise in this thread: otherwise they would end the command without a message,
    or run it twice."""
    here = threading.get_ident()

    def instead(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(*given: Any) -> Any:
            if threading.get_ident() != here:
                return original(*given)
            raise RuntimeError(f"it calls os.{name}, which a module may not do while it is imported")

        return refuse

    with _replacing:
        kept = {name: getattr(os, name) for name in ENDING if hasattr(os, name)}
        for name, original in kept.items():
            setattr(os, name, instead(name, original))
        try:
            yield
        finally:
            for name, original in kept.items():
                setattr(os, name, original)


@contextmanager
def _signals_noticed() -> Iterator[Callable[[], bool]]:
    """Return a function that says whether a signal arrived here; the module may also raise KeyboardInterrupt itself.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}

    def noticed(number: int, frame: Any) -> None:
        came.append(number)
        handlers[number](number, frame)

    taken = [number for number, handler in handlers.items() if callable(handler)]
    for number in taken:
        signal.signal(number, noticed)
    try:
        yield lambda: bool(came)
    finally:
        for number in taken:
            if signal.getsignal(number) is noticed:
                signal.signal(number, handlers[number])
