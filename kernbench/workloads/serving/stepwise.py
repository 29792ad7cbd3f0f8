"""Continuous batching as in vLLM V1 (release 0.19), request by request: with drafts, adapters, swap and a radix tree.

`ContinuousBatching` makes the same batches faster if every decode gains one token in each step.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.batching import Batching
from kernbench.workloads.serving.continuous import ContinuousBatching
from kernbench.workloads.serving.kv_blocks import request_keys
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.scheduler import StepBatch, Tokens


@dataclass(slots=True)
class Row:
    """A request in a step."""

    request: Request
    tokens: int  #: tokens that the step computes
    before: int  #: [token] that were computed earlier
    drafts: int  #: the part of `tokens` that may be rejected
    decodes: bool  #: whether all its earlier known tokens were computed
    samples: bool = False  #: whether the step produces tokens of the request


class StepwiseBatching(Batching):
    """Serves each running request in the order of admission, and then admits waiting requests.

    A decode computes its last token and its drafts. Rejected drafts are removed when the step ends.

    >>> from kernbench.serving import EngineOptions, Request, Speculation, StepwiseBatching, fixed_step, simulate
    >>> spec = Speculation(method="ngram", rates=(1.0, 1.0, 0.0))
    >>> engine = StepwiseBatching(EngineOptions(num_gpu_blocks=64, max_model_len=256, speculation=spec))
    >>> simulate([Request(0, arrival_ns=0, prompt=32, output=10)], engine, fixed_step(1_000_000)).summary("e2el").mean
    4.0
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._radix = options.prefix_cache == "radix"
        self._loaded: OrderedDict[int, None] = OrderedDict()  # adapters in memory, the least recently used first

    def finish(self, request: Request) -> None:
        if request in self.running:
            self.running.remove(request)
            if self._radix and self.options.enable_prefix_caching:
                self._name(request, min(request.computed, request.tokens))
        else:
            self.waiting.drop(request)
            self.host_blocks -= request._swapped
            request._swapped = 0
        self.pool.release(request.blocks)
        request.blocks = []

    def schedule(self, now_ns: int) -> StepwiseBatch:
        batch = StepwiseBatch(self)
        budget = self._serve(batch, self.options.scheduled_tokens)
        # includes requests that are not in this step: they may be in the next one, or in a batch in progress
        adapters = {one.adapter for one in self.running if one.adapter is not None and not _ends(one)}
        batch.blocked = "kv_blocks" if batch.preempted else self._admit(batch, budget, now_ns, adapters)
        for row in batch.plan:
            request = row.request
            request.computed += row.tokens
            row.samples = request.computed >= request.tokens + request._placeholders
            if row.samples:
                request._decoding = True
                if self.asynchronous:
                    request._placeholders += 1 + row.drafts
                    request._drafts = self.options.speculation.tokens if self.options.speculation is not None else 0
        batch.planned(len(self.running), len(self.waiting), self.pool.used)
        batch.adapter_loads = self._load(batch.adapters)
        return batch

    def _load(self, adapters: frozenset[int]) -> int:
        """Load adapters into memory, in the place of the least recently used ones. Returns the number of adapters that were not
        in memory."""
        loads = 0
        # an adapter of the step itself is never evicted
        for adapter in sorted(adapters, key=lambda one: (one not in self._loaded, one)):
            if adapter in self._loaded:
                self._loaded.move_to_end(adapter)
                continue
            if len(self._loaded) == self.options.max_loras:
                self._loaded.popitem(last=False)
            self._loaded[adapter] = None
            loads += 1
        return loads

    def _serve(self, batch: StepwiseBatch, budget: int) -> int:
        """Give running requests their tokens, and preempt requests if blocks are missing. Returns the remaining tokens."""
        options, spec = self.options, self.options.speculation
        lookahead = spec.lookahead if spec is not None else 0
        given: dict[Request, Row] = {}
        i = 0
        while i < len(self.running) and budget > 0:
            request = self.running[i]
            held = request._placeholders
            if _ends(request):
                i += 1
                continue
            tokens = request.tokens + request._drafts + held - request.computed
            if 0 < options.long_prefill_token_threshold < tokens:
                tokens = options.long_prefill_token_threshold
            tokens = min(tokens, budget, options.max_model_len - 1 - request.computed)
            if tokens <= 0:
                i += 1
                continue
            room = self._blocks(min(request.computed + tokens + lookahead, options.max_model_len))
            while room - len(request.blocks) > self.pool.free:
                victim = self._victim()
                self.running.remove(victim)
                row = given.pop(victim, None)
                if row is not None:  # the preempted request comes before this one
                    budget += row.tokens
                    i -= 1
                self._preempt(batch, victim)
                if victim is request:
                    break
            if request.state == State.PREEMPTED:
                break
            drafts = max(0, request.computed + tokens - request.tokens - held) if request._drafts else 0
            request._drafts = 0
            given[request] = Row(request, tokens, request.computed, drafts, request._decoding)
            self._allocate(request, tokens, room)
            budget -= tokens
            i += 1
        batch.plan = list(given.values())
        return budget

    def _allocate(self, request: Request, tokens: int, room: int) -> None:
        """Allocate blocks up to `room`, for this number of tokens after the computed ones. Full blocks of known tokens can be
        found immediately."""
        if room > len(request.blocks):
            request.blocks += self.pool.take(room - len(request.blocks))
        known = min(request.computed + tokens, request.tokens)
        if self.options.enable_prefix_caching:
            request._kept = max(request._kept, known)
            if not request._decoding:
                self._name(request, known if self._radix else min(known, sum(count for _, count in request.prefix)))

    def _name(self, request: Request, tokens: int) -> None:
        """Make its first full blocks available to other requests."""
        count = tokens // self.options.block_size
        keys = request_keys(request, self._prefixes.keys(request), count)
        for i, key in enumerate(keys):
            request.blocks[i] = self.pool.name(request.blocks[i], key, keys[i - 1] if i else None)

    def _preempt(self, batch: StepwiseBatch, request: Request) -> None:
        held = self._blocks(request.computed)
        if self.host_blocks + held <= self.options.swap_blocks:
            self.host_blocks += held
            request._swapped = held
            batch.swapped_blocks += held
        else:
            if self.options.enable_prefix_caching and not self._radix:
                self._name(request, request._kept)
            request.computed = 0
        self.pool.release(request.blocks)
        request.blocks = []
        request._drafts = request._kept = 0
        request._decoding = False
        request.preemptions += 1
        request.state = State.PREEMPTED
        self.waiting.put_back(request)
        batch.preempted.append(request)

    def _place(self, batch: StepBatch, request: Request, tokens: int, room: int) -> None:
        assert isinstance(batch, StepwiseBatch)
        batch.plan.append(Row(request, tokens, request.computed, 0, False))
        self._allocate(request, tokens, room)


