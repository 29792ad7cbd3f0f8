"""The components of engines.c, in Python: the same behaviour, method for function."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kernbench_core import BUSY, MEMBERS, NEVER, Component, Job

OPEN, CLOSE, ASK, SUBMIT, EMIT, WATCH, SHAPE, COUNT, STARTED = range(9)
#: Kinds of notes: the bytes of a flow that was closed early, who shares a resource, when a submitted job started.
CLOSED, SHARED, BEGAN = 100, 101, 102
Action = tuple[int, int, int, int, int]  #: at, what, a, b, c


class Fixed(Component, kind="fixed"):
    """A tensor engine: init + body + finalize cycles a job, or `latency` where that is above 0; one job at a time."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        latency: int = 0  #: [cycle]

    def __init__(self, spec: Any = None, **fields: Any) -> None:
        super().__init__(spec, **fields)
        self.job, self.due, self.free_at = -1, NEVER, 0

    def accept(self, job: Job, now: int) -> int:
        if self.job >= 0 or now < self.free_at:
            return BUSY
        self.job = job.id
        self.due = now + (self.spec.latency or sum(job.params[:3])) - 1
        return self.end(now) if self.due == now else self.due

    def step(self, now: int) -> int:
        return self.end(now) if self.job >= 0 and now == self.due else self.due

    def end(self, now: int) -> int:
        self.complete(self.job)
        self.job, self.due, self.free_at = -1, NEVER, now + 1  # this cycle is the job's last
        return NEVER

    def snapshot(self) -> bytes:
        return struct.pack("3q", self.job, self.due, self.free_at)

    def restore(self, image: bytes) -> None:
        self.job, self.due, self.free_at = struct.unpack("3q", image)


class Script(Component):
    """In cycle `at` do `what`; every notice is written down as (kind, which action, cycle)."""

    jobs = flows = asks = 64

    def __init__(self, actions: list[Action], latency: int) -> None:
        super().__init__()
        self.actions, self.latency = actions, latency
        self.next, self.job, self.due = 0, -1, NEVER
        self.ids: list[int] = []
        self.log: list[tuple[int, int, int]] = []

    def step(self, now: int) -> int:
        if self.due == now:
            self.complete(self.job)
            self.job, self.due = -1, NEVER
        while self.next < len(self.actions) and self.actions[self.next][0] <= now:
            self.ids.append(self.do(self.actions[self.next], now))
            self.next += 1
        return min(self.due, self.actions[self.next][0] if self.next < len(self.actions) else NEVER)

    def do(self, action: Action, now: int) -> int:
        _, what, a, b, c = action
        if what == OPEN:
            return self.open_flow(a, [b % 1000, b // 1000] if b >= 1000 else [b], weight=c)
        if what == ASK:
            return self.ask_banks(c, reads=bits(a), writes=bits(b))
        if what == SUBMIT:
            params = (0, 0, 256 * c, 64 * c, 64 * c, 1) if a == 0 else (0, c, 0, 0, 0, 0)
            return self.submit(a, b, params=params, regions=((0, 64, 0),))
        if what == WATCH:
            self.watch(a)
        if what == SHAPE:
            self.set_capacity(a, b)
        if what == COUNT:
            self.count_members(a, now)
        if what == STARTED and self.ids[a] >= 0:
            self.log.append((BEGAN, self.started(self.ids[a]), now))
        if what == CLOSE and self.ids[a] >= 0:
            self.log.append((CLOSED, self.close_flow(self.ids[a]), now))
            self.ids[a] = -1
        if what == EMIT and self.job >= 0:
            self.emit(self.job, "said", a)
        return -1

    def count_members(self, resource: int, now: int) -> None:
        """How many share a resource, and of the first two what they are: one number for each."""
        found = self.members(resource)
        self.log.append((SHARED, len(found), now))
        for one in found[:2]:
            said = ((one.engine + 1) * 100 + one.weight) * 1000000 + one.nbytes * 100 + one.num
            self.log.append((SHARED, said, now))

    def accept(self, job: Job, now: int) -> int:
        if self.job >= 0:
            return BUSY
        self.job, self.due = job.id, now + self.latency
        return self.due

    def notify(self, notice: int, number: int, now: int) -> int:
        if notice == MEMBERS:
            self.log.append((notice, number, now))
            return NEVER
        which = self.ids.index(number)
        self.ids[which] = -1
        self.log.append((notice, which, now))
        return NEVER

    def snapshot(self) -> bytes:
        return repr((self.next, self.job, self.due, self.ids, self.log)).encode()

    def restore(self, image: bytes) -> None:
        self.next, self.job, self.due, self.ids, self.log = eval(image)


def bits(mask: int) -> list[int]:
    """The banks of a mask."""
    return [bank for bank in range(64) if mask >> bank & 1]
