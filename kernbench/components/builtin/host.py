"""The host: runs its program in no time, launches work, and waits for the work."""

from __future__ import annotations

from typing import Protocol

from kernbench.common.naming import HOST
from kernbench.components.base import COMPONENT, NEVER, ComponentBase, Job


class HostSource(Protocol):
    """The host program; it continues when its wait has ended."""

    def resume(self, host: Host, now: int) -> bool:
        """P1: continue as far as possible; true when the program is over."""

    def ended(self, host: Host, number: int, end: int) -> bool:
        """P7: a job of the host has ended; true if the program continues in the next cycle."""

    def over(self) -> bool:
        """Whether the program has returned, and everything that it started has ended."""

    def next_due(self) -> int:
        """The cycle in which to resume, whatever ends before; NEVER: none."""


class Host(ComponentBase, kind=HOST):
    """Keeps the run alive until its program is over, with a job of its own."""

    node_id = HOST
    flows = asks = 0  # it only gives jobs to others
    no_snapshot = "a host program cannot be saved as bytes: keep its inputs and the cycle, and run there again"

    def __init__(self, source: HostSource, *, jobs: int, name: str = HOST) -> None:
        """`name`: of this component in its machine; machines with several host programs have several hosts."""
        super().__init__()
        self.name_there = name
        self.source = source
        self.room = jobs  #: parts of launches and copies that may be open at a time
        self.jobs = jobs + 1  # plus the job that keeps the run alive
        self.position: dict[str, int] = {}  #: positions in the core of components to which the host can give jobs, by name
        self._running: int | None = None
        self._own = -1  # the job that keeps the run alive
        self._begun = self._resume = False

    def accept(self, job: Job, now: int) -> int:
        self._running = job.id
        return NEVER if self._begun else now + 1

    def step(self, now: int) -> int:
        if not self._begun:
            self._own = self.submit(COMPONENT, self.position[self.name_there])
            self._begun = self._resume = True
        if self._resume or now >= self.source.next_due():
            self._resume = False
            if self.source.resume(self, now):
                return self._end(now)
        return self.source.next_due()

    def notify(self, notice: int, number: int, now: int) -> int:
        if number == self._own:
            return NEVER
        resume = self.source.ended(self, number, now + 1)
        if self._running is not None and self.source.over():
            return self._end(now)
        if resume:
            self._resume = True
            return now + 1
        return max(now + 1, self.source.next_due())

    def _end(self, now: int) -> int:
        """Let the run end. In cycle 0 the job that keeps the run alive has not started yet."""
        if self._running is None:
            self._resume = True
            return now + 1
        self.complete(self._running)
        self._running = None
        return NEVER
