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
        coming = iter(requests)
        following = next(coming, None)
        held: deque[Request] = deque()
        events: list[tuple[int, int, int, Instance | None, Request | None]] = []
        # requests in progress by number, with their instance; None while their data cross the link
        at: dict[int, tuple[Instance | None, Request]] = {}
        touched: dict[Instance, None] = {}  # instances that may start a step
        serial = now = 0

        def event(when: int, kind: int, instance: Instance | None, request: Request | None) -> None:
            nonlocal serial
            serial += 1
            heappush(events, (when, kind, serial, instance, request))

        def give(request: Request, instance: Instance) -> None:
            instance.served += 1
            touched[instance] = None
            if instance.engine.add(request, now):
                at[request.id] = (instance, request)
            else:
                at.pop(request.id, None)

        def send(request: Request) -> None:
            request.arrival_ns = max(request.arrival_ns, now)
            instance = self.router.choose(request, self.first)
            give(_prompt_of(request) if self.second else request, instance)
            if request.id in at and request.abort_ns is not None:
                event(request.arrival_ns + request.abort_ns, _ABORT, None, request)
            if self.second and request.id in at:
                whole[request.id] = request

        whole: dict[int, Request] = {}  # split requests by number, as the client sent them
        while following is not None or events:
            if following is not None and (not events or following.arrival_ns <= events[0][0]):
                now = max(now, following.arrival_ns)
                held.append(following)
                arrived, following = following, next(coming, None)
                if following is not None and following.arrival_ns < arrived.arrival_ns:
                    raise InternalError(Problem("serving", "requests must be in the order of their arrivals"))
            else:
                now, kind, _, instance, request = heappop(events)
                if kind == _END:
                    assert instance is not None
                    touched[instance] = None
                    for done in instance.engine.end():
                        del at[done.id]
                        if instance.role == "prefill":
                            moved = _rest_of(whole[done.id], done)
                            at[done.id] = (None, moved)
                            event(self._cross(instance, moved.prompt, now), _ARRIVE, None, moved)
                        else:
                            whole.pop(done.id, None)
                elif kind == _ARRIVE:
                    assert request is not None
                    if request.state == State.WAITING:
                        give(request, self.router.choose(request, self.second))
                else:
                    assert request is not None
                    place, current = at.pop(request.id, (None, None))
                    whole.pop(request.id, None)
                    if place is not None and current is not None:
                        place.engine.abort(current, now)
                        touched[place] = None
                    elif current is not None:  # its keys and values are on the link
                        current.state = State.ABORTED
                        recorder.request(current, now)
            while held and (max_concurrency is None or len(at) < max_concurrency):
                send(held.popleft())
            if (events and events[0][0] == now) or (following is not None and following.arrival_ns == now):
                continue  # all events of this time are handled before the next step
            for instance in touched:
                for started, end in instance.start(now):
                    event(end, _END, started, None)
            touched.clear()
            if at and following is None and not events:
                raise InternalError(Problem("serving", f"no step is scheduled, but {len(at)} requests have not ended", "fleet"))
        return now

    def _cross(self, instance: Instance, tokens: int, now_ns: int) -> int:
        """[ns] The time at which tokens that an instance has just computed arrive at the other side."""
        link = instance.link or self.link
        assert link is not None
        end = max(now_ns, self._link_free.get(instance, 0)) + link.transfer_ns(tokens)
        self._link_free[instance] = end
        self.moved_bytes += tokens * link.token_bytes
        return end


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
