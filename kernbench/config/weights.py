"""The largest sum of weights that flows can bring to a DRAM channel or a mesh link of a machine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernbench.config.schema import Dma, Noc, NpuConfig

_ROW, _COL = 0, 1
ONE_MEMBER = ("fifo_v1", "row_buffer_v1")  #: at most one member flow a DRAM channel


def dram_weight(config: NpuConfig) -> int:
    """The largest sum of weights on a DRAM channel, where a transfer has one flow."""
    if config.allocation in ONE_MEMBER:
        return max(channel.weight for channel in config.dma.channels)
    return config.dma.engines * engine_weight(config.dma, (0, 1, 2))


def link_weight(config: NpuConfig, noc: Noc) -> int:
    """The largest sum of weights on a mesh link, where a transfer has as many flows as DRAM channels route over it.

    Some allocations have one member flow per DRAM channel.
    """
    if config.allocation in ONE_MEMBER:
        top = max(channel.weight for channel in config.dma.channels)
        return _busiest_link(noc, top, top, one_flow_a_channel=True)
    loads, stores = engine_weight(config.dma, (0, 1)), engine_weight(config.dma, (0, 2))
    return _busiest_link(noc, loads, stores, one_flow_a_channel=False)


def engine_weight(dma: Dma, channels: tuple[int, ...]) -> int:
    """The largest sum of weights of one engine's transfers that are on these channels, one flow each."""
    room = dma.max_concurrent_transfers
    total = 0
    every = tuple(dma.channels)
    for channel in sorted((every[i] for i in channels), key=lambda c: -c.weight):
        taken = min(room, channel.max_concurrent, dma.queue_depth_per_master)
        total += taken * channel.weight
        room -= taken
    return total


class _Places:
    """Places sorted along one axis, all together and line by line: how many lie at or before a coordinate."""

    def __init__(self, places: Sequence[tuple[int, int]], axis: int, sign: int) -> None:
        self.all = sorted(sign * place[axis] for place in places)
        self.lines: dict[int, list[int]] = {}
        for place in sorted(places, key=lambda p: sign * p[axis]):
            self.lines.setdefault(place[1 - axis], []).append(sign * place[axis])

    def split(self, line: int | None, cut: int) -> tuple[int, int]:
        """(at or before the cut, after it) on one line, or on all of them."""
        coordinates = self.all if line is None else self.lines.get(line, [])
        before = bisect_right(coordinates, cut)
        return before, len(coordinates) - before


def _busiest_link(noc: Noc, load: int, store: int, one_flow_a_channel: bool) -> int:
    """The largest sum on a link where each pair of engine and channel has `load` one way and `store` the other.

    A route goes along the row of its source, then along the column of its target. So over the row's link from column
    x to x + 1 go the flows from sources in this row at or before x to targets after x in any row, and over a
    column's link those from sources before it in any column to targets in this column. `sign` -1 turns both around.
    """

    def flows(channels: int, engines: int) -> int:
        return channels * (min(engines, 1) if one_flow_a_channel else engines)

    busiest = 0
    for sign in (1, -1):
        for axis in (_ROW, _COL):
            dram, dma = _Places(noc.dram_at, axis, sign), _Places(noc.dma_at, axis, sign)
            for line in dram.lines.keys() | dma.lines.keys():
                source_line, target_line = (line, None) if axis == _COL else (None, line)
                for cut in set(dram.all) | set(dma.all):
                    loads = flows(dram.split(source_line, cut)[0], dma.split(target_line, cut)[1])
                    stores = flows(dram.split(target_line, cut)[1], dma.split(source_line, cut)[0])
                    busiest = max(busiest, loads * load + stores * store)
    return busiest
