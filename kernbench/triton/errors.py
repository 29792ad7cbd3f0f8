"""`triton.errors`, `triton.runtime.errors` and `triton.compiler.errors`: Triton's names for errors, all TritonError."""

from __future__ import annotations

from kernbench.triton.dtypes import TritonError


class CompilationError(TritonError):
    """A kernel breaks a rule of Triton's compiler."""


class UnsupportedLanguageConstruct(CompilationError):
    """A kernel uses a part of Python that Triton does not have."""


class CompileTimeAssertionFailure(CompilationError):
    """`tl.static_assert` of a false condition."""


class InterpreterError(TritonError):
    """Never raised: errors of a kernel are TritonError."""


class OutOfResources(TritonError):
    """Never raised: a tile that is too large for the scratchpad is an error that lists the tiles in it."""

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(f"out of resource: {name}, required: {required}, limit: {limit}")
        self.required, self.limit, self.name = required, limit, name


class PTXASError(TritonError):
    """Never raised: there is no PTX here."""


class AutotunerError(TritonError):
    """Never raised: errors of autotune are TritonError."""


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
