"""Commands on their way: a message between its issue and its end, and the jobs that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.components.builtin.part import PePart

Region = tuple[int, int, int]  #: flat scratchpad address, bytes, whether it is written
Order = tuple[Sequence[int], Sequence[Region]]  #: a job for an engine of the core: parameters, regions (`Component.submit`)


class Flight:
    """A command that was issued. `end` is -1 until it has ended; then nothing refers to its message any more."""

    def __init__(self, msg: Any, part: PePart, issued: int, line: str) -> None:
        self.msg = msg
        self.part = part
        self.issued = issued  #: [cycle]
        self.line = line  #: of the kernel
        self.start = -1  #: [cycle] of its first job
        self.end = -1
        self.due = issued  #: [cycle] in which it is handed over,
        self.orders: Sequence[Order] = ()  #: and as which jobs
        self.engine = 0  #: which of the part's engines
        self.jobs_left = 0
        self.after: tuple[int, ...] = ()  #: of a traced run: ids of the commands that it, or the kernel before it, waited for
        self.command = -1  #: its own id there; of several jobs that of the last
        self.parent: Flight | None = None  #: of a tile: the composite op
