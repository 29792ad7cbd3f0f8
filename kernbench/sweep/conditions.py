"""Conditions on points: comparisons of axes and of the machine's values, as `dram.channels <= 2 * te.engines`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from kernbench.common.units import parse_rational

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
FORMULA = "it must be an expression of numbers with + - * / // % and parentheses"
_BY_SIZE = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
RULE = "it must be a comparison of axes, numbers and texts, with + - * / // %, and, or, not, in"


class Condition:
    """A parsed condition. ValueError for any other text."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(RULE) from None
        self.names: list[str] = []  #: requested values, in order
        _check(self._tree, self.names)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the condition holds for a point. ValueError for values of different types, KeyError for an unknown name."""
        try:
            return bool(_value(self._tree, values))
        except TypeError:
            raise ValueError("it combines values of different kinds") from None
        except ZeroDivisionError:
            raise ValueError("it divides by zero") from None

    def distance(self, values: Mapping[str, Any]) -> float:
        """The difference of the two sides of a comparison by size; 0 for any other condition. The errors are those of
        `holds`."""
        tree = self._tree
        if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], _BY_SIZE)):
            return 0.0
        try:
            return abs(float(_value(tree.comparators[0], values) - _value(tree.left, values)))
        except TypeError:
            raise ValueError("it combines values of different kinds") from None
        except ZeroDivisionError:
            raise ValueError("it divides by zero") from None


class Formula:
    """A parsed expression of numbers. ValueError for any other text."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(FORMULA) from None
        self.names: list[str] = []  #: requested values, in order
        _check(self._tree, self.names)
        if not _is_number(self._tree):
            raise ValueError(FORMULA)

    def value(self, values: Mapping[str, Any]) -> Fraction:
        """The number, exactly. ValueError if it divides by zero."""
        try:
            return Fraction(_value(self._tree, values))
        except (TypeError, OverflowError):
            raise ValueError("its values are not numbers") from None
        except ZeroDivisionError:
            raise ValueError("it divides by zero") from None


def _is_number(node: ast.expr) -> bool:
    """Whether it consists only of numbers, names and arithmetic."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_number(node.operand)
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    return _is_name(node)


def _check(node: ast.expr, names: list[str]) -> None:
    """Refuse all syntax except the forms of RULE, and collect names."""
    if _is_name(node):
        names.append(ast.unparse(node))
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, (bool, int, float, str)):
            raise ValueError(RULE)
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            _check(part, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        _check(node.operand, names)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left, names)
        _check(node.right, names)
    elif isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        for part in (node.left, *node.comparators):
            _check(part, names)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for part in node.elts:
            _check(part, names)
    else:
        raise ValueError(RULE)


def _is_name(node: ast.expr) -> bool:
    """`a`, `a.b` and `a[0].b`."""
    if isinstance(node, ast.Attribute):
        return _is_name(node.value)
    if isinstance(node, ast.Subscript):
        return _is_name(node.value) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int
    return isinstance(node, ast.Name)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if _is_name(node):
        return _exact(values[ast.unparse(node)])
    if isinstance(node, ast.Constant):
        return _exact(node.value)
    if isinstance(node, ast.BoolOp):
        parts = (bool(_value(part, values)) for part in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, values)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Compare):
        sides = [_value(part, values) for part in (node.left, *node.comparators)]
        return all(_COMPARE[type(op)](a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False))
    assert isinstance(node, (ast.List, ast.Tuple))
    return [_value(part, values) for part in node.elts]


def _exact(value: Any) -> Any:
    """Numbers as exact rationals, including texts `p/q` of a machine; all other values unchanged."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str) and "/" not in value:
        return value
    try:
        return Fraction(parse_rational(value))
    except ValueError:
        return value
