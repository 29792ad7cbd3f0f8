"""`triton.backends`: the single backend, which has the driver of the simulated machine. Kernels run as Python."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from kernbench.triton.backends import compiler


class Backend(NamedTuple):
    """A backend as Triton lists it: its compiler and its driver class. The backend of kernbench has no compiler."""

    compiler: Any
    driver: Any


def __getattr__(name: str) -> Any:
    """Import `backends` on first use, because `backends` needs the driver, and the driver needs this package."""
    if name != "backends":
        raise AttributeError(name)
    return {"cpu": Backend(None, import_module("kernbench.triton.runtime.driver").DriverBase)}


__all__ = ["Backend", "backends", "compiler"]
