"""`tl.extra.cuda`: libdevice, and the waits of programmatic dependent launch, which return at once here."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import int32
from kernbench.triton.language.extra import libdevice
from kernbench.triton.program import current
from kernbench.triton.tensor import number_tensor


def gdc_wait() -> None:
    """Wait until earlier kernels of the stream have ended. The call returns at once, because launches run one after another."""
    current()


def gdc_launch_dependents() -> None:
    """Accept the request to start the next kernel of the stream early, and ignore it."""
    current()


def num_threads() -> Any:
    """Return the number of threads of a program, which is 1."""
    return number_tensor(1, int32)


def num_warps() -> Any:
    """Return the number of warps of a program, which is 1."""
    return number_tensor(1, int32)


__all__ = ["gdc_launch_dependents", "gdc_wait", "libdevice", "num_threads", "num_warps"]
