"""The options and the destination of a trace: the only parts that a run without a trace imports."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant

WINDOW = 1024  #: [cycle] default length of a window of samples
FOREVER = 2**62  # [cycle]
MAX_WINDOW = 2**40  # [cycle]


class Sink(Protocol):
    """The destination of lines."""

    def write(self, text: bytes, /) -> object:
        """Accept whole lines."""
        ...


class TraceOptions(msgspec.Struct, frozen=True):
    """The content of a trace. `only`: patterns of units (`dma0`, `te*`). `cycles`: events of `[from, to)`.

    Neither option affects the first line, the last line and the commands, and `only` does not affect events without a unit.
    """

    level: str = "summary"
    window: int = WINDOW  #: [cycle]
    only: tuple[str, ...] = ()
    cycles: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        from kernbench.trace.schema import LEVELS  # imported here, because a run without a trace needs no schema

        if self.level not in LEVELS[1:]:
            rule = f"it must be one of {', '.join(LEVELS[1:])}"
            raise InputError(Problem("trace", rule, "level", self.level, meant(self.level, LEVELS[1:])))
        if not 0 < self.window <= MAX_WINDOW:
            raise InputError(Problem("trace", "a window must have from 1 to 2^40 cycles", "window", self.window))
        if self.cycles is not None and not 0 <= self.cycles[0] < self.cycles[1] < FOREVER:
            given = f"{self.cycles[0]}:{self.cycles[1]}"
            raise InputError(Problem("trace", "it must be FROM:TO with 0 <= FROM < TO", "cycles", given))

    def left_out(self) -> dict[str, Any] | None:
        """`TRACE_META.filter`."""
        out: dict[str, Any] = {}
        if self.cycles is not None:
            out["cycles"] = list(self.cycles)
        if self.only:
            out["only"] = list(self.only)
        return out or None
