"""The common base of both schedulers of vLLM's batching: the queue, the blocks, preemption and admission."""

from __future__ import annotations

from abc import abstractmethod

from kernbench.workloads.serving.kv_blocks import BlockPool, Prefixes, request_keys
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.radix import RadixPool
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.scheduler import Scheduler, StepBatch
from kernbench.workloads.serving.waiting import Waiting


class Batching(Scheduler):
    """Waiting and running requests, and the admission rules of vLLM V1 (release 0.19). A subclass makes the steps."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.asynchronous = options.asynchronous
        self.batches_in_flight = options.pipeline_parallel_size
        self.pool = RadixPool(options.usable_blocks) if options.prefix_cache == "radix" else BlockPool(options.usable_blocks)
        self.waiting = Waiting(options.scheduling_policy)
        self.running: list[Request] = []
        self.host_blocks = 0  #: blocks of the host with data of preempted requests
        self._prefixes = Prefixes(options.block_size)

    def add(self, request: Request) -> None:
        if request.prompt + request.output > self.options.max_model_len:
            request.state = State.REJECTED
        else:
            self.waiting.add(request)

    def cached_tokens(self, request: Request) -> int:
        if not (self.options.enable_prefix_caching and request.prefix):
            return 0
        return len(self.pool.find(self._prefixes.keys(request))) * self.options.block_size

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.options.block_size)

    def _victim(self) -> Request:
        if self.options.scheduling_policy == "priority":
            return max(self.running, key=lambda one: (one.priority, one.arrival_ns))
        return self.running[-1]

    @abstractmethod
    def _place(self, batch: StepBatch, request: Request, tokens: int, room: int) -> None:
        """Let a newly admitted request compute a number of tokens in this step, in blocks up to `room`."""

    def _admit(self, batch: StepBatch, budget: int, now_ns: int, adapters: set[int]) -> str | None:
        """Start waiting requests until a request lacks a slot, tokens or blocks. Return the resource that this request
        lacks.

        `adapters`: the adapters of the requests in this step. A request is skipped if its adapter would exceed the limit.
        """
        skipped: list[Request] = []
        blocked = self._start(batch, budget, now_ns, adapters, skipped)
        if not skipped:
            return blocked
        self.waiting.restore(skipped)
        return "sequence_slots"

    def _start(self, batch: StepBatch, budget: int, now_ns: int, adapters: set[int], skipped: list[Request]) -> str | None:
        options, pool, spec = self.options, self.pool, self.options.speculation
        while budget > 0 and len(self.running) < options.max_num_seqs:
            request = self.waiting.peek(now_ns)
            if request is None:
                return None
            adapter = request.adapter if options.max_loras else None
            if adapter is not None and len(adapters) == options.max_loras and adapter not in adapters:
                self.waiting.pop(request)
                skipped.append(request)
                continue
            found: list[int] = []
            hit = request.computed  # for a request whose blocks are at the host
            lookahead = spec.lookahead if hit and spec is not None else 0
            if not hit:
                found, hit = self._cached(request)
            tokens = self._first_tokens(request.tokens - hit, budget)
            if tokens > budget:
                return "token_budget"
            room = self._blocks(min(hit + tokens + lookahead, options.max_model_len))
            need = max(room, self._blocks(request.tokens)) if options.scheduler_reserve_full_isl else room
            if need - len(found) + (pool.unused(found) if found else 0) > pool.free:
                return "kv_blocks"
            self._start_request(batch, request, found, hit)
            if adapter is not None:
                adapters.add(adapter)
            self._place(batch, request, tokens, room)
            budget -= tokens
        return ("token_budget" if budget <= 0 else "sequence_slots") if len(self.waiting) else None

    def _cached(self, request: Request) -> tuple[list[int], int]:
        """The blocks with the first tokens of a request that are already in the cache, and the number of tokens that need not
        be computed: those of the blocks, or those that another engine has computed."""
        found: list[int] = []
        if self.options.enable_prefix_caching and (request.prefix or request.preemptions):
            most = (request.tokens - 1) // self.options.block_size  # at least one token is computed
            found = self.pool.find(request_keys(request, self._prefixes.keys(request), most))
        hit = len(found) * self.options.block_size
        return found, hit if request.preemptions else max(hit, request.remote)

    def _first_tokens(self, tokens: int, budget: int) -> int:
        """The number of tokens of a prompt for the next step; above `budget` if the prompt must not be divided."""
        threshold = self.options.long_prefill_token_threshold
        if 0 < threshold < tokens:
            tokens = threshold
        return min(tokens, budget) if self.options.enable_chunked_prefill else tokens

    def _start_request(self, batch: StepBatch, request: Request, found: list[int], hit: int) -> None:
        """Let a waiting request run; `found`: its cached blocks, `hit`: tokens that need not be computed."""
        self.waiting.pop(request)
        self.pool.share(found)
        request.blocks, request.computed = found, hit
        if request._swapped:
            batch.swapped_blocks += request._swapped
            self.host_blocks -= request._swapped
            request._swapped = 0
        if not request.preemptions and not request.remote:
            request.cached = hit
        request.state = State.RUNNING
        self.running.append(request)
