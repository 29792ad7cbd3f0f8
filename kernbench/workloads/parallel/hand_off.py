"""A hand-off between two stages: the rows of a micro-batch go from the DRAM of each shard to that of its peer.

The rows go in tiles through the scratchpads: load, send over the links of the machine, store. Tiles have a ring of places at
the end of both scratchpads, which layers do not use, so a hand-off can run beside the layers of both stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.llm.shards import Place
from kernbench.workloads.scratchpad import Buffer, Ring

TILE_BYTES = 16 << 10  #: assumed: a slot of the queues between PEs
TILES = 4  #: of each of both rings: as many as those queues have slots
STAGING_BYTES = 2 * TILES * TILE_BYTES


def emit_hand_off(
    senders: Sequence[Emitter], receivers: Sequence[Emitter], config: NpuConfig, elements: Sequence[int], bits: int,
    source: int, target: int, meta: dict[str, Any],
) -> None:  # fmt: skip
    """The elements of each sender, from its DRAM address `source` to `target` of its receiver.

    `config`: with its whole scratchpad.
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
    config: NpuConfig, senders: Sequence[Place], receivers: Sequence[Place], elements: Sequence[int], bits: int,
    common: dict[str, Any],
) -> Program:  # fmt: skip
    """A hand-off alone. `elements`: of each sender."""
    program = Program(f"hand-off of {max(elements)} elements from {senders[0].node} to {receivers[0].node}")
    ways = [[Emitter("", config, common, program, one.node, one.dram_base) for one in some] for some in (senders, receivers)]
    emit_hand_off(ways[0], ways[1], config, elements, bits, 0, 0, {"phase": "HAND_OFF"})
    program.end(**common)
    return program
