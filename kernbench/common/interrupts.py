"""Handling of Ctrl-C, SIGTERM and SIGHUP only at points where the results so far are complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

GRACE = 2.0  # [s] longest delay of an interrupt, because code of users may never end


def put_place(error: BaseException, place: str) -> BaseException:
    """The interrupt, with the location of the interrupted code."""
    if not place_of(error):
        error.place = place  # type: ignore[attr-defined]
    return error


def place_of(error: BaseException | None) -> str:
    """The location of the interrupted code, or an empty text."""
    return str(getattr(error, "place", ""))


def no_interrupt() -> None:
    """Do nothing: only the main thread receives interrupts."""


@contextmanager
def interrupts_held(grace: float = GRACE) -> Iterator[Callable[[], None]]:
    """Delay interrupts until the yielded function is called or the block ends. A second interrupt, or `grace` seconds, end the
    delay."""
    if threading.current_thread() is not threading.main_thread():
        yield no_interrupt
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    came: list[int] = []
    late: list[threading.Timer] = []

    def deliver() -> None:
        if came:
            number = came[0]
            came.clear()
            handler: Any = handlers[signal.Signals(number)]
            handler(number, None)

    def hold(number: int, _: Any) -> None:
        came.append(number)
        if len(came) > 1:
            deliver()
            return
        late.append(threading.Timer(grace, signal.raise_signal, (number,)))
        late[-1].daemon = True
        late[-1].start()

    held = [number for number, handler in handlers.items() if callable(handler)]
    for number in held:
        signal.signal(number, hold)
    try:
        yield deliver
    finally:
        for number in held:
            signal.signal(number, handlers[number])
        for timer in late:
            timer.cancel()
    deliver()
