"""How long a step takes: the work of the device, and that of the host beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from kernbench.workloads.serving.scheduler import StepBatch


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
