"""Shapes as kernels write them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from kernbench.triton_emu.errors import KernelError


def lengths_of(shape: Any, line: str) -> tuple[int, ...]:
    """The lengths of all axes: of an integer, or a sequence of integers, of Python or numpy. KernelError for anything else."""
    try:
        return tuple(index(one) for one in shape) if isinstance(shape, Iterable) else (index(shape),)
    except TypeError:
        raise KernelError(f"{line}: a shape must be an integer or a tuple of integers, and this is {shape!r}") from None
