"""`triton.compiler.compiler`: the result of `kernel.warmup`, and names of the compiler that raise an error when used."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import CompiledKernel, JITFunction
from kernbench.version import VERSION

_REFUSED = "nothing is compiled here: kernels run as Python; launch them by kernel[grid](...)"


class ASTSource:
    """A kernel with its constants, as input of `compile`."""

    def __init__(self, fn: JITFunction, signature: Any, constexprs: Any = None, attrs: Any = None) -> None:
        self.fn, self.signature = fn, signature
        self.constants = {
            fn.arg_names[name] if isinstance(name, int) else name[0] if isinstance(name, tuple) else name: value
            for name, value in dict(constexprs or {}).items()
        }


class IRSource:
    """A kernel in an intermediate language, as input of `compile`. Making an instance raises TritonError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TritonError(f"triton.compiler.IRSource: {_REFUSED}")


def compile(src: Any, target: Any = None, options: Any = None) -> CompiledKernel:
    """Return the same CompiledKernel as `kernel.warmup`.

    Nothing is compiled, so the rules of Triton's compiler are not checked.

    Raises
    ------
    TritonError
        If `src` is not an ASTSource of a kernel.
    """
    if not isinstance(src, ASTSource):
        raise TritonError(f"triton.compile of a {type(src).__name__}: {_REFUSED}")
    return CompiledKernel(src.fn, src.constants, dict(options or {}))


def triton_key() -> str:
    """Return the key of this package for caches of compiled kernels. The package itself compiles no kernels."""
    return f"kernbench-{VERSION}"


__all__ = ["ASTSource", "CompiledKernel", "IRSource", "compile", "triton_key"]
