"""Triton kernels that run on simulated machines: `import kernbench.triton as triton`."""

from __future__ import annotations

from typing import Any

from kernbench.triton import backends, compiler, errors, experimental, knobs, language, profiler, runtime, testing, tools
from kernbench.triton.aggregates import aggregate
from kernbench.triton.arguments import MockTensor, TensorWrapper, reinterpret
from kernbench.triton.arguments import TensorPointers as pointers
from kernbench.triton.compile_time import constexpr_function, must_use_result
from kernbench.triton.compiler import compile
from kernbench.triton.dtypes import NameRefused, TritonError
from kernbench.triton.errors import CompilationError, InterpreterError, OutOfResources
from kernbench.triton.jit import JITFunction, KernelInterface, jit
from kernbench.triton.names import REFUSED_ON_HOST
from kernbench.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics

__version__ = "3.8.0"  #: the version of Triton whose language is implemented


def cdiv(x: int, y: int) -> int:
    """Return `x / y`, rounded up to an integer."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least `n`."""
    return 1 << max(0, int(n) - 1).bit_length()


def set_allocator(allocator: Any) -> None:
    """Accept an allocator for descriptors that kernels make, and ignore it: such descriptors need no memory in kernbench."""


def __getattr__(name: str) -> Any:
    """Raise an error for a name of Triton that exists only for GPUs; the error names the replacement."""
    if name in REFUSED_ON_HOST:
        raise NameRefused(f"triton.{name} is not supported: {REFUSED_ON_HOST[name]}")
    raise AttributeError(f"kernbench.triton has no {name}")


# fmt: off
__all__ = [
    "Autotuner", "CompilationError", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface", "MockTensor",
    "OutOfResources", "TensorWrapper", "TritonError", "aggregate", "autotune", "backends", "cdiv", "compile", "compiler",
    "constexpr_function", "errors", "experimental", "heuristics", "jit", "knobs", "language", "must_use_result",
    "next_power_of_2", "pointers", "profiler", "reinterpret", "runtime", "set_allocator", "testing", "tools",
]
# fmt: on
