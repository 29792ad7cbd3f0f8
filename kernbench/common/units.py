"""Exact numbers: sizes with units, decimals as rationals, cycles as nanoseconds.

Floats are not used. A decimal becomes the rational of its text (`0.1` is 1/10). A Python float becomes the rational of its
shortest decimal form.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

#: Bytes for each unit; a single letter means a power of 1024. `KB` is missing on purpose, because it can mean 1000 or 1024.
SIZE_UNITS: dict[str, int] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "k": 2**10,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}

# limit of the digits and of the power of ten in the text of a number: larger than any machine needs, and cheap to store
MAX_DIGITS = 60

_DECIMAL = re.compile(
    r"([+-]?)([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?|([+-]?)\.([0-9]+)(?:[eE]([+-]?[0-9]{1,4}))?"
)
_RATIO = re.compile(r"([+-]?[0-9]{1,60})/([0-9]{1,60})")
_SIZE = re.compile(r"([0-9.]+)\s*([A-Za-z]+)")


def parse_decimal(text: str) -> Fraction:
    """The exact rational of a decimal's text: `1.5` is 3/2, `1.0e+3` is 1000.

    Raises ValueError for anything else, and for more than 60 digits or powers of ten.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError("it must be a decimal number")
    digits = (match[2] or "") + (match[3] or "") + (match[6] or "")
    exponent = int(match[4] or match[7] or 0)
    if len(digits) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        raise ValueError(f"it must have at most {MAX_DIGITS} digits and powers of ten")
    return Fraction(text)


def parse_rational(value: object) -> Fraction:
    """An exact rational from an int, a Fraction, a Decimal, a float (its shortest decimal), or text (`1.5`, `3/2`).

    Raises ValueError for booleans, NaN, infinities and everything that is not a number.
    """
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("it must be a finite number")
        return Fraction(repr(float(value)))
    if isinstance(value, Decimal):
        return parse_decimal(str(value))
    if isinstance(value, str):
        ratio = _RATIO.fullmatch(value)
        if ratio is None:
            return parse_decimal(value)
        if int(ratio[2]) == 0:
            raise ValueError("it must not divide by zero")
        return Fraction(int(ratio[1]), int(ratio[2]))
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return Fraction(int(value))
    raise ValueError("it must be a number")


def parse_size(value: object) -> int:
    """Bytes from a plain integer or from text with a unit: `1 GiB`, `64KiB`, `8k` (of 1024), `256 B`, `1.5 MB` (of 1000).

    Raises ValueError for an unknown unit and for a size that is not a whole number of bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('it must be a whole number of bytes or a size like "64 KiB"')
    number, unit = match[1], match[2]
    if unit in ("KB", "Kb", "kb"):
        raise ValueError(f"the unit {unit} can mean 1000 or 1024 bytes: write {number}KiB (1024) or {number}kB (1000)")
    if unit not in SIZE_UNITS:
        raise ValueError(f"the unit {unit} is not one of {', '.join(SIZE_UNITS)}")
    exact = parse_decimal(number) * SIZE_UNITS[unit]
    if exact.denominator != 1:
        raise ValueError("it must be a whole number of bytes")
    return exact.numerator


def parse_size_text(text: str) -> int:
    """The bytes of a size on the command line. A number without a unit is in bytes; otherwise the rules of `parse_size` hold.
    """
    stripped = text.strip()
    return parse_size(int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= MAX_DIGITS else stripped)


def near_size(nbytes: int) -> str:
    """A size in its largest unit, rounded up to four digits: `80 GiB`, `131.6 GiB`, `1.5 KiB`, `12 B`.

    >>> near_size(141276128512)
    '131.6 GiB'
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        size = SIZE_UNITS[unit]
        if nbytes >= size:
            digit = 10 ** (4 - len(str(nbytes // size)))
            return f"{ceil_div(nbytes * digit, size) / digit:g} {unit}"
    return f"{nbytes} B"


def plain_number(value: Fraction) -> int | float | str:
    """A rational as an exact JSON value: an int, or a float if its shortest decimal is equal to the rational, or `p/q`.

    `parse_rational` converts each of these three forms back to the same value.
    """
    if value.denominator == 1:
        return value.numerator
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return f"{value.numerator}/{value.denominator}"
    exact = math.isfinite(nearest) and Fraction(repr(nearest)) == value
    return nearest if exact else f"{value.numerator}/{value.denominator}"


def cycles_to_ns(cycles: int, freq_ghz: Fraction) -> Fraction:
    """[ns] The duration of `cycles` of a clock of `freq_ghz` (docs/model/time_and_phases.md): exactly cycles / freq_ghz."""
    return Fraction(cycles) / freq_ghz


def even_parts(total: int, parts: int) -> list[int]:
    """Divide a number into nearly equal parts; the larger parts come first."""
    each, more = divmod(total, parts)
    return [each + (i < more) for i in range(parts)]


def aligned_inside(start: int, end: int, align: int) -> tuple[int, int]:
    """The largest range from a multiple of `align` to a multiple of `align` inside [start, end); may be empty."""
    first = -(-start // align) * align
    return first, max(first, end // align * align)


def ceil_div(numerator: int | Fraction, denominator: int | Fraction = 1, *more: int | Fraction) -> int:
    """The smallest integer that is at least the exact quotient; the number is divided by the denominators one after another."""
    if type(numerator) is int and type(denominator) is int and not more:
        return -(-numerator // denominator)
    above, below = numerator.numerator, numerator.denominator
    for one in (denominator, *more):  # in integers, because a fraction would be reduced to lowest terms in every step
        above *= one.denominator
        below *= one.numerator
    return -(-above // below)
