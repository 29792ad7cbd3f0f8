"""vLLM V1's scheduler as its documentation and its release 0.19.0 describe it, slow and in one class.

It decides which request computes how many tokens in each step, and it knows no time. It imports nothing of `kernbench`.

Sources of the readings below, all of vLLM 0.19.0:

- [guide] docs/usage/v1_guide.md and docs/configuration/optimization.md: chunked prefill, preemption
- [prefix] docs/design/prefix_caching.md: blocks, hashes, the free queue
- [config] the docstrings of the scheduler's and the cache's configuration (vllm/config/scheduler.py, vllm/config/cache.py)
- [scheduler] the documented behaviour of vllm/v1/core/sched/scheduler.py and async_scheduler.py
- [pool] the documented behaviour of vllm/v1/core/kv_cache_manager.py, single_type_kv_cache_manager.py and block_pool.py
- [core] vllm/v1/engine/core.py: the loop around the scheduler
- [spec] docs/features/spec_decode.md, vllm/config/speculative.py, and what [scheduler] and [pool] do with draft tokens
- [pipeline] docs/serving/parallelism_scaling.md, `max_concurrent_batches` of the executors, and `step_with_batch_queue` of
  [core]: as many batches under way as stages, each request in one of them after its prefill
- [swap] vLLM V0 (0.6), vllm/core/scheduler.py: `swap_space` and preemption by swapping, put into V1's loop

Left out: several groups of KV layers, sliding windows, multi-modal inputs, structured output, KV connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Token = Any  #: any hashable value


@dataclass(eq=False)
class Request:
    """A request and what the scheduler knows of it."""

    name: int  #: the last tie-break of the priority policy
    prompt: list[Token]
    max_tokens: int  #: output tokens after which it ends
    priority: int = 0  #: smaller is served earlier
    arrival: float = 0.0
    tokens: list[Token] = field(default_factory=list)  #: prompt and outputs so far
    computed: int = 0  #: tokens whose KV is stored, or will be by a step under way
    placeholders: int = 0  #: async: outputs of steps under way
    blocks: list[int] = field(default_factory=list)
    registered: int = 0  #: leading blocks that are in the prefix cache
    state: str = "waiting"  #: waiting, running, preempted, finished or aborted
    preemptions: int = 0
    hit: int | None = None  #: tokens found in the prefix cache when it was first scheduled
    lora: int | None = None
    drafts: int = 0  #: draft tokens that wait to be verified
    host: int = 0  #: blocks of the host that hold its KV while it waits

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    @property
    def outputs(self) -> int:
        """Output tokens so far."""
        return len(self.tokens) - len(self.prompt)


@dataclass(frozen=True)
class Batch:
    """One step: tokens to compute by request, in the order of scheduling."""

    tokens: dict[int, int]
    sampling: tuple[int, ...]  #: requests that get an output token
    preempted: tuple[int, ...]  #: in the order of preemption
    used_blocks: int  #: after scheduling
    running: int
    waiting: int
    drafts: dict[int, int] = field(default_factory=dict)  #: of `tokens`, those that may be rejected


@dataclass(frozen=True)
class Drafts:
    """[spec] Draft tokens of a request after so many outputs: how many are proposed, and how many of them are accepted."""

    most: int
    proposed: Callable[[int, int], int]
    accepted: Callable[[int, int], int]
    lookahead: int = 0  #: [spec] slots beyond the scheduled tokens into which a draft model writes


class ReferenceScheduler:
    """Waiting and running requests, and the blocks of the KV cache."""

    def __init__(
        self,
        *,
        num_gpu_blocks: int,
        block_size: int = 16,
        max_num_seqs: int = 256,
        max_num_batched_tokens: int = 2048,
        max_model_len: int = 1 << 30,
        enable_chunked_prefill: bool = True,
        long_prefill_token_threshold: int = 0,
        enable_prefix_caching: bool = True,
        reserve_full_prompt: bool = True,
        policy: str = "fcfs",
        async_scheduling: bool = False,
        drafts: Drafts | None = None,
        max_loras: int = 0,
        host_blocks: int = 0,
        pipeline_stages: int = 1,
    ) -> None:
        self.block_size = block_size
        self.max_num_seqs = max_num_seqs
        self.budget = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.chunked = enable_chunked_prefill
        self.threshold = long_prefill_token_threshold
        self.caching = enable_prefix_caching
        self.reserve = reserve_full_prompt
        self.policy = policy
        self.is_async = async_scheduling and pipeline_stages == 1  # [pipeline] never with both
        self.under_way = 2 if self.is_async else pipeline_stages  # [core] batches, at most, before outputs are added
        self.spec = drafts
        self.lookahead = drafts.lookahead if drafts is not None else 0
        self.max_loras = max_loras
        self.host_blocks = host_blocks  # [swap] that are free
        self.requests: dict[int, Request] = {}
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        # [pool] Block 0 stands for tokens that need no memory. It is never given away, so one block fewer can be used.
        self.free = list(range(1, num_gpu_blocks))  # the free queue: the first is given away, or evicted, first
        self.users = [0] * num_gpu_blocks
        self.key: list[Any] = [None] * num_gpu_blocks  # what a full block holds, if the prefix cache may find it
        self.cached: dict[Any, list[int]] = {}  # by key the blocks that hold it, in the order of registration

    # Requests from outside

    def add(self, request: Request) -> bool:
        """Take up a request; False if it is refused.

        [core] A prompt that leaves no room for one output token within max_model_len is refused by the input check.
        """
        if len(request.prompt) >= self.max_model_len:
            return False
        self.requests[request.name] = request
        self.waiting.append(request)
        return True

    def abort(self, name: int) -> None:
        """[scheduler] The request leaves its queue and returns its blocks at once, also when a step under way computes it."""
        request = self.requests.get(name)
        if request is None or request.state in ("finished", "aborted"):
            return
        (self.running if request.state == "running" else self.waiting).remove(request)
        self._end(request, "aborted")

    # A step

    def schedule(self) -> Batch:
        """Decide one step."""
        budget = self.budget
        batch: dict[int, int] = {}
        drafts: dict[int, int] = {}
        preempted: list[int] = []
        # [scheduler] Running requests come first, in the order in which they were admitted. There is no phase of prefill
        # or decode: each request computes what it has not computed yet, within the budget.
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            # [scheduler] Async: no further step for a request that surely ends with the outputs under way, even if all
            # drafts under way are rejected.
            if self._surely_ends(request):
                index += 1
                continue
            # [spec] Drafts are tokens like others: they count in the budget, in the length and in blocks.
            new = len(request.tokens) + request.drafts + request.placeholders - request.computed
            if 0 < self.threshold < new:  # [config] long_prefill_token_threshold: a longer rest is cut to it
                new = self.threshold
            new = min(new, budget, self.max_model_len - 1 - request.computed)
            if new <= 0:  # [scheduler] later requests may still be scheduled
                index += 1
                continue
            # [guide] If blocks are missing, requests are preempted until there are enough: the one that was admitted last,
            # or under the priority policy the one of the largest (priority, arrival).
            fits = True
            while not self._allocate(request, new, [], self.lookahead):
                victim = self._victim()
                place = self.running.index(victim)
                del self.running[place]
                if victim.name in batch:  # it was scheduled in this step: its tokens return to the budget
                    budget += batch.pop(victim.name)
                    drafts.pop(victim.name, None)
                    index -= 1  # [scheduler] only then, also if the victim stood before this request and had no tokens
                self._preempt(victim)
                preempted.append(victim.name)
                if victim is request:
                    fits = False
                    break
            if not fits:
                break
            batch[request.name] = new
            budget -= new
            index += 1
            if request.drafts:
                beyond = request.computed + new - len(request.tokens) - request.placeholders
                if beyond > 0:  # [scheduler] drafts for which there are no tokens left are dropped
                    drafts[request.name] = beyond
                request.drafts = 0
        # [scheduler] After a preemption no waiting request is admitted in the same step.
        # [scheduler] vLLM counts the adapters of the requests of this step. A running request that is not in it may meet the
        # admitted one in a later step, and vLLM then refuses to go on. So adapters of all running requests count here, but of
        # those that end with the step under way.
        loras = {one.lora for one in self.running if not self._surely_ends(one)} - {None}
        skipped: list[Request] = []
        while not preempted and self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            request = self._head()
            # [scheduler] A request whose adapter would be one too many is passed over, and keeps its place in the queue.
            if request.lora is not None and len(loras) == self.max_loras and request.lora not in loras:
                self.waiting.remove(request)
                skipped.append(request)
                continue
            # [prefix] Full blocks of the longest cached prefix are reused. At least the last token is computed again.
            # [swap] Nothing is computed again of a request whose blocks the host has.
            hits = [] if request.host else self._find(request)
            computed = request.computed if request.host else len(hits) * self.block_size
            new = len(request.tokens) - computed  # [scheduler] of a resumed request the outputs too
            if 0 < self.threshold < new:
                new = self.threshold
            if not self.chunked and new > budget:  # [config] without chunks a prompt waits for a step that holds it whole
                break
            new = min(new, budget)
            # [config] scheduler_reserve_full_isl: admitted only if all of its tokens fit into the free blocks.
            whole = min(len(request.tokens), self.max_model_len)
            if self.reserve and self._missing(request, whole, hits) > len(self.free):
                break
            # [guide] The head of the queue waits for blocks, and everyone behind it waits too.
            # [spec] A request without computed tokens gets no lookahead.
            if not self._allocate(request, new, hits, self.lookahead if request.host else 0):
                break
            self.waiting.remove(request)
            self.running.append(request)
            request.state = "running"
            request.computed = computed
            self.host_blocks += request.host
            request.host = 0
            if request.lora is not None:
                loras.add(request.lora)
            if request.hit is None:
                request.hit = computed
            batch[request.name] = new
            budget -= new
        self.waiting[:0] = skipped
        # [scheduler] Computed tokens advance as soon as a step is scheduled, so that the next may be scheduled at once.
        sampling = []
        for name, new in batch.items():
            request = self.requests[name]
            request.computed += new
            if request.computed >= len(request.tokens) + request.placeholders:
                sampling.append(name)
                if self.is_async:
                    request.placeholders += 1 + drafts.get(name, 0)
                    # [scheduler] Async: the worker fills in the drafts of the next step, so as many as can be are planned.
                    request.drafts = self.spec.most if self.spec is not None else 0
        used = len(self.users) - 1 - len(self.free)
        return Batch(batch, tuple(sampling), tuple(preempted), used, len(self.running), len(self.waiting), drafts)

    def update(self, batch: Batch) -> list[int]:
        """Add the output tokens of a step that ended; returns the requests that ended with it, in the order of the step.

        A request that was aborted meanwhile is passed over. One that was preempted meanwhile keeps its token.
        """
        ended = []
        for name in batch.sampling:
            request = self.requests[name]
            if request.state in ("finished", "aborted"):
                continue
            new = 1
            if name in batch.drafts:
                assert self.spec is not None
                accepted = min(batch.drafts[name], self.spec.accepted(name, request.outputs))
                rejected = batch.drafts[name] - accepted
                # [scheduler] What was computed for rejected drafts does not count; a preempted request has nothing computed.
                if request.computed > 0:
                    request.computed -= rejected
                if request.placeholders > 0:
                    request.placeholders -= rejected
                new += accepted
            for _ in range(new):
                request.tokens.append((request.name, len(request.tokens)))
                if self.is_async:
                    request.placeholders -= 1
                if request.outputs >= request.max_tokens or len(request.tokens) >= self.max_model_len:
                    break  # [scheduler] accepted tokens behind the end are dropped
            if self.is_async and request.state == "running" and self.caching:
                # [scheduler] Async: the block becomes findable when its last token is known.
                self._register(request, request.computed - request.placeholders)
            # [scheduler] It ends at max_tokens, or when prompt and outputs reach max_model_len.
            if request.outputs >= request.max_tokens or len(request.tokens) >= self.max_model_len:
                (self.running if request.state == "running" else self.waiting).remove(request)
                self._end(request, "finished")
                ended.append(name)
            elif self.spec is not None and not self.is_async:
                request.drafts = self.spec.proposed(name, request.outputs)
        return ended

    def _surely_ends(self, request: Request) -> bool:
        """[scheduler] With the outputs under way, even if all drafts under way are rejected."""
        ends = len(request.prompt) + request.max_tokens
        return bool(request.placeholders) and request.computed + 2 - request.placeholders >= ends

    # Queues

    def _head(self) -> Request:
        """[config] fcfs: the first of the queue; priority: the smallest (priority, arrival, name)."""
        if self.policy == "priority":
            return min(self.waiting, key=lambda one: (one.priority, one.arrival, one.name))
        return self.waiting[0]

    def _victim(self) -> Request:
        """[scheduler] Of equal ones the first of the running list, as max() chooses."""
        if self.policy == "priority":
            return max(self.running, key=lambda one: (one.priority, one.arrival))
        return self.running[-1]

    def _preempt(self, request: Request) -> None:
        """[guide] Recompute: all blocks return, all tokens are computed again. It becomes the head of the waiting queue.

        [swap] If the host has room for its blocks, they are kept there, and nothing is computed again.
        """
        held = -(-request.computed // self.block_size)
        if held <= self.host_blocks:
            self.host_blocks -= held
            request.host = held
        else:
            request.computed = 0
        self._return_blocks(request)
        request.state = "preempted"
        request.drafts = 0
        request.preemptions += 1
        self.waiting.insert(0, request)

    def _end(self, request: Request, state: str) -> None:
        request.state = state
        self.host_blocks += request.host
        request.host = 0
        self._return_blocks(request)

    # Blocks

    def _missing(self, request: Request, tokens: int, hits: list[int]) -> int:
        """[pool] Free blocks that `tokens` take: new ones, and found ones that lie in the free queue now."""
        needed = -(-tokens // self.block_size)
        return max(0, needed - len(request.blocks) - len(hits)) + sum(self.users[block] == 0 for block in hits)

    def _allocate(self, request: Request, new: int, hits: list[int], lookahead: int) -> bool:
        """Blocks for `new` tokens behind those computed; False, and nothing has changed, if there are too few."""
        computed = request.computed + len(hits) * self.block_size
        tokens = min(computed + new + lookahead, self.max_model_len)
        if self._missing(request, tokens, hits) > len(self.free):
            return False
        for block in hits:  # [prefix] touched first, so that they are not evicted
            if self.users[block] == 0:
                self.free.remove(block)
            self.users[block] += 1
        request.blocks += hits
        if hits:
            request.registered = len(hits)
        while len(request.blocks) < -(-tokens // self.block_size):
            block = self.free.pop(0)
            self._evict(block)
            self.users[block] = 1
            request.blocks.append(block)
        if self.caching:
            # [prefix] Blocks that this step fills can be found at once, by requests of the same step too. Only tokens whose
            # value is known count.
            self._register(request, min(computed + new, len(request.tokens)))
        return True

    def _return_blocks(self, request: Request) -> None:
        """[prefix] In reverse order: the last block of a request is evicted before its first. They stay findable."""
        for block in reversed(request.blocks):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.free.append(block)
        request.blocks = []
        request.registered = 0

    # The prefix cache

    def _keys(self, request: Request, tokens: int) -> list[Any]:
        """[prefix] Only full blocks have one: the tokens of the block and all before it."""
        size = self.block_size
        return [tuple(request.tokens[: (k + 1) * size]) for k in range(tokens // size)]

    def _find(self, request: Request) -> list[int]:
        found: list[int] = []
        if self.caching:
            for key in self._keys(request, len(request.tokens) - 1):
                if not self.cached.get(key):
                    break
                found.append(self.cached[key][0])  # [pool] of equal blocks the first that was registered
        return found

    def _register(self, request: Request, tokens: int) -> None:
        """[prefix] Equal blocks are not merged: a request's list of blocks only grows."""
        for k, key in enumerate(self._keys(request, tokens)):
            if k >= request.registered:
                block = request.blocks[k]
                self.key[block] = key
                self.cached.setdefault(key, []).append(block)
                request.registered = k + 1

    def _evict(self, block: int) -> None:
        if self.key[block] is not None:
            holders = self.cached[self.key[block]]
            holders.remove(block)
            if not holders:
                del self.cached[self.key[block]]
            self.key[block] = None


