"""What the source of a kernel means to Triton, and not to Python.

Named numbers are tensors where the kernel uses what only tensors have (`x = 1; x.dtype`). `a if condition else b` of a
condition that is computed after the timing takes both, and selects.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor


class _Float(float):
    """A float that a device function returned: in Triton it is a tensor by then, and kernels ask for its type."""

    def __getattr__(self, name: str) -> Any:
        return getattr(as_tensor(float(self)), name)


class _Int(int):
    """The same of an integer."""

    def __getattr__(self, name: str) -> Any:
        return getattr(as_tensor(int(self)), name)


def returned(value: Any) -> Any:
    """What a device function returns, as its caller gets it."""
    kind = type(value)
    if kind is tuple:
        return tuple([returned(one) for one in value])
    return _Float(value) if kind is float else _Int(value) if kind is int else value


_MAKE, _CHOOSE = "__kernbench_tensor", "__kernbench_choose"


def choose(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first() if condition else second()`; of one pending condition `tl.where` of both."""
    if isinstance(condition, tensor) and condition.numel == 1 and condition.known is None:
        both = plain(first()), plain(second())
        if all(isinstance(one, tensor | int | float) for one in both):
            return FUNCTIONS["where"](condition, *both)
    return first() if condition else second()


class _Choices(ast.NodeTransformer):
    """Calls of `choose` instead of conditional expressions."""

    found = False

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if any(isinstance(one, ast.NamedExpr) for one in ast.walk(node)):
            return node  # a name of its own would be the name of a lambda
        self.found = True
        no_arguments = ast.arguments([], [], None, [], [], None, [])
        ways = [ast.copy_location(ast.Lambda(no_arguments, one), one) for one in (node.body, node.orelse)]
        return ast.copy_location(ast.Call(ast.Name(_CHOOSE, ast.Load()), [node.test, *ways], []), node)


def with_tensors(fn: FunctionType) -> FunctionType:
    """The function as Triton means it; itself, where Python means the same or no source is known."""
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
    choices = _Choices()
    body.decorator_list, body.body = [], [choices.visit(one) for one in body.body]
    if not named and not choices.found:
        return fn
    for one in named:
        made = ast.Call(ast.Name(_MAKE, ast.Load()), [one.value], [])
        one.value = ast.copy_location(made, one.value)
    free = fn.__code__.co_freevars
    outer = ast.parse(f"def outer({', '.join(free)}):\n    pass")
    assert isinstance(outer.body[0], ast.FunctionDef)
    outer.body[0].body = [body, ast.Return(ast.Name(body.name, ast.Load()))] if free else [body]
    ast.increment_lineno(body, first - 1)
    found = _code_of(compile(ast.fix_missing_locations(outer), fn.__code__.co_filename, "exec"), body.name)
    if found is None or found.co_freevars != free:
        return fn
    fn.__globals__.setdefault(_MAKE, as_tensor)
    fn.__globals__.setdefault(_CHOOSE, choose)
    made_fn = FunctionType(found, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made_fn.__kwdefaults__, made_fn.__annotations__ = fn.__kwdefaults__, fn.__annotations__
    made_fn.__module__, made_fn.__qualname__, made_fn.__doc__ = fn.__module__, fn.__qualname__, fn.__doc__
    return made_fn


#: What a kernel asks of a number that only tensors have.
_OF_TENSORS = frozenset({"dtype", "type", "to", "shape", "numel", "handle", "broadcast_to", "cast"})


def _may_have(code: CodeType) -> bool:
    return bool(_OF_TENSORS.intersection(code.co_names)) or _may_choose(code)


_CONDITIONAL = re.compile(r"\belse\b(?!\s*:)")


def _may_choose(code: CodeType) -> bool:
    """Whether lines of a function may have a conditional expression."""
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last]
    return any("else" in one and _CONDITIONAL.search(one) for one in lines)


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
