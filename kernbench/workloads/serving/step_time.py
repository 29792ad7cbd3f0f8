"""The time of a step: the work of the device, and the work of the host in parallel."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.extra_work import ExtraWork
from kernbench.workloads.serving.machine_step import MachineStep, Pipeline, sums_of
from kernbench.workloads.serving.scheduler import StepBatch
from kernbench.workloads.serving.table_store import TableStore


class StepTimer(ABC):
    """Times steps. `kernbench.serving.step_timer` makes a timer from a step of a model on a machine."""

    @abstractmethod
    def device_ns(self, batch: StepBatch) -> int:
        """[ns] of the device; for a pipeline, without other steps in progress."""

    def stages_ns(self, batch: StepBatch) -> Sequence[tuple[int, int]]:
        """[ns] of each stage of a pipeline, and of the hand-off after it. A single device is one stage."""
        return ((self.device_ns(batch), 0),)

    def replicas_ns(self, batches: Sequence[StepBatch]) -> int:
        """[ns] of the device for a step of replicas that share experts. Some batches may be empty, but not all.

        By default the step takes as long as if each replica had the batch that takes longest.
        """
        return max(self.device_ns(batch) for batch in batches if batch)

    def host_ns(self, batch: StepBatch) -> int:
        """[ns] of the host: scheduler, sampler, and output of tokens. The host works in parallel with the device if scheduling
        is asynchronous."""
        return 0

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        """[pJ] of a step by part of the machine; empty if energy is not simulated or not known."""
        return {}

    def replicas_pj(self, batches: Sequence[StepBatch]) -> Mapping[str, float]:
        """[pJ] of the step of `replicas_ns`: by default that of the batch that takes longest on each replica."""
        return self.energy_pj(max((batch for batch in batches if batch), key=self.device_ns))


class FormulaTimer(StepTimer):
    """A function of the batch, for closed forms and tests."""

    def __init__(self, device_ns: Callable[[StepBatch], int]) -> None:
        self._formula = device_ns

    def device_ns(self, batch: StepBatch) -> int:
        return self._formula(batch)


def fixed_step(ns: int) -> FormulaTimer:
    """A timer with which every step takes this time."""
    return FormulaTimer(lambda batch: ns)


class MachineTimer(StepTimer):
    """Steps of a model on a machine. `capture_sizes`: token numbers of steps that are captured in graphs, ascending: a step is
    padded to the next of them. `extra`: work of the device in addition to the model. `energy`: whether the energy of steps is
    simulated. `static_share`: the share of the machine's static power that counts for the devices of these steps; other devices
    of the same machine work in parallel.
    """

    def __init__(
        self, step: MachineStep, capture_sizes: Sequence[int] = (), *, extra: Sequence[ExtraWork] = (), energy: bool = False,
        static_share: float = 1.0,
    ) -> None:  # fmt: skip
        self.step = step
        self.energy = energy
        self.extra = tuple(extra)
        self._static_share = static_share
        self._sizes = sorted(capture_sizes)

    def device_ns(self, batch: StepBatch) -> int:
        found = self.model_ns(batch)
        for one in self.extra:
            found += one.ns(batch)
        return round(found)

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        if not self.energy:
            return {}
        found = self.model_pj(batch)
        for one in self.extra:
            for name, pj in one.energy_pj(batch).items():
                found[name] = found.get(name, 0.0) + pj
        if "static" in found:
            found["static"] *= self._static_share
        return found

    @abstractmethod
    def model_pj(self, batch: StepBatch) -> dict[str, float]:
        """[pJ] of the model's own pass, by part of the machine."""

    @abstractmethod
    def decode_pj(self, requests: int, context: float) -> dict[str, float]:
        """[pJ] of a pass for which `decode_ns` gives the time."""

    @abstractmethod
    def model_ns(self, batch: StepBatch) -> float:
        """[ns] of the model's own pass."""

    @abstractmethod
    def decode_ns(self, requests: int, context: float) -> float:
        """[ns] of a pass that computes one token for each of this number of requests, with this mean number of earlier
        tokens."""

    def hand_off_ns(self, tokens: int) -> float:
        """[ns] to send this number of tokens to the next stage of a pipeline."""
        return self.step.hand_off_ns(tokens)

    def hand_off_pj(self, tokens: int) -> Mapping[str, float]:
        """[pJ] of the same hand-off."""
        return self.step.hand_off_pj(tokens)

    @property
    def tables(self) -> tuple[TableTimer, ...]:
        """The tables whose entries the timer interpolates."""
        return ()

    def save(self) -> None:
        """Store the simulated results, if there is a store."""
        for one in self.extra:
            one.save()

    def host_ns(self, batch: StepBatch) -> int:
        return self.step.host_ns(len(batch.chunks) + batch.decodes, prompt=bool(batch.chunks))

    def padding(self, tokens: int) -> int:
        """[token] that are added to a step with this number of tokens."""
        place = bisect_left(self._sizes, tokens)
        return self._sizes[place] - tokens if place < len(self._sizes) else 0

    def exact_ns(self, sequences: Sequence[Sequences]) -> float:
        """[ns] of a step from a simulation."""
        return self.step.device_ns(self.padded(sequences))

    def exact_ns_of(self, replicas: Sequence[Sequence[Sequences]]) -> float:
        """[ns] of a step of replicas that share experts, from a simulation."""
        return self.step.replicas_ns([self.padded(sequences) if sequences else () for sequences in replicas])

    def padded(self, sequences: Sequence[Sequences]) -> Sequence[Sequences]:
        """The step after padding. Padding tokens have no context."""
        pad = self.padding(sum(one.tokens * one.count for one in sequences))
        return [*sequences, Sequences(1, 0, pad)] if pad else sequences


