"""The event loop: arrivals, ends of steps, and clients that leave, in the order of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Protocol

from kernbench.common.errors import InternalError, Problem
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.scheduler import BLOCKED, Scheduler, StepBatch, Tokens
from kernbench.workloads.serving.step_time import StepTimer

_ENDED = (State.FINISHED, State.ABORTED, State.REJECTED)


class Recorder(Protocol):
    """What is reported about a simulation while it runs."""

    def step(self, engine: Engine, batch: StepBatch, start_ns: int, end_ns: int, tokens: Tokens) -> None:
        """A step has ended."""

    def request(self, request: Request, now_ns: int) -> None:
        """A request has ended: finished, aborted or rejected."""


class Engine:
    """One instance: a scheduler, and a device that computes one step at a time.

    A driver calls `add` on arrivals, `start` whenever the device is idle, and `end` when the step ends that `start` announced.
    """

    def __init__(self, scheduler: Scheduler, timer: StepTimer, recorder: Recorder) -> None:
        self.scheduler = scheduler
        self.timer = timer
        self.recorder = recorder
        self.outstanding = 0  #: requests that have arrived and have not ended
        self._batch: StepBatch | None = None  # of the step that runs
        self._next: StepBatch | None = None  # that is scheduled already
        self._start = self._end = 0
        self.device_ns = 0  #: [ns] of the device in the step that runs, or ended last
        self.energy_pj: Mapping[str, float] = {}  #: [pJ] of that step by part of the machine
        self._arrived: list[Request] = []  # since the last step was scheduled
        self._considered: list[Request] = []  # arrived before the next step was scheduled, after the one before was
        self._blocked_ns = [0] * len(BLOCKED)  # time of steps by what the first of the queue had too little of
        self.last_end_ns = -1  #: [ns] when the last step ended

    @property
    def busy(self) -> bool:
        """Whether a step runs."""
        return self._batch is not None

    def add(self, request: Request, now_ns: int) -> bool:
        """A request arrives. False if it is rejected."""
        self.scheduler.add(request)
        if request.state == State.REJECTED:
            self.recorder.request(request, now_ns)
            return False
        self.outstanding += 1
        self._arrived.append(request)
        return True

    def start(self, now_ns: int) -> int | None:
        """Start a step if anything can run. [ns] when it ends."""
        batch = self._next or self._schedule(now_ns)
        self._next = None
        if not batch:
            return None
        batch.commit()
        self._batch, self._start = batch, now_ns
        for request in self._considered:
            if request.scheduled_ns is None:  # else another engine has computed its prompt
                request.queued_ns = tuple(self._blocked_ns)
        self._considered = []
        for request, _, _ in batch.chunks:
            if request.scheduled_ns is None:
                request.scheduled_ns = now_ns
                request.queued_ns = tuple(now - then for now, then in zip(self._blocked_ns, request.queued_ns, strict=True))
        device, host = self.timer.device_ns(batch), self.timer.host_ns(batch)
        self.device_ns = device
        self.energy_pj = self.timer.energy_pj(batch)
        if self.energy_pj:
            batch.charge(sum(self.energy_pj.values()) / batch.tokens)
        beside = self.scheduler.asynchronous
        self._end = now_ns + (max(device, host) if beside else device + host)
        if batch.blocked is not None:
            self._blocked_ns[BLOCKED.index(batch.blocked)] += self._end - now_ns
        if beside:
            self._next = self._schedule(now_ns)
            self._next.commit()
        return self._end

    def _schedule(self, now_ns: int) -> StepBatch:
        """The next step. Requests that have arrived since the last one wait in the queue from its start on."""
        self._considered += self._arrived
        self._arrived = []
        return self.scheduler.schedule(now_ns)

    def end(self) -> list[Request]:
        """The step ends. The requests that ended with it."""
        batch, self._batch = self._batch, None
        assert batch is not None
        tokens = batch.complete(self._end, self.last_end_ns)
        for request in tokens.ended:
            request.state = State.FINISHED
            self.scheduler.finish(request)
            self.recorder.request(request, self._end)
        self.outstanding -= len(tokens.ended)
        self.recorder.step(self, batch, self._start, self._end, tokens)
        self.last_end_ns = self._end
        return tokens.ended

    def abort(self, request: Request, now_ns: int) -> None:
        """The client leaves."""
        request.state = State.ABORTED
        self.scheduler.finish(request)
        self.outstanding -= 1
        self.recorder.request(request, now_ns)


_END, _ABORT = range(2)


def drive(requests: Iterable[Request], engine: Engine, max_concurrency: int | None = None) -> int:
    """Run all requests, which are in the order of their arrivals. [ns] when the last one ended.

    `max_concurrency`: a request is sent only when fewer are under way; its time starts when it is sent.
    """
    coming = iter(requests)
    following = next(coming, None)
    held: deque[Request] = deque()
    events: list[tuple[int, int, int, Request | None]] = []
    serial = now = 0

    def send(request: Request) -> None:
        nonlocal serial
        request.arrival_ns = max(request.arrival_ns, now)
        if engine.add(request, now) and request.abort_ns is not None:
            serial += 1
            heappush(events, (request.arrival_ns + request.abort_ns, _ABORT, serial, request))

    while following is not None or events:
        if following is not None and (not events or following.arrival_ns <= events[0][0]):
            now = max(now, following.arrival_ns)
            held.append(following)
            arrived, following = following, next(coming, None)
            if following is not None and following.arrival_ns < arrived.arrival_ns:
                raise InternalError(Problem("serving", "requests must be in the order of their arrivals"))
        else:
            now, kind, _, request = heappop(events)
            if kind == _END:
                engine.end()
            elif request is not None and request.state not in _ENDED:
                engine.abort(request, now)
        while held and (max_concurrency is None or engine.outstanding < max_concurrency):
            send(held.popleft())
        if engine.busy or (events and events[0][0] == now) or (following is not None and following.arrival_ns == now):
            continue  # everything that happens now comes before the next step
        end = engine.start(now)
        if end is not None:
            serial += 1
            heappush(events, (end, _END, serial, None))
        elif engine.outstanding and following is None and not events:
            rule = f"it schedules nothing, but {engine.outstanding} requests have not ended"
            raise InternalError(Problem("serving", rule, "scheduler", type(engine.scheduler).__name__))
    return now
