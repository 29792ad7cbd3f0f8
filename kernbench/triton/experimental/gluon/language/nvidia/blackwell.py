"""`gluon.language.nvidia.blackwell`: `tma` and `mbarrier`. Uses of tensor memory and of tensor cores are refused."""

from __future__ import annotations

from typing import Any

from kernbench.triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from kernbench.triton.experimental.gluon.refused import refused


def __getattr__(name: str) -> Any:
    return refused("blackwell", name)


__all__ = ["fence_async_shared", "mbarrier", "tma"]
