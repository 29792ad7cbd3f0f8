"""What a scheduler is: it takes requests, and says what the next step computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.request import Request, State

#: What the first request of the queue has too little of when a step is scheduled.
BLOCKED = ("kv_blocks", "sequence_slots", "token_budget")


@dataclass(slots=True)
class Tokens:
    """The tokens that a step gave."""

    first: list[Request] = field(default_factory=list)  #: requests that got their first token
    continued: int = 0  #: requests that got a token in this step and in the one before
    further: int = 0  #: tokens beyond the first of each request: accepted drafts
    gaps_ns: list[int] = field(default_factory=list)  #: [ns] since the token before, of requests that missed steps between
    ended: list[Request] = field(default_factory=list)  #: requests that have all their tokens
    verified: list[tuple[int, int]] = field(default_factory=list)  #: of requests with drafts: how many, how many accepted

    def given(self, request: Request, end_ns: int, previous_ns: int) -> None:
        """The step gave the request one token or more. Steps [ns]: it ended at `end_ns`, the one before at `previous_ns`."""
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
    """What one step computes: so many new tokens of each request, in the order in which they were scheduled.

    `scheduled`: requests and their new tokens. `preempted`: requests whose blocks were taken away for this step, in that order.
    `running`, `waiting`: how many requests are; `kv_blocks`: blocks of the KV cache that requests have. `blocked`: what the
    first of the queue has too little of, one of `BLOCKED`. They are reported, and change nothing.
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
        #: prefills, whole or in chunks: request, new tokens, tokens before them
        self.chunks: list[tuple[Request, int, int]] = []
        self._decodes: list[tuple[Request, int]] = []
        self.decode_context = 0  #: [token] before the new ones, the sum over all decodes
        for request, tokens in scheduled:
            if tokens == 1 and request.computed >= request.prompt:
                self._decodes.append((request, request.computed))
                self.decode_context += request.computed
            else:
                self.chunks.append((request, tokens, request.computed))
        self.decodes = len(self._decodes)  #: requests that decode
        self.drafts = 0  #: [token] that they verify beside their own, the sum
        self.adapters: frozenset[int] = frozenset()  #: LoRA adapters of its requests
        self.adapter_loads = 0  #: of `adapters`, those that have no place in the memory yet
        self.swapped_blocks = 0  #: of the KV cache that go to the host or come from it before the step
        self._scheduled = [(request, tokens, request.computed) for request, tokens in scheduled]

    def __bool__(self) -> bool:
        return bool(self.chunks or self.decodes)

    @property
    def prefill_tokens(self) -> int:
        """New tokens of all prefills."""
        return sum(tokens for _, tokens, _ in self.chunks)

    @property
    def tokens(self) -> int:
        """Tokens that the step computes."""
        return self.prefill_tokens + self.decodes + self.drafts

    def charge(self, pj: float) -> None:
        """The step starts: each of its tokens takes so much of its energy [pJ]."""
        for request, tokens, _ in self._scheduled:
            request.energy_pj += tokens * pj

    def rows(self) -> list[tuple[int, int, int]]:
        """Number of the request, its new tokens, and the tokens before them, in the order in which they were scheduled.

        Valid until the scheduler makes the next batch.
        """
        return [(request.id, tokens, before) for request, tokens, before in self._scheduled]

    def sequences(self) -> list[Sequences]:
        """The batch as a step of `kernbench.step_timer` takes it. Valid until the scheduler makes the next batch."""
        found = [Sequences(tokens, before) for _, tokens, before in self.chunks]
        return found + [Sequences(1, before) for before in self._decode_contexts()]

    def _decode_contexts(self) -> list[int]:
        return [before for _, before in self._decodes]

    def commit(self) -> None:
        """The step starts: its tokens count as computed, and its requests run."""
        for request, tokens, _ in self._scheduled:
            request.computed += tokens
            request.state = State.RUNNING

    def complete(self, end_ns: int, previous_ns: int) -> Tokens:
        """The step has ended: every request whose last known token was computed gets one more.

        `previous_ns`: [ns] when the previous step ended.
        """
        found = Tokens()
        for request, tokens, before in self._scheduled:
            if before + tokens < request.tokens or request.state != State.RUNNING:
                continue
            request.generated += 1
            found.given(request, end_ns, previous_ns)
        return found


class Scheduler(ABC):
    """What runs in the next step. Subclass it to bring your own policy: three methods.

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

    #: whether the engine asks for the next step when one starts, not when it has ended
    asynchronous = False
    #: steps that are under way at a time: as many as a pipeline has stages
    batches_in_flight = 1

    @abstractmethod
    def add(self, request: Request) -> None:
        """A request has arrived. A scheduler that cannot ever run it sets its state to REJECTED."""

    @abstractmethod
    def schedule(self, now_ns: int) -> StepBatch:
        """The next step, which starts now; an empty batch if nothing can run."""

    @abstractmethod
    def finish(self, request: Request) -> None:
        """A request has ended: all its tokens are there, or its client has left. What it holds is free."""

    def cached_tokens(self, request: Request) -> int:
        """[token] of the prompt that a prefix cache holds now, for routers that ask. None without such a cache."""
        return 0
