"""`triton.compiler.errors`: the error classes of the compiler, by Triton's names."""

from __future__ import annotations

from kernbench.triton.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"]
