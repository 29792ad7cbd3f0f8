"""Random numbers by Philox, with the numbers of Triton: counters are offsets, the key is the seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.triton.dtypes import float32, int32, refuse, uint32
from kernbench.triton.elementwise import function, math, maximum, where
from kernbench.triton.tensor import as_tensor, known_tensor, tensor

_KEYS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 0xD2511F53, 0xCD9E8D57
_LOW = np.uint64(0xFFFFFFFF)
DEFAULT_ROUNDS = 10


def _philox(seed: int, counters: list[Any], rounds: int) -> list[Any]:
    """Four arrays of 32 random bits each, in u64."""
    c0, c1, c2, c3 = counters
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    a, b = (np.uint64(one) for one in _ROUNDS)
    for _ in range(rounds):
        first, second = a * c0, b * c2
        c0, c2 = (second >> np.uint64(32)) ^ c1 ^ np.uint64(k0), (first >> np.uint64(32)) ^ c3 ^ np.uint64(k1)
        c1, c3 = second & _LOW, first & _LOW
        k0, k1 = (k0 + _KEYS[0]) & 0xFFFFFFFF, (k1 + _KEYS[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def _words(what: str, seed: Any, offset: Any, rounds: int) -> list[tensor]:
    value, places = as_tensor(seed), as_tensor(offset)
    if not places.dtype.is_int() or not value.dtype.is_int():
        refuse(f"tl.{what} takes integers: a seed, and an offset for each number")
    key = int(value) & (1 << 64) - 1
    low = places.elements(f"the offset of tl.{what}").astype(np.int64).view(np.uint64)
    high = low >> np.uint64(32) if places.dtype.int_bitwidth == 64 else np.zeros_like(low)
    none = np.zeros_like(low)
    return [known_tensor(one, uint32) for one in _philox(key, [low & _LOW, high, none, none], rounds)]


def randint4x(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, tensor, tensor, tensor]:
    """Four blocks of random bits (`uint32`)."""
    a, b, c, d = _words("randint4x", seed, offset, n_rounds)
    return a, b, c, d


def randint(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tensor:
    """Random bits (`uint32`), one for each offset."""
    return _words("randint", seed, offset, n_rounds)[0]


def uint_to_uniform_float(x: tensor) -> tensor:
    """Random bits as floats from 0 to below 1."""
    signed = x.to(int32, bitcast=True)
    size = where(signed < 0, -signed - 1, signed)
    return math("mul", [size.to(float32), as_tensor(4.6566127342e-10)], float32)


def rand(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tensor:
    """Floats from 0 to below 1, one for each offset."""
    return uint_to_uniform_float(_words("rand", seed, offset, n_rounds)[0])


def rand4x(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, ...]:
    """Four blocks of such floats."""
    return tuple(uint_to_uniform_float(one) for one in _words("rand4x", seed, offset, n_rounds))


def pair_uniform_to_normal(u1: tensor, u2: tensor) -> tuple[tensor, tensor]:
    """Two blocks of uniform floats as two of normally distributed ones (Box and Muller)."""
    angle = u2 * 6.283185307179586
    radius = function("sqrt", function("log", maximum(u1, 1.0e-7)) * -2.0)
    return radius * function("cos", angle), radius * function("sin", angle)


def randn(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tensor:
    """Normally distributed floats, one for each offset."""
    first, second, _, _ = _words("randn", seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(first), uint_to_uniform_float(second))[0]


def randn4x(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, ...]:
    """Four blocks of such floats."""
    a, b, c, d = (uint_to_uniform_float(one) for one in _words("randn4x", seed, offset, n_rounds))
    return (*pair_uniform_to_normal(a, b), *pair_uniform_to_normal(c, d))
