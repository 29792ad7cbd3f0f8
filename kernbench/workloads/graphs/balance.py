"""Gives jobs to tensor and vector engines: each job, when it is ready, to the engine that is free first.

Jobs are emitted node by node, and an engine takes its jobs in the order in which they are ready. If engines got equal work in
the order of emission, a job could wait behind others while another engine is idle. Times are estimates: no job waits for a
bank of the scratchpad, and transfers share the DRAM evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import msgspec

from kernbench.cmdq.entries import DmaEntry, Entry, TeEntry, VeEntry
from kernbench.cmdq.footprint import service_cycles, transfer_of
from kernbench.config.schema import NpuConfig


def balanced(emitted: Sequence[Entry], config: NpuConfig) -> list[Entry]:
    """The entries with other engines for products and vector operations."""
    entries = list(emitted)
    numbers = {entry.id: number for number, entry in enumerate(entries)}
    waits = [len(entry.deps_before) for entry in entries]
    readers: list[list[int]] = [[] for _ in entries]
    for number, entry in enumerate(entries):
        for before in entry.deps_before:
            readers[numbers[before]].append(number)
    free = {"te": [0] * config.te.engines, "ve": [0] * config.ve.engines, "dma": [0] * config.dma.engines}
    rate = config.dram.capacity * config.dram.channels / config.dma.engines
    ready_at = [0] * len(entries)
    ready = [(0, number) for number, count in enumerate(waits) if not count]
    heapify(ready)
    while ready:
        now, number = heappop(ready)
        entry, end = entries[number], now
        if isinstance(entry, TeEntry | VeEntry):
            kind = entry.engine
            chosen = free[kind].index(min(free[kind]))
            end = free[kind][chosen] = max(now, free[kind][chosen]) + service_cycles(entry, config).total
            entries[number] = msgspec.structs.replace(entry, **{f"{kind}_id": chosen})
        elif isinstance(entry, DmaEntry):
            moved = int(transfer_of(entry, config).bytes_aligned / rate)
            free["dma"][entry.dma_id] = max(now, free["dma"][entry.dma_id]) + moved
            end = free["dma"][entry.dma_id] + config.dram.t_setup_cycles
        for reader in readers[number]:
            waits[reader] -= 1
            ready_at[reader] = max(ready_at[reader], end)
            if not waits[reader]:
                heappush(ready, (ready_at[reader], reader))
    return entries
