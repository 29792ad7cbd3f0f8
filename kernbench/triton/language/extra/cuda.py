"""`tl.extra.cuda`: libdevice, and the waits of programmatic dependent launch, which have nothing to wait for here."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import int32
from kernbench.triton.language.extra import libdevice
from kernbench.triton.program import current
from kernbench.triton.tensor import number_tensor


def gdc_wait() -> None:
    """Wait until earlier kernels of the stream have ended. They have: a launch begins when the one before it has ended."""
    current()


def gdc_launch_dependents() -> None:
    """Let the next kernel of the stream begin early. It does not."""
    current()


def num_threads() -> Any:
    """Threads of a program: 1."""
    return number_tensor(1, int32)


def num_warps() -> Any:
    """Warps of a program: 1."""
    return number_tensor(1, int32)


__all__ = ["gdc_launch_dependents", "gdc_wait", "libdevice", "num_threads", "num_warps"]
