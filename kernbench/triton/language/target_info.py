"""`tl.target_info`: functions with which kernels query the target. The target is the simulated machine, and no GPU."""

from __future__ import annotations

from typing import Any

from kernbench.triton.constants import constexpr
from kernbench.triton.runtime.driver import driver

__all__ = [
    "cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4", "is_hip_gfx1250",
]  # fmt: skip


def current_target() -> Any:
    """Return the target of the active driver: backend `cpu`, with the name of the machine as architecture."""
    return driver.active.get_current_target()


def cuda_capability_geq(major: int, minor: int = 0) -> constexpr:
    """Return False, because the machine has no CUDA capability."""
    return constexpr(False)


def is_cuda() -> constexpr:
    """Return False, as every function here whose name begins with `is_`."""
    return constexpr(False)


is_hip = is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_cuda
