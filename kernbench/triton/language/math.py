"""`tl.math`: functions of floats, elementwise. Each is computed in f32 and rounded once to the type of its operand."""

from __future__ import annotations

from typing import Any

from kernbench.triton.elementwise import abs_ as abs
from kernbench.triton.elementwise import clamp, fma, function, pair, test, umulhi
from kernbench.triton.elementwise import maximum as max
from kernbench.triton.elementwise import minimum as min
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor


def _of_one(name: str, doc: str, op: str = "") -> Any:
    def made(x: Any) -> tensor:
        return function(op or name, x, name)

    made.__name__, made.__doc__ = name, doc
    return made


exp = _of_one("exp", "e to the power of x.")
exp2 = _of_one("exp2", "2 to the power of x.")
log = _of_one("log", "Natural logarithms.")
log2 = _of_one("log2", "Logarithms to base 2.")
sqrt = _of_one("sqrt", "Square roots.")
sqrt_rn = _of_one("sqrt_rn", "Square roots, rounded to nearest.", "sqrt")
rsqrt = _of_one("rsqrt", "1 / sqrt(x).")
sigmoid = _of_one("sigmoid", "1 / (1 + exp(-x)).")
tanh = _of_one("tanh", "Hyperbolic tangents.")
erf = _of_one("erf", "The error function.")
sin = _of_one("sin", "Sines.")
cos = _of_one("cos", "Cosines.")
floor = _of_one("floor", "Rounded down.")
ceil = _of_one("ceil", "Rounded up.")
tan = _of_one("tan", "Tangents.")
asin = _of_one("asin", "Arcsines.")
acos = _of_one("acos", "Arccosines.")
atan = _of_one("atan", "Arctangents.")
sinh = _of_one("sinh", "Hyperbolic sines.")
cosh = _of_one("cosh", "Hyperbolic cosines.")
asinh = _of_one("asinh", "Inverses of sinh.")
acosh = _of_one("acosh", "Inverses of cosh.")
atanh = _of_one("atanh", "Inverses of tanh.")
log1p = _of_one("log1p", "log(1 + x).")
log10 = _of_one("log10", "Logarithms to base 10.")
expm1 = _of_one("expm1", "exp(x) - 1.")
exp10 = _of_one("exp10", "10 to the power of x.")
cbrt = _of_one("cbrt", "Cube roots.")
trunc = _of_one("trunc", "Cut towards zero.")
rint = _of_one("rint", "Rounded to the nearest integer, ties to even.")
nearbyint = _of_one("nearbyint", "As rint.", "rint")
round = _of_one("round", "Rounded to the nearest integer, ties away from zero.", "round_away")


def isnan(x: Any) -> tensor:
    """Where x is NaN."""
    return test("isnan", x)


def isinf(x: Any) -> tensor:
    """Where x is infinite."""
    return test("isinf", x)


def pow(x: Any, y: Any) -> tensor:
    """x to the power of y."""
    return pair("pow", x, y)


def atan2(x: Any, y: Any) -> tensor:
    """The angle of the point (y, x)."""
    return pair("atan2", x, y)


def hypot(x: Any, y: Any) -> tensor:
    """sqrt(x * x + y * y)."""
    return pair("hypot", x, y)


def copysign(x: Any, y: Any) -> tensor:
    """The size of x with the sign of y."""
    return pair("copysign", x, y)


def fmod(x: Any, y: Any) -> tensor:
    """The remainder of x / y, with the sign of x."""
    return pair("mod", x, y)


def fdiv(x: Any, y: Any) -> Any:
    """x / y."""
    return as_tensor(x) / y


div_rn = fdiv
fabs = abs
FUNCTIONS["sqrt_rn"] = sqrt_rn
# fmt: off
__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clamp",
    "copysign",
    "cos",
    "cosh",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "fabs",
    "fdiv",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "min",
    "nearbyint",
    "pow",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sqrt_rn",
    "tan",
    "tanh",
    "trunc",
    "umulhi",
]
# fmt: on
