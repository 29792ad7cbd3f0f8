"""The event loop: arrivals, ends of steps, and departures of clients, in the order of time."""

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
    """Receives the events of a simulation."""

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
    device_ns: int  #: [ns] of the device: stages of a pipeline, and hand-offs between them
    queued_ns: int  #: [ns] waiting for stages that other batches occupied
    energy_pj: Mapping[str, float]  #: by part of the machine
    stages: list[tuple[int, int]]  #: [ns] start and end in each stage


class Engine:
    """One instance: a scheduler, and a device or a pipeline of devices that computes its steps.

    A driver calls `add` at arrivals, `start` whenever the engine is not `busy`, and `end` at each of the times that `start`
    returned. The number of steps in progress is at most the `batches_in_flight` of the scheduler. The steps pass the stages in
    order: a stage has one batch at a time, and so has each link from a stage to the next.
    """

    def __init__(self, scheduler: Scheduler, timer: StepTimer, recorder: Recorder) -> None:
        self.scheduler = scheduler
        self.timer = timer
        self.recorder = recorder
        self.outstanding = 0  #: requests that have arrived and have not ended
        self.ended: Flight  #: the step that ended last
        self._flights: deque[Flight] = deque()
        self._next: StepBatch | None = None  # the next step, if it is already scheduled
        self._full = False  # whether no step can be scheduled before another step ends
        self._free: list[int] = []  # [ns] when the host and each stage are free
        self._ways: list[int] = []  # [ns] when the link after each stage is free
        self._arrived: list[Request] = []  # requests that arrived since the last step was scheduled
        # requests that arrived between the scheduling of the previous step and of the next step
        self._considered: list[Request] = []
        self._blocked: str | None = None  # the resource that the first request of the queue lacks, and since when
        self._blocked_since = 0
        self._blocked_ns = [0] * len(BLOCKED)  # [ns] total time for each lack of the first request
        self.last_end_ns = -1  #: [ns] end of the step before `ended`

    @property
    def busy(self) -> bool:
        """Whether steps run, and no further step can start before one of them ends."""
        return self._full and bool(self._flights)

    @property
    def flying(self) -> bool:
        """Whether a step runs."""
        return bool(self._flights)

    @property
    def places(self) -> int:
        """The number of steps that can be in progress."""
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
        """Start the steps that can run. Returns the end of each [ns]."""
        ends = []
        while len(self._flights) < self.places and (batch := self.take(now_ns)):
            stages, host = self.timer.stages_ns(batch), self.timer.host_ns(batch)
            ends.append(self.run(batch, now_ns, stages, host, self.timer.energy_pj(batch)))
        self._full = True
        return ends

    def take(self, now_ns: int) -> StepBatch:
        """The next step; the driver must `run` it unless it is empty."""
        while True:
            batch, self._next = self._next or self._schedule(now_ns), None
            if batch or not batch.preempted or self._flights:
                return batch
            # otherwise the first running request has given its own blocks away, and no other request was considered

    def run(
        self, batch: StepBatch, now_ns: int, stages: Sequence[tuple[int, int]], host: int, energy: Mapping[str, float]
    ) -> int:
        """A step starts. `stages`, `host`: [ns] their durations; `energy`: [pJ] of the step. Returns its end [ns]."""
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
        """The times at which a batch passes the host and each stage, including the hand-off after it."""
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
        """Count the time for which the first request of the queue lacked a resource, and set the resource that it lacks from
        now on."""
        if self._blocked is not None:
            self._blocked_ns[BLOCKED.index(self._blocked)] += now_ns - self._blocked_since
        self._blocked, self._blocked_since = batch.blocked, now_ns
        for request in self._considered:
            if request.scheduled_ns is None:  # otherwise another engine has computed its prompt
                request.queued_ns = tuple(self._blocked_ns)
        self._considered = []

    def _schedule(self, now_ns: int) -> StepBatch:
        """The next step. Requests that have arrived since the last step count as waiting from the start of this step on."""
        self._considered += self._arrived
        self._arrived = []
        batch = self.scheduler.schedule(now_ns)
        if not batch and self._flights and not self.scheduler.asynchronous:
            self._settle(batch, now_ns)
        return batch

    def end(self) -> list[Request]:
        """End the first of the running steps. Returns the requests that ended with it."""
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
    """Run all requests, which must be in the order of their arrivals. Returns the end of the last one [ns].

    `max_concurrency`: a request is sent only when fewer requests are in progress; its time starts when it is sent.
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
            continue  # all events of this time are handled before the next step
        for end in engine.start(now):
            serial += 1
            heappush(events, (end, _END, serial, None))
        if engine.outstanding and following is None and not events:
            rule = f"it schedules nothing, but {engine.outstanding} requests have not ended"
            raise InternalError(Problem("serving", rule, "scheduler", type(engine.scheduler).__name__))
    return now