def _ends(request: Request) -> bool:
    """Whether the request ends with the step in progress, even if all drafts are rejected."""
    held = request._placeholders
    return held > 0 and request.computed + 2 - held >= request.prompt + request.output


class StepwiseBatch(StepBatch):
    """A batch of `StepwiseBatching`."""

    def __init__(self, scheduler: StepwiseBatching) -> None:
        super().__init__()
        self._scheduler = scheduler
        self.plan: list[Row] = []

    def planned(self, running: int, waiting: int, kv_blocks: int) -> None:
        """All rows are there."""
        self.running, self.waiting, self.kv_blocks = running, waiting, kv_blocks
        self.chunks = [(row.request, row.tokens, row.before) for row in self.plan if not row.decodes]
        decodes = [row for row in self.plan if row.decodes]
        self.decodes = len(decodes)
        self.drafts = sum(row.tokens - 1 for row in decodes)
        self.decode_context = sum(row.before for row in decodes)
        self.adapters = frozenset(row.request.adapter for row in self.plan if row.request.adapter is not None)

    def rows(self) -> list[tuple[int, int, int]]:
        return [(row.request.id, row.tokens, row.before) for row in self.plan]

    def charge(self, pj: float) -> None:
        for row in self.plan:
            row.request.energy_pj += row.tokens * pj

    def sequences(self) -> list[Sequences]:
        found = [Sequences(tokens, before) for _, tokens, before in self.chunks]
        return found + [Sequences(row.tokens, row.before) for row in self.plan if row.decodes]

    def commit(self) -> None:
        """Rejected drafts of the previous step are now known, and contexts become shorter."""
        for row in self.plan:
            if row.decodes and row.request.state == State.RUNNING:
                row.before = row.request.computed - row.tokens
        self.decode_context = sum(row.before for row in self.plan if row.decodes)

    def complete(self, end_ns: int, previous_ns: int) -> Tokens:
        found, options = Tokens(), self._scheduler.options
        for row in self.plan:
            request = row.request
            if not row.samples or request.state in (State.ABORTED, State.FINISHED):
                continue
            new = 1
            if row.drafts:
                assert options.speculation is not None
                accepted = min(row.drafts, options.speculation.accepted(request.id, request.generated))
                found.verified.append((row.drafts, accepted))
                rejected = row.drafts - accepted
                if request.computed:  # otherwise it was preempted since
                    request.computed -= rejected
                if request._placeholders:
                    request._placeholders -= rejected
                new += accepted
            new = min(new, request.output - request.generated)
            request.generated += new
            found.further += new - 1
            if self._scheduler.asynchronous:
                request._placeholders -= new
                request._kept = max(request._kept, request.computed - request._placeholders)
            found.given(request, end_ns, previous_ns)
            more = request.generated < request.output
            if more and options.speculation is not None and not self._scheduler.asynchronous:
                request._drafts = options.speculation.drafts(request.id, request.generated)
        return found


def batching(options: EngineOptions) -> ContinuousBatching | StepwiseBatching:
    """The scheduler for these options."""
    return ContinuousBatching(options) if options.in_rounds else StepwiseBatching(options)
