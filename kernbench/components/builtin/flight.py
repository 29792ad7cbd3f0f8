"""Commands in flight: a message between its issue and its end, and the jobs that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.components.builtin.part import PePart

Region = tuple[int, int, int]  #: flat scratchpad address, bytes, whether it is written
Order = tuple[Sequence[int], Sequence[Region]]  #: a job for an engine of the core: parameters, regions (`Component.submit`)


class Reach:
    """Bytes `[start, end)` of one memory or scratchpad, and the route of a DMA engine to them, or -1."""

    def __init__(self, start: int, end: int, reach: Sequence[int], peer: int = -1) -> None:
        self.start = start
        self.end = end
        self.memory, self.route = reach or (-1, -1)
        self.peer = peer  #: a scratchpad's number, -1: it is a memory


class Flight:
    """A command that was issued. `end` is -1 until the message has ended. Afterwards, no object refers to the message."""

    def __init__(self, msg: Any, part: PePart, issued: int, line: str) -> None:
        self.msg = msg
        self.part = part
        self.issued = issued  #: [cycle]
        self.line = line  #: of the kernel
        self.start = -1  #: [cycle] of its first job
        self.end = -1
        self.due = issued  #: [cycle] in which it is handed over
        self.orders: Sequence[Order] = ()  #: and as which jobs
        self.engine = 0  #: engine of the component
        self.jobs_left = 0
        self.after: tuple[int, ...] = ()  #: of a traced run: ids of the commands that it, or the kernel before it, waited for
        self.visible = 0  #: [cycle] from which a message of `after` could be used; 0: its protocol adds no cycles
        self.command = -1  #: its own id there; of several jobs that of the last
        self.parent: Flight | None = None  #: of a tile: the composite op
        self.plain = False  #: it is one job, which its component can submit (`PePart.send`) without `orders`
        self.behind: Flight | None = None  #: next command in the queue to be handed over
        self.reach: Any = None  #: of such a job: the route to the memory, or the time of the product
        self.channel = 0  #: of a transfer: the DMA engine's,
        self.write = False
        self.addr = self.nbytes = 0  #: in memory,
        self.place = self.travel = 0  #: flat scratchpad address and bytes, including alignment
