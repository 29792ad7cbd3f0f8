"""Random workloads of the serving scheduler as plain data, for hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kernbench.serving import Speculation


@dataclass(frozen=True)
class Asked:
    """A request: it arrives before step `step`; `shared` leading tokens of its prompt are those of group `group`."""

    step: int
    inputs: int
    outputs: int
    group: int
    shared: int
    priority: int
    lora: int | None = None

    def prompt(self, name: int) -> list[Any]:
        """The tokens of the prompt. Adapters make other keys and values of equal tokens."""
        common = min(self.shared, self.inputs)
        return [(f"group {self.group}", self.lora, k) for k in range(common)] + [(name, k) for k in range(common, self.inputs)]


@dataclass(frozen=True)
class Workload:
    """Options of the scheduler by vLLM's names, requests by name in order of arrival, aborts as (step, name)."""

    options: dict[str, Any]
    requests: tuple[Asked, ...]
    aborts: tuple[tuple[int, int], ...]
    speculation: Speculation | None = None


@st.composite
def speculations(draw: st.DrawFn) -> Speculation:
    """Any number of drafts and any acceptance."""
    rates = tuple(sorted(draw(st.lists(st.sampled_from([0.0, 0.3, 0.7, 1.0]), min_size=1, max_size=5)), reverse=True))
    seed = draw(st.integers(0, 3))
    if draw(st.booleans()):
        return Speculation(method="draft_model", model="small", rates=rates, seed=seed)
    return Speculation(method="ngram", rates=rates, seed=seed, match_rate=draw(st.sampled_from([0.0, 0.5, 1.0])))


@st.composite
def workloads(draw: st.DrawFn, stepwise: bool = False) -> Workload:
    """Few blocks and tokens a step, so that everything is short somewhere: preemption, chunks, eviction, full batches.

    `stepwise`: with drafts, adapters, room at the host and stages of a pipeline, each of them or not.
    """
    size = draw(st.sampled_from([1, 2, 4, 8]))
    longest = draw(st.integers(2, 60))
    blocks = -(-longest // size) + draw(st.integers(0, 20))  # vLLM starts only if one request of the longest length fits
    whole = not draw(st.booleans())
    budget = draw(st.integers(longest if whole else 1, 2 * longest + 8))
    options = {
        "num_gpu_blocks": blocks + 1,
        "block_size": size,
        "max_num_seqs": draw(st.integers(1, min(8, budget))),
        "max_num_batched_tokens": budget,
        "max_model_len": longest,
        "enable_chunked_prefill": not whole,
        "long_prefill_token_threshold": draw(st.sampled_from([0, 0, 1, 3, 8])),
        "enable_prefix_caching": draw(st.booleans()),
        "policy": draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
        "async_scheduling": draw(st.booleans()),
    }
    loras = stepwise and draw(st.integers(0, 2))
    speculation = draw(st.none() | speculations()) if stepwise else None
    if stepwise:
        options |= {"max_loras": loras, "host_blocks": draw(st.sampled_from([0, 0, 4, 30]))}
        options["pipeline_stages"] = draw(st.sampled_from([1, 1, 2, 3, 4]))
    asked = st.builds(
        Asked,
        step=st.integers(0, 12),
        inputs=st.integers(1, longest - 1),
        outputs=st.integers(1, longest),
        group=st.integers(0, 1),
        shared=st.integers(0, longest),
        priority=st.integers(0, 2),
        lora=st.sampled_from([None, 0, 1, 2]) if loras else st.none(),
    )
    requests = sorted(draw(st.lists(asked, min_size=1, max_size=12)), key=lambda one: one.step)
    named = st.integers(0, len(requests) - 1)
    aborts = sorted(draw(st.lists(st.tuples(st.integers(0, 30), named), max_size=3)))
    aborts = [one for one in aborts if one[0] > requests[one[1]].step]
    return Workload(options, tuple(requests), tuple(aborts), speculation)
