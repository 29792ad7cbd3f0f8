"""The names that Triton's compiler does not let a kernel read (`portable`): plain globals, Python containers, numpy, functions
that are no kernels, and most builtins.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from kernbench.triton.compile_time import CONSTANT_MARK
from kernbench.triton.errors import CompilationError

#: Builtins that kernels can use. The last one is for the checks of `scopes.py`.
BUILTINS = ("float", "getattr", "hasattr", "int", "isinstance", "len", "list", "max", "min", "print", "range", "locals")
_MODULES = ("copy", "math")  #: modules whose functions kernels can call
_PLAIN = (bool, int, float, complex, str, bytes, list, dict, set, np.ndarray, np.generic)


def check_names(fn: Any) -> None:
    """Raise CompilationError if a function reads a plain Python value or a plain function from its globals, from an enclosing
    function or from a module.
    """
    if not isinstance(fn, FunctionType):
        return
    marked = fn.__globals__.get("__annotations__", {})
    free = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for name, attributes, line in _read(fn.__code__):
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
        full, called = name, value
        for one in attributes:
            if not isinstance(called, ModuleType) or called.__name__ in _MODULES or not hasattr(called, one):
                break
            full, called = f"{full}.{one}", getattr(called, one)
        if callable(called) and not isinstance(called, type) and not _is_ours(called):
            raise CompilationError(
                f"{where}: Unsupported function referenced: {full}, as Triton's compiler says: decorate it with triton.jit, or "
                "with triton.constexpr_function if it computes constants"
            )
        if isinstance(value, _PLAIN):
            raise CompilationError(
                f"{where}: Cannot access global variable {name} from within @jit'ed function, as Triton's compiler says: make "
                f"it tl.constexpr({value!r:.40}), or pass it as an argument"
            )


def _is_ours(value: Any) -> bool:
    """Return whether a callable object is a kernel, computes constants (`constexpr_function`), or belongs to the language."""
    if getattr(value, CONSTANT_MARK, False):
        return True
    module = getattr(value, "__module__", None) or ""
    return f"{module}.".startswith("kernbench.") or type(value).__module__.startswith("kernbench.")


def _read(code: CodeType) -> Iterator[tuple[str, list[str], int]]:
    """Return the names of globals and of enclosing variables that the code reads, with the attributes that it reads from each,
    and their lines.
    """
    line = code.co_firstlineno
    name, attributes, at = "", list[str](), line
    for one in dis.get_instructions(code):
        line = one.starts_line if isinstance(one.starts_line, int) and one.starts_line > 1 else line
        if name and one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.append(str(one.argval))
            continue
        if name:
            yield name, attributes, at
        name, attributes, at = "", [], line
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            name = str(one.argval)
    if name:
        yield name, attributes, at
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from _read(inside)


def undefined_builtin(error: NameError) -> CompilationError | None:
    """Return the error for the use of a builtin that Triton's compiler does not have; None for another name."""
    name = str(error.name)
    if not hasattr(builtins, name) or name in BUILTINS:
        return None
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    assert frames is not None
    where = f"{frames.tb_frame.f_code.co_filename.rpartition('/')[2]}:{frames.tb_lineno}"
    return CompilationError(
        f"{where}: {name} is not defined, as Triton's compiler says: the builtins of kernels are {', '.join(BUILTINS[:-1])}"
    )
