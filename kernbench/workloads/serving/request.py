"""A request and its progress."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from kernbench.common.errors import InputError, Problem


class State(IntEnum):
    """The state of a request. `FINISHED`, `ABORTED` and `REJECTED` are final."""

    WAITING = 0
    RUNNING = 1
    PREEMPTED = 2  #: its blocks were taken away, and it waits to be computed again
    FINISHED = 3
    ABORTED = 4  #: the client left
    REJECTED = 5  #: longer than the model or the KV cache allows


class Request:
    """One request of a workload, and its progress.

    `arrival_ns`: [ns] the time of its arrival. `prompt`, `output`: tokens; exactly `output` tokens are generated. `priority`:
    the policy `priority` serves lower values first. `prefix`: the start of the prompt, as pairs of an identity and a number of
    tokens: prompts that start with equal pairs have equal tokens there, and share no other tokens. `ttft_target_ns`: [ns] the
    target for the time to first token, for the policy `slo`. `abort_ns`: [ns] the time after its arrival at which the client
    leaves if the request has not ended. `adapter`: the number of its LoRA adapter.

    >>> from kernbench.serving import Request
    >>> Request(0, arrival_ns=1_000_000, prompt=512, output=128)
    Request(0, arrival_ns=1000000, prompt=512, output=128)
    """

    __slots__ = (
        "_decoding", "_drafts", "_end_round", "_joined", "_kept", "_offset", "_order", "_placeholders", "_since_pj",
        "_swapped", "abort_ns", "adapter", "arrival_ns", "blocks", "cached", "computed", "energy_pj", "first_token_ns",
        "generated", "id", "last_token_ns", "output", "preemptions", "prefix", "priority", "prompt", "queued_ns", "remote",
        "scheduled_ns", "state", "ttft_target_ns",
    )  # fmt: skip

    def __init__(
        self, id: int, *, arrival_ns: int, prompt: int, output: int, priority: int = 0,
        prefix: Sequence[tuple[int | str, int]] = (), ttft_target_ns: int | None = None, abort_ns: int | None = None,
        adapter: int | None = None,
    ) -> None:  # fmt: skip
        for name, value, least in (("arrival_ns", arrival_ns, 0), ("prompt", prompt, 1), ("output", output, 1)):
            if type(value) is not int or value < least:
                raise InputError(Problem(f"request {id}", f"it must be an integer of at least {least}", name, value))
        if prefix and sum(tokens for _, tokens in prefix) > prompt:
            raise InputError(Problem(f"request {id}", f"it must not be longer than the prompt of {prompt}", "prefix", prefix))
        self.id = id
        self.arrival_ns = arrival_ns
        self.prompt = prompt
        self.output = output
        self.priority = priority
        self.prefix = tuple(prefix)
        self.ttft_target_ns = ttft_target_ns
        self.abort_ns = abort_ns
        self.adapter = adapter
        self.state = State.WAITING
        self.computed = 0  #: [token] whose keys and values are in the cache after the steps scheduled so far
        self.generated = 0  #: [token] of output after the steps that have ended
        self.preemptions = 0
        self.cached = 0  #: [token] of the prompt that the prefix cache held when it was first scheduled
        self.remote = 0  #: [token] of the prompt whose keys and values another engine has computed and sent
        #: [ns] in the queue by the causes of `scheduler.BLOCKED`; until its first step, the values of the engine's clocks
        self.queued_ns: tuple[int, ...] = ()
        self.scheduled_ns: int | None = None  #: start of its first step
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.energy_pj = 0.0  #: [pJ] its share of the steps so far, if energy is simulated
        self.blocks: list[int] = []  #: its blocks of the KV cache, in the order of the tokens
        self._decoding = False  # the fields from here on belong to the scheduler
        self._offset = 0
        self._end_round = 0
        self._joined = 0
        self._order = 0
        self._drafts = 0
        self._placeholders = 0
        self._kept = 0
        self._since_pj: float | None = None
        self._swapped = 0

    @property
    def tokens(self) -> int:
        """The number of known tokens: the prompt, and the output so far."""
        return self.prompt + self.generated

    def __repr__(self) -> str:
        return f"Request({self.id}, arrival_ns={self.arrival_ns}, prompt={self.prompt}, output={self.output})"
