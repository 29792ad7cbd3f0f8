"""`triton.compiler.compiler`: what `kernel.warmup` returns, and names of the compiler that are refused when they are used."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import CompiledKernel

_REFUSED = "nothing is compiled here: kernels run as Python; launch them by kernel[grid](...)"


class ASTSource:
    """The source of a kernel for `compile`; TritonError when one is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TritonError(f"triton.compiler.ASTSource: {_REFUSED}")


class IRSource:
    """A kernel in an intermediate language for `compile`; TritonError when one is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TritonError(f"triton.compiler.IRSource: {_REFUSED}")


def compile(*args: Any, **kwargs: Any) -> Any:
    """TritonError."""
    raise TritonError(f"triton.compile: {_REFUSED}")


def triton_key() -> str:
    """The key of the compiler in caches of compiled kernels: that of this package, which compiles none."""
    from kernbench import __version__

    return f"kernbench-{__version__}"


__all__ = ["ASTSource", "CompiledKernel", "IRSource", "compile", "triton_key"]