class ExactTimer(MachineTimer):
    """Every distinct batch is simulated."""

    def model_ns(self, batch: StepBatch) -> float:
        return self.exact_ns(batch.sequences())

    def decode_ns(self, requests: int, context: float) -> float:
        return self.exact_ns([Sequences(1, round(context), requests)])

    def replicas_ns(self, batches: Sequence[StepBatch]) -> int:
        beside = max((sum(one.ns(batch) for one in self.extra) for batch in batches if batch), default=0.0)
        return round(self.exact_ns_of([batch.sequences() if batch else [] for batch in batches]) + beside)

    def replicas_pj(self, batches: Sequence[StepBatch]) -> Mapping[str, float]:
        if not self.energy:
            return {}
        parts = [self.step.replicas_pj([self.padded(batch.sequences()) if batch else [] for batch in batches])]
        parts += [dict(one.energy_pj(batch)) for one in self.extra for batch in batches if batch]
        found = sums_of(parts)
        if "static" in found:
            found["static"] *= self._static_share
        return found

    def model_pj(self, batch: StepBatch) -> dict[str, float]:
        return self.step.energy_pj(self.padded(batch.sequences()))

    def decode_pj(self, requests: int, context: float) -> dict[str, float]:
        return self.step.energy_pj(self.padded([Sequences(1, round(context), requests)]))


@dataclass(frozen=True, slots=True)
class TableError:
    """The error of interpolated steps against exact ones, in a sample of a run."""

    steps: int
    mean: float  #: mean of the absolute relative error
    bias: float  #: mean of the relative error; if it is more than 0, interpolated steps take longer
    worst: float


_PROMPT = 512  #: [token] of the longest prompt in an entry of the table
_NO_CONTEXT = ((0, 1.0),)
_ONE_TOKEN = ((1, 1.0),)
_SLOPE = (512, 2048)  #: tokens of a chunk and of its context, from which the slope over the context is computed


