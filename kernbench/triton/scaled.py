"""`dot_scaled`: products of narrow floats with one scale for each group of them (microscaling)."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import bfloat16, dtype, float8e4nv, float8e5, float16, float32, int8, int16, refuse, uint8
from kernbench.triton.elementwise import binary, cast, math, where
from kernbench.triton.reductions import dot
from kernbench.triton.shapes import broadcast_to, join, permute, trans
from kernbench.triton.tensor import as_tensor, tensor

FORMATS: dict[str, dtype] = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16, "e2m1": uint8}


def dot_scaled(
    lhs: Any, lhs_scale: Any, lhs_format: str, rhs: Any, rhs_scale: Any, rhs_format: str, acc: Any = None,
    fast_math: bool = False, lhs_k_pack: bool = True, rhs_k_pack: bool = True, out_dtype: Any = float32,
) -> tensor:  # fmt: skip
    """`(lhs * lhs_scale) @ (rhs * rhs_scale) + acc` in f32. Scales are exponents (`uint8`, e8m0), or `float8e4nv`, of
    [M, K / group] and [N, K / group], or None.

    The vector engine widens and scales operands to bf16 (to f16, where one of them is), and the tensor engine multiplies
    those. `e2m1` stands two to a byte, along K (or with `k_pack` false along the other axis).
    """
    if out_dtype != float32:
        refuse(f"tl.dot_scaled to {out_dtype}: it gives tl.float32; cast the result")
    for name, one in (("lhs", lhs_format), ("rhs", rhs_format)):
        if one not in FORMATS:
            refuse(f'tl.dot_scaled with {name}_format="{one}": it is one of {", ".join(FORMATS)}')
    kind = float16 if "fp16" in (lhs_format, rhs_format) else bfloat16
    a = _wide(as_tensor(lhs), lhs_format, kind, 1 if lhs_k_pack else 0)
    b = _wide(as_tensor(rhs), rhs_format, kind, 0 if rhs_k_pack else 1)
    if lhs_scale is not None:
        a = binary("mul", a, _spread_scale(as_tensor(lhs_scale), a.shape[1], kind))
    if rhs_scale is not None:
        b = binary("mul", b, trans(_spread_scale(as_tensor(rhs_scale), b.shape[0], kind)))
    return dot(a, b, acc=acc)


def _wide(x: tensor, form: str, kind: dtype, axis: int) -> tensor:
    """An operand as floats of 16 bits; `axis`: along which two stand in a byte."""
    if len(x.shape) != 2:
        refuse(f"tl.dot_scaled of {list(x.shape)}: operands are matrices")
    if form == "e2m1":
        return cast(_of_nibbles(x, axis), kind)
    wanted = FORMATS[form]
    if x.dtype != wanted and not (x.dtype == uint8 and wanted.is_fp8()):
        refuse(f'tl.dot_scaled of {x.dtype} as "{form}": it is {wanted}' + (" or uint8" if wanted.is_fp8() else ""))
    return cast(cast(x, wanted, bitcast=x.dtype == uint8), kind)


def _of_nibbles(x: tensor, axis: int) -> tensor:
    """Two e2m1 in each byte, the first in the low half, as bf16: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives."""
    if x.dtype != uint8:
        refuse(f'tl.dot_scaled of {x.dtype} as "e2m1": two of them stand in a uint8')
    halves = join(binary("and", x, 15), binary("shr", x, 4))  # a new last axis
    if axis == 0:
        halves = permute(halves, 0, 2, 1)
    shape = (x.shape[0] * 2, x.shape[1]) if axis == 0 else (x.shape[0], x.shape[1] * 2)
    code = cast(halves.reshaped(shape), int16)
    size = binary("and", code, 7)
    sign = binary("shl", binary("and", code, 8), 12)
    # Of size 2 and more: one bit of mantissa, and an exponent from 1 on. 1 is 0.5, the only one below the normal ones.
    bits = binary("add", binary("shl", size, 6), 126 << 7)
    bits = where(binary("ge", size, 2), bits, where(binary("eq", size, 1), 126 << 7, 0))
    return cast(cast(binary("or", bits, sign), int16), bfloat16, bitcast=True)


def _spread_scale(scale: tensor, length: int, kind: dtype) -> tensor:
    """Exponents [rows, groups] as factors [rows, length]; 255 is NaN, 0 is 2 ** -127."""
    if scale.dtype not in (uint8, int8, float8e4nv) or len(scale.shape) != 2 or length % scale.shape[1]:
        kinds = "uint8 (exponents) or fp8e4nv, one for each group of a row"
        refuse(f"a scale of {scale.dtype}{list(scale.shape)} for {length} elements: it is {kinds}")
    if scale.dtype == float8e4nv:
        return _repeated(cast(scale, kind), length)
    exponent = binary("and", cast(scale, int16), 255)
    bits = where(binary("eq", exponent, 255), 0x7FC0, where(binary("eq", exponent, 0), 0x40, binary("shl", exponent, 7)))
    factors = cast(cast(bits, int16), bfloat16, bitcast=True)
    wide = _repeated(factors, length)
    return wide if kind == bfloat16 else math("copy", [wide], kind)


def _repeated(factors: tensor, length: int) -> tensor:
    """[rows, groups] as [rows, length]: each for its group."""
    rows, groups = factors.shape
    return broadcast_to(factors.reshaped((rows, groups, 1)), (rows, groups, length // groups)).reshaped((rows, length))
