"""Random numbers by Philox, with the same numbers as Triton: the counters are the offsets, and the key is the seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.triton.dtypes import float32, int32, int64, refuse, uint32, uint64
from kernbench.triton.elementwise import cast, function, math, maximum, where
from kernbench.triton.tensor import as_tensor, known_tensor, tensor
from kernbench.triton.unsigned import wide_high

#: For counters of 32 and of 64 bits: the numbers that are added to the keys after each round, and the factors of the counters.
_KEYS = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}
_ROUNDS = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
_LOW = np.uint64(0xFFFFFFFF)
DEFAULT_ROUNDS = 10


def _philox(counters: list[Array], keys: tuple[int, int], rounds: int, bits: int) -> list[Array]:
    """Return four arrays of random bits, each in u64."""
    c0, c1, c2, c3 = counters
    k0, k1 = keys
    most = (1 << bits) - 1
    a, b = (np.uint64(one) for one in _ROUNDS[bits])
    for _ in range(rounds):
        (high0, low0), (high2, low2) = _product(a, c0, bits), _product(b, c2, bits)
        c0, c2 = high2 ^ c1 ^ np.uint64(k0), high0 ^ c3 ^ np.uint64(k1)
        c1, c3 = low2, low0
        k0, k1 = k0 + _KEYS[bits][0] & most, k1 + _KEYS[bits][1] & most
    return [c0, c1, c2, c3]


def _product(a: Any, b: Array, bits: int) -> tuple[Array, Array]:
    """Return the upper and the lower half of a product."""
    if bits == 64:
        return wide_high(np.broadcast_to(a, b.shape), b), a * b
    found = a * b
    return found >> np.uint64(32), found & _LOW


def _words(what: str, seed: Any, offset: Any, rounds: int) -> list[tensor]:
    value, places = as_tensor(seed), as_tensor(offset)
    if not places.dtype.is_int() or not value.dtype.is_int():
        refuse(f"tl.{what} needs integers: a seed, and one offset for each random number")
    low = places.elements(f"the offset of tl.{what}").astype(np.int64).view(np.uint64)
    high = low >> np.uint64(32) if places.dtype.int_bitwidth == 64 else np.zeros_like(low)
    none, key = np.zeros_like(low), int(value) & (1 << 64) - 1
    made = _philox([low & _LOW, high, none, none], (key & 0xFFFFFFFF, key >> 32), int(rounds), 32)
    return [known_tensor(one, uint32) for one in made]


def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, ...]:
    """Return four blocks of random bits from four counters and two keys, as `uint32` or `uint64`."""
    counters = [as_tensor(one) for one in (c0, c1, c2, c3)]
    kind = counters[0].dtype
    if kind not in (uint32, uint64):
        refuse(f"tl.philox_impl of {kind}: the counters must be uint32 or uint64; cast with .to")
    bits = kind.int_bitwidth
    given = np.broadcast_arrays(*(one.elements("a counter of tl.philox").astype(np.int64).view(np.uint64) for one in counters))
    keys = int(as_tensor(k0)) & (1 << bits) - 1, int(as_tensor(k1)) & (1 << bits) - 1
    made = _philox([np.asarray(one & np.uint64((1 << bits) - 1)) for one in given], keys, int(n_rounds), bits)
    return tuple(known_tensor(one, kind) for one in made)


def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, ...]:
    """Return four blocks of random bits from a seed of up to 64 bits and four counters of 32 or 64 bits."""
    counters = [as_tensor(one) for one in (c0, c1, c2, c3)]
    key = int(as_tensor(seed)) & (1 << 64) - 1
    wide = counters[0].dtype.int_bitwidth == 64
    c0, c1, c2, c3 = (cast(one, uint64 if wide else uint32, bitcast=True) for one in counters)
    keys = (key, 0) if wide else (key & 0xFFFFFFFF, key >> 32)
    return philox_impl(c0, c1, c2, c3, *keys, n_rounds)


def randint4x(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, tensor, tensor, tensor]:
    """Return four blocks of random bits (`uint32`), each in the shape of `offset`."""
    a, b, c, d = _words("randint4x", seed, offset, n_rounds)
    return a, b, c, d


def randint(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tensor:
    """Return random bits (`uint32`), one number for each offset."""
    return _words("randint", seed, offset, n_rounds)[0]


def uint_to_uniform_float(x: tensor) -> tensor:
    """Convert random bits (32 or 64 bits) to floats in [0, 1)."""
    wide = x.dtype.int_bitwidth == 64
    signed = x.to(int64 if wide else int32, bitcast=True)
    size = where(signed < 0, -signed - 1, signed)
    return math("mul", [size.to(float32), as_tensor(1.0842020432385337e-19 if wide else 4.6566127342e-10)], float32)


def rand(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tensor:
    """Return uniform random floats in [0, 1), one for each offset."""
    return uint_to_uniform_float(_words("rand", seed, offset, n_rounds)[0])


def rand4x(seed: Any, offsets: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, ...]:
    """Return four blocks of uniform random floats in [0, 1), each in the shape of `offsets`."""
    return tuple(uint_to_uniform_float(one) for one in _words("rand4x", seed, offsets, n_rounds))


def pair_uniform_to_normal(u1: tensor, u2: tensor) -> tuple[tensor, tensor]:
    """Convert two blocks of uniform floats to two blocks of normally distributed floats (Box and Muller)."""
    angle = u2 * 6.283185307179586
    radius = function("sqrt", function("log", maximum(u1, 1.0e-7)) * -2.0)
    return radius * function("cos", angle), radius * function("sin", angle)


def randn(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tensor:
    """Return normally distributed floats, one for each offset."""
    first, second, _, _ = _words("randn", seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(first), uint_to_uniform_float(second))[0]


def randn4x(seed: Any, offset: Any, n_rounds: int = DEFAULT_ROUNDS) -> tuple[tensor, ...]:
    """Return four blocks of normally distributed floats, each in the shape of `offset`."""
    a, b, c, d = (uint_to_uniform_float(one) for one in _words("randn4x", seed, offset, n_rounds))
    return (*pair_uniform_to_normal(a, b), *pair_uniform_to_normal(c, d))
