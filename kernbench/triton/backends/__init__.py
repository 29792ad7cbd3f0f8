"""`triton.backends`: one, with the driver of the simulated machine; kernels run as Python, so it has no compiler."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from kernbench.triton.backends import compiler


class Backend(NamedTuple):
    """A backend as Triton lists it: its compiler, and the class of its driver."""

    compiler: Any
    driver: Any


def __getattr__(name: str) -> Any:
    """`backends`, which need the driver, and the driver needs this package."""
    if name != "backends":
        raise AttributeError(name)
    return {"cpu": Backend(None, import_module("kernbench.triton.runtime.driver").DriverBase)}


__all__ = ["Backend", "backends", "compiler"]
