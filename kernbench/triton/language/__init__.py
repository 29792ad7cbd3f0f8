"""`triton.language` for kernels of this simulator: `import kernbench.triton.language as tl`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench.triton.block_pointers import (
    advance,
    block_pointer,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from kernbench.triton.control import (
    assume,
    constexpr,
    debug_barrier,
    device_print,
    hint,
    num_programs,
    program_id,
    range,
    static_assert,
    static_print,
    static_range,
)
from kernbench.triton.dtypes import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    refuse,
    uint8,
    uint16,
    uint32,
)
from kernbench.triton.elementwise import abs_ as abs
from kernbench.triton.elementwise import (
    cast,
    cdiv,
    clamp,
    fma,
    full,
    logical,
    maximum,
    minimum,
    umulhi,
    where,
    zeros,
    zeros_like,
)
from kernbench.triton.language import math
from kernbench.triton.language.math import ceil, cos, erf, exp, exp2, floor, log, log2, rsqrt, sigmoid, sin, sqrt, sqrt_rn
from kernbench.triton.memory import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    load,
    store,
)
from kernbench.triton.names import REFUSED
from kernbench.triton.random import (
    pair_uniform_to_normal,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from kernbench.triton.reductions import (
    argmax,
    argmin,
    associative_scan,
    cumprod,
    cumsum,
    device_assert,
    dot,
    reduce,
    softmax,
    xor_sum,
)
from kernbench.triton.reductions import max_ as max
from kernbench.triton.reductions import min_ as min
from kernbench.triton.reductions import sum_ as sum
from kernbench.triton.shapes import (
    arange,
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    flip,
    gather,
    histogram,
    interleave,
    join,
    permute,
    ravel,
    reshape,
    sort,
    split,
    topk,
    trans,
)
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor

view = reshape
PropagateNan = type("PropagateNan", (), {"NONE": "NONE", "ALL": "ALL"})


def to_tensor(x: Any) -> tensor:
    """A number as a tensor."""
    return as_tensor(x)


def logical_and(x: Any, y: Any) -> tensor:
    """Both are true."""
    return logical("and", x, y)


def logical_or(x: Any, y: Any) -> tensor:
    """One of the two is true."""
    return logical("or", x, y)


def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> Any:
    """`x / y`."""
    return as_tensor(x) / y


def div_rn(x: Any, y: Any) -> Any:
    """`x / y`, rounded to nearest, as all division is."""
    return as_tensor(x) / y


def add(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """`x + y`."""
    return as_tensor(x) + y


def sub(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """`x - y`."""
    return as_tensor(x) - y


def mul(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """`x * y`."""
    return as_tensor(x) * y


multiple_of = max_contiguous = max_constancy = hint
FUNCTIONS["int1"] = int1


def __getattr__(name: str) -> Any:
    """What Triton has and this machine has not says what to use instead."""
    if name == "extra":
        return import_module("kernbench.triton.language.extra")
    if name in REFUSED:
        refuse(f"tl.{name} is not supported: {REFUSED[name]}")
    raise AttributeError(f"triton.language has no {name}")


# fmt: off
__all__ = [
    "PropagateNan",
    "abs",
    "add",
    "advance",
    "arange",
    "argmax",
    "argmin",
    "associative_scan",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "bfloat16",
    "block_pointer",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "cdiv",
    "ceil",
    "clamp",
    "constexpr",
    "cos",
    "cumprod",
    "cumsum",
    "debug_barrier",
    "device_assert",
    "device_print",
    "div_rn",
    "dot",
    "dtype",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "fdiv",
    "flip",
    "float8e4nv",
    "float8e5",
    "float16",
    "float32",
    "floor",
    "fma",
    "full",
    "gather",
    "histogram",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "interleave",
    "join",
    "load",
    "load_tensor_descriptor",
    "log",
    "log2",
    "logical_and",
    "logical_or",
    "make_block_ptr",
    "make_tensor_descriptor",
    "math",
    "max",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "min",
    "minimum",
    "mul",
    "multiple_of",
    "num_programs",
    "pair_uniform_to_normal",
    "permute",
    "pointer_type",
    "program_id",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "range",
    "ravel",
    "reduce",
    "reshape",
    "rsqrt",
    "sigmoid",
    "sin",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "sqrt_rn",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "sub",
    "sum",
    "tensor",
    "tensor_descriptor",
    "to_tensor",
    "topk",
    "trans",
    "uint8",
    "uint16",
    "uint32",
    "uint_to_uniform_float",
    "umulhi",
    "view",
    "where",
    "xor_sum",
    "zeros",
    "zeros_like",
]
# fmt: on
