"""`triton.runtime.jit`: the classes of kernels, under Triton's module path."""

from __future__ import annotations

from kernbench.triton.arguments import MockTensor, TensorWrapper, reinterpret
from kernbench.triton.dtypes import CANONICAL as type_canonicalisation_dict
from kernbench.triton.jit import JITFunction, KernelInterface, jit
from kernbench.triton.runtime.driver import driver

T = JITFunction  #: Triton's type variable for annotations
__all__ = [
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "T",
    "TensorWrapper",
    "driver",
    "jit",
    "reinterpret",
    "type_canonicalisation_dict",
]
