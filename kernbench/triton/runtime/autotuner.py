"""`triton.runtime.autotuner`: the classes of autotuning, under Triton's module path."""

from __future__ import annotations

from kernbench.triton.errors import OutOfResources, PTXASError
from kernbench.triton.jit import KernelInterface
from kernbench.triton.runtime.driver import driver
from kernbench.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "KernelInterface",
    "OutOfResources",
    "PTXASError",
    "autotune",
    "driver",
    "heuristics",
]
