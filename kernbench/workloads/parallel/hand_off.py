"""A hand-off between two stages: the rows of a micro-batch are copied from the DRAM of each shard to the DRAM of the
corresponding shard of the next stage.

The rows go through the scratchpads in tiles, by a load, a send over the links of the machine, and a store. The tiles use a ring
of buffers at the end of both scratchpads, which layers do not use, so a hand-off can run in parallel with the layers of both
stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.llm.shards import ShardLocation
from kernbench.workloads.scratchpad import Buffer, Ring

TILE_BYTES = 16 << 10  #: assumed: the size of a slot of the queues between PEs
TILES = 4  #: buffers of each of the two rings: the number of slots of those queues
STAGING_BYTES = 2 * TILES * TILE_BYTES


def emit_hand_off(
    senders: Sequence[Emitter], receivers: Sequence[Emitter], config: NpuConfig, elements: Sequence[int], bits: int,
    source: int, target: int, meta: dict[str, Any],
) -> None:  # fmt: skip
    """Copies the elements of each sender from its DRAM address `source` to the address `target` of its receiver.

    `config`: the machine with its whole scratchpad.
    """
    end, line = config.spm.size_bytes // config.spm.bank_width_bytes * config.spm.bank_width_bytes, config.spm.bank_width_bytes
    out = Ring(Buffer("out", end - STAGING_BYTES, STAGING_BYTES // 2, 0, 0), line)
    come = Ring(Buffer("in", end - STAGING_BYTES // 2, STAGING_BYTES // 2, 0, 0), line)
    count = TILE_BYTES * 8 // bits
    for first in range(0, max(elements), count):
        at = bytes_of(first, bits)
        mine, its = out.take(TILE_BYTES), come.take(TILE_BYTES)
        for sender, receiver, many in zip(senders, receivers, elements, strict=True):
            some = min(count, many - first)
            if some <= 0:
                continue
            nbytes = bytes_of(some, bits)
            sender.load("activation", bits, Span(source + at, 1, some, nbytes), mine, **meta)
            sender.send(receiver, mine, its, some, bits, **meta)
            receiver.store("activation", bits, Span(target + at, 1, some, nbytes), its, **meta)


def hand_off_program(
    config: NpuConfig, senders: Sequence[ShardLocation], receivers: Sequence[ShardLocation], elements: Sequence[int], bits: int,
    common: dict[str, Any],
) -> Program:  # fmt: skip
    """A program that consists of a hand-off. `elements`: the number of elements of each sender."""
    program = Program(f"hand-off of {max(elements)} elements from {senders[0].node} to {receivers[0].node}")
    ways = [[Emitter("", config, common, program, one.node, one.dram_base) for one in some] for some in (senders, receivers)]
    emit_hand_off(ways[0], ways[1], config, elements, bits, 0, 0, {"phase": "HAND_OFF"})
    program.end(**common)
    return program
