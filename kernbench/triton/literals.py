"""Named numbers of a kernel are tensors, as in Triton, where the kernel uses what only tensors have (`x = 1; x.dtype`)."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType, FunctionType

from kernbench.triton.tensor import as_tensor

_MAKE = "__kernbench_tensor"


def with_tensors(fn: FunctionType) -> FunctionType:
    """The function, whose named numbers with attributes are tensors; itself, where there are none or no source is known."""
    if not _may_have(fn.__code__):
        return fn
    try:
        text, first = inspect.getsource(fn), fn.__code__.co_firstlineno
    except (OSError, TypeError):
        return fn
    tree = ast.parse(textwrap.dedent(text))
    body = tree.body[0]
    if not isinstance(body, ast.FunctionDef):
        return fn
    wanted = _asked(body)
    named = [one for one in ast.walk(body) if isinstance(one, ast.Assign) and _is_number(one.value)]
    named = [one for one in named if isinstance(one.targets[0], ast.Name) and one.targets[0].id in wanted]
    if not named:
        return fn
    for one in named:
        made = ast.Call(ast.Name(_MAKE, ast.Load()), [one.value], [])
        one.value = ast.copy_location(made, one.value)
    body.decorator_list = []
    free = fn.__code__.co_freevars
    outer = ast.parse(f"def outer({', '.join(free)}):\n    pass")
    assert isinstance(outer.body[0], ast.FunctionDef)
    outer.body[0].body = [body, ast.Return(ast.Name(body.name, ast.Load()))] if free else [body]
    ast.increment_lineno(body, first - 1)
    found = _code_of(compile(ast.fix_missing_locations(outer), fn.__code__.co_filename, "exec"), body.name)
    if found is None or found.co_freevars != free:
        return fn
    fn.__globals__.setdefault(_MAKE, as_tensor)
    made_fn = FunctionType(found, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made_fn.__kwdefaults__, made_fn.__annotations__ = fn.__kwdefaults__, fn.__annotations__
    made_fn.__module__, made_fn.__qualname__, made_fn.__doc__ = fn.__module__, fn.__qualname__, fn.__doc__
    return made_fn


#: What a kernel asks of a number that only tensors have.
_OF_TENSORS = frozenset({"dtype", "type", "to", "shape", "numel", "handle", "broadcast_to", "cast"})


def _may_have(code: CodeType) -> bool:
    return bool(_OF_TENSORS.intersection(code.co_names))


def _asked(body: ast.FunctionDef) -> set[str]:
    """Local names of which an attribute of tensors is taken."""
    found = set()
    for one in ast.walk(body):
        if isinstance(one, ast.Attribute) and one.attr in _OF_TENSORS and isinstance(one.value, ast.Name):
            found.add(one.value.id)
    return found


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        value = value.operand
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and not isinstance(value.value, bool)


def _code_of(code: CodeType, name: str) -> CodeType | None:
    """The code of a function inside of that of a module."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_name == name:
                return one
            inside = _code_of(one, name)
            if inside is not None:
                return inside
    return None
