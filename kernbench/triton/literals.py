"""Rewrites parts of a kernel's source that have another meaning in Triton than in Python.

- A variable that holds a number becomes a tensor if the kernel uses an attribute that only tensors have (`x = 1; x.dtype`).
- The expression `a if condition else b` evaluates both sides and selects if the condition is computed after the timing.
- The operators `and` and `or` combine tensors element by element. Conditions of `if` and `while` are unchanged, because they
  must be single known values.
- The statement `assert` is `tl.device_assert`, so it checks all elements of a tensor.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor


class _Float(float):
    """A float that a device function returned. In Triton the value is a tensor, so attributes of tensors work."""

    def __getattr__(self, name: str) -> Any:
        return getattr(as_tensor(float(self)), name)


class _Int(int):
    """An integer that a device function returned. In Triton the value is a tensor, so attributes of tensors work."""

    def __getattr__(self, name: str) -> Any:
        return getattr(as_tensor(int(self)), name)


RETURNED = (_Float, _Int)  #: numbers that device functions returned


def returned(value: Any) -> Any:
    """Convert the result of a device function for its caller."""
    kind = type(value)
    if kind is tuple:
        return tuple([returned(one) for one in value])
    return _Float(value) if kind is float else _Int(value) if kind is int else value


_MAKE, _CHOOSE = "__kernbench_tensor", "__kernbench_choose"
_AND, _OR, _ASSERT = "__kernbench_and", "__kernbench_or", "__kernbench_assert"


def choose(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """Return `first() if condition else second()`. If the condition is a single pending element, return `tl.where` of both."""
    if isinstance(condition, tensor) and condition.numel == 1 and condition.known is None:
        both = plain(first()), plain(second())
        if all(isinstance(one, tensor | int | float) for one in both):
            return FUNCTIONS["where"](condition, *both)
    return first() if condition else second()


def all_of(first: Any, *others: Callable[[], Any]) -> Any:
    """Return `first and others[0]() and ...`. Tensors of several elements or pending elements are combined by `logical_and`."""
    found = first
    for one in others:
        if _combines(found):
            found = FUNCTIONS["logical_and"](found, one())
        elif not found:
            return found
        else:
            found = one()
    return found


def any_of(first: Any, *others: Callable[[], Any]) -> Any:
    """Return `first or others[0]() or ...`. Tensors of several elements or pending elements are combined by `logical_or`."""
    found = first
    for one in others:
        if _combines(found):
            found = FUNCTIONS["logical_or"](found, one())
        elif found:
            return found
        else:
            found = one()
    return found


def _combines(value: Any) -> bool:
    return isinstance(value, tensor) and (value.known is None or value.numel != 1)


def check(condition: Any, message: Callable[[], Any]) -> None:
    """Check the condition of an `assert` statement: a tensor as `tl.device_assert` does, any other value as Python does."""
    found = plain(condition)
    if isinstance(found, tensor):
        FUNCTIONS["device_assert"](found, str(message()))
    elif not found:
        raise AssertionError(message())


class _Choices(ast.NodeTransformer):
    """Replaces conditional expressions, `and`, `or` and `assert` by calls of functions of this module."""

    found = False

    def __init__(self, body: ast.FunctionDef) -> None:
        """Find the `and` and `or` in conditions of statements, which stay."""
        self._kept: set[ast.AST] = set()
        for one in ast.walk(body):
            if isinstance(one, ast.If | ast.While):
                left: list[ast.AST] = [one.test]
                while left:
                    test = left.pop()
                    if isinstance(test, ast.BoolOp | ast.UnaryOp):
                        self._kept.add(test)
                        left += list(ast.iter_child_nodes(test))

    def _called(self, node: ast.AST, name: str, first: ast.expr, others: Sequence[ast.expr]) -> ast.expr:
        """Return a call of a function, whose arguments after the first one are functions without parameters."""
        self.found = True
        no_arguments = ast.arguments([], [], None, [], [], None, [])
        ways = [ast.copy_location(ast.Lambda(no_arguments, one), one) for one in others]
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [first, *ways], []), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return node if _names_a_value(node) else self._called(node, _CHOOSE, node.test, [node.body, node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if node in self._kept or _names_a_value(node):
            return node
        return self._called(node, _AND if isinstance(node.op, ast.And) else _OR, node.values[0], node.values[1:])

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        if _names_a_value(node):
            return node
        message = node.msg or ast.copy_location(ast.Constant(""), node)
        return ast.copy_location(ast.Expr(self._called(node, _ASSERT, node.test, [message])), node)


def _names_a_value(node: ast.AST) -> bool:
    """Return whether `:=` is inside of the node. In a lambda, the name would be one of the lambda."""
    return any(isinstance(one, ast.NamedExpr) for one in ast.walk(node))


def with_tensors(fn: FunctionType, change: Callable[[ast.FunctionDef, int], dict[str, Any]] | None = None) -> FunctionType:
    """Return the function with Triton's meaning. Return it unchanged if Python means the same, or if the source is not known.

    `change` makes further changes of the source, which begins at the given line. It returns the names that the new source uses.
    """
    if change is None and not _may_have(fn.__code__):
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
    helpers = {} if change is None else change(body, first)
    choices = _Choices(body)
    body.decorator_list, body.body = [], [choices.visit(one) for one in body.body]
    if not named and not choices.found and not helpers:
        return fn
    for one in named:
        made = ast.Call(ast.Name(_MAKE, ast.Load()), [one.value], [])
        one.value = ast.copy_location(made, one.value)
    free = fn.__code__.co_freevars
    outer = ast.parse(f"def outer({', '.join(free)}):\n    pass")
    assert isinstance(outer.body[0], ast.FunctionDef)
    outer.body[0].body = [body, ast.Return(ast.Name(body.name, ast.Load()))] if free else [body]
    ast.increment_lineno(body, first - 1)
    code = _code_of(compile(ast.fix_missing_locations(outer), fn.__code__.co_filename, "exec"), body.name)
    if code is None or code.co_freevars != free:
        return fn
    own = {_MAKE: as_tensor, _CHOOSE: choose, _AND: all_of, _OR: any_of, _ASSERT: check}
    for name, helper in {**own, **helpers}.items():
        fn.__globals__.setdefault(name, helper)
    made_fn = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made_fn.__kwdefaults__, made_fn.__annotations__ = fn.__kwdefaults__, fn.__annotations__
    made_fn.__module__, made_fn.__qualname__, made_fn.__doc__ = fn.__module__, fn.__qualname__, fn.__doc__
    return made_fn


#: Attributes of tensors that a kernel uses on a number.
_OF_TENSORS = frozenset({"dtype", "type", "to", "shape", "numel", "handle", "broadcast_to", "cast"})


def _may_have(code: CodeType) -> bool:
    return bool(_OF_TENSORS.intersection(code.co_names)) or _may_choose(code)


_CONDITIONAL = re.compile(r"\belse\b(?!\s*:)|^(?!\s*(?:el)?if\b|\s*while\b|\s*#).*\b(?:and|or)\b|^\s*assert\b")


def _may_choose(code: CodeType) -> bool:
    """Return whether the code of a function may have a conditional expression, `assert`, or `and` or `or` outside of
    conditions.
    """
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last]
    return any(_CONDITIONAL.search(one) for one in lines)


def _asked(body: ast.FunctionDef) -> set[str]:
    """Return the local names of which the function uses an attribute of tensors: `x.to`, or `(x + 1).to`."""
    found = set()
    for one in ast.walk(body):
        if isinstance(one, ast.Attribute) and one.attr in _OF_TENSORS:
            left = [one.value]
            while left:
                value = left.pop()
                if isinstance(value, ast.Name):
                    found.add(value.id)
                elif isinstance(value, ast.BinOp | ast.UnaryOp):
                    left += [child for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr)]
    return found


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        value = value.operand
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and not isinstance(value.value, bool)


def _code_of(code: CodeType, name: str) -> CodeType | None:
    """Return the code of the function with this name inside the code of a module."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_name == name:
                return one
            inside = _code_of(one, name)
            if inside is not None:
                return inside
    return None
