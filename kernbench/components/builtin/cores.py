"""The cores of a PE, some of which the channels of a collective may occupy (docs/model/kernels.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol


class Engine(Protocol):
    """Tensor or vector engines, whose service times depend on the number of their cores."""

    def stretch(self, factor: Fraction) -> None: ...


class Cores:
    """The cores of one PE. While channels occupy some cores, the engines use these for the collective, and the other cores for
    all other work. The duration of a command is set at its issue.
    """

    def __init__(self, total: int, engines: Sequence[Engine]) -> None:
        self.total = total
        self.channels = 0  #: cores that a collective occupies
        self.inside = False  #: whether the commands that are issued now belong to the collective
        self._engines = engines
        self._factor = Fraction(1)

    def occupy(self, channels: int) -> None:
        """A collective begins, and its commands follow; 0: the collective has ended."""
        self.channels, self.inside = channels, channels > 0
        self._apply()

    def enter(self, inside: bool) -> bool:
        """Set whether the following commands belong to the collective; return the previous value."""
        before, self.inside = self.inside, inside
        if self.channels:
            self._apply()
        return before

    def _apply(self) -> None:
        factor = Fraction(1)
        if self.channels:
            factor = Fraction(self.total, self.channels if self.inside else self.total - self.channels)
        if factor != self._factor:
            self._factor = factor
            for engine in self._engines:
                engine.stretch(factor)