class TableTimer(MachineTimer):
    """Interpolates between steps that are simulated when they are first needed.

    An entry has a number of tokens of prefill, as new prompts of at most 512 tokens, and a number of decodes with equal
    contexts. The time of further keys to which prefills attend is added in proportion to their number. `width`: the tokens of a
    decode with all its drafts; between one token and this number, times are interpolated too. `sample`: the number of steps of
    a run that are kept and then simulated for `error`.
    """

    def __init__(
        self, step: MachineStep, capture_sizes: Sequence[int] = (), *, store: TableStore | None = None, sample: int = 8,
        width: int = 1, extra: Sequence[ExtraWork] = (), energy: bool = False, static_share: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(step, capture_sizes, extra=extra, energy=energy, static_share=static_share)
        self.store = TableStore() if store is None else store
        self.filled = 0  #: number of entries that were simulated for this run
        self._axes = step.edges
        self._widths = (1, width)
        self._known: dict[tuple[int, int, int, int], float] = {}
        self._slope_ns: float | None = None
        self._sample: list[tuple[list[list[Sequences]], float]] = []
        self._most, self._seen, self._random = sample, 0, random.Random(0)

    def model_ns(self, batch: StepBatch) -> float:
        found = self._interpolated(*self._sizes_of(batch))
        self._keep([batch], found)
        return found

    def replicas_ns(self, batches: Sequence[StepBatch]) -> int:
        busy = [batch for batch in batches if batch]
        found = max(self._interpolated(*self._sizes_of(batch)) for batch in busy)
        self._keep(batches, found)
        return round(found + max(sum(one.ns(batch) for one in self.extra) for batch in busy))

    def replicas_pj(self, batches: Sequence[StepBatch]) -> Mapping[str, float]:
        if not self.energy:
            return {}
        fullest = max((batch for batch in batches if batch), key=lambda one: self._interpolated(*self._sizes_of(one)))
        return self.energy_pj(fullest)

    def model_pj(self, batch: StepBatch) -> dict[str, float]:
        return self._interpolated_pj(*self._sizes_of(batch))

    def _sizes_of(self, batch: StepBatch) -> tuple[float, float, float, float, float]:
        """Tokens of prefill, number of decodes, their mean context, keys to which prefills attend, and tokens of a decode."""
        prefill = pairs = 0.0
        for _, tokens, before in batch.chunks:
            prefill += tokens
            pairs += tokens * (before + tokens / 2)
        decodes: float = batch.decodes
        width = 1 + batch.drafts / decodes if batch.drafts else 1.0
        if self._sizes:
            decodes += self.padding(int(prefill) + batch.decodes + batch.drafts) / width
        return prefill, decodes, batch.decode_context / decodes if decodes else 0.0, pairs, width

    @property
    def tables(self) -> tuple[TableTimer, ...]:
        return (self,)

    def hand_off_ns(self, tokens: int) -> float:
        return sum(share * self._hand_off(many) for many, share in _edges(self._axes[0], tokens))

    def _hand_off(self, tokens: int) -> float:
        name = f"{tokens} handed on"
        found = self.store.get(name)
        if found is None:
            found = self.step.hand_off_ns(tokens)
            if found:  # not of a last stage
                self.filled += 1
                self.store.put(name, found)
        return found

    def hand_off_pj(self, tokens: int) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for many, share in _edges(self._axes[0], tokens):
            name = f"{many} handed on"
            parts = self.store.energy_pj(name)
            if parts is None:
                parts = self.step.hand_off_pj(many)
                self.store.put_energy(name, parts)
            for part, pj in parts.items():
                found[part] = found.get(part, 0.0) + share * pj
        return found

    def save(self) -> None:
        self.store.save()
        super().save()

    def decode_ns(self, requests: int, context: float) -> float:
        return self._interpolated(0.0, requests, context, 0.0, 1.0)

    def decode_pj(self, requests: int, context: float) -> dict[str, float]:
        return self._interpolated_pj(0.0, requests, context, 0.0, 1.0)

    def _interpolated(self, prefill: float, decodes: float, context: float, pairs: float, width: float) -> float:
        found = known = 0.0
        tokens_axis, decodes_axis, context_axis = self._axes
        widths = _ONE_TOKEN if width == 1 else _edges(self._widths, width)
        for tokens, a in _edges(tokens_axis, prefill):
            known += a * tokens * min(tokens, _PROMPT) / 2
            for count, b in _edges(decodes_axis, decodes):
                for before, c in _edges(context_axis, context) if decodes else _NO_CONTEXT:
                    for wide, d in widths:
                        value = self._known.get((tokens, count, before, wide))
                        if value is None:
                            value = self._known[tokens, count, before, wide] = self._entry(tokens, count, before, wide)
                        found += a * b * c * d * value
        if prefill:
            found += (pairs - known) * self._slope()
        return max(found, 1.0)

    def _interpolated_pj(
        self, prefill: float, decodes: float, context: float, pairs: float, width: float
    ) -> dict[str, float]:
        """The same as `_interpolated`, for each part."""
        found: dict[str, float] = {}

        def add(share: float, parts: Mapping[str, float]) -> None:
            for name, pj in parts.items():
                found[name] = found.get(name, 0.0) + share * pj

        known = 0.0
        tokens_axis, decodes_axis, context_axis = self._axes
        for tokens, a in _edges(tokens_axis, prefill):
            known += a * tokens * min(tokens, _PROMPT) / 2
            for count, b in _edges(decodes_axis, decodes):
                for before, c in _edges(context_axis, context) if decodes else _NO_CONTEXT:
                    for wide, d in _edges(self._widths, width):
                        add(a * b * c * d, self._simulated_pj(*self._corner(tokens, count, before, wide)))
        if prefill:
            tokens, context = _SLOPE
            more = (pairs - known) / (tokens * context)
            add(more, self._simulated_pj(*_slope_corner()))
            add(-more, self._simulated_pj(*self._corner(tokens, 0, 0, 1)))
        return {name: max(0.0, pj) for name, pj in found.items()}

    def _entry(self, tokens: int, decodes: int, context: int, width: int = 1) -> float:
        return self._simulated(*self._corner(tokens, decodes, context, width))

    def _corner(self, tokens: int, decodes: int, context: int, width: int) -> tuple[str, list[Sequences]]:
        """The name and the step of an entry."""
        whole, rest = divmod(tokens, _PROMPT)
        sequences = [Sequences(_PROMPT, 0, whole)] if whole else []
        sequences += [Sequences(rest)] if rest else []
        sequences += [Sequences(width, context, decodes)] if decodes else []
        return f"{tokens} {decodes}{f'x{width}' if width > 1 else ''} {context}", sequences

    def _simulated(self, name: str, sequences: list[Sequences]) -> float:
        found = self.store.get(name)
        if found is None:
            found = self.step.device_ns(sequences)
            self.filled += 1
            self.store.put(name, found)
        return found

    def _simulated_pj(self, name: str, sequences: list[Sequences]) -> dict[str, float]:
        found = self.store.energy_pj(name)
        if found is None:
            found = self.step.energy_pj(sequences)
            self.store.put_energy(name, found)
        return found

    def _slope(self) -> float:
        """[ns] The time that each key adds for each token of a prefill that attends to it."""
        if self._slope_ns is None:
            tokens, context = _SLOPE
            more = self._simulated(*_slope_corner())
            self._slope_ns = (more - self._entry(tokens, 0, 0)) / (tokens * context)
        return self._slope_ns

    def _keep(self, batches: Sequence[StepBatch], found: float) -> None:
        """Keep a random sample of the steps, in which each step has equal chances."""
        self._seen += 1
        if len(self._sample) < self._most:
            self._sample.append(([batch.sequences() if batch else [] for batch in batches], found))
        elif self._most:
            place = self._random.randrange(self._seen)
            if place < self._most:
                self._sample[place] = [batch.sequences() if batch else [] for batch in batches], found

    def errors(self) -> list[float]:
        """Simulate the kept steps; returns the relative error of each."""
        return [found / self.exact_ns_of(replicas) - 1 for replicas, found in self._sample]

    def error(self) -> TableError | None:
        """The error of the kept steps; None if there are none."""
        return table_error([self])


def table_error(tables: Iterable[TableTimer]) -> TableError | None:
    """The error of the kept steps of all these tables; None if there are none."""
    errors = [error for one in tables for error in one.errors()]
    if not errors:
        return None
    return TableError(len(errors), sum(map(abs, errors)) / len(errors), sum(errors) / len(errors), max(map(abs, errors)))


class PipelineTimer(MachineTimer):
    """Steps of a pipeline. `stages`: the timer of each stage; equal stages have one timer."""

    def __init__(self, step: Pipeline, stages: Sequence[MachineTimer]) -> None:
        super().__init__(step, step.capture_sizes, energy=any(one.energy for one in stages))
        self._stages = tuple(stages)
        self._distinct = tuple(dict.fromkeys(stages))

    def stages_ns(self, batch: StepBatch) -> Sequence[tuple[int, int]]:
        times = {one: (one.device_ns(batch), round(one.hand_off_ns(batch.tokens))) for one in self._distinct}
        return [times[one] for one in self._stages]

    def device_ns(self, batch: StepBatch) -> int:
        return sum(stage + hand_off for stage, hand_off in self.stages_ns(batch))

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        return sums_of(
            parts for one in self._stages if self.energy for parts in (one.energy_pj(batch), one.hand_off_pj(batch.tokens))
        )

    @property
    def tables(self) -> tuple[TableTimer, ...]:
        return tuple(table for one in self._distinct for table in one.tables)

    def save(self) -> None:
        for one in self._distinct:
            one.save()

    def model_ns(self, batch: StepBatch) -> float:
        return sum(one.model_ns(batch) + one.hand_off_ns(batch.tokens) for one in self._stages)

    def decode_ns(self, requests: int, context: float) -> float:
        return sum(one.decode_ns(requests, context) + one.hand_off_ns(requests) for one in self._stages)

    def model_pj(self, batch: StepBatch) -> dict[str, float]:
        return self.step.energy_pj(batch.sequences())

    def decode_pj(self, requests: int, context: float) -> dict[str, float]:
        return self.step.energy_pj([Sequences(1, round(context), requests)])


def _slope_corner() -> tuple[str, list[Sequences]]:
    """The name and the step of the entry of a chunk after a context."""
    tokens, context = _SLOPE
    return f"{tokens} after {context}", [Sequences(tokens, context)]


def _edges(edges: Sequence[int], value: float) -> tuple[tuple[int, float], ...]:
    """The edges around a value, each with its share; a single edge if the value is 0 or equals an edge. Beyond the last edge,
    values are extrapolated linearly."""
    if not value:
        return ((0, 1.0),)
    place = bisect_left(edges, value)
    if place < len(edges) and edges[place] == value:
        return ((edges[place], 1.0),)
    place = min(max(place - 1, 0), len(edges) - 2)
    low, high = edges[place], edges[place + 1]
    share = (value - low) / (high - low)
    return ((low, 1 - share), (high, share))


def step_timer(step: MachineStep, make: Callable[[MachineStep], MachineTimer] = TableTimer) -> MachineTimer:
    """A timer with a table, or the timer that `make` makes; for a pipeline, each distinct stage has its own timer.

    >>> from kernbench import load_config
    >>> from kernbench.serving import Request, StepBatch, machine_step, step_timer
    >>> from kernbench.workloads.models.files import load_model
    >>> timer = step_timer(machine_step(load_model("llama3-8b"), load_config("rtx4090"), pp=2))
    >>> first, second = timer.stages_ns(StepBatch([(Request(0, arrival_ns=0, prompt=512, output=1), 512)]))
    >>> first[0] > 0, first[1] > 0, second[1] == 0
    (True, True, True)
    """
    if not isinstance(step, Pipeline):
        return make(step)
    known: dict[str, MachineTimer] = {}
    stages = []
    for stage in step.stages:
        content = repr(stage.content())
        if content not in known:
            known[content] = make(stage)
        stages.append(known[content])
    return PipelineTimer(step, stages)
