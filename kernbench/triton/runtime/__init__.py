"""`triton.runtime`: the device, autotuning, kernels and errors, by Triton's names."""

from __future__ import annotations

from kernbench.triton.errors import InterpreterError, OutOfResources
from kernbench.triton.runtime import autotuner, errors, jit
from kernbench.triton.runtime.autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from kernbench.triton.runtime.driver import driver
from kernbench.triton.runtime.jit import JITFunction, KernelInterface, MockTensor, TensorWrapper, reinterpret

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "autotune",
    "autotuner",
    "driver",
    "errors",
    "heuristics",
    "jit",
    "reinterpret",
]
