"""Element types by Triton's names, and pointers to them."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import KernbenchError


class TritonError(KernbenchError):
    """A kernel uses something that the language or this machine does not have. The message begins with the kernel's line."""

    exit_code = 5


class dtype:
    """A type of elements. `own` is what the machine calls it: `f32`."""

    def __init__(self, name: str, own: str, kind: str, bits: int) -> None:
        self.name = name  #: Triton's short name: `fp32`
        self.own = own
        self.kind = kind  #: float, int, uint or bool
        self.primitive_bitwidth = bits
        self.int_bitwidth = bits
        self.itemsize = max(1, bits // 8)

    @property
    def scalar(self) -> dtype:
        """Of one element: the type itself."""
        return self

    def is_floating(self) -> bool:
        return self.kind == "float"

    def is_int(self) -> bool:
        return self.kind != "float"

    def is_int_signed(self) -> bool:
        return self.kind == "int"

    def is_int_unsigned(self) -> bool:
        return self.kind in ("uint", "bool")

    def is_bool(self) -> bool:
        return self.kind == "bool"

    def is_fp8(self) -> bool:
        return self.kind == "float" and self.primitive_bitwidth == 8

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def is_void(self) -> bool:
        return False

    def is_standard_floating(self) -> bool:
        return self.kind == "float" and self.primitive_bitwidth > 8

    def get_int_max_value(self) -> int:
        return (1 << self.int_bitwidth - self.is_int_signed()) - 1

    def get_int_min_value(self) -> int:
        return -(1 << self.int_bitwidth - 1) if self.is_int_signed() else 0

    def __getattr__(self, name: str) -> Any:
        """`is_int32()`, `is_fp8e5()` and so on: whether it is that type."""
        if name.startswith("is_") and name[3:] in _NAMES:
            return lambda: self.name == name[3:]
        raise AttributeError(f"a type of triton.language has no {name}")

    def __repr__(self) -> str:
        return f"triton.language.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and not isinstance(other, pointer_type) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class pointer_type(dtype):
    """The type of pointers to elements."""

    def __init__(self, element_ty: dtype, address_space: str = "global", const: bool = False) -> None:
        """`address_space` and `const` change nothing here."""
        super().__init__(f"pointer<{element_ty.name}>", "i64", "int", 64)
        self.element_ty = element_ty

    def is_ptr(self) -> bool:
        return True

    def is_int(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, pointer_type) and other.element_ty == self.element_ty

    def __hash__(self) -> int:
        return hash(self.name)


int1 = dtype("int1", "bool", "bool", 1)
int8 = dtype("int8", "i8", "int", 8)
int16 = dtype("int16", "i16", "int", 16)
int32 = dtype("int32", "i32", "int", 32)
int64 = dtype("int64", "i64", "int", 64)
uint8 = dtype("uint8", "u8", "uint", 8)
uint16 = dtype("uint16", "u16", "uint", 16)
uint32 = dtype("uint32", "u32", "uint", 32)
#: Of 64 bits without a sign: to the machine an i64, whose bits kernbench.triton.unsigned takes as what they are.
uint64 = dtype("uint64", "i64", "uint", 64)
float8e4nv = dtype("fp8e4nv", "f8e4m3", "float", 8)
float8e5 = dtype("fp8e5", "f8e5m2", "float", 8)
float16 = dtype("fp16", "f16", "float", 16)
bfloat16 = dtype("bf16", "bf16", "float", 16)
float32 = dtype("fp32", "f32", "float", 32)

TYPES = (int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8e4nv, float8e5, float16, bfloat16, float32)
_BY_OWN = {one.own: one for one in TYPES if one is not uint64}
_NAMES = frozenset({*(one.name for one in TYPES), "fp64", "fp8e4b15", "fp8e4b8", "fp8e5b16"})


def of_own(own: str) -> dtype:
    """The type with the machine's name. TritonError for one that Triton does not have."""
    if own not in _BY_OWN:
        refuse(f"elements of {own} have no type in Triton; use {', '.join(_BY_OWN)}")
    return _BY_OWN[own]


def of_array(kind: np.dtype[Any]) -> dtype:
    """By numpy's type."""
    return of_own(dtype_of(kind).name)


def of_number(value: bool | int | float) -> dtype:
    """The type that Triton gives to a Python number."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, float):
        return float32
    if -(1 << 31) <= value < 1 << 31:
        return int32
    if 0 <= value < 1 << 32:
        return uint32
    if -(1 << 63) <= value < 1 << 63:
        return int64
    if 0 <= value < 1 << 64:
        return uint64
    raise refusal(f"{value} does not fit into 64 bits, the widest integers; use smaller numbers")


def wanted(value: Any) -> dtype:
    """A type given as an argument. TritonError for anything else."""
    if isinstance(value, dtype):
        return value
    if isinstance(value, str):
        found = next((one for one in TYPES if value in (one.name, one.own)), None)
        if found is not None:
            return found
    raise refusal(f"a type of triton.language is needed, such as tl.float32, and not {value!r}")


def refuse(text: str) -> NoReturn:
    """Raise TritonError, with the kernel's line before the text."""
    raise refusal(text)


def refusal(text: str) -> TritonError:
    """What `refuse` raises."""
    from kernbench.triton.program import kernel_line  # it stands on this module

    line = kernel_line()
    return TritonError(f"{line}: {text}" if line else text)


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
