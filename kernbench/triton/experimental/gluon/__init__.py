"""`triton.experimental.gluon`: kernels for the registers and memories of one GPU. A launch raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench.triton.dtypes import TritonError
from kernbench.triton.experimental.gluon import language
from kernbench.triton.jit import JITFunction


class GluonJITFunction(JITFunction):
    """A kernel of Gluon."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Raise TritonError, because Gluon kernels cannot run on a simulated machine."""
        raise TritonError(
            f"{self.__name__} is a kernel of Gluon, which places tensors in the registers and memories of one GPU; these "
            "machines run kernels of triton.jit"
        )


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel or a device function of Gluon from a Python function."""
    return GluonJITFunction if fn is None else GluonJITFunction(fn)


__all__ = ["GluonJITFunction", "jit", "language"]
