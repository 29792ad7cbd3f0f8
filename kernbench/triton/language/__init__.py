"""`triton.language` for kernels of this simulator: `import kernbench.triton.language as tl`."""

from __future__ import annotations

import builtins
from importlib import import_module
from typing import Any

from kernbench.triton.aggregates import aggregate_replace
from kernbench.triton.assembly import inline_asm_elementwise
from kernbench.triton.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_poll,
    atomic_store,
    atomic_xchg,
    atomic_xor,
)
from kernbench.triton.block_pointers import (
    advance,
    block_pointer,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from kernbench.triton.constants import constexpr
from kernbench.triton.control import (
    assume,
    condition,
    debug_barrier,
    device_print,
    expect_zero,
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
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    refuse_name,
    str_to_ty,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from kernbench.triton.elementwise import (
    PropagateNan,
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
from kernbench.triton.elementwise import abs_ as abs
from kernbench.triton.language import math
from kernbench.triton.language.math import ceil, cos, erf, exp, exp2, floor, log, log2, rsqrt, sigmoid, sin, sqrt, sqrt_rn
from kernbench.triton.mapping import map_elementwise
from kernbench.triton.memory import load, store
from kernbench.triton.names import REFUSED
from kernbench.triton.random import (
    pair_uniform_to_normal,
    philox,
    philox_impl,
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
    dot_scaled,
    reduce,
    reduce_or,
    softmax,
    xor_sum,
)
from kernbench.triton.reductions import max_ as max
from kernbench.triton.reductions import min_ as min
from kernbench.triton.reductions import sum_ as sum
from kernbench.triton.shapes import (
    arange,
    bitonic_merge,
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
    squeeze,
    swizzle2d,
    topk,
    trans,
    unsqueeze,
)
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor

TRITON_MAX_TENSOR_NUMEL = 1048576  #: which `portable` enforces
pi32_t = pointer_type(int32)
tensor_descriptor_base = tensor_descriptor
tuple: Any = builtins.tuple  #: kernels run as Python, so Python's class is also that of Triton's tuples


class const:
    """Marks a pointer parameter as read-only. A store through such a pointer is an error."""


def view(input: Any, *shape: Any) -> tensor:
    """Return the elements in another shape: the same as `reshape`."""
    return reshape(input, *shape)


def to_tensor(x: Any) -> tensor:
    """Return a number as a tensor without axes; return a tensor unchanged."""
    return as_tensor(x)


def logical_and(x: Any, y: Any) -> tensor:
    """Return true where both operands are true."""
    return logical("and", x, y)


def logical_or(x: Any, y: Any) -> tensor:
    """Return true where at least one operand is true."""
    return logical("or", x, y)


def fdiv(x: Any, y: Any, ieee_rounding: bool = False, approx: bool = False) -> Any:
    """Return `x / y`, rounded to nearest like every division here."""
    return as_tensor(x) / y


def div_rn(x: Any, y: Any) -> Any:
    """Return `x / y`, rounded to nearest like every division here."""
    return as_tensor(x) / y


def add(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """Return `x + y`."""
    return as_tensor(x) + y


def sub(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """Return `x - y`."""
    return as_tensor(x) - y


def mul(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """Return `x * y`."""
    return as_tensor(x) * y


multiple_of = max_contiguous = max_constancy = hint
FUNCTIONS["int1"] = int1


def __getattr__(name: str) -> Any:
    """Raise an error for a name of Triton that this machine does not support; the error names the replacement."""
    if name in ("extra", "core", "standard", "random", "target_info"):
        return import_module(f"kernbench.triton.language.{name}")
    if name in REFUSED:
        refuse_name(f"tl.{name} is not supported: {REFUSED[name]}")
    raise AttributeError(f"triton.language has no {name}")


# fmt: off
__all__ = [
    "TRITON_MAX_TENSOR_NUMEL", "PropagateNan", "abs", "add", "advance", "aggregate_replace", "arange", "argmax", "argmin",
    "associative_scan", "assume", "atomic_add", "atomic_and", "atomic_cas", "atomic_load", "atomic_max", "atomic_min",
    "atomic_or", "atomic_poll", "atomic_store", "atomic_xchg", "atomic_xor", "bfloat16", "bitonic_merge", "block_pointer",
    "broadcast", "broadcast_to", "cast", "cat", "cdiv", "ceil", "clamp", "condition", "const", "constexpr", "core", "cos",
    "cumprod", "cumsum", "debug_barrier", "device_assert", "device_print", "div_rn", "dot", "dot_scaled", "dtype", "erf",
    "exp", "exp2", "expand_dims", "expect_zero", "extra", "fdiv", "flip", "float8e4b8", "float8e4b15", "float8e4nv",
    "float8e5", "float8e5b16", "float16", "float32", "float64", "floor", "fma", "full", "gather", "histogram",
    "inline_asm_elementwise", "int1", "int8", "int16", "int32", "int64", "interleave", "join", "load",
    "load_tensor_descriptor", "log", "log2", "logical_and", "logical_or", "make_block_ptr", "make_tensor_descriptor",
    "map_elementwise", "math", "max", "max_constancy", "max_contiguous", "maximum", "min", "minimum", "mul", "multiple_of",
    "num_programs", "pair_uniform_to_normal", "permute", "philox", "philox_impl", "pi32_t", "pointer_type", "program_id",
    "rand", "rand4x", "randint", "randint4x", "randn", "randn4x", "random", "range", "ravel", "reduce", "reduce_or",
    "reshape", "rsqrt", "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "sqrt_rn", "squeeze", "standard",
    "static_assert", "static_print", "static_range", "store", "store_tensor_descriptor", "str_to_ty", "sub", "sum",
    "swizzle2d", "target_info", "tensor", "tensor_descriptor", "tensor_descriptor_base", "to_tensor", "topk", "trans",
    "tuple", "uint8", "uint16", "uint32", "uint64", "uint_to_uniform_float", "umulhi", "unsqueeze", "view", "void", "where",
    "xor_sum", "zeros", "zeros_like",
]
# fmt: on
