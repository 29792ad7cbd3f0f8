"""Cycles of a step of any batch: exactly, or by a table of batches that is filled as it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

from kernbench.common.errors import InputError, Problem
from kernbench.config.kinds import with_memory
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.run import Tally, run_llm, step_cycles
from kernbench.workloads.llm.steps import Job, Stage
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.routing import EVEN, Routing

_LEAST_CONTEXT = 64  #: [token] the first edge of contexts behind 0


class StepTimer:
    """Times steps of one model on one machine. `shards`: PEs that share it. Equal batches are simulated once.

    `stage`: the layers that these PEs have, where others have the rest; `first_pe`: the first of them; `staging`: [byte] of
    their scratchpads that hand-offs between stages have. `sharers`: replicas that share the experts, each of `shards` PEs: they
    run each step together. `any_size`: also batches that the memory cannot hold: its capacity is
    doubled until it does.
    """

    def __init__(
        self, model: Model, precision: Precision, config: NpuConfig | SystemConfig, *, shards: int = 1,
        layers: int | None = None, routing: Routing = EVEN, expert_parallel: bool = False, stage: Stage | None = None,
        first_pe: int = 0, staging: int = 0, any_size: bool = False, sharers: int = 1,
    ) -> None:  # fmt: skip
        self._made = model, precision, config
        self._any_size = any_size
        self._job = Job(
            prompt=1, tokens=1, batch=sharers, shards=shards, layers=layers, routing=routing, expert_parallel=expert_parallel,
            stage=stage, first_pe=first_pe, staging=staging, sharers=sharers,
        )  # fmt: skip
        self._known: dict[tuple[Batch, ...], int] = {}

    @property
    def simulated(self) -> int:
        """How many batches were simulated so far."""
        return len(self._known)

    def step_cycles(self, batch: Iterable[Sequences]) -> int:
        """[cycle] of one step that holds these sequences: prefill chunks and decodes of any contexts.

        Of replicas that share experts, each has this batch. InputError for an empty batch, and for one that does not fit the
        machine.
        """
        return self.replicas_cycles([list(batch)] * self._job.sharers)

    def replicas_cycles(self, replicas: Iterable[Iterable[Sequences]]) -> int:
        """[cycle] of one step of replicas that share experts, each with a batch of its own.

        InputError if there is not one batch for each replica.
        """
        key = tuple(_merged(batch) for batch in replicas)
        if len(key) != self._job.sharers:
            rule = f"each of the {self._job.sharers} replicas that share experts needs a batch"
            raise InputError(Problem("batch", rule, "replicas", len(key)))
        if key not in self._known:
            programs = self._programs(key)
            self._known[key] = step_cycles(programs, programs.steps[0])
        return self._known[key]

    def step_tally(self, batch: Iterable[Sequences]) -> Tally:
        """The same step with its bytes, bounds and energy, which take longer to find."""
        return self.replicas_tally([list(batch)] * self._job.sharers)

    def replicas_tally(self, replicas: Iterable[Iterable[Sequences]]) -> Tally:
        """The step of `replicas_cycles` with its bytes, bounds and energy."""
        return run_llm(self._programs(tuple(_merged(batch) for batch in replicas))).steps[0].total

    def _programs(self, batches: tuple[Batch, ...]) -> BlockPrograms:
        model, precision, config = self._made
        while True:
            programs = BlockPrograms(model, precision, config, self._job, batches=batches)
            if not self._any_size or programs.is_held:
                return programs
            config = with_memory(config, 2 * config.memory.capacity_bytes)

    def bucketed_cycles(self, batch: Iterable[Sequences]) -> float:
        """[cycle] by interpolation between batches at powers of two: of tokens of prefill, of decodes, and of their context.

        The context is the mean over all sequences. The corners around a batch are simulated when they are first needed.
        """
        groups = Batch.of(batch).groups
        prefill = sum(group.tokens * group.count for group in groups if group.tokens > 1)
        decodes = sum(group.count for group in groups if group.tokens == 1)
        context = sum(group.context * group.count for group in groups) / sum(group.count for group in groups)
        total = 0.0
        axes = [_edges(prefill, 2), _edges(decodes, 1), _edges(context, _LEAST_CONTEXT)]
        for (tokens, a), (count, b), (before, c) in product(*axes):
            share = a * b * c
            if not share or not (tokens or count):
                continue
            corner = [Sequences(tokens, before)] if tokens else []
            corner += [Sequences(1, before, count)] if count else []
            total += share * self.step_cycles(corner)
        return total


def _merged(batch: Iterable[Sequences]) -> Batch:
    """Equal sequences as one group, in the order of their sizes."""
    merged = Counter[tuple[int, int]]()
    for group in Batch.of(batch).groups:
        merged[group.tokens, group.context] += group.count
    return Batch(tuple(Sequences(tokens, context, count) for (tokens, context), count in sorted(merged.items())))


def _edges(value: float, least: int) -> list[tuple[int, float]]:
    """The powers of two around a value, or 0, each with its share."""
    if value == 0:
        return [(0, 1.0)]
    low, high = 0, least
    while high < value:
        low, high = high, 2 * high
    part = (value - low) / (high - low)
    return [(high, 1.0)] if part == 1 else [(low, 1 - part), (high, part)]
