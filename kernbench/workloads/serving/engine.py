"""The event loop: arrivals, ends of steps, and clients that leave, in the order of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(slots=True)
class Flight:
    """A step that runs."""

    batch: StepBatch
    start_ns: int
    end_ns: int
    device_ns: int  #: of the device: stages of a pipeline and hand-offs between them
    queued_ns: int  #: in front of stages that other batches had
    energy_pj: Mapping[str, float]  #: by part of the machine
    stages: list[tuple[int, int]]  #: [ns] start and end in each stage


class Engine:
    """One instance: a scheduler, and a device, or a pipeline of devices, that compute its steps.

    A driver calls `add` on arrivals, `start` whenever the engine is not `busy`, and `end` at each of the times that `start`
    announced. As many steps are under way as the scheduler has `batches_in_flight`. They pass the stages in their order: a
    stage has one batch at a time, and so has each way from a stage to the next one.
    """

    def __init__(self, scheduler: Scheduler, timer: StepTimer, recorder: Recorder) -> None:
        self.scheduler = scheduler
        self.timer = timer
        self.recorder = recorder
        self.outstanding = 0  #: requests that have arrived and have not ended
        self.ended: Flight  #: the step that ended last
        self._flights: deque[Flight] = deque()
        self._next: StepBatch | None = None  # that is scheduled already
        self._full = False  # whether nothing more can be scheduled before a step ends
        self._free: list[int] = []  # [ns] when the host and each stage are free
        self._ways: list[int] = []  # [ns] when the way behind each stage is free
        self._arrived: list[Request] = []  # since the last step was scheduled
        self._considered: list[Request] = []  # arrived before the next step was scheduled, after the one before was
        self._blocked: str | None = None  # what the first of the queue had too little of, since a time
        self._blocked_since = 0
        self._blocked_ns = [0] * len(BLOCKED)  # time by what the first of the queue had too little of
        self.last_end_ns = -1  #: [ns] when the step before `ended` ended

    @property
    def busy(self) -> bool:
        """Whether steps run, and no other can start before one of them ends."""
        return self._full and bool(self._flights)

    @property
    def flying(self) -> bool:
        """Whether a step runs."""
        return bool(self._flights)

    @property
    def places(self) -> int:
        """Steps that can be under way."""
        return self.scheduler.batches_in_flight

    def add(self, request: Request, now_ns: int) -> bool:
        """A request arrives. False if it is rejected."""
        self.scheduler.add(request)
        if request.state == State.REJECTED:
            self.recorder.request(request, now_ns)
            return False
        self.outstanding += 1
        self._arrived.append(request)
        return True

    def start(self, now_ns: int) -> list[int]:
        """Start the steps that can run. [ns] when each of them ends."""
        ends = []
        while len(self._flights) < self.places and (batch := self.take(now_ns)):
            stages, host = self.timer.stages_ns(batch), self.timer.host_ns(batch)
            ends.append(self.run(batch, now_ns, stages, host, self.timer.energy_pj(batch)))
        self._full = True
        return ends

    def take(self, now_ns: int) -> StepBatch:
        """The next step, which the driver must `run` unless it is empty."""
        while True:
            batch, self._next = self._next or self._schedule(now_ns), None
            if batch or not batch.preempted or self._flights:
                return batch
            # else the first running request has given its own blocks away, and nobody else was considered

    def run(
        self, batch: StepBatch, now_ns: int, stages: Sequence[tuple[int, int]], host: int, energy: Mapping[str, float]
    ) -> int:
        """A step starts. `stages`, `host`: [ns] that these take; `energy`: [pJ] of it. [ns] when it ends."""
        batch.commit()
        self._settle(batch, now_ns)
        for request, _, _ in batch.chunks:
            if request.scheduled_ns is None:
                request.scheduled_ns = now_ns
                request.queued_ns = tuple(now - then for now, then in zip(self._blocked_ns, request.queued_ns, strict=True))
        if energy:
            batch.charge(sum(energy.values()) / batch.tokens)
        flight = self._passed(stages, 0 if self.scheduler.asynchronous else host, now_ns)
        if self.scheduler.asynchronous:
            flight.end_ns = max(flight.end_ns, now_ns + host)
        flight.batch, flight.energy_pj = batch, energy
        self._flights.append(flight)
        self._full = len(self._flights) >= self.places
        if self.scheduler.asynchronous:
            self._next = self._schedule(now_ns)
            self._next.commit()
        return flight.end_ns

    def _passed(self, stages: Sequence[tuple[int, int]], host_ns: int, now_ns: int) -> Flight:
        """When a batch passes the host and each stage, with the hand-off behind it."""
        if not self._free:
            self._free, self._ways = [0] * (1 + len(stages)), [0] * len(stages)
        ready = max(now_ns, self._free[0]) + host_ns
        self._free[0] = ready
        spans, worked = [], host_ns
        for place, (stage, hand_off) in enumerate(stages):
            start = max(ready, self._free[1 + place])
            self._free[1 + place] = end = start + stage
            spans.append((start, end))
            ready = max(end, self._ways[place]) + hand_off
            self._ways[place] = ready
            worked += stage + hand_off
        return Flight(StepBatch(), now_ns, ready, worked - host_ns, ready - now_ns - worked, {}, spans)

    def _settle(self, batch: StepBatch, now_ns: int) -> None:
        """What the queue lacked until now is known, and what it lacks from now on."""
        if self._blocked is not None:
            self._blocked_ns[BLOCKED.index(self._blocked)] += now_ns - self._blocked_since
        self._blocked, self._blocked_since = batch.blocked, now_ns
        for request in self._considered:
            if request.scheduled_ns is None:  # else another engine has computed its prompt
                request.queued_ns = tuple(self._blocked_ns)
        self._considered = []

    def _schedule(self, now_ns: int) -> StepBatch:
        """The next step. Requests that have arrived since the last one wait in the queue from its start on."""
        self._considered += self._arrived
        self._arrived = []
        batch = self.scheduler.schedule(now_ns)
        if not batch and self._flights and not self.scheduler.asynchronous:
            self._settle(batch, now_ns)
        return batch

    def end(self) -> list[Request]:
        """The first of the running steps ends. The requests that ended with it."""
        flight = self._flights.popleft()
        self._full = False
        tokens = flight.batch.complete(flight.end_ns, self.last_end_ns)
        for request in tokens.ended:
            request.state = State.FINISHED
            self.scheduler.finish(request)
            self.recorder.request(request, flight.end_ns)
        self.outstanding -= len(tokens.ended)
        self.ended = flight
        self.recorder.step(self, flight.batch, flight.start_ns, flight.end_ns, tokens)
        self.last_end_ns = flight.end_ns
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
        for end in engine.start(now):
            serial += 1
            heappush(events, (end, _END, serial, None))
        if engine.outstanding and following is None and not events:
            rule = f"it schedules nothing, but {engine.outstanding} requests have not ended"
            raise InternalError(Problem("serving", rule, "scheduler", type(engine.scheduler).__name__))
    return now
