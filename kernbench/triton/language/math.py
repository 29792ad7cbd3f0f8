"""`tl.math`: elementwise functions of floats. Each function computes in f32 and rounds once to the type of its operand."""

from __future__ import annotations

from typing import Any

from kernbench.triton.elementwise import abs_ as abs
from kernbench.triton.elementwise import clamp, fma, function, pair, test, umulhi
from kernbench.triton.elementwise import maximum as max
from kernbench.triton.elementwise import minimum as min
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor


def of_one(name: str, doc: str, op: str = "") -> Any:
    def made(x: Any) -> tensor:
        return function(op or name, x, name)

    made.__name__, made.__doc__ = name, doc
    return made


exp = of_one("exp", "e to the power of x.")
exp2 = of_one("exp2", "2 to the power of x.")
log = of_one("log", "Natural logarithms.")
log2 = of_one("log2", "Logarithms to base 2.")
sqrt = of_one("sqrt", "Square roots.")
sqrt_rn = of_one("sqrt_rn", "Square roots, rounded to nearest.", "sqrt")
rsqrt = of_one("rsqrt", "1 / sqrt(x).")
sigmoid = of_one("sigmoid", "1 / (1 + exp(-x)).")
tanh = of_one("tanh", "Hyperbolic tangents.")
erf = of_one("erf", "The error function.")
sin = of_one("sin", "Sines.")
cos = of_one("cos", "Cosines.")
floor = of_one("floor", "Rounded down.")
ceil = of_one("ceil", "Rounded up.")
tan = of_one("tan", "Tangents.")
asin = of_one("asin", "Arcsines.")
acos = of_one("acos", "Arccosines.")
atan = of_one("atan", "Arctangents.")
sinh = of_one("sinh", "Hyperbolic sines.")
cosh = of_one("cosh", "Hyperbolic cosines.")
asinh = of_one("asinh", "Inverses of sinh.")
acosh = of_one("acosh", "Inverses of cosh.")
atanh = of_one("atanh", "Inverses of tanh.")
log1p = of_one("log1p", "log(1 + x).")
log10 = of_one("log10", "Logarithms to base 10.")
expm1 = of_one("expm1", "exp(x) - 1.")
exp10 = of_one("exp10", "10 to the power of x.")
cbrt = of_one("cbrt", "Cube roots.")
trunc = of_one("trunc", "Cut towards zero.")
rint = of_one("rint", "Rounded to the nearest integer, ties to even.")
nearbyint = of_one("nearbyint", "As rint.", "rint")
round = of_one("round", "Rounded to the nearest integer, ties away from zero.", "round_away")


def isnan(x: Any) -> tensor:
    """Return true where `x` is NaN."""
    return test("isnan", x)


def isinf(x: Any) -> tensor:
    """Return true where `x` is infinite."""
    return test("isinf", x)


def pow(x: Any, y: Any) -> tensor:
    """Return `x` to the power of `y`."""
    return pair("pow", x, y)


def atan2(x: Any, y: Any) -> tensor:
    """Return the angle [rad] of the point whose ordinate is `y` and whose abscissa is `x`."""
    return pair("atan2", x, y)


def hypot(x: Any, y: Any) -> tensor:
    """Return `sqrt(x * x + y * y)`."""
    return pair("hypot", x, y)


def copysign(x: Any, y: Any) -> tensor:
    """Return the absolute value of `x` with the sign of `y`."""
    return pair("copysign", x, y)


def fmod(x: Any, y: Any) -> tensor:
    """Return the remainder of `x / y`, with the sign of `x`."""
    return pair("mod", x, y)


def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> Any:
    """Return `x / y`, rounded to nearest like every division here."""
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
