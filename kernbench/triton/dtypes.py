"""Element types by Triton's names, and pointers to elements."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

import numpy as np

from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import KernbenchError
from kernbench.triton.constants import plain


class TritonError(KernbenchError):
    """An error for a kernel that uses something that the language or the machine does not have.

    The message begins with the file and line of the kernel.
    """

    exit_code = 5


class NameRefused(TritonError, AttributeError):
    """An error for a name of Triton that is not supported; `hasattr` returns false for the name."""


class dtype:
    """An element type. The field `own` has the name of the type on the machine, such as `f32`."""

    def __init__(self, name: str, own: str = "", kind: str = "", bits: int = 0) -> None:
        """Make the type with Triton's name, for example `dtype("fp32")`. An unknown name raises TritonError."""
        self.name: str
        self.own: str
        self.kind: str
        self.primitive_bitwidth: int
        if not own:
            same: dtype | None = next((one for one in TYPES if one.name == name), None)
            if same is None:
                refuse(f'tl.dtype("{name}"): there is no such type; the types are {", ".join(one.name for one in TYPES)}')
            own, kind, bits = same.own, same.kind, same.primitive_bitwidth
        self.name = name  #: Triton's short name: `fp32`
        self.own = own
        self.kind = kind  #: float, int, uint or bool
        self.primitive_bitwidth = bits
        self.int_bitwidth = bits
        self.itemsize = max(1, bits // 8)

    SINT_TYPES = ("int8", "int16", "int32", "int64")
    UINT_TYPES = ("int1", "uint8", "uint16", "uint32", "uint64")
    FP_TYPES = ("fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64")
    STANDARD_FP_TYPES = ("fp16", "bf16", "fp32", "fp64")
    OTHER_TYPES = ("void",)

    class SIGNEDNESS(Enum):
        """Whether an integer type has a sign."""

        SIGNED = 0
        UNSIGNED = 1

    @property
    def int_signedness(self) -> SIGNEDNESS:
        """Whether an integer type has a sign. Floats raise TritonError."""
        if not self.is_int():
            refuse(f"{self} is no type of integers; int_signedness exists only for integers")
        return self.SIGNEDNESS.SIGNED if self.is_int_signed() else self.SIGNEDNESS.UNSIGNED

    @property
    def exponent_bias(self) -> int:
        """The bias that is added to the exponent of a float."""
        if self.name not in _BIAS:
            refuse(f"{self} has no exponent; exponent_bias exists only for floats")
        return _BIAS[self.name]

    @property
    def fp_mantissa_width(self) -> int:
        """The number of stored mantissa bits of a float. Integers raise TritonError."""
        if self.name not in _MANTISSA:
            refuse(f"{self} has no mantissa; fp_mantissa_width exists only for floats")
        return _MANTISSA[self.name]

    @property
    def scalar(self) -> dtype:
        """The type of one element: the type itself."""
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
        """Return a test of the type, for example `is_int32()` or `is_fp8e5()`."""
        if name.startswith("is_") and name[3:] in _NAMES:
            return lambda: self.name == name[3:]
        raise AttributeError(f"a type of triton.language has no {name}")

    def __repr__(self) -> str:
        return f"triton.language.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        other = plain(other)
        return isinstance(other, dtype) and not isinstance(other, pointer_type) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class pointer_type(dtype):
    """The type of pointers to elements of a type."""

    def __init__(self, element_ty: dtype, address_space: str = "global", const: bool = False) -> None:
        """Make a pointer type. A store through a `const` pointer is an error. `address_space` is ignored."""
        super().__init__(f"pointer<{element_ty.name}>", "i64", "int", 64)
        self.element_ty = element_ty
        self.const = const

    def is_ptr(self) -> bool:
        return True

    def is_int(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        other = plain(other)
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
#: The machine stores an unsigned integer of 64 bits as an i64. kernbench.triton.unsigned interprets the bits as unsigned.
uint64 = dtype("uint64", "i64", "uint", 64)
float8e4nv = dtype("fp8e4nv", "f8e4m3", "float", 8)
float8e5 = dtype("fp8e5", "f8e5m2", "float", 8)
float16 = dtype("fp16", "f16", "float", 16)
bfloat16 = dtype("bf16", "bf16", "float", 16)
float32 = dtype("fp32", "f32", "float", 32)

float64 = dtype("fp64", "f64", "float", 64)
float8e4b8 = dtype("fp8e4b8", "f8e4m3fnuz", "float", 8)
float8e5b16 = dtype("fp8e5b16", "f8e5m2fnuz", "float", 8)
#: A name alone: the format is of no machine, and using it is refused (`wanted`).
float8e4b15 = dtype("fp8e4b15", "none", "float", 8)
void = dtype("void", "none", "void", 0)

# fmt: off
TYPES = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8e4nv, float8e5, float8e4b8, float8e5b16, float16,
    bfloat16, float32, float64,
)
# fmt: on
_BY_OWN = {one.own: one for one in TYPES if one is not uint64}
_NAMES = frozenset({*(one.name for one in TYPES), "fp8e4b15"})


_MANTISSA = {
    "fp8e4b15": 3, "fp8e4nv": 3, "fp8e4b8": 3, "fp8e5": 2, "fp8e5b16": 2, "fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52,
}  # fmt: skip
_BIAS = {
    "fp8e4b15": 15, "fp8e4nv": 7, "fp8e4b8": 8, "fp8e5": 15, "fp8e5b16": 16, "fp16": 15, "bf16": 127, "fp32": 127, "fp64": 1023,
}  # fmt: skip
#: The short names of types in Triton's kernel signatures, by their long names.
CANONICAL: dict[str, str] = {
    "bool": "i1",
    **{f"{name}{bits}": f"{name[0]}{bits}" for name in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float8{kind}": f"fp8{kind}" for kind in ("e4nv", "e5", "e4b15", "e4b8", "e5b16")},
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16",
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "float32": "fp32",
    "double": "fp64",
    "float64": "fp64",
}
CANONICAL.update({one: one for one in list(CANONICAL.values())})


def str_to_ty(name: str, c: Any = None) -> dtype:
    """Return the type with this name in a signature, such as `fp32`, `i32` or `*fp16`. An unsupported name raises TritonError.
    """
    if name.startswith("*"):
        return pointer_type(str_to_ty(name[1:].removeprefix("k"), c), const=name.startswith("*k"))
    found = next((one for one in TYPES if name in (one.name, signature(one))), None)
    return (
        found
        if found is not None
        else refuse(f'tl.str_to_ty("{name}"): there is no such type; the types are {", ".join(map(signature, TYPES))}')
    )


def signature(kind: dtype) -> str:
    """Return the name of a type in a signature."""
    return kind.name if kind.is_floating() else f"{'u' if kind.kind == 'uint' else 'i'}{kind.int_bitwidth}"


def of_own(own: str) -> dtype:
    """Return the type with this name on the machine. A type that Triton does not have raises TritonError."""
    if own not in _BY_OWN:
        refuse(f"Triton has no type for elements of {own}; use {', '.join(_BY_OWN)}")
    return _BY_OWN[own]


def of_array(kind: np.dtype[Any]) -> dtype:
    """Return the type for a type of numpy."""
    return of_own(dtype_of(kind).name)


_INFINITE, _LEAST, _LIMIT = float("inf"), 2.0**-126, (2 - 2.0**-23) * 2.0**127  # of f32, normal numbers


def of_number(value: bool | int | float) -> dtype:
    """Return the type that Triton gives to a Python number."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, float):
        size = abs(value)  # 0, infinities and NaN match both
        return float32 if not size or size != size or size == _INFINITE or _LEAST <= size <= _LIMIT else float64
    if -(1 << 31) <= value < 1 << 31:
        return int32
    if 0 <= value < 1 << 32:
        return uint32
    if -(1 << 63) <= value < 1 << 63:
        return int64
    if 0 <= value < 1 << 64:
        return uint64
    raise refusal(f"{value} does not fit into an integer of 64 bits; use a smaller number")


def wanted(value: Any) -> dtype:
    """Return the type that a caller passed as an argument. Any other value raises TritonError."""
    value = plain(value)
    if isinstance(value, dtype):
        if value.own == "none":
            refuse(f"elements of {value}: no machine here has them; use tl.float8e4nv or another type")
        return value
    if isinstance(value, str):
        found = next((one for one in TYPES if value in (one.name, one.own)), None)
        if found is not None:
            return found
    raise refusal(f"a type of triton.language is needed, such as tl.float32, and not {value!r}")


def refuse_name(text: str) -> NoReturn:
    """Raise NameRefused with the line of the kernel before the text."""
    raise NameRefused(str(refusal(text)))


def refuse(text: str, cause: Exception | None = None) -> NoReturn:
    """Raise TritonError with the line of the kernel before the text.

    `cause` is the error that Triton's compiler raises for the same mistake, for code that looks at `__cause__`.
    """
    raise refusal(text) from cause


def refusal(text: str) -> TritonError:
    """Return the error that `refuse` raises."""
    from kernbench.triton.program import kernel_line  # that module imports this module

    line = kernel_line()
    return TritonError(f"{line}: {text}" if line else text)


_RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def common(a: dtype, b: dtype, divides: bool = False) -> dtype:
    """Return the type of the result of an operator on two tensors.

    `divides` marks division and remainder, which are computed in f32 if one operand is a float.
    """
    if a is b and not divides:
        return a
    if float64 in (a, b):
        return float64
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
        refuse(
            f"{a} and {b} in one operation: an 8-bit float needs another float; cast one operand with .to(tl.float16)"
        )
    if divides and a.is_int_signed() != b.is_int_signed():
        refuse(f"Cannot use {a} and {b} in a division, because they have different signedness; cast one with .to")
    return _integers(a, b)


def _integers(a: dtype, b: dtype) -> dtype:
    """Return the wider integer type. The unsigned type is returned if it is at least as wide as the signed type."""
    wide, narrow = (a, b) if a.int_bitwidth >= b.int_bitwidth else (b, a)
    if wide.int_bitwidth == narrow.int_bitwidth:
        return narrow if narrow.is_int_unsigned() else wide
    return wide


def with_number(tensor: dtype, value: Any, divides: bool = False) -> dtype:
    """Return the type of the result of an operator on a tensor and a Python number.

    The result has the type of the tensor, unless the number is of a higher kind, such as a float beside integers.
    """
    number = of_number(value)
    if _RANK[number.kind] > _RANK[tensor.kind]:
        return common(number, tensor, divides)
    if tensor.is_int() and not tensor.is_bool() and not tensor.get_int_min_value() <= value <= tensor.get_int_max_value():
        refuse(f"{value} is out of range for {tensor}; cast the tensor with .to first")
    return common(tensor, tensor, divides)
