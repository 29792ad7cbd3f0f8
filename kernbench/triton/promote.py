"""The type in which an op on two operands is done, by Triton's rules."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import bfloat16, dtype, float16, float32, of_number, refuse

_RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def common(a: dtype, b: dtype, divides: bool = False) -> dtype:
    """Of two tensors. `divides`: for division and remainder, which halves do in f32."""
    if float32 in (a, b):
        return float32
    if float16 in (a, b):
        return float32 if divides else float16
    if bfloat16 in (a, b):
        return bfloat16 if a == b and not divides else float32
    if a.is_fp8() or b.is_fp8():
        return a if a == b else float16 if a.is_fp8() and b.is_fp8() else (a if a.is_fp8() else b)
    if divides and a.is_int_signed() != b.is_int_signed():
        refuse(f"a division of {a} by {b}: one has a sign and the other has none; cast one with .to")
    return _integers(a, b)


def _integers(a: dtype, b: dtype) -> dtype:
    """The wider; of equal width, or where it is the wider, the one without a sign."""
    wide, narrow = (a, b) if a.int_bitwidth >= b.int_bitwidth else (b, a)
    if wide.int_bitwidth == narrow.int_bitwidth:
        return narrow if narrow.is_int_unsigned() else wide
    return wide


def with_number(tensor: dtype, value: Any, divides: bool = False) -> dtype:
    """Of a tensor and a Python number: the tensor's, unless the number is of a kind above it."""
    number = of_number(value)
    if _RANK[number.kind] <= _RANK[tensor.kind]:
        if divides and tensor in (float16, bfloat16):
            return float32
        if tensor.is_int() and not tensor.is_bool():
            low = 0 if tensor.is_int_unsigned() else -(1 << tensor.int_bitwidth - 1)
            if not low <= value < low + (1 << tensor.int_bitwidth):
                refuse(f"{value} does not fit into {tensor}; cast the tensor with .to first")
        return tensor
    return common(number, tensor, divides)
