"""Launches: which PE runs which programs of a kernel, and when it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec


class PeWork(msgspec.Struct, frozen=True):
    """The work of one PE in a launch: `kernel(*args, tl=tl)` for each of its programs, in order."""

    pe: str  #: `sip0.cube3.pe1`; of one NPU `pe0`
    kernel: Callable[..., Any]
    args: tuple[Any, ...] = ()
    programs: tuple[int, ...] = (0,)  #: numbers in the grid, its last axis fastest
    grid: tuple[int, ...] = (1,)
    kwargs: Mapping[str, Any] = msgspec.field(default_factory=dict)


class PeTimes(msgspec.Struct):
    """[cycle] Of one PE: its first program began, its last command had ended."""

    start: int
    end: int | None = None


class Launch(msgspec.Struct):
    """One launch. Cycles are None until they are known."""

    name: str
    issued: int  #: the host launched it
    work: Sequence[PeWork]
    number: int = 0
    start: int | None = None
    end: int | None = None
    # Of a traced run, ids of commands.
    after: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)  #: by PE: the event for which its kernel waited
    before: tuple[int, ...] = ()  #: the command that ended last, and all commands that ended in the same cycle
    per_pe: dict[str, PeTimes] = msgspec.field(default_factory=dict)  #: in the order in which they began
    _by_pe: dict[str, PeWork] = msgspec.field(default_factory=dict)
    _over: int = 0  # PEs that have ended,
    _last: int = 0  # and the cycle of the last one

    def began(self, pe: str, cycle: int) -> None:
        """The first program of a PE begins."""
        self.per_pe[pe] = PeTimes(cycle)
        self.start = cycle if self.start is None else min(self.start, cycle)

    def ended(self, pe: str, cycle: int, before: tuple[int, ...]) -> None:
        """The work of a PE has ended, with the end of some command."""
        self.per_pe[pe].end = cycle
        self.before = before
        self._over += 1
        self._last = max(self._last, cycle)
        if self._over == len(self.work):
            self.end = self._last

    def work_of(self, pe: str) -> PeWork:
        """The work of one PE."""
        if not self._by_pe:
            self._by_pe = {one.pe: one for one in reversed(self.work)}
        return self._by_pe[pe]


class HostCopy(msgspec.Struct):
    """Bytes on their way between the host and memories. Cycles are None until they are known."""

    endpoint: str
    nbytes: int
    write: bool  #: to the device
    issued: int
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Group:
    """A PE in a group with queues, and the properties of its queues."""

    rank: int | None = None
    size: int = 0
    slots: int = 0  #: of a queue
    slot_bytes: int = 0


ALONE = Group()  #: a PE without queues


class PeFacts(msgspec.Struct, frozen=True):
    """The facts about a PE that its kernels can read."""

    name: str
    tcm_base: int  #: global address of the scratchpad's first byte
    tcm_bytes: int
    tcm_line: int  #: [byte] tiles begin at a multiple of this
    align: int  #: [byte] transfers are widened to multiples of this
    dma: int  #: number of DMA engines
    te: int
    ve: int


@dataclass(frozen=True)
class PeState:
    """The state of the kernel of a PE (`kbsim step`)."""

    pe: str
    launch: str  #: empty: none
    program: int | None
    line: str  #: `kernel.py:12`, where it stands
    waits: str  #: for what; empty if it does not
    since: int | None  #: [cycle] it waits
    in_flight: int  #: commands that have not ended
    implicit_waits: int
