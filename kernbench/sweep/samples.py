"""Points of a unit cube: drawn at random, or by Sobol's sequence. The same seed gives the same points on every machine."""

from __future__ import annotations

import hashlib
import random
from fractions import Fraction

BITS = 32  # of a coordinate
#: Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections" (SIAM J. Sci. Comput. 30, 2008), table
#: new-joe-kuo-6: for each dimension after the first the polynomial's degree and coefficients, and the first direction numbers.
DIRECTIONS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (1, 0, (1,)),
    (2, 1, (1, 3)),
    (3, 1, (1, 3, 1)),
    (3, 2, (1, 1, 1)),
    (4, 1, (1, 1, 3, 3)),
    (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)),
    (5, 4, (1, 1, 5, 5, 5)),
    (5, 7, (1, 1, 7, 11, 19)),
    (5, 11, (1, 1, 5, 1, 1)),
    (5, 13, (1, 1, 1, 3, 11)),
    (5, 14, (1, 3, 5, 5, 31)),
    (6, 1, (1, 3, 3, 9, 7, 49)),
    (6, 13, (1, 1, 1, 15, 21, 21)),
    (6, 16, (1, 3, 1, 13, 27, 49)),
    (6, 19, (1, 1, 1, 15, 7, 5)),
    (6, 22, (1, 3, 1, 15, 13, 25)),
    (6, 25, (1, 1, 5, 5, 19, 61)),
    (7, 1, (1, 3, 7, 11, 23, 15, 103)),
    (7, 4, (1, 3, 7, 13, 13, 15, 69)),
)
MOST_DIMENSIONS = len(DIRECTIONS) + 1


def random_points(count: int, dimensions: int, seed: int) -> list[tuple[Fraction, ...]]:
    """`count` independent points of the unit cube."""
    draw = random.Random(seed)
    return [tuple(Fraction(draw.getrandbits(BITS), 1 << BITS) for _ in range(dimensions)) for _ in range(count)]


def sobol_points(count: int, dimensions: int, seed: int = 0) -> list[tuple[Fraction, ...]]:
    """The first `count` points of Sobol's sequence; a seed other than 0 flips the same random bits in all of them.

    A digital shift keeps what makes the sequence even: each dyadic interval of an axis holds its share of every 2^k points.
    ValueError for more than 21 dimensions.
    """
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(f"Sobol points have at most {MOST_DIMENSIONS} axes here, and this sweep varies {dimensions}")
    numbers = [_directions(k) for k in range(dimensions)]
    at = [_shift(seed, k) for k in range(dimensions)]
    points = []
    for i in range(count):
        points.append(tuple(Fraction(x, 1 << BITS) for x in at))
        lowest = (~i & (i + 1)).bit_length() - 1  # of the zero bits of i: Gray code order changes one direction a point
        at = [x ^ v[lowest] for x, v in zip(at, numbers, strict=True)]
    return points


def _directions(dimension: int) -> list[int]:
    """The direction numbers of a dimension, as integers of BITS bits."""
    if dimension == 0:
        return [1 << (BITS - 1 - i) for i in range(BITS)]
    degree, coefficients, first = DIRECTIONS[dimension - 1]
    v = [m << (BITS - 1 - i) for i, m in enumerate(first)]
    for i in range(degree, BITS):
        new = v[i - degree] ^ (v[i - degree] >> degree)
        for k in range(1, degree):
            if coefficients >> (degree - 1 - k) & 1:
                new ^= v[i - k]
        v.append(new)
    return v


def _shift(seed: int, dimension: int) -> int:
    if seed == 0:
        return 0
    return int.from_bytes(hashlib.sha256(f"{seed}:{dimension}".encode()).digest()[: BITS // 8], "big")
