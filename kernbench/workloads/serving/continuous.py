"""Continuous batching as in vLLM V1 (release 0.19).

Running decodes are not updated step by step: all of them advance by one token in a round, so a request stores the difference
between its tokens and the number of the round. Only requests that start, end or need a block cost time.
"""

from __future__ import annotations

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.serving.batching import Batching
from kernbench.workloads.serving.kv_blocks import request_keys
from kernbench.workloads.serving.options import EngineOptions
from kernbench.workloads.serving.request import Request, State
from kernbench.workloads.serving.scheduler import StepBatch, Tokens


class ContinuousBatching(Batching):
    """A step computes one token of every decode, and then prefills within the token limit; requests wait for a place and for
    blocks.

    If no block is free, a request that needs one takes the blocks of the last request, which is computed again later.

    >>> from kernbench.serving import ContinuousBatching, EngineOptions, Request
    >>> engine = ContinuousBatching(EngineOptions(num_gpu_blocks=64, max_model_len=256))
    >>> engine.add(Request(7, arrival_ns=0, prompt=100, output=20))
    >>> engine.schedule(0).rows()
    [(7, 100, 0)]
    """

    def __init__(self, options: EngineOptions) -> None:
        if not options.in_rounds:
            rule = "decodes gain a token a step here, and nothing is swapped; these options need StepwiseBatching"
            raise InputError(Problem("engine", rule, remedy="make the scheduler with kernbench.serving.batching"))
        super().__init__(options)
        self.round = 0
        self.flying: ContinuousBatch | None = None  # the last batch, until it is complete
        self.last_end_ns = -1
        self.decode_pj = 0.0  #: [pJ] energy of one token of a decode, summed over the steps that have started
        self._decoding = 0  # number of requests that decode
        self._context = 0  # [token] sum of their computed tokens
        # the requests that need a block, by round
        self._turns: list[dict[Request, None]] = [{} for _ in range(options.block_size)]
        self._ending: dict[int, dict[Request, None]] = {}  # the requests with their last token, by round
        self._prefilling: dict[Request, None] = {}  # running requests that prefill
        self._admitted = 0

    def finish(self, request: Request) -> None:
        if request in self.running:
            if request._decoding:  # its client has left
                self._leave(request)
                request.generated = request.computed + 1 - request.prompt
            self._prefilling.pop(request, None)
            self.running.remove(request)
        else:
            self.waiting.drop(request)
        self.settle(request)
        self.pool.release(request.blocks)
        request.blocks = []

    def schedule(self, now_ns: int) -> ContinuousBatch:
        self.round += 1
        batch = ContinuousBatch(self)
        budget = self.options.max_num_batched_tokens
        if self._plain():
            budget -= self._decoding
            for request in sorted(self._turns[self.round % self.options.block_size], key=_order):
                request.blocks += self.pool.take(1)
            for request in self._prefilling:
                budget -= self._chunk(batch, request, min(request.tokens - request.computed, budget))
        else:
            budget = self._walk(batch, budget)
        batch.decodes, batch.decode_context = self._decoding, self._context
        self._context += self._decoding
        batch.ending = list(self._ending.pop(self.round, ()))
        for request in batch.ending:
            self._leave(request)
        batch.blocked = "kv_blocks" if batch.preempted else self._admit(batch, budget, now_ns, set())
        self._join(batch)
        batch.running, batch.waiting, batch.kv_blocks = len(self.running), len(self.waiting), self.pool.used
        if batch:
            self.flying = batch
        return batch

    def _plain(self) -> bool:
        """Whether all running requests are served without a choice: only the last one prefills, and no block is missing."""
        if self.options.long_prefill_token_threshold or len(self._prefilling) > 1:
            return False
        need = len(self._turns[self.round % self.options.block_size])
        for request in self._prefilling:
            if request is not self.running[-1]:
                return False
            left = self.options.max_num_batched_tokens - self._decoding
            need += self._blocks(request.computed + min(request.tokens - request.computed, left)) - len(request.blocks)
        return need <= self.pool.free

    def _chunk(self, batch: StepBatch, request: Request, tokens: int) -> int:
        """Compute tokens of a prefill. Returns their number."""
        if tokens <= 0:
            return 0
        before, end = request.computed, request.computed + tokens
        request.blocks += self.pool.take(self._blocks(end) - len(request.blocks))
        if self.options.enable_prefix_caching and request.prefix:
            size = self.options.block_size
            keys = self._prefixes.keys(request)
            for i in range(before // size, min(end // size, len(keys))):
                self.pool.name(request.blocks[i], keys[i])
        batch.chunks.append((request, tokens, before))
        request.computed = end
        return tokens

    def _walk(self, batch: ContinuousBatch, budget: int) -> int:
        """Serve running requests one by one, and preempt requests if blocks are missing. Returns the remaining tokens."""
        options, turn = self.options, self._turns[self.round % self.options.block_size]
        given: dict[Request, int] = {}
        i = 0
        while i < len(self.running) and budget > 0:
            request = self.running[i]
            if request._decoding:
                tokens, need = 1, int(request in turn)
            elif request in self._prefilling:
                tokens = request.tokens - request.computed
                if 0 < options.long_prefill_token_threshold < tokens:
                    tokens = options.long_prefill_token_threshold
                tokens = min(tokens, budget)
                need = self._blocks(request.computed + tokens) - len(request.blocks)
            else:  # its last token is being computed
                i += 1
                continue
            while need > self.pool.free:
                victim = self._victim()
                served = given.pop(victim, 0)
                if served:  # the preempted request comes before this one
                    budget += served
                    batch.chunks = [one for one in batch.chunks if one[0] is not victim]
                    i -= 1
                self._preempt(batch, victim, bool(served))
                if victim is request:
                    break
            if request.state == State.PREEMPTED:
                break
            if request._decoding:
                request.blocks += self.pool.take(need)
            else:
                self._chunk(batch, request, tokens)
            given[request] = tokens
            budget -= tokens
            i += 1
        for request in self.running:
            if request._decoding and request not in given:  # it continues as a prefill of one token
                self._stop_decoding(request)
                self._prefilling[request] = None
        return budget

    def _stop_decoding(self, request: Request) -> None:
        """The request has not decoded in this round, and will not decode in the next round as others do."""
        self._context += 1  # the sum does not count this round yet
        self._leave(request)
        self.settle(request)
        request.computed -= 1
        request.generated = request.computed + 1 - request.prompt
        if self.flying is not None:
            self.flying.late.append(request)
        else:
            request.last_token_ns = self.last_end_ns

    def _preempt(self, batch: ContinuousBatch, request: Request, given: bool) -> None:
        known = request.computed
        if request._decoding:
            joined = self.round - 1 == request._joined
            self._stop_decoding(request)
            # the token of the previous step is being computed, and is not yet part of a block
            known = request.computed - (self.asynchronous and not given and not joined)
        self._prefilling.pop(request, None)
        self.running.remove(request)
        if self.options.enable_prefix_caching:
            count = known // self.options.block_size
            for block, key in zip(request.blocks, request_keys(request, self._prefixes.keys(request), count), strict=False):
                self.pool.name(block, key)
        self.pool.release(request.blocks)
        request.blocks, request.computed = [], 0
        request.preemptions += 1
        request.state = State.PREEMPTED
        self.waiting.put_back(request)
        batch.preempted.append(request)

    def _place(self, batch: StepBatch, request: Request, tokens: int, room: int) -> None:
        self._admitted += 1
        request._order = self._admitted
        self._prefilling[request] = None
        self._chunk(batch, request, tokens)

    def _join(self, batch: ContinuousBatch) -> None:
        """Requests whose prefill ends with this step decode from the next round on."""
        for request, _, _ in batch.chunks:
            if request.computed < request.tokens:
                continue
            del self._prefilling[request]
            batch.finishing.append(request)
            left = request.prompt + request.output - request.computed - 1
            if left == 0:
                batch.ending.append(request)
                continue
            request._decoding = True
            request._joined = self.round
            request._offset = request.computed - self.round
            self._decoding += 1
            self._context += request.computed
            self._turns[(1 - request._offset) % self.options.block_size][request] = None
            request._end_round = self.round + left
            self._ending.setdefault(request._end_round, {})[request] = None

    def _leave(self, request: Request) -> None:
        """The request no longer decodes. `computed` counts the token of this round."""
        request.computed = request._offset + self.round
        request._decoding = False
        self._decoding -= 1
        self._context -= request.computed
        del self._turns[(1 - request._offset) % self.options.block_size][request]
        ending = self._ending.get(request._end_round)
        if ending is not None:
            del ending[request]
            if not ending:
                del self._ending[request._end_round]

    def settle(self, request: Request) -> None:
        """The request takes no further step as a decode: assign the energy of its tokens since its start."""
        if request._since_pj is not None:
            request.energy_pj += self.decode_pj - request._since_pj
            request._since_pj = None


def _order(request: Request) -> int:
    return request._order


class ContinuousBatch(StepBatch):
    """A batch of `ContinuousBatching`. Decodes are stored as a number; `rows` lists them."""

    def __init__(self, scheduler: ContinuousBatching) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._round = scheduler.round
        self.ending: list[Request] = []  #: requests whose last token comes from this step
        self.finishing: list[Request] = []  #: requests whose prefill ends with this step
        self.late: list[Request] = []  #: requests that were stopped while their token was being computed
        self.left = 0  #: decodes whose clients have left since the start of the step

    def _decode_contexts(self) -> list[int]:
        return [before for _, before in self._decoders()]

    def _decoders(self) -> list[tuple[Request, int]]:
        """The requests that decode and their earlier tokens, in the order of the engine."""
        assert self._scheduler.round == self._round, "the scheduler has made another batch"
        started = set(self.finishing)
        still = [one for one in self._scheduler.running if one._decoding and one not in started]
        found = [(one, one._offset + self._round - 1) for one in still]
        found += [(one, one.computed - 1) for one in self.ending if one not in started]
        return sorted(found, key=lambda pair: pair[0]._order)

    def rows(self) -> list[tuple[int, int, int]]:
        rows = [(one._order, one.id, 1, before) for one, before in self._decoders()]
        rows += [(one._order, one.id, tokens, before) for one, tokens, before in self.chunks]
        return [row[1:] for row in sorted(rows)]

    def charge(self, pj: float) -> None:
        """Decodes are not visited: each stores the value of the sum when it began to decode."""
        for request, tokens, _ in self.chunks:
            request.energy_pj += tokens * pj
        self._scheduler.decode_pj += pj
        for request in self.finishing:
            request._since_pj = self._scheduler.decode_pj

    def commit(self) -> None:
        """`schedule` has done it already."""

    def complete(self, end_ns: int, previous_ns: int) -> Tokens:
        found = Tokens(continued=self.decodes - self.left)
        if self._scheduler.flying is self:
            self._scheduler.flying = None
        self._scheduler.last_end_ns = end_ns
        for request in self.finishing:
            if request.state == State.ABORTED:
                continue
            if request.first_token_ns is None:
                request.first_token_ns = end_ns
                found.first.append(request)
            else:
                assert request.last_token_ns is not None
                found.gaps_ns.append(end_ns - request.last_token_ns)
            request.last_token_ns = end_ns
        for request in self.late:  # after its gap is known: its prefill may end with this step
            request.last_token_ns = end_ns
        for request in sorted(self.ending, key=_order):  # blocks become free in the order of the batch
            if request.state != State.ABORTED:
                request.generated = request.output
                request.last_token_ns = end_ns
                found.ended.append(request)
        return found
