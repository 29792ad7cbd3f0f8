"""A machine as planners of operations read it: rates in cycles of its clock."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, chip_names
from kernbench.config.chip import Chip
from kernbench.config.runtime import OpCost


@dataclass(frozen=True, slots=True)
class ChipView:
    """Rates of a machine with a `chip` section."""

    chip: Chip
    freq: float  #: [GHz], cycles a nanosecond
    memory_rate: float  #: [byte/cycle] that DRAM sustains
    product_share: float  #: sustained product rate over the rated one
    lanes: float  #: [op/cycle] of all vector lanes
    latency: float  #: [cycle] of the first byte of a transfer

    @classmethod
    def of(cls, machine: NpuConfig) -> ChipView:
        """InputError if the machine is not a chip."""
        chip = machine.chip
        if chip is None:
            rule = "the machine has no chip section, which plans of single operations need"
            raise InputError(Problem(machine.source, rule, "chip", remedy=f"use one of {', '.join(chip_names())}"))
        rated = chip.cores * float(chip.macs(8))
        ve = machine.ve.engines * float(machine.ve.rate(32))
        return cls(
            chip,
            float(machine.freq_ghz),
            float(machine.dram.capacity) * machine.dram.channels,
            machine.te.engines * float(machine.te.rate(8, 8)) / rated,
            ve,
            float(machine.dram.t_setup_cycles),
        )

    def cycles(self, ns: float) -> float:
        """Nanoseconds as cycles."""
        return float(ns) * self.freq

    def macs(self, bits: int) -> float:
        """[MAC/cycle] that one core sustains."""
        return float(self.chip.macs(bits)) * self.product_share

    def chain(self, cost: OpCost) -> float | None:
        """The dependent loads of an operation. A profile counts those of kernels of a GPU; other chips have the default."""
        return float(cost.chain) if cost.chain is not None and self.chip.kind == "gpu" else None

    @property
    def cache_rate(self) -> float:
        """[B/cycle] The rate of all cores together from the last-level cache, or from DRAM without a cache."""
        return float(self.chip.cache_bytes_per_cycle) if self.chip.cache_bytes else self.memory_rate

    @property
    def stream_rate(self) -> float:
        """[B/cycle] The rate of vector kernels at that cache, or at DRAM without a cache."""
        return float(self.chip.stream_bytes_per_cycle) if self.chip.cache_bytes else self.memory_rate

    @property
    def kept_bytes(self) -> float:
        """Bytes of a long stream that the cache still holds when it comes round again."""
        return float(self.chip.cache_kept) * (self.chip.cache_bytes or 0)
