"""Several engines behind a router: replicas, chips of different kinds, and prefill apart from decode."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from kernbench.common.errors import InputError, InternalError, Problem
from kernbench.workloads.serving.engine import Engine, Recorder
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.result import Record, ServingResult
from kernbench.workloads.serving.routing import Router
from kernbench.workloads.serving.scheduler import Scheduler, StepBatch, Tokens
from kernbench.workloads.serving.step_time import StepTimer
from kernbench.workloads.serving.timeline import Timeline

Role = Literal["both", "prefill", "decode"]
ROLES: tuple[Role, ...] = ("both", "prefill", "decode")


@dataclass(frozen=True, slots=True)
class KvLink:
    """The transfer of a prompt's keys and values from an engine that prefills to an engine that decodes.

    `token_bytes`: the bytes of a token's keys and values in all layers. `bytes_per_ns`: the bandwidth of the link of one
    prefill engine; its transfers go one after another. `latency_ns`: the latency of each transfer.

    >>> from kernbench.serving import KvLink
    >>> KvLink(token_bytes=131072, bytes_per_ns=32, latency_ns=5000).transfer_ns(1024)
    4199304
    """

    token_bytes: int
    bytes_per_ns: float
    latency_ns: int = 0

    def __post_init__(self) -> None:
        for name, value, least in (("token_bytes", self.token_bytes, 0), ("latency_ns", self.latency_ns, 0)):
            if type(value) is not int or value < least:
                raise InputError(Problem("link", f"it must be an integer of at least {least}", name, value))
        if not self.bytes_per_ns > 0:
            raise InputError(Problem("link", "it must be above 0", "bytes_per_ns", self.bytes_per_ns))

    def transfer_ns(self, tokens: int) -> int:
        """[ns] The time for this number of tokens alone on the link, rounded up."""
        return self.latency_ns + -int(-tokens * self.token_bytes // self.bytes_per_ns)


class Instance:
    """One engine of a fleet, and its role: it serves complete requests, their prefill, or their decode.

    `link`: the link from an engine that prefills to those that decode; the default is that of the fleet. `timeline`: the
    timeline that sums its steps. `sharers`: the engines with which it shares experts; the instance joins them.
    """

    def __init__(
        self, scheduler: Scheduler, timer: StepTimer, role: Role = "both", name: str = "", link: KvLink | None = None,
        timeline: Timeline | None = None, sharers: Sharers | None = None,
    ) -> None:  # fmt: skip
        if role not in ROLES:
            raise InputError(Problem("instance", f"it must be one of {', '.join(ROLES)}", "role", role))
        self.scheduler = scheduler
        self.timer = timer
        self.role = role
        self.name = name
        self.link = link
        self.timeline = timeline
        self.sharers = sharers
        if sharers is not None:
            if scheduler.batches_in_flight > 1:
                rule = "engines that share experts compute one step at a time"
                raise InputError(Problem("instance", rule, "batches_in_flight", scheduler.batches_in_flight))
            sharers.instances.append(self)
        self.served = 0  #: requests that the router assigned to it
        self.busy_ns = 0
        self.steps = 0
        self.engine: Engine  # of the run

    @property
    def outstanding(self) -> int:
        """Requests that have arrived here and have not ended."""
        return self.engine.outstanding

    def start(self, now_ns: int) -> list[tuple[Instance, int]]:
        """Start the steps that can run; return the instance and the end [ns] of each."""
        if self.sharers is not None:
            return self.sharers.start(now_ns)
        return [] if self.engine.busy else [(self, end) for end in self.engine.start(now_ns)]

    def __repr__(self) -> str:
        return f"Instance({self.name or self.role})"


class Sharers:
    """Engines that share experts: they start each step together, and the step ends for all of them at once.

    A request that arrives during a step waits for the end of this step, even if its engine has nothing to do. An engine without
    work takes part in a step, because other engines need its experts. `timer`: times the common steps.
    """

    def __init__(self, timer: StepTimer) -> None:
        self.timer = timer
        self.instances: list[Instance] = []

    def start(self, now_ns: int) -> list[tuple[Instance, int]]:
        """Start the next step, if none runs and some engine has work. The energy is divided by tokens."""
        engines = [one.engine for one in self.instances]
        if any(engine.flying for engine in engines):
            return []
        batches = [engine.take(now_ns) for engine in engines]
        if not any(batches):
            return []
        stages = ((self.timer.replicas_ns(batches), 0),)
        host = max(self.timer.host_ns(batch) for batch in batches if batch)
        energy, tokens = self.timer.replicas_pj(batches), sum(batch.tokens for batch in batches)
        ends = []
        for instance, batch in zip(self.instances, batches, strict=True):
            if batch:
                share = {name: pj * batch.tokens / tokens for name, pj in energy.items()}
                ends.append((instance, instance.engine.run(batch, now_ns, stages, host, share)))
        return ends


class _EngineEvents:
    """Forwards the events of an engine. The end of a prefill is not the end of its request, if another engine decodes."""

    def __init__(self, instance: Instance, recorder: Recorder) -> None:
        self._instance = instance
        self._recorder = recorder

    def step(self, engine: Engine, batch: StepBatch, start_ns: int, end_ns: int, tokens: Tokens) -> None:
        """A step has ended."""
        self._instance.steps += 1
        self._instance.busy_ns += (end_ns - start_ns) // engine.places
        if self._instance.timeline is not None:
            self._instance.timeline.step(batch, tokens, start_ns, (end_ns - start_ns) // engine.places)
        if self._instance.role == "prefill":  # the first token comes from the engine that decodes
            tokens = Tokens()
        self._recorder.step(engine, batch, start_ns, end_ns, tokens)

    def request(self, request: Request, now_ns: int) -> None:
        """A request has ended here."""
        if self._instance.role != "prefill" or request.state != State.FINISHED:
            self._recorder.request(request, now_ns)


_END, _ARRIVE, _ABORT = range(3)


class Fleet:
    """Instances, the router in front of them, and the link from prefill to decode.

    A request goes to one instance that the router chooses. If there are instances of role `prefill`, the router chooses one of
    them for the prompt. The keys and values then cross the link, and the router chooses an instance of role `decode`. This
    instance computes the last token of the prompt again, as in vLLM, and produces the first token of the output.
    """

    def __init__(self, instances: Sequence[Instance], router: Router, link: KvLink | None = None) -> None:
        self.instances = list(instances)
        self.router = router
        self.link = link
        roles = {one.role for one in self.instances}
        if not roles:
            raise InputError(Problem("fleet", "it must have at least one instance", "instances"))
        if roles not in ({"both"}, {"prefill", "decode"}):
            rule = "all must have the role both, or some prefill and the others decode"
            raise InputError(Problem("fleet", rule, "role", ", ".join(sorted(roles))))
        if link is None and any(one.role == "prefill" and one.link is None for one in self.instances):
            raise InputError(Problem("fleet", "prefill instances need a link to the decode instances", "link"))
        self.first = [one for one in self.instances if one.role != "decode"]
        self.second = [one for one in self.instances if one.role == "decode"]
        self._link_free: dict[Instance, int] = {}
        self.moved_bytes = 0  #: bytes of keys and values over all links

    def drive(self, requests: Iterable[Request], recorder: Recorder, max_concurrency: int | None = None) -> int:
        """Run all requests, which must be in the order of their arrivals. Returns the end of the last one [ns]."""
        for one in self.instances:
            one.engine = Engine(one.scheduler, one.timer, _EngineEvents(one, recorder))
        return _FleetRun(self, requests, recorder).run(max_concurrency)

    def cross(self, instance: Instance, tokens: int, now_ns: int) -> int:
        """[ns] The time at which tokens that an instance has just computed arrive at the other side."""
        link = instance.link or self.link
        assert link is not None
        end = max(now_ns, self._link_free.get(instance, 0)) + link.transfer_ns(tokens)
        self._link_free[instance] = end
        self.moved_bytes += tokens * link.token_bytes
        return end


class _FleetRun:
    """One run of a fleet: the requests in progress, and the events to come."""

    def __init__(self, fleet: Fleet, requests: Iterable[Request], recorder: Recorder) -> None:
        self.fleet, self.recorder = fleet, recorder
        self.now = 0
        self.coming = iter(requests)
        self.following = next(self.coming, None)
        self.held: deque[Request] = deque()  #: arrived requests that the limit of concurrency holds back
        #: time, kind, serial number that breaks ties, instance of an end, request of any other event
        self.events: list[tuple[int, int, int, Instance | None, Request | None]] = []
        self.serial = 0
        #: requests in progress by number, with their instance; None while their data cross the link
        self.at: dict[int, tuple[Instance | None, Request]] = {}
        self.whole: dict[int, Request] = {}  #: split requests by number, as the client sent them
        self.touched: dict[Instance, None] = {}  #: instances that may start a step

    def run(self, max_concurrency: int | None) -> int:
        """Run all requests. Returns the end of the last one [ns]."""
        events, held, at = self.events, self.held, self.at
        while (following := self.following) is not None or events:
            if following is not None and (not events or following.arrival_ns <= events[0][0]):
                self._arrive(following)
                following = self.following
            else:
                self.now, kind, _, instance, request = heappop(events)
                if instance is not None:
                    self._end_step(instance)
                elif request is not None and kind == _ARRIVE:
                    if request.state == State.WAITING:
                        self._give(request, self.fleet.router.choose(request, self.fleet.second))
                elif request is not None:
                    self._abort(request)
            while held and (max_concurrency is None or len(at) < max_concurrency):
                self._send(held.popleft())
            if (events and events[0][0] == self.now) or (following is not None and following.arrival_ns == self.now):
                continue  # all events of this time are handled before the next step
            self._start_steps()
        return self.now

    def _arrive(self, request: Request) -> None:
        """A client sends its request."""
        self.now = max(self.now, request.arrival_ns)
        self.held.append(request)
        self.following = next(self.coming, None)
        if self.following is not None and self.following.arrival_ns < request.arrival_ns:
            raise InternalError(Problem("serving", "requests must be in the order of their arrivals"))

    def _end_step(self, instance: Instance) -> None:
        """A step of an instance ends; the data of prompts that end in it cross the link."""
        self.touched[instance] = None
        for done in instance.engine.end():
            del self.at[done.id]
            if instance.role == "prefill":
                moved = _rest_of(self.whole[done.id], done)
                self.at[done.id] = (None, moved)
                self._event(self.fleet.cross(instance, moved.prompt, self.now), None, moved, _ARRIVE)
            else:
                self.whole.pop(done.id, None)

    def _abort(self, request: Request) -> None:
        """The client of a request gives up, unless the request has ended."""
        instance, current = self.at.pop(request.id, (None, None))
        self.whole.pop(request.id, None)
        if instance is not None and current is not None:
            instance.engine.abort(current, self.now)
            self.touched[instance] = None
        elif current is not None:  # its keys and values are on the link
            current.state = State.ABORTED
            self.recorder.request(current, self.now)

    def _send(self, request: Request) -> None:
        """Give a request to the instance that the router chooses."""
        request.arrival_ns = max(request.arrival_ns, self.now)
        split = bool(self.fleet.second)
        instance = self.fleet.router.choose(request, self.fleet.first)
        self._give(_prompt_of(request) if split else request, instance)
        if request.id in self.at:
            if request.abort_ns is not None:
                self._event(request.arrival_ns + request.abort_ns, None, request, _ABORT)
            if split:
                self.whole[request.id] = request

    def _give(self, request: Request, instance: Instance) -> None:
        instance.served += 1
        self.touched[instance] = None
        if instance.engine.add(request, self.now):
            self.at[request.id] = (instance, request)
        else:
            self.at.pop(request.id, None)

    def _start_steps(self) -> None:
        now = self.now
        for instance in self.touched:
            for started, end in instance.start(now):
                self._event(end, started, None)
        self.touched.clear()
        if self.at and self.following is None and not self.events:
            rule = f"no step is scheduled, but {len(self.at)} requests have not ended"
            raise InternalError(Problem("serving", rule, "fleet"))

    def _event(self, when: int, instance: Instance | None, request: Request | None, kind: int = _END) -> None:
        self.serial += 1
        heappush(self.events, (when, kind, self.serial, instance, request))


def _prompt_of(request: Request) -> Request:
    """The request for an engine that prefills: it ends with the first token."""
    return Request(
        request.id, arrival_ns=request.arrival_ns, prompt=request.prompt, output=1, priority=request.priority,
        prefix=request.prefix, ttft_target_ns=request.ttft_target_ns, adapter=request.adapter,
    )  # fmt: skip


def _rest_of(request: Request, prefilled: Request) -> Request:
    """The request for an engine that decodes: all tokens of the prompt except the last are computed."""
    request.remote = request.prompt - 1
    request.scheduled_ns = prefilled.scheduled_ns
    request.queued_ns = prefilled.queued_ns
    request.cached = prefilled.cached
    request.energy_pj = prefilled.energy_pj
    return request


def simulate_fleet(requests: Iterable[Request], fleet: Fleet, *, max_concurrency: int | None = None) -> ServingResult:
    """Serve all requests, which must be in the order of their arrivals, and measure them.

    >>> from kernbench.serving import ContinuousBatching, EngineOptions, Fleet, Instance, Request, RoundRobin
    >>> from kernbench.serving import fixed_step, simulate_fleet
    >>> options = EngineOptions(num_gpu_blocks=64, max_model_len=256)
    >>> two = [Instance(ContinuousBatching(options), fixed_step(1_000_000)) for _ in range(2)]
    >>> result = simulate_fleet([Request(i, arrival_ns=0, prompt=32, output=4) for i in range(4)], Fleet(two, RoundRobin()))
    >>> [one.served for one in two], result.summary("e2el").mean
    ([2, 2], 4.0)
    """
    record = Record()
    return ServingResult(record, fleet.drive(requests, record, max_concurrency))
