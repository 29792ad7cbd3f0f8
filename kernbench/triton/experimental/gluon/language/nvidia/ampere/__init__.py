"""`gluon.language.nvidia.ampere`: `async_copy` and `mbarrier`."""

from __future__ import annotations

from typing import Any

from kernbench.triton.experimental.gluon.language.nvidia.ampere import async_copy
from kernbench.triton.experimental.gluon.language.nvidia.hopper import mbarrier
from kernbench.triton.experimental.gluon.refused import refused


def __getattr__(name: str) -> Any:
    return refused("ampere", name)


__all__ = ["async_copy", "mbarrier"]
