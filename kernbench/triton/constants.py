"""`tl.constexpr`: a constant of the compiler as an object with Triton's interface. A parameter of a kernel gets the plain
value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any


class constexpr:
    """A constant: `value`, with operators that make further constants. A parameter with this annotation is a plain Python
    value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = plain(value)

    @property
    def type(self) -> str:
        """The name that Triton's compiler has for the type of a constant."""
        return f"constexpr_type[{self.value}]"

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[plain(index)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def logical_and(self, other: Any) -> constexpr:
        """Return `self and other`, under the name that Triton's compiler uses."""
        return constexpr(self.value and plain(other))

    def logical_or(self, other: Any) -> constexpr:
        """Return `self or other`, under the name that Triton's compiler uses."""
        return constexpr(self.value or plain(other))

    def not_(self) -> constexpr:
        """Return `not self`, under the name that Triton's compiler uses."""
        return constexpr(not self.value)


def plain(value: Any) -> Any:
    """Return the value of a constant; return any other value unchanged."""
    while isinstance(value, constexpr):
        value = value.value
    return value


def _operator(function: Any, swapped: bool) -> Any:
    def method(self: constexpr, other: Any) -> Any:
        if getattr(type(other), "takes_constants", False):  # a tensor has the operator
            return NotImplemented
        first, second = (plain(other), self.value) if swapped else (self.value, plain(other))
        return constexpr(function(first, second))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(constexpr, f"__{_name}__", _operator(_function, swapped=False))
    setattr(constexpr, f"__r{_name}__", _operator(_function, swapped=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(constexpr, f"__{_name}__", _operator(getattr(operator, _name), swapped=False))
