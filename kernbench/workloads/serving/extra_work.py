"""The work of a step in addition to the model's own pass: drafts of speculative decoding, LoRA adapters, swaps over the host
link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.llm.model import Model
from kernbench.workloads.serving.scheduler import StepBatch

if TYPE_CHECKING:
    from kernbench.workloads.serving.step_time import MachineTimer

_ADAPTER_BYTES = 2  #: [B] of a weight of an adapter: adapters are not quantised


class ExtraWork(ABC):
    """Work of the device that lengthens a step."""

    @abstractmethod
    def ns(self, batch: StepBatch) -> float:
        """[ns] The time that it adds to a step, after the model's own pass."""

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        """[pJ] Its energy by part of the machine."""
        return {}

    def save(self) -> None:  # noqa: B027  # most keep nothing
        """Store simulated results, if there is a store."""


class DraftModel(ExtraWork):
    """Proposes a number of tokens: one pass over the tokens of the step, and then one pass for each further token of its
    requests."""

    def __init__(self, timer: MachineTimer, tokens: int) -> None:
        self.timer = timer
        self.tokens = tokens

    def save(self) -> None:
        self.timer.save()

    def ns(self, batch: StepBatch) -> float:
        found = self.timer.model_ns(batch)
        if self.tokens > 1:
            found += (self.tokens - 1) * self.timer.decode_ns(*_after(batch))
        return found

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        found = self.timer.model_pj(batch)
        if self.tokens > 1:
            for name, pj in self.timer.decode_pj(*_after(batch)).items():
                found[name] = found.get(name, 0.0) + (self.tokens - 1) * pj
        return found


def _after(batch: StepBatch) -> tuple[int, float]:
    """The requests of a step, and their mean number of tokens after it."""
    requests = len(batch.chunks) + batch.decodes
    context = batch.decode_context + batch.decodes + batch.drafts
    context += sum(before + tokens for _, tokens, before in batch.chunks)
    return requests, context / requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """The adapters of requests: `adapters` adapters of rank `rank`, at most `max_loras` in a step and in memory."""

    adapters: int
    rank: int
    max_loras: int = 1

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise InputError(Problem("lora", "it must be an integer of at least 1", name, getattr(self, name)))

    def adapter_bytes(self, model: Model, shards: int, layers: int | None = None) -> int:
        """[byte] The size of one adapter on each device: two matrices of this rank for each matrix of a layer. `layers`: the
        number of layers on the device; the default is all.

        As in vLLM without `fully_sharded_loras`, every device has a part of one of the two matrices and the whole of the other;
        the part is assumed to be half of both.
        """
        if not model.planned or model.shape.experts:
            rule = "adapters are for dense decoders, and this model has other parts"
            raise InputError(Problem(f"model {model.name}", rule, "--lora"))
        sides = sum(matrix.rows + matrix.cols for matrix in model.shape.matrices)
        whole = _ADAPTER_BYTES * self.rank * sides * (layers or model.layers)
        return -(-whole * (shards + 1) // (2 * shards))


class Adapters(ExtraWork):
    """Each adapter of a step is read from memory once. An adapter that is not in memory first comes over the host link."""

    def __init__(
        self, lora: Lora, adapter_bytes: int, *, memory_bytes_per_ns: float, host_bytes_per_ns: float | None,
        dram_pj_per_byte: float = 0.0,
    ) -> None:  # fmt: skip
        if host_bytes_per_ns is None and lora.adapters > lora.max_loras:
            rule = f"adapters change places in the memory ({lora.max_loras} for {lora.adapters}), and nothing says how fast"
            raise InputError(Problem("lora", rule, remedy="give --host-link-gb-s, or a larger --max-loras"))
        self._pj = adapter_bytes * dram_pj_per_byte
        self._read_ns = adapter_bytes / memory_bytes_per_ns
        self._load_ns = 0.0 if host_bytes_per_ns is None else adapter_bytes / host_bytes_per_ns

    def ns(self, batch: StepBatch) -> float:
        return len(batch.adapters) * self._read_ns + batch.adapter_loads * self._load_ns

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        return {"dram": (len(batch.adapters) + batch.adapter_loads) * self._pj}


class Swaps(ExtraWork):
    """Blocks that are moved to the host or back before the step; the two directions one after the other."""

    def __init__(self, block_bytes: int, host_bytes_per_ns: float, dram_pj_per_byte: float = 0.0) -> None:
        self._pj = block_bytes * dram_pj_per_byte
        self._block_ns = block_bytes / host_bytes_per_ns

    def ns(self, batch: StepBatch) -> float:
        return batch.swapped_blocks * self._block_ns

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        return {"dram": batch.swapped_blocks * self._pj}
