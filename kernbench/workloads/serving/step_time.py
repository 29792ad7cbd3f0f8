"""How long a step takes: the work of the device, and that of the host beside it."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.machine_step import MachineStep
from kernbench.workloads.serving.scheduler import StepBatch
from kernbench.workloads.serving.table_store import TableStore


class StepTimer(ABC):
    """Times steps. `kernbench.serving.step_timer` makes one of a model and a machine."""

    @abstractmethod
    def device_ns(self, batch: StepBatch) -> int:
        """[ns] of the device."""

    def host_ns(self, batch: StepBatch) -> int:
        """[ns] of the host: scheduler, sampler, tokens out. It runs beside the device if scheduling is asynchronous."""
        return 0


class FormulaTimer(StepTimer):
    """A function of the batch, for closed forms and tests."""

    def __init__(self, device_ns: Callable[[StepBatch], int]) -> None:
        self._formula = device_ns

    def device_ns(self, batch: StepBatch) -> int:
        return self._formula(batch)


def fixed_step(ns: int) -> FormulaTimer:
    """Every step takes so long."""
    return FormulaTimer(lambda batch: ns)


class MachineTimer(StepTimer):
    """Steps of a model on a machine. `capture_sizes`: tokens of steps that are captured in graphs, ascending: a step is
    padded to the next of them.
    """

    def __init__(self, step: MachineStep, capture_sizes: Sequence[int] = ()) -> None:
        self.step = step
        self._sizes = sorted(capture_sizes)

    def host_ns(self, batch: StepBatch) -> int:
        return self.step.host_ns(len(batch.chunks) + batch.decodes)

    def padding(self, tokens: int) -> int:
        """[token] that are added to a step of so many."""
        place = bisect_left(self._sizes, tokens)
        return self._sizes[place] - tokens if place < len(self._sizes) else 0

    def exact_ns(self, sequences: Sequence[Sequences]) -> float:
        """[ns] of a step, simulated. What pads it has no context."""
        pad = self.padding(sum(one.tokens * one.count for one in sequences))
        return self.step.device_ns([*sequences, Sequences(1, 0, pad)] if pad else sequences)


class ExactTimer(MachineTimer):
    """Every distinct batch is simulated."""

    def device_ns(self, batch: StepBatch) -> int:
        return round(self.exact_ns(batch.sequences()))


@dataclass(frozen=True, slots=True)
class TableError:
    """How far interpolated steps are from exact ones, in a sample of a run."""

    steps: int
    mean: float  #: of the relative error without its sign
    bias: float  #: of the relative error; more than 0: interpolated steps take longer
    worst: float


_PROMPT = 512  #: [token] of the longest prompt in an entry of the table
_SLOPE = (512, 2048)  #: tokens of a chunk and context, of which the slope over the context is taken


class TableTimer(MachineTimer):
    """Interpolates between steps that are simulated when they are first needed.

    An entry has so many tokens of prefill, as new prompts of at most 512 tokens, and so many decodes with the same context.
    Keys that prefills attend to beyond those of the entry are added, in proportion to their number. `sample`: so many steps
    of a run are kept, to be simulated for `error`.
    """

    def __init__(
        self, step: MachineStep, capture_sizes: Sequence[int] = (), *, store: TableStore | None = None, sample: int = 8
    ) -> None:
        super().__init__(step, capture_sizes)
        self.store = TableStore() if store is None else store
        self.filled = 0  #: entries that were simulated for this run
        self._axes = step.edges
        self._cells: dict[tuple[int, int, int], tuple[float, ...]] = {}
        self._slope_ns: float | None = None
        self._sample: list[tuple[list[Sequences], float]] = []
        self._most, self._seen, self._random = sample, 0, random.Random(0)

    def device_ns(self, batch: StepBatch) -> int:
        prefill = pairs = 0.0
        for _, tokens, before in batch.chunks:
            prefill += tokens
            pairs += tokens * (before + tokens / 2)
        decodes = batch.decodes
        if self._sizes:
            decodes += self.padding(int(prefill) + decodes)
        found = self._interpolated(prefill, decodes, batch.decode_context / decodes if decodes else 0.0, pairs)
        self._keep(batch, found)
        return round(found)

    def _interpolated(self, prefill: float, decodes: float, context: float, pairs: float) -> float:
        tokens_axis, decodes_axis, context_axis = self._axes
        i, a = _place(tokens_axis, prefill)
        j, b = _place(decodes_axis, decodes)
        k, c = _place(context_axis, context) if decodes else (0, 0.0)
        values = self._cells.get((i, j, k))
        if values is None:
            values = self._cells[i, j, k] = self._corners(i, j, k, bool(prefill), bool(decodes))
        v000, v001, v010, v011, v100, v101, v110, v111 = values
        low = (v000 * (1 - c) + v001 * c) * (1 - b) + (v010 * (1 - c) + v011 * c) * b
        high = (v100 * (1 - c) + v101 * c) * (1 - b) + (v110 * (1 - c) + v111 * c) * b
        found = low * (1 - a) + high * a
        if prefill:
            known = tokens_axis[i] * min(tokens_axis[i], _PROMPT) * (1 - a) / 2
            if a:
                known += tokens_axis[i + 1] * min(tokens_axis[i + 1], _PROMPT) * a / 2
            found += (pairs - known) * self._slope()
        return max(found, 1.0)

    def _corners(self, i: int, j: int, k: int, prefills: bool, decodes: bool) -> tuple[float, ...]:
        found = []
        for x in (i, i + 1):
            for y in (j, j + 1):
                for z in (k, k + 1):
                    tokens = self._axes[0][x] if prefills else 0
                    count = self._axes[1][y] if decodes else 0
                    found.append(self._entry(tokens, count, self._axes[2][z] if decodes else 0))
        return tuple(found)

    def _entry(self, tokens: int, decodes: int, context: int) -> float:
        whole, rest = divmod(tokens, _PROMPT)
        sequences = [Sequences(_PROMPT, 0, whole)] if whole else []
        sequences += [Sequences(rest)] if rest else []
        sequences += [Sequences(1, context, decodes)] if decodes else []
        return self._simulated(f"{tokens} {decodes} {context}", sequences)

    def _simulated(self, name: str, sequences: list[Sequences]) -> float:
        found = self.store.get(name)
        if found is None:
            found = self.step.device_ns(sequences)
            self.filled += 1
            self.store.put(name, found)
        return found

    def _slope(self) -> float:
        """[ns] of one more key that one more token of a prefill attends to."""
        if self._slope_ns is None:
            tokens, context = _SLOPE
            more = self._simulated(f"{tokens} after {context}", [Sequences(tokens, context)])
            self._slope_ns = (more - self._entry(tokens, 0, 0)) / (tokens * context)
        return self._slope_ns

    def _keep(self, batch: StepBatch, found: float) -> None:
        """Keep a step of the run with equal chances for each."""
        self._seen += 1
        if len(self._sample) < self._most:
            self._sample.append((batch.sequences(), found))
        elif self._most:
            place = self._random.randrange(self._seen)
            if place < self._most:
                self._sample[place] = batch.sequences(), found

    def error(self) -> TableError | None:
        """Simulate the steps that were kept; None if there are none."""
        errors = []
        for sequences, found in self._sample:
            exact = self.exact_ns(sequences)
            errors.append(found / exact - 1)
        if not errors:
            return None
        return TableError(
            len(errors), sum(map(abs, errors)) / len(errors), sum(errors) / len(errors), max(map(abs, errors))
        )


def _place(edges: Sequence[int], value: float) -> tuple[int, float]:
    """The edge at or below a value, and the share of the way to the next one. Past the ends the last interval is extended."""
    place = min(max(bisect_left(edges, value) - 1, 0), len(edges) - 2)
    return place, (value - edges[place]) / (edges[place + 1] - edges[place])
