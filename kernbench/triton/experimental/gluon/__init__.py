"""`triton.experimental.gluon`: kernels for the registers and memories of one GPU, which are refused at their launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench.triton.dtypes import TritonError
from kernbench.triton.experimental.gluon import language
from kernbench.triton.jit import JITFunction


class GluonJITFunction(JITFunction):
    """A kernel of Gluon."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """TritonError."""
        raise TritonError(
            f"{self.__name__} is a kernel of Gluon, which places tensors in the registers and memories of one GPU; these "
            "machines run kernels of triton.jit"
        )


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A kernel or device function of Gluon."""
    return GluonJITFunction if fn is None else GluonJITFunction(fn)


__all__ = ["GluonJITFunction", "jit", "language"]
