"""`triton.runtime.errors`: error classes, under Triton's module path."""

from __future__ import annotations

from kernbench.triton.errors import AutotunerError, InterpreterError, OutOfResources, PTXASError, TritonError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