def steps(
    scheduler: ReferenceScheduler, arrivals: list[tuple[int, Request]], aborts: Sequence[tuple[int, int]] = ()
) -> list[Batch]:
    """Run to the end. `arrivals`: the step before which a request arrives; `aborts`: the step before which one is aborted.

    [core] Without async scheduling each step is scheduled, computed and its outputs added. With it there are up to two steps
    under way: a step is scheduled while the one before computes, and then the outputs of the one before are added.
    [pipeline] With stages as many steps are under way: steps are scheduled until so many are, or until one has no tokens; then
    the outputs of the oldest are added.

    A step without tokens is not counted, and has no outputs: the first running request may have preempted itself, as the one
    of the largest (priority, arrival), and the rest is visited in the next step only.
    """
    batches: list[Batch] = []
    under_way: list[Batch] = []
    coming = sorted(arrivals, key=lambda one: one[0])
    leaving = sorted(aborts)
    step = 0
    while coming or scheduler.waiting or scheduler.running or under_way:
        while coming and coming[0][0] <= step:
            scheduler.add(coming.pop(0)[1])
        while leaving and leaving[0][0] <= step:
            scheduler.abort(leaving.pop(0)[1])
        batch = scheduler.schedule()
        if batch.tokens:
            batches.append(batch)
            under_way.append(batch)
        if under_way and (len(under_way) == scheduler.under_way or not batch.tokens):
            scheduler.update(under_way.pop(0))
        elif not (batch.tokens or batch.preempted or coming) and (scheduler.waiting or scheduler.running):
            raise RuntimeError(f"step {step}: nothing can be scheduled and nothing is under way")
        step += 1
    return batches
