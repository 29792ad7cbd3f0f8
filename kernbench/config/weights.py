"""The largest sum of weights that flows can bring to a DRAM channel or a mesh link of a machine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernbench.config.schema import Dma, Noc, NpuConfig


def dram_weight(config: NpuConfig) -> int:
    """The largest sum of weights on a DRAM channel, where a transfer has one flow."""
    if config.allocation == "fifo_v1":
        return max(channel.weight for channel in config.dma.channels)
    return config.dma.engines * _engine_weight(config.dma, (0, 1, 2))


def link_weight(config: NpuConfig, noc: Noc) -> int:
    """A sum of weights that no mesh link exceeds. A transfer has as many flows there as channels route over it.

    Routes go along the row of their source, then along the column of their target. So a row's links carry loads of
    the channels in that row and stores of the engines in it, a column's links loads of its engines and stores of its
    channels. Which of a row's or column's links it is, and its direction, is not looked at.
    """
    dma, engines, channels = config.dma, len(noc.dma_at), len(noc.dram_at)
    if config.allocation == "fifo_v1":
        return channels * max(channel.weight for channel in dma.channels)
    loads, stores = _engine_weight(dma, (0, 1)), _engine_weight(dma, (0, 2))
    busiest = 0
    for axis, from_dram, from_dma in ((0, loads, stores), (1, stores, loads)):
        dma_in = Counter(place[axis] for place in noc.dma_at)
        dram_in = Counter(place[axis] for place in noc.dram_at)
        for line in dma_in.keys() | dram_in.keys():
            busiest = max(busiest, dram_in[line] * engines * from_dram + dma_in[line] * channels * from_dma)
    return busiest


def _engine_weight(dma: Dma, channels: tuple[int, ...]) -> int:
    """The largest sum of weights of one engine's transfers that are on these channels, one flow each."""
    room = dma.max_concurrent_transfers
    total = 0
    every = tuple(dma.channels)
    for channel in sorted((every[i] for i in channels), key=lambda c: -c.weight):
        taken = min(room, channel.max_concurrent, dma.queue_depth_per_master)
        total += taken * channel.weight
        room -= taken
    return total
