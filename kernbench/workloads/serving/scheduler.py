"""The interface of a scheduler, which receives requests and selects the work of the next step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.request import Request, State

#: The resource that the first request of the queue lacks when a step is scheduled.
BLOCKED = ("kv_blocks", "sequence_slots", "token_budget")


@dataclass(slots=True)
class Tokens:
    """The tokens that a step produced."""

    first: list[Request] = field(default_factory=list)  #: requests with their first token
    continued: int = 0  #: number of requests with a token in this step and in the previous one
    further: int = 0  #: accepted drafts, which are tokens beyond the first of each request
    #: [ns] since the previous token, for requests that missed steps since then
    gaps_ns: list[int] = field(default_factory=list)
    ended: list[Request] = field(default_factory=list)  #: requests that have all their tokens
    #: number of drafts and number of accepted drafts, for requests with drafts
    verified: list[tuple[int, int]] = field(default_factory=list)

    def given(self, request: Request, end_ns: int, previous_ns: int) -> None:
        """The step produced one or more tokens of the request. [ns] The step ended at `end_ns`, and the previous one at
        `previous_ns`."""
        if request.first_token_ns is None:
            request.first_token_ns = end_ns
            self.first.append(request)
        elif request.last_token_ns == previous_ns:
            self.continued += 1
        else:
            assert request.last_token_ns is not None
            self.gaps_ns.append(end_ns - request.last_token_ns)
        request.last_token_ns = end_ns
        if request.generated == request.output:
            self.ended.append(request)


class StepBatch:
    """The work of one step: a number of new tokens for each request, in the order in which they were scheduled.

    `scheduled`: requests and their new tokens. `preempted`: requests whose blocks were taken for this step, in this order.
    `running`, `waiting`: the numbers of these requests; `kv_blocks`: the number of blocks of the KV cache with requests.
    `blocked`: the resource that the first request of the queue lacks, one of `BLOCKED`. These values are reported, and have no
    effect on the run.
    """

    def __init__(
        self, scheduled: Sequence[tuple[Request, int]] = (), preempted: Sequence[Request] = (), *, running: int | None = None,
        waiting: int = 0, kv_blocks: int = 0, blocked: str | None = None,
    ) -> None:  # fmt: skip
        self.preempted = list(preempted)
        self.running = len(scheduled) if running is None else running
        self.waiting = waiting
        self.kv_blocks = kv_blocks
        self.blocked = blocked
        #: prefills, whole or in chunks, as request, new tokens, and earlier tokens
        self.chunks: list[tuple[Request, int, int]] = []
        self._decodes: list[tuple[Request, int]] = []
        self.decode_context = 0  #: [token] sum of the earlier tokens of all decodes
        for request, tokens in scheduled:
            if tokens == 1 and request.computed >= request.prompt:
                self._decodes.append((request, request.computed))
                self.decode_context += request.computed
            else:
                self.chunks.append((request, tokens, request.computed))
        self.decodes = len(self._decodes)  #: number of requests that decode
        self.drafts = 0  #: [token] sum of the drafts that decodes verify in addition to their own tokens
        self.adapters: frozenset[int] = frozenset()  #: LoRA adapters of its requests
        self.adapter_loads = 0  #: number of `adapters` that are not in memory yet
        self.swapped_blocks = 0  #: number of blocks of the KV cache that are moved to the host or back before the step
        self._scheduled = [(request, tokens, request.computed) for request, tokens in scheduled]

    def __bool__(self) -> bool:
        return bool(self.chunks or self.decodes)

    @property
    def prefill_tokens(self) -> int:
        """The number of new tokens of all prefills."""
        return sum(tokens for _, tokens, _ in self.chunks)

    @property
    def tokens(self) -> int:
        """The number of tokens that the step computes."""
        return self.prefill_tokens + self.decodes + self.drafts

    def charge(self, pj: float) -> None:
        """The step starts: add this energy [pJ] to each of its tokens."""
        for request, tokens, _ in self._scheduled:
            request.energy_pj += tokens * pj

    def rows(self) -> list[tuple[int, int, int]]:
        """For each request, its number, its new tokens, and its earlier tokens, in the order in which they were scheduled.

        Valid until the scheduler makes the next batch.
        """
        return [(request.id, tokens, before) for request, tokens, before in self._scheduled]

    def sequences(self) -> list[Sequences]:
        """The batch in the format of `kernbench.step_timer`. Valid until the scheduler makes the next batch."""
        found = [Sequences(tokens, before) for _, tokens, before in self.chunks]
        return found + [Sequences(1, before) for before in self._decode_contexts()]

    def _decode_contexts(self) -> list[int]:
        return [before for _, before in self._decodes]

    def commit(self) -> None:
        """The step starts: its tokens count as computed, and its requests are running."""
        for request, tokens, _ in self._scheduled:
            request.computed += tokens
            request.state = State.RUNNING

    def complete(self, end_ns: int, previous_ns: int) -> Tokens:
        """The step has ended: every request whose last known token was computed gets one more token.

        `previous_ns`: [ns] the end of the previous step.
        """
        found = Tokens()
        for request, tokens, before in self._scheduled:
            if before + tokens < request.tokens or request.state != State.RUNNING:
                continue
            request.generated += 1
            found.given(request, end_ns, previous_ns)
        return found


class Scheduler(ABC):
    """Selects the requests of the next step. Make a subclass with three methods for a new policy.

    The engine calls `add` when a request arrives, `schedule` when a step can start, and `finish` when a request has all its
    tokens or its client has left.

    >>> from kernbench.serving import Request, Scheduler, StepBatch, fixed_step, simulate
    >>> class OneByOne(Scheduler):
    ...     def __init__(self):
    ...         self.queue = []
    ...     def add(self, request):
    ...         self.queue.append(request)
    ...     def schedule(self, now_ns):
    ...         return StepBatch([(one, one.tokens - one.computed) for one in self.queue[:1]])
    ...     def finish(self, request):
    ...         self.queue.remove(request)
    >>> requests = [Request(i, arrival_ns=0, prompt=8, output=2) for i in range(3)]
    >>> result = simulate(requests, OneByOne(), fixed_step(1_000_000))
    >>> [row["e2el_ms"] for row in result.rows()]
    [2.0, 4.0, 6.0]
    """

    #: whether the engine schedules the next step when a step starts instead of when it has ended
    asynchronous = False
    #: number of steps that can be in progress: the number of stages of a pipeline
    batches_in_flight = 1

    @abstractmethod
    def add(self, request: Request) -> None:
        """A request has arrived. A scheduler that can never run the request sets its state to REJECTED."""

    @abstractmethod
    def schedule(self, now_ns: int) -> StepBatch:
        """The next step, which starts now; an empty batch if no request can run."""

    @abstractmethod
    def finish(self, request: Request) -> None:
        """A request has ended: it has all its tokens, or its client has left. The scheduler frees its resources."""

    def cached_tokens(self, request: Request) -> int:
        """[token] of the prompt that a prefix cache holds now, for routers. None without a prefix cache."""
        return 0
