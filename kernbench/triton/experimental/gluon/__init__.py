"""`triton.experimental.gluon`: kernels that name layouts, shared memory and asynchronous copies.

Layouts are checked and change nothing, because registers are not modelled. Shared memory is the scratchpad of the PE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench.triton.aggregates import aggregate
from kernbench.triton.compile_time import constexpr_function, must_use_result
from kernbench.triton.experimental.gluon import language, nvidia
from kernbench.triton.jit import JITFunction, made_as


class GluonJITFunction(JITFunction):
    """A kernel or a device function of Gluon."""

    def is_gluon(self) -> bool:
        """Return whether it is a kernel of Gluon."""
        return True


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel or a device function of Gluon from a Python function. Options of the compiler change nothing."""
    return made_as(GluonJITFunction, fn, options)


__all__ = ["GluonJITFunction", "aggregate", "constexpr_function", "jit", "language", "must_use_result", "nvidia"]
