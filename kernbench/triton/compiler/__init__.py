"""`triton.compiler`: names that programs import. Nothing is compiled, because kernels run as Python."""

from __future__ import annotations

from kernbench.triton.backends.compiler import GPUTarget
from kernbench.triton.compiler import compiler, errors
from kernbench.triton.compiler.compiler import ASTSource, CompiledKernel, compile
from kernbench.triton.errors import CompilationError

__all__ = ["ASTSource", "CompilationError", "CompiledKernel", "GPUTarget", "compile", "compiler", "errors"]
