"""`gluon.language.nvidia.hopper`: `tma`, `mbarrier` and `fence_async_shared`."""

from __future__ import annotations

from typing import Any

from kernbench.triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from kernbench.triton.experimental.gluon.refused import refused


def fence_async_shared(cluster: bool = False) -> None:
    """Do nothing: copies see what the program wrote to shared memory before."""


def __getattr__(name: str) -> Any:
    return refused("hopper", name)


__all__ = ["fence_async_shared", "mbarrier", "tma"]
