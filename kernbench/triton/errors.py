"""The error classes of `triton.errors`, `triton.runtime.errors` and `triton.compiler.errors`. All derive from TritonError."""

from __future__ import annotations

from kernbench.triton.dtypes import TritonError


class CompilationError(TritonError):
    """The kernel breaks a rule of Triton's compiler."""


class UnsupportedLanguageConstruct(CompilationError):
    """The kernel uses a part of Python that Triton does not support."""


class CompileTimeAssertionFailure(CompilationError):
    """The condition of `tl.static_assert` is false."""


class InterpreterError(TritonError):
    """This class is never raised: errors in a kernel are TritonError."""


class OutOfResources(TritonError):
    """This class is never raised: a tile that does not fit raises an error that lists the tiles in the scratchpad."""

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(f"out of resource: {name}, required: {required}, limit: {limit}")
        self.required, self.limit, self.name = required, limit, name


class PTXASError(TritonError):
    """This class is never raised, because no PTX is assembled."""


class AutotunerError(TritonError):
    """This class is never raised: errors of autotune are TritonError."""


__all__ = [
    "AutotunerError",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "InterpreterError",
    "OutOfResources",
    "PTXASError",
    "TritonError",
    "UnsupportedLanguageConstruct",
]
