"""`triton.profiler`: scopes, which name launches in runs and traces. Sessions write no files of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

_SCOPES: ContextVar[tuple[str, ...]] = ContextVar("kernbench_triton_scopes", default=())


def scopes() -> tuple[str, ...]:
    """Return the names of the scopes around a launch, outermost first."""
    return _SCOPES.get()


class scope:
    """Name the launches inside a block: use it as `with scope("name"):` or as a decorator.

    A launch inside appears as `name/kernel` in traces. `metrics` are accepted and ignored.
    """

    def __init__(self, name: str, metrics: Mapping[str, float] | None = None) -> None:
        self.name, self.metrics = name, dict(metrics or {})
        self._before: list[tuple[str, ...]] = []

    def __enter__(self) -> scope:
        self._before.append(_SCOPES.get())
        _SCOPES.set((*self._before[-1], self.name))
        return self

    def __exit__(self, *_: object) -> None:
        _SCOPES.set(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with scope(self.name, self.metrics):
                return function(*args, **kwargs)

        return inside


@contextmanager
def cpu_timed_scope(name: str, metrics: Mapping[str, float] | None = None) -> Iterator[None]:
    """Do the same as `scope`. The time of the host is not measured."""
    with scope(name, metrics):
        yield


def start(name: str = "proton", **options: Any) -> int:
    """Start a session and return its number, 0. Runs are recorded with or without a session (`kernbench.machine`)."""
    return 0


def activate(session: int | None = None) -> None:
    """Do nothing, because scopes are always active."""


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Do nothing, because scopes are always active."""


def finalize(session: int | None = None, output_format: str = "") -> None:
    """Do nothing, and write no file: `kernbench.machine` keeps the runs, and `run.trace` writes a trace."""


__all__ = ["activate", "cpu_timed_scope", "deactivate", "finalize", "scope", "scopes", "start"]
