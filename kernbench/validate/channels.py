"""An all-reduce as GPU libraries run it: several rings at the same time, each with its own queues and its own part of the
elements.

The module is an algorithm by the contract of `kernbench.ccl` (docs/reference/ccl.md), built from the lanes of that package. A
few elements use one ring, and more elements use more rings. Each ring has only a few messages in flight at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbench.ccl.algorithm import kernel_of
from kernbench.ccl.contract import Range, Shape, Table, cut, kernel_args
from kernbench.ccl.pipeline import Slice, in_turn, run
from kernbench.ccl.reference_sums import ring_sums
from kernbench.ccl.ring_schedule import End, Memory, gathered, reduced
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring, flat_ring, table_of
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_channels",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]

CHANNELS = 96  #: the most rings; each ring has one queue to the next rank and one to the previous rank
LEAST_BYTES = 24 * 2**10  #: one more ring is used if each ring then still sends this many bytes in each step
LANES = 4  #: messages of a ring in flight at a time
SLOTS = LANES + 2  #: slots of a queue: `lanes.gathered` needs one more than the number of lanes
SLOT_BYTES = 96 * 2**10  #: the longest message


@kernel_of
def all_reduce_channels(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    parts = _parts(n_elem, memory.itemsize, shape.ranks)
    run(memory.tl, *(_channel(memory, ring, part) for ring, part in zip(_rings(kind, shape), parts, strict=False)))


kernel = all_reduce_channels


def neighbours(kind: int, shape: Shape) -> Table:
    """Links along the ring in both directions, with one plane for each channel."""
    return table_of(_rings(kind, shape))


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """In each part, the sum of a chunk starts at the rank after the chunk's owner and follows the ring."""
    ring, values = flat_ring(kind, shape), list(inputs)
    count = inputs[0].size
    sums = [
        total
        for part in _parts(count, inputs[0].dtype.itemsize, ring.size)
        for total in ring_sums([values[one] for one in ring.members], ring, cut(part, ring.size))
    ]
    return [np.concatenate(sums)] * ring.size


def _rings(kind: int, shape: Shape) -> list[Ring]:
    ring = flat_ring(kind, shape)
    return [Ring(ring.members, plane, ring.out) for plane in range(CHANNELS)]


def _parts(count: int, itemsize: int, ranks: int) -> list[Range]:
    """The elements of each channel; some channels are unused if there are few elements."""
    return cut((0, count), max(1, min(CHANNELS, count * itemsize // ranks // LEAST_BYTES)))


def _channel(memory: Memory, ring: Ring, part: Range) -> Slice:
    """The all-reduce of one part on one ring, message by message of every chunk."""
    chunks = cut(part, ring.size)
    pieces = max(1, -(-chunks[0][1] * memory.itemsize // memory.tl.slot_bytes))
    cuts = [cut(chunk, pieces) for chunk in chunks]
    return in_turn([_lane(memory, ring, [chunk[number] for chunk in cuts]) for number in range(pieces)], LANES)


def _lane(memory: Memory, ring: Ring, ranges: Sequence[Range]) -> Slice:
    """Send one piece of every chunk around the ring twice: first to add, then to pass on the sums."""
    end = End(memory.tl, ring, memory.dtype)
    counts = [count for _, count in ranges]
    kept: list[Any] = []
    yield from reduced(end, counts, lambda chunk: memory.load(*ranges[chunk]), kept)
    own = kept.pop() if kept else None
    if own is not None:
        yield own
        memory.put(ranges[end.at][0], own)
    yield from gathered(end, counts, own, lambda chunk, tile: memory.put(ranges[chunk][0], tile))
