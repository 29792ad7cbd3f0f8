"""`libdevice`: functions of `tl.math`, and functions that are composed of them.

Functions of f64, and functions that do not round to nearest, raise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench.sim_engine.replay.bessel import BESSEL
from kernbench.triton.dtypes import float32, float64, int32, int64, refuse_name, uint32
from kernbench.triton.elementwise import binary, cast, clamp, maximum, where
from kernbench.triton.language import math
from kernbench.triton.tensor import as_tensor, tensor


def _op(name: str) -> Callable[[Any, Any], tensor]:
    return lambda x, y: binary(name, x, y)


def _bits(kind: Any) -> Callable[[Any], tensor]:
    return lambda x: cast(as_tensor(x), kind, bitcast=True)


def _to(kind: Any, first: Callable[[Any], Any] = as_tensor) -> Callable[[Any], tensor]:
    return lambda x: cast(first(x), kind)


def _norm(*values: Any) -> Any:
    total: Any = binary("mul", as_tensor(values[0]), values[0])
    for one in values[1:]:
        total = math.fma(one, one, total)
    return math.sqrt(total)


def _finite(x: Any) -> tensor:
    return binary("lt", math.abs(x), float("inf"))


def _sign(x: Any) -> tensor:
    return cast(binary("lt", cast(as_tensor(x), int32, bitcast=True), 0), int32)


def _exponent(x: Any) -> Any:
    return math.floor(math.log2(math.abs(x)))


def _remainder(x: Any, y: Any) -> tensor:
    """Return the remainder from the nearest multiple, ties to even."""
    return binary("sub", as_tensor(x), binary("mul", math.rint(binary("truediv", as_tensor(x), y)), y))


def _popc(x: Any) -> Any:
    """Count the ones among 32 bits: first in pairs, then in fours, then in bytes. A product adds the bytes."""
    v: Any = cast(as_tensor(x), uint32, bitcast=True)
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    return cast((v * 0x01010101) >> 24, int32)


def _clz(x: Any) -> Any:
    """Count the zeros above the highest one: set all bits below the highest one, then count the ones."""
    v: Any = cast(as_tensor(x), uint32, bitcast=True)
    for step in (1, 2, 4, 8, 16):
        v = v | (v >> step)
    return 32 - _popc(v)


def _ffs(x: Any) -> tensor:
    """Return the position of the lowest one, counted from 1; return 0 for 0."""
    v: Any = cast(as_tensor(x), int32)
    return where(v == 0, 0, 32 - _clz(v & -v))


def _brev(x: Any) -> tensor:
    """Reverse the order of the bits: swap halves, then the halves of each half, and so on."""
    v: Any = cast(as_tensor(x), uint32, bitcast=True)
    for step, low in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        v = ((v >> step) & low) | ((v & low) << step)
    return cast(v, int32, bitcast=True)


def _half_sum(carry: int) -> Callable[[Any, Any], tensor]:
    return lambda x, y: cast(binary("shr", cast(as_tensor(x), int64) + cast(as_tensor(y), int64) + carry, 1), int32)


def _high(x: Any, y: Any) -> tensor:
    return cast(binary("shr", cast(as_tensor(x), int64) * cast(as_tensor(y), int64), 32), int32)


_SINE = {"pi": 3.141592653589793, "half": 0.7071067811865476}
MADE: dict[str, Callable[..., Any]] = {
    "add_rn": _op("add"),
    "sub_rn": _op("sub"),
    "mul_rn": _op("mul"),
    "mul24": _op("mul"),
    "fast_dividef": _op("truediv"),
    "fma_rn": math.fma,
    "rcp_rn": lambda x: binary("truediv", 1.0, as_tensor(x)),
    "rsqrt_rn": math.rsqrt,
    "fast_expf": math.exp,
    "fast_exp10f": math.exp10,
    "fast_logf": math.log,
    "fast_log2f": math.log2,
    "fast_log10f": math.log10,
    "fast_sinf": math.sin,
    "fast_cosf": math.cos,
    "fast_tanf": math.tan,
    "fast_tanhf": math.tanh,
    "fast_powf": math.pow,
    "sinpi": lambda x: math.sin(binary("mul", as_tensor(x), _SINE["pi"])),
    "cospi": lambda x: math.cos(binary("mul", as_tensor(x), _SINE["pi"])),
    "erfc": lambda x: binary("sub", 1.0, math.erf(x)),
    "normcdf": lambda x: binary("mul", binary("add", math.erf(binary("mul", as_tensor(x), _SINE["half"])), 1.0), 0.5),
    "rcbrt": lambda x: binary("truediv", 1.0, math.cbrt(x)),
    "rhypot": lambda x, y: binary("truediv", 1.0, math.hypot(x, y)),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *x: binary("truediv", 1.0, _norm(*x)),
    "rnorm4d": lambda *x: binary("truediv", 1.0, _norm(*x)),
    "fdim": lambda x, y: maximum(binary("sub", as_tensor(x), y), 0.0),
    "saturatef": lambda x: clamp(x, 0.0, 1.0),
    "finitef": _finite,
    "isfinited": _finite,
    "signbit": _sign,
    "remainder": _remainder,
    "logb": _exponent,
    "ilogb": _to(int32, _exponent),
    "ldexp": lambda x, n: binary("mul", as_tensor(x), math.exp2(cast(as_tensor(n), float32))),
    "scalbn": lambda x, n: binary("mul", as_tensor(x), math.exp2(cast(as_tensor(n), float32))),
    "float_as_int": _bits(int32),
    "float_as_uint": _bits(uint32),
    "int_as_float": _bits(float32),
    "uint_as_float": _bits(float32),
    **{name: math.of_one(name, f"The Bessel function {name}.") for name in BESSEL},
    "popc": _popc,
    "clz": _clz,
    "ffs": _ffs,
    "brev": _brev,
    "hadd": _half_sum(0),
    "rhadd": _half_sum(1),
    "mulhi": _high,
    "sad": lambda x, y, z: binary("add", math.abs(binary("sub", as_tensor(x), y)), z),
    "llrint": _to(int64, math.rint),
    "llround": _to(int64, math.round),
    **{f"{kind}2float_rn": _to(float32) for kind in ("int", "uint", "ll", "ull")},
    **{f"{kind}2double_rn": _to(float64) for kind in ("int", "uint", "ll", "ull")},
    "double2float_rn": _to(float32),
    "double_as_longlong": _bits(int64),
    "longlong_as_double": _bits(float64),
    **{
        f"{given}2{kind}_{way}": _to(into, first)
        for given in ("float", "double")
        for kind, into in (("int", int32), ("uint", uint32), ("ll", int64))
        for way, first in (("rn", math.rint), ("rz", math.trunc), ("rd", math.floor), ("ru", math.ceil))
    },
}  # fmt: skip
WORKS = tuple(sorted({*math.__all__, *MADE}))


def __getattr__(name: str) -> Any:
    """Return a function of this module or of `tl.math`, whose name may end with an additional `f`."""
    if name.startswith("__"):
        raise AttributeError(name)
    for one in (name, name.removesuffix("f")):
        if one in MADE:
            return MADE[one]
        if one in math.__all__:
            return getattr(math, one)
    return refuse_name(f"libdevice.{name} is not supported; {_instead(name)}")


def _instead(name: str) -> str:
    if name.endswith(("_rd", "_ru", "_rz")):
        return f"results are rounded to nearest; use libdevice.{name[:-3]}_rn"
    if "double" in name or "hiint" in name or "loint" in name or name == "rcp64h":
        return "it takes f64 apart; use tl.cast with bitcast=True"
    return "there are " + ", ".join(WORKS)
