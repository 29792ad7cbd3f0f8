"""The options of an engine, by their names in `vllm serve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.serving.speculation import Speculation

Preemption = Literal["recompute", "swap"]
PrefixCache = Literal["hash", "radix"]
Policy = Literal["fcfs", "priority", "slo"]
DEFAULT_BLOCK = 16  #: [token]
POLICIES: tuple[Policy, ...] = ("fcfs", "priority", "slo")
_CHOICES = {"scheduling_policy": POLICIES, "preemption_mode": ("recompute", "swap"), "prefix_cache": ("hash", "radix")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How one engine makes batches. Defaults are those of `vllm serve` 0.19 for devices with less than 70 GiB.

    `num_gpu_blocks`: blocks of the KV cache, counted as in vLLM: one of them is never given to a request. `max_model_len`:
    [token] of a prompt and its output. `long_prefill_token_threshold`: the largest number of tokens of one prefill in a step; 0
    means no limit. `scheduler_reserve_full_isl`: a request is admitted only if all its tokens fit, not merely those of the
    first chunk. `async_scheduling`: a step is scheduled when the previous one starts, so the host works while the device does.
    `speculation`: drafts that a step verifies. `max_loras`: the largest number of different LoRA adapters in a step; 0 if
    requests have none. `preemption_mode`: `swap` moves blocks of a preempted request to `swap_blocks` blocks of the host and
    back, as vLLM V0 did, if there is room; else they are computed again. `prefix_cache`: `radix` is a tree of pages as in
    SGLang. `pipeline_parallel_size`: the number of stages of a pipeline, and of batches in progress.

    >>> from kernbench.serving import EngineOptions
    >>> EngineOptions(num_gpu_blocks=2588, max_model_len=8192).usable_blocks
    2587
    """

    num_gpu_blocks: int
    max_model_len: int
    block_size: int = DEFAULT_BLOCK
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    scheduler_reserve_full_isl: bool = True
    enable_prefix_caching: bool = True
    scheduling_policy: Policy = "fcfs"
    async_scheduling: bool = True
    speculation: Speculation | None = None
    max_loras: int = 0
    preemption_mode: Preemption = "recompute"
    swap_blocks: int = 0
    prefix_cache: PrefixCache = "hash"
    pipeline_parallel_size: int = 1

    def __post_init__(self) -> None:
        leasts = {
            "num_gpu_blocks": 2, "max_model_len": 2, "block_size": 1, "max_num_seqs": 1, "max_num_batched_tokens": 1,
            "long_prefill_token_threshold": 0, "max_loras": 0, "swap_blocks": 0,
            "pipeline_parallel_size": 1,
        }  # fmt: skip
        for name, least in leasts.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InputError(Problem("engine", f"it must be an integer of at least {least}", name, value))
        if self.max_num_batched_tokens < self.max_num_seqs:
            rule = f"it must be at least max_num_seqs, {self.max_num_seqs}: every sequence decodes a token a step"
            raise InputError(Problem("engine", rule, "max_num_batched_tokens", self.max_num_batched_tokens))
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            rule = f"it must be at least max_model_len, {self.max_model_len}, where prefills are not cut into chunks"
            raise InputError(Problem("engine", rule, "max_num_batched_tokens", self.max_num_batched_tokens))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(Problem("engine", f"it must be one of {', '.join(choices)}", name, getattr(self, name)))
        if self.scheduled_tokens < 1:
            rule = f"it must be more than max_num_seqs, {self.max_num_seqs}: a draft model takes a token of each"
            raise InputError(Problem("engine", rule, "max_num_batched_tokens", self.max_num_batched_tokens))
        if (self.preemption_mode == "swap") != bool(self.swap_blocks):
            raise InputError(
                Problem("engine", "it must be above 0 exactly if preemption_mode is swap", "swap_blocks", self.swap_blocks)
            )
        if self.usable_blocks * self.block_size < self.max_model_len:
            rule = f"it must be at most what the KV cache holds, {self.usable_blocks} blocks of {self.block_size} tokens"
            raise InputError(Problem("engine", rule, "max_model_len", self.max_model_len, "lower it, or enlarge the cache"))

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can have."""
        return self.num_gpu_blocks - 1

    @property
    def scheduled_tokens(self) -> int:
        """[token] of a step. As in vLLM, the first pass of a draft model has one token more for each request."""
        drafted = self.speculation is not None and self.speculation.method == "draft_model"
        return self.max_num_batched_tokens - (self.max_num_seqs if drafted else 0)

    @property
    def asynchronous(self) -> bool:
        """Whether steps are scheduled before the tokens of the previous step are known. vLLM does not do this with n-gram
        drafts, which need these tokens, and with a pipeline, which has other batches in progress."""
        drafted = self.speculation is not None and self.speculation.method == "ngram"
        return self.async_scheduling and not drafted and self.pipeline_parallel_size == 1

    @property
    def in_rounds(self) -> bool:
        """Whether `ContinuousBatching` can serve with these options: every decode gains one token in a step."""
        return (
            self.speculation is None and not self.max_loras and self.preemption_mode == "recompute"
            and self.prefix_cache == "hash" and self.pipeline_parallel_size == 1
        )  # fmt: skip
