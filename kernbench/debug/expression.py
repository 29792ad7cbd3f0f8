"""Watch expressions: a small language over the state of a run. Expressions are never evaluated as Python.

te0.entry == 2 and dma0.bytes_left > 0
spm.bank[3].denials - spm.bank[3].grants > 10
pe0.line == "ring_schedule.py:130"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from kernbench.common.errors import InputError, Problem

Value: TypeAlias = "int | float | Fraction | str | bool | None"
#: The value of a name in a state; LookupError if the state has no such name.
Lookup: TypeAlias = Callable[["Name"], Value]

LONGEST = 1000  # characters
DEEPEST = 40  # limit of nested parentheses and unary operators
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_\-]*)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>==|!=|<=|>=|[-+*/%<>().,\[\]]))"
)
_WORDS = ("and", "or", "not", "true", "false", "none")
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


@dataclass(frozen=True, slots=True)
class Name:
    """A name with its parts: `spm.bank[3].denials` is ("spm", "bank", 3, "denials")."""

    parts: tuple[str | int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression after parsing. `value` computes it for one state."""

    text: str
    names: tuple[Name, ...]
    _run: Callable[[Lookup], Value]

    def value(self, lookup: Lookup) -> Value:
        """The value; None if a name has no value now, or if the value cannot be computed."""
        return self._run(lookup)


def read(text: str) -> Expression:
    """Parse an expression. InputError, with the position, if the text is not an expression."""
    if len(text) > LONGEST:
        raise InputError(Problem("expression", f"it has {len(text):,} characters, and at most {LONGEST:,} are read"))
    parser = _Parser(text)
    run = parser.either(0)
    if parser.at < len(parser.tokens):
        raise parser.wrong("an operator or the end")
    return Expression(text.strip(), tuple(parser.names), run)


Run: TypeAlias = Callable[[Lookup], Value]


class _Parser:
    """Recursive descent: or, and, not, comparison, sum, product, sign, value."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.names = text, 0, list[Name]()
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, position
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                place = position + len(text[position:]) - len(text[position:].lstrip())
                raise InputError(Problem("expression", f"column {place + 1}: no name, number or operator", "text", text))
            kind = str(found.lastgroup)
            self.tokens.append((kind, found.group(kind), found.start(kind)))
            position = found.end()

    def wrong(self, wanted: str) -> InputError:
        place = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        return InputError(Problem("expression", f"column {place + 1}: {wanted} is missing", "text", self.text))

    def peek(self) -> str:
        kind, text, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("", "", 0)
        return "" if kind == "text" else text

    def take(self, *wanted: str) -> str:
        found = self.peek()
        if found and found in wanted:
            self.at += 1
            return found
        return ""

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wrong(sign)

    def either(self, depth: int) -> Run:
        parts = [self.both(depth)]
        while self.take("or"):
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else lambda lookup: any(bool(part(lookup)) for part in parts)

    def both(self, depth: int) -> Run:
        parts = [self.inverse(depth)]
        while self.take("and"):
            parts.append(self.inverse(depth))
        return parts[0] if len(parts) == 1 else lambda lookup: all(bool(part(lookup)) for part in parts)

    def inverse(self, depth: int) -> Run:
        if depth > DEEPEST:
            raise InputError(Problem("expression", f"it is nested deeper than {DEEPEST} levels"))
        if self.take("not"):
            inner = self.inverse(depth + 1)
            return lambda lookup: not inner(lookup)
        return self.comparison(depth)

    def comparison(self, depth: int) -> Run:
        left = self.sum(depth)
        sign = self.take("==", "!=", "<=", ">=", "<", ">")
        if not sign:
            return left
        right, compare = self.sum(depth), _COMPARE[sign]
        return lambda lookup: compare(left(lookup), right(lookup))

    def sum(self, depth: int) -> Run:
        made = self.product(depth)
        while sign := self.take("+", "-"):
            made = _joined(_ARITHMETIC[sign], made, self.product(depth))
        return made

    def product(self, depth: int) -> Run:
        made = self.single(depth)
        while sign := self.take("*", "/", "%"):
            made = _joined(_ARITHMETIC[sign], made, self.single(depth))
        return made

    def single(self, depth: int) -> Run:
        if depth > DEEPEST:
            raise InputError(Problem("expression", f"it is nested deeper than {DEEPEST} levels"))
        if self.take("-"):
            return _joined(operator.sub, lambda lookup: 0, self.single(depth + 1))
        if self.take("("):
            inner = self.either(depth + 1)
            self.need(")")
            return inner
        if self.at == len(self.tokens):
            raise self.wrong("a value")
        kind, text, _ = self.tokens[self.at]
        if kind in ("number", "text") or text in ("true", "false", "none"):
            self.at += 1
            constant: Value = text[1:-1]
            if kind == "number":
                constant = Fraction(text) if "." in text else int(text)
            elif kind == "name":
                constant = {"true": True, "false": False, "none": None}[text]
            return lambda lookup: constant
        if kind != "name" or text in _WORDS:
            raise self.wrong("a value")
        if text in FUNCTIONS and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][1] == "(":
            return self.call(text, depth)
        name = self.name()
        self.names.append(name)
        return lambda lookup: lookup(name)

    def call(self, function: str, depth: int) -> Run:
        self.at += 2
        arguments = [self.either(depth + 1)]
        while self.take(","):
            arguments.append(self.either(depth + 1))
        self.need(")")
        if function == "abs" and len(arguments) != 1:
            raise InputError(Problem("expression", "abs takes one value", "text", self.text))
        return lambda lookup: _called(FUNCTIONS[function], [one(lookup) for one in arguments])

    def name(self) -> Name:
        parts: list[str | int] = [self.tokens[self.at][1]]
        start = self.tokens[self.at][2]
        self.at += 1
        while True:
            kind = ""
            if self.take("."):
                kind = self.tokens[self.at][0] if self.at < len(self.tokens) else ""
                if kind not in ("name", "number"):
                    raise self.wrong("the next part of the name")
                parts.append(self.tokens[self.at][1])
                self.at += 1
            elif self.take("["):
                kind, text, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("", "", 0)
                if kind != "number" or "." in text:
                    raise self.wrong("a whole number")
                parts.append(int(text))
                self.at += 1
                self.need("]")
            else:
                break
        end = self.tokens[self.at - 1]
        return Name(tuple(parts), self.text[start : end[2] + len(end[1])])


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float, Fraction))


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], Value]:
    """A comparison of numbers or of texts; None for other values, such as a name without a value."""

    def run(left: Value, right: Value) -> Value:
        fits = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return compare(left, right) if fits else False

    return run


_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: Fraction(left) / Fraction(right),
    "%": operator.mod,
}


def _joined(compute: Callable[[Any, Any], Any], left: Run, right: Run) -> Run:
    def run(lookup: Lookup) -> Value:
        return _called(compute, [left(lookup), right(lookup)])

    return run


def _called(function: Callable[..., Any], values: Sequence[Value]) -> Value:
    """The result for numbers; None for other values, and for a division by zero."""
    if not all(map(_is_number, values)):
        return None
    try:
        found: Value = function(*values)
    except (ArithmeticError, ValueError):  # a division by zero, or a result that is not a number
        return None
    return found


def shown(value: Value) -> str:
    """The text of a value."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Fraction):
        return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):.4g}"
    return f"{value:.6g}" if isinstance(value, float) else value
