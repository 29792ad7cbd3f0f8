"""An exact sum of integers of 64 bits, which can need more than 64 bits."""

from __future__ import annotations

_LIMIT = 1 << 62  # the sum of two integers below it needs no more than 64 bits


class Sum:
    """A sum of integers that are not negative. Compiled code adds machine integers, and few of them change `_high`."""

    def __init__(self) -> None:
        self._low = 0  # below _LIMIT
        self._high = 0

    def add(self, number: int) -> None:
        """Add an integer of at most 64 bits."""
        if number >= _LIMIT:
            self._high += number
            return
        self._low += number
        if self._low >= _LIMIT:
            self._high += self._low
            self._low = 0

    def value(self) -> int:
        """The sum."""
        return self._high + self._low
