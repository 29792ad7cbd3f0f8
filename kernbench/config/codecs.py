"""Codecs of DMA engines: their keys, and the rules between them and the rest (docs/model/compressed.md)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from kernbench.common.units import plain_number
from kernbench.config.fields import WIDE_LIMIT, Natural, Rate
from kernbench.config.rules import BrokenRule
from kernbench.config.section import Field, Section

if TYPE_CHECKING:
    from kernbench.config.schema import NpuConfig

RULES = ("shared_bw_v1", "fifo_v1")  #: allocation rules under which rates keep their terms when a ratio multiplies them


class Codec(Section):
    """A compressor and decompressor between a DMA engine and its scratchpad."""

    ratio: Rate = Field(description="bytes in the scratchpad for one byte in DRAM, at least 1")
    bytes_per_cycle: Rate = Field(description="[byte/cycle] rate of the codec in bytes in the scratchpad, per engine")
    latency_cycles: Natural = Field(
        default=0, description="[cycle] latency added to the head latency of transfers through the codec"
    )

    @property
    def capacity(self) -> Fraction:
        """[byte/cycle] of compressed bytes."""
        return self.bytes_per_cycle / self.ratio


def codec_rules(config: NpuConfig) -> Iterator[BrokenRule]:
    """The rules of `dma.codecs` of one NPU."""
    for k, codec in enumerate(config.dma.codecs):
        yield from _ratio_rules(config, codec, ("dma", "codecs", k, "ratio"))
    if config.dma.codecs:
        yield from _machine_rules(config)


def _ratio_rules(config: NpuConfig, codec: Codec, at: tuple[str | int, ...]) -> Iterator[BrokenRule]:
    ratio, shown = codec.ratio, plain_number(codec.ratio)
    if ratio < 1:
        yield BrokenRule(at, shown, "it must be at least 1: bytes in the scratchpad for one byte in DRAM")
        return
    sizes = {"dma.alignment_bytes": config.dma.alignment_bytes, "dram.interleave_bytes": config.dram.interleave_bytes}
    for name, size in sizes.items():
        if (size * ratio).denominator != 1:
            yield BrokenRule(at, shown, f"times {name} ({size}) it must be a whole number of bytes")
    if config.dram.capacity_bytes * ratio.numerator * ratio.denominator >= WIDE_LIMIT:
        rule = f"times dram.capacity_bytes ({config.dram.capacity_bytes}) its terms must make less than 2^62"
        yield BrokenRule(at, shown, rule)


def _machine_rules(config: NpuConfig) -> Iterator[BrokenRule]:
    if config.allocation not in RULES:
        yield BrokenRule(("allocation",), config.allocation, f"it must be {' or '.join(RULES)} with dma.codecs")
    if config.llc is not None:
        yield BrokenRule(("llc",), None, "it is not allowed with dma.codecs: a cache has lines of one kind")
    if config.noc is not None and config.noc.model != "fluid":
        yield BrokenRule(("noc", "model"), config.noc.model, "it must be fluid with dma.codecs")

