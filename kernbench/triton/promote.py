"""The type in which an op on two operands is done, by Triton's rules."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import bfloat16, dtype, float16, float32, of_number, refuse

_RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def common(a: dtype, b: dtype, divides: bool = False) -> dtype:
    """Of two tensors. `divides`: for division and remainder, which are done in f32 where one is a float."""
    if divides and (a.is_floating() or b.is_floating()):
        return float32
    if float32 in (a, b):
        return float32
    if float16 in (a, b):
        return float16
    if bfloat16 in (a, b):
        return bfloat16 if a == b else float32
    if a.is_fp8() and b.is_fp8():
        return a if a == b else float16
    if a.is_fp8() or b.is_fp8():
        refuse(f"{a} and {b} in one operation: numbers of 8 bits meet floats alone; cast one with .to(tl.float16)")
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
    if _RANK[number.kind] > _RANK[tensor.kind]:
        return common(number, tensor, divides)
    if tensor.is_int() and not tensor.is_bool() and not tensor.get_int_min_value() <= value <= tensor.get_int_max_value():
        refuse(f"{value} does not fit into {tensor}; cast the tensor with .to first")
    return common(tensor, tensor, divides)
