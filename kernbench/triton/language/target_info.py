"""`tl.target_info`: what kernels ask about the target. It is the simulated machine, and so no GPU of a vendor."""

from __future__ import annotations

from typing import Any

from kernbench.triton.constants import constexpr
from kernbench.triton.runtime.driver import driver

__all__ = [
    "cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4", "is_hip_gfx1250",
]  # fmt: skip


def current_target() -> Any:
    """Of the active driver: backend `cpu`, and the name of the machine."""
    return driver.active.get_current_target()


def cuda_capability_geq(major: int, minor: int = 0) -> constexpr:
    """False: the machine has no capability of CUDA."""
    return constexpr(False)


def is_cuda() -> constexpr:
    """False, as the other functions whose names begin with `is_`."""
    return constexpr(False)


is_hip = is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_cuda
