"""Triton kernels on simulated machines: `import kernbench.triton as triton`."""

from __future__ import annotations

from kernbench.triton import language
from kernbench.triton.arguments import TensorPointers as pointers
from kernbench.triton.dtypes import TritonError
from kernbench.triton.jit import JITFunction, jit
from kernbench.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics


def cdiv(x: int, y: int) -> int:
    """`x / y`, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 << max(0, int(n) - 1).bit_length()


# fmt: off
__all__ = [
    "Autotuner", "Config", "Heuristics", "JITFunction", "TritonError", "autotune", "cdiv", "heuristics", "jit", "language",
    "next_power_of_2", "pointers",
]
# fmt: on
