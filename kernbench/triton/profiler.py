"""`triton.profiler`: scopes, which name the launches inside of them in runs and traces. Sessions write no file of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

_SCOPES: ContextVar[tuple[str, ...]] = ContextVar("kernbench_triton_scopes", default=())


def scopes() -> tuple[str, ...]:
    """Names of the scopes around a launch, outermost first."""
    return _SCOPES.get()


class scope:
    """`with scope("name"):` or a decorator: launches inside are named `name/kernel` in traces. `metrics` are not used."""

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
    """As `scope`: the host's time is not measured."""
    with scope(name, metrics):
        yield


def start(name: str = "proton", **options: Any) -> int:
    """A session: 0. Runs are recorded with or without one (`kernbench.machine`)."""
    return 0


def activate(session: int | None = None) -> None:
    """Scopes are always active."""


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Scopes are always active."""


def finalize(session: int | None = None, output_format: str = "") -> None:
    """No file is written: `kernbench.machine` has the runs, and `run.trace` writes a trace."""


__all__ = ["activate", "cpu_timed_scope", "deactivate", "finalize", "scope", "scopes", "start"]
