"""The threads of the BLAS library that numpy calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_lock = Lock()
_inside: list[Any] = []  # for each limit that holds, the library's object that ends the first of them


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products of numpy use one thread, in the whole process, until the last limit ends.

    The bits of a product depend on the number of BLAS threads, and the threads of a small product mostly wait for each other.
    """
    with _lock:
        _inside.append(_inside[0] if _inside else controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _inside.pop()
            if not _inside:
                limit.restore_original_limits()


@cache
def controller() -> Any:
    """Threads of the libraries of this process; it looks at all of them, which takes milliseconds."""
    import numpy  # noqa: F401  (it loads the library)
    from threadpoolctl import ThreadpoolController  # here: a run that replays nothing does not wait for its import

    return ThreadpoolController()
