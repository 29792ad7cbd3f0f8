"""The threads of the BLAS library that numpy calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

#: Beginnings and ends of the names of OpenBLAS's functions, as builds of numpy have them.
_NAMES = (("scipy_openblas_", "64_"), ("scipy_openblas_", ""), ("openblas_", "64_"), ("openblas_", ""))
_lock = Lock()
_inside = [0, 0]  # how many limits hold, and the number of threads before the first of them


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products of numpy use one thread, in the whole process; nothing happens if numpy does not use OpenBLAS.

    The bits of a product depend on the number of BLAS threads, and the threads of a small product mostly wait for each other.
    """
    found = _functions()
    if found is None:
        yield
        return
    get, put = found
    with _lock:
        if not _inside[0]:
            _inside[1] = get()
            put(1)
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0]:
                put(_inside[1])


@cache
def _functions() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """OpenBLAS's functions that return and set the number of threads; None without them."""
    try:
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for first, last in _NAMES:
        get = getattr(library, f"{first}get_num_threads{last}", None)
        put = getattr(library, f"{first}set_num_threads{last}", None)
        if get is not None and put is not None:
            return get, put
    return None
