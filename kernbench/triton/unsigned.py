"""Unsigned 64-bit integers. The machine has them as i64; this module handles the ops in which the sign makes a difference."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, narrow
from kernbench.triton.dtypes import dtype, int64, refuse
from kernbench.triton.program import current
from kernbench.triton.tensor import FUNCTIONS, known_tensor, number_tensor, tensor

#: Comparisons. With its highest bit inverted, an unsigned number has the same order among signed numbers.
ORDERED = frozenset({"lt", "le", "gt", "ge", "fmax", "fmin", "maximum", "minimum"})
#: The ops that are computed on known elements; `shr` also shifts unknown elements by known numbers.
KNOWN = {"div": np.floor_divide, "mod": np.remainder, "shr": np.right_shift}
HIGHEST = -(1 << 63)


def turned(x: tensor) -> tensor:
    """Return the integers as i64 with the highest bit inverted."""
    bits = tensor(x.handle, int64)
    return FUNCTIONS["binary"]("xor", bits, number_tensor(HIGHEST, int64))  # type: ignore[no-any-return]


def back(x: tensor, kind: dtype) -> tensor:
    """Undo `turned`."""
    return tensor(turned(x).handle, kind)


def divided(op: str, a: tensor, b: tensor, kind: dtype) -> tensor:
    """Compute `//` or `%` of known elements, or `>>` by known numbers."""
    if op == "shr" and a.known is None:
        return _shifted(a, elements(b, "the number of bits of >> of uint64"), kind)
    first, second = (elements(one, f"an operand of {op} of uint64") for one in (a, b))
    if op == "shr":
        found = np.where(second > 63, np.uint64(0), first >> np.minimum(second, np.uint64(63)))
    else:
        found = KNOWN[op](first, np.where(second == 0, np.uint64(1), second))
    return known_tensor(np.asarray(found).view(np.int64), kind)


def _shifted(a: tensor, by: Array, kind: dtype) -> tensor:
    """Compute `>>` of elements that are computed after the timing: shift with the sign, then clear the copies of the sign."""
    steps = np.minimum(by, np.uint64(63))
    left = np.where(by > 63, np.uint64(0), np.uint64(2**64 - 1) >> steps)
    binary = FUNCTIONS["binary"]
    signed = binary("shr", tensor(a.handle, int64), known_tensor(steps.view(np.int64), int64))
    return tensor(binary("and", signed, known_tensor(np.asarray(left).view(np.int64), int64)).handle, kind)


def elements(x: tensor, what: str) -> Array:
    """Return the elements as u64."""
    return np.asarray(x.elements(what)).astype(np.int64).view(np.uint64)


def to_float(x: tensor, kind: dtype) -> tensor:
    """Convert known elements to floats, rounded once."""
    found = elements(x, f"uint64 as {kind}").astype(np.float32 if kind.primitive_bitwidth == 32 else np.float64)
    return tensor(current().known(np.asarray(narrow(found, kind.own)), kind), kind)


def upper(a: tensor, b: tensor, kind: dtype) -> tensor:
    """Return the upper half of the bits of products of 32-bit or 64-bit integers."""
    found: Any
    if kind.int_bitwidth == 32:
        x, y = (one.elements("an operand of umulhi").astype(np.int64) & 0xFFFFFFFF for one in (a, b))
        found = (x.view(np.uint64) * y.view(np.uint64) >> np.uint64(32)).astype(np.int64)
    elif kind.int_bitwidth == 64:
        x, y = np.broadcast_arrays(*(elements(one, "an operand of umulhi") for one in (a, b)))
        found = wide_high(x, y).view(np.int64)
    else:
        refuse(f"umulhi of {kind}: the operands must be integers of 32 or 64 bits; cast with .to")
    return known_tensor(found, kind)


def wide_high(x: Array, y: Array) -> Array:
    """Return bits 64 to 127 of products of u64."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = (middle & low) + x0 * y1
    return np.asarray(x1 * y1 + (middle >> half) + (other >> half))
