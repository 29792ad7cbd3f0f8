"""Cycles as the times that viewers know: exact where a time in whole femtoseconds is, else rounded down."""

from __future__ import annotations

from fractions import Fraction

from kernbench.trace.exporters.write import TimeUnit

MOST_NS = 2**63 - 1


class Clock:
    """Turns cycles into times; later cycles never have earlier times."""

    def __init__(self, freq_ghz: Fraction, unit: TimeUnit = TimeUnit.NS) -> None:
        period = Fraction(1) if unit is TimeUnit.CYCLES else 1 / freq_ghz  # [ns]
        self._num, self._den = period.numerator, period.denominator

    def ns(self, cycle: int) -> int:
        """Whole nanoseconds, rounded down, in 63 bits."""
        return min(max(cycle, 0) * self._num // self._den, MOST_NS)

    def us_text(self, cycle: int) -> bytes:
        """Microseconds as a decimal of at most nine places."""
        whole, rest = divmod(max(cycle, 0) * self._num * 10**6 // self._den, 10**9)
        return (f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)).encode()
