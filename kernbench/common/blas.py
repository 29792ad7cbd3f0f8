"""The threads of the BLAS library that numpy calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_lock = Lock()
_inside: list[Any] = []  # one entry for each active limit; the first entry has the library's object that ends the limit


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the matrix products of numpy to one thread in the whole process, until the last limit ends.

    The bits of a product depend on the number of BLAS threads. In small products the threads mostly wait for each other.
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
    """The thread controller of the libraries of this process; making it takes milliseconds, because it inspects all loaded
    libraries."""
    import numpy  # noqa: F401  (it loads the library)
    from threadpoolctl import ThreadpoolController  # imported here, so that a run without a replay does not wait for the import

    return ThreadpoolController()
