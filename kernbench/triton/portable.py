"""The names that Triton's compiler does not let a kernel read (`portable`): plain globals, Python containers, numpy."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from kernbench.triton.errors import CompilationError

_PLAIN = (bool, int, float, complex, str, bytes, list, dict, set, np.ndarray, np.generic)


def check_names(fn: Any) -> None:
    """Raise CompilationError if a function reads a plain Python value from its globals or from an enclosing function."""
    if not isinstance(fn, FunctionType):
        return
    marked = fn.__globals__.get("__annotations__", {})
    free = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for name, line in _read(fn.__code__):
        if name in free:
            try:
                value = free[name].cell_contents
            except ValueError:  # not bound yet
                continue
        elif name in fn.__globals__ and "constexpr" not in str(marked.get(name, "")):
            value = fn.__globals__[name]
        else:
            continue
        where = f"{fn.__code__.co_filename.rpartition('/')[2]}:{line}"
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "numpy":
            raise CompilationError(f"{where}: a kernel cannot use numpy ({name}) in Triton; use functions of tl")
        if isinstance(value, _PLAIN):
            raise CompilationError(
                f"{where}: Cannot access global variable {name} from within @jit'ed function, as Triton's compiler says: make "
                f"it tl.constexpr({value!r:.40}), or pass it as an argument"
            )


def _read(code: CodeType) -> Iterator[tuple[str, int]]:
    """Return the names of globals and of enclosing variables that the code reads, with their lines."""
    line = code.co_firstlineno
    for one in dis.get_instructions(code):
        line = one.starts_line if isinstance(one.starts_line, int) and one.starts_line > 1 else line
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            yield str(one.argval), line
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from _read(inside)
