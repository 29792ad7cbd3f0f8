"""Random numbers that are equal on every machine and with every release of numpy.

The bits come from PCG64, whose stream numpy guarantees. The numbers are computed from the bits with integers, and with
additions, products, quotients and square roots of floats, whose results IEEE 754 defines. Logarithms and powers of the C
library, and therefore the distributions of numpy, differ between machines in the last digit.
"""

from __future__ import annotations

import math

import numpy as np

_BLOCK = 4096  #: random 64-bit numbers
_LN2 = 0.6931471805599453  # the nearest float
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # their sum is more exact; products with exponents are exact
_TERMS = 12  #: terms of the series of log: the rest is below 1e-17
_FACTORS = tuple(1 / math.factorial(term) for term in range(14, -1, -1))  # terms of the series of exp


class Draws:
    """A stream of random numbers for some seeds of at least 0.

    >>> from kernbench.workloads.serving.draws import Draws
    >>> draws = Draws(7, 1)
    >>> draws.below(10), round(draws.exponential(), 6), round(draws.gamma(0.5), 6)
    (9, 0.100498, 0.00097)
    """

    def __init__(self, *seeds: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seeds))
        self._block: list[int] = []

    def _next(self) -> int:
        if not self._block:
            self._block = self._bits.random_raw(_BLOCK).tolist()
            self._block.reverse()
        return self._block.pop()

    def uniform(self) -> float:
        """More than 0 and at most 1, a multiple of 2**-53."""
        return ((self._next() >> 11) + 1) * 2.0**-53

    def below(self, count: int) -> int:
        """An integer from 0 to `count` - 1."""
        return self._next() * count >> 64

    def exponential(self) -> float:
        """Mean 1."""
        return -log(self.uniform())

    def gamma(self, shape: float) -> float:
        """Mean `shape`, scale 1. Marsaglia and Tsang, "A simple method for generating gamma variables" (2000)."""
        if shape == 1:
            return self.exponential()
        if shape < 1:
            return self.gamma(shape + 1) * exp(log(self.uniform()) / shape)
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self._normal()
            v = 1 + c * x
            v = v * v * v
            if v > 0 and log(self.uniform()) < 0.5 * x * x + d - d * v + d * log(v):
                return d * v

    def _normal(self) -> float:
        """Mean 0, deviation 1. The polar method of Marsaglia."""
        while True:
            x, y = 2 * self.uniform() - 1, 2 * self.uniform() - 1
            square = x * x + y * y
            if 0 < square < 1:
                return x * math.sqrt(-2 * log(square) / square)


def log(value: float) -> float:
    """The natural logarithm of a positive float."""
    part, power = math.frexp(value)
    if part < 0.7071067811865476:
        part, power = 2 * part, power - 1
    s = (part - 1) / (part + 1)
    square, series = s * s, 0.0
    for term in range(_TERMS, 0, -1):
        series = square * (series + 1 / (2 * term + 1))
    return power * _LN2_HIGH + (power * _LN2_LOW + (2 * s + 2 * s * series))


def exp(value: float) -> float:
    """e to the power of a float below 700."""
    if value < -745:
        return 0.0
    power = math.floor(value / _LN2 + 0.5)
    rest = value - power * _LN2_HIGH - power * _LN2_LOW
    series = 0.0
    for factor in _FACTORS:
        series = series * rest + factor
    return math.ldexp(series, power)
