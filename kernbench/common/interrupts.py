"""Ctrl-C and SIGTERM at moments at which what is done is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

GRACE = 2.0  # [s] that an interrupt waits: code of users may never come to an end


def put_place(error: BaseException, place: str) -> BaseException:
    """The interrupt, with the location of the code that it interrupted:"""
    if not place_of(error):
        error.place = place  # type: ignore[attr-defined]
    return error


def place_of(error: BaseException | None) -> str:
    """The code that was interrupted, or an empty text."""
    return str(getattr(error, "place", ""))


def no_interrupt() -> None:
    """No interrupt can come in another thread than the main one."""


@contextmanager
def interrupts_held(grace: float = GRACE) -> Iterator[Callable[[], None]]:
    """An interrupt waits for a call of what this gives, or for the end, unless a second one comes, or `grace` is over."""
    if threading.current_thread() is not threading.main_thread():
        yield no_interrupt
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    came: list[int] = []
    late: list[threading.Timer] = []

    def tell() -> None:
        if came:
            number = came[0]
            came.clear()
            handler: Any = handlers[signal.Signals(number)]
            handler(number, None)

    def hold(number: int, _: Any) -> None:
        came.append(number)
        if len(came) > 1:
            tell()
            return
        late.append(threading.Timer(grace, signal.raise_signal, (number,)))
        late[-1].daemon = True
        late[-1].start()

    held = [number for number, handler in handlers.items() if callable(handler)]
    for number in held:
        signal.signal(number, hold)
    try:
        yield tell
    finally:
        for number in held:
            signal.signal(number, handlers[number])
        for timer in late:
            timer.cancel()
    tell()
