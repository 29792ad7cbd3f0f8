"""Plans of attention: blocks of a sequence, a head and some query rows, each a chain over the keys.

A step with only decode splits keys over idle cores; a step with a prefill does not. Then each block of a head reads its keys
itself: heads that share keys share the reads only while they run at the same time, or if the cache holds the keys of all
sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kernbench.config.chip import Chip
from kernbench.config.runtime import AttentionCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Attention

MAX_RESIDENT = 2  #: blocks of FlashAttention on a core, at most: its 128 threads take all registers that a thread may have
AHEAD = (9, 10)  #: major versions of the instruction set whose kernels load tiles of keys ahead: FlashAttention 3 and its like
AHEAD_STAGES = 2  #: tiles of keys in a core's shared memory at a time, in those kernels
EXPONENTIALS = 16  #: of a core of an NVIDIA GPU in a cycle (CUDA programming guide, not read again: assumed)


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks that a kernel of attention is made of."""

    rows: int  #: query rows
    keys: int  #: keys of a tile
    resident: int  #: on a core at a time
    ahead: bool = False  #: whether tiles of keys are loaded ahead, so that a block waits for its work alone


def block_of(chip: Chip, op: Attention, cost: AttentionCost) -> Block:
    """The blocks of the software's kernel on a chip.

    Those of FlashAttention follow from its code (0251105a: csrc/flash_attn/src/flash_fwd_launch_template.h, and
    hopper/tile_size.h for FlashAttention 3), by the version of the instruction set, the width of a head, the mask, and whether
    the cache has pages. As many blocks share a core as its shared memory holds.
    """
    version, shared = chip.compute_capability, chip.core_shared_bytes
    if cost.kernel == "chip" or version is None or shared is None:
        return Block(chip.attention_rows, chip.attention_keys, chip.attention_resident)
    wide = op.head_dim
    ahead = int(version) in AHEAD
    if ahead:
        rows, keys = 128, 128
    elif cost.kernel == "paged":
        rows, keys = 64, 256 if wide <= 64 else 128 if wide <= 128 else 64
    elif wide <= 64:
        rows, keys = 128, 128
    elif int(version) == 8 and version > 8:
        rows, keys = (64, 64) if op.causal else (128, 32)
    else:
        rows, keys = 128, 64
    held = (rows + 2 * (AHEAD_STAGES if ahead else 1) * keys) * wide * op.element_bytes
    return Block(rows, keys, max(1, min(MAX_RESIDENT, int(Fraction(shared) // Fraction(held)))), ahead)


def plan_attention(view: ChipView, op: Attention, cost: AttentionCost) -> Kernel:
    """The kernel of a step's attention."""
    sequences = sum(group.count for group in op.groups)
    if op.decodes and cost.split and sequences >= cost.split_sequences:
        return _split(view, op, cost, sequences)
    return _whole(view, op, cost, sequences)


def _work(view: ChipView, op: Attention, block: Block) -> float:
    """Cycles of a core for a block's rows with one key: two products, and on an NVIDIA GPU the exponentials.

    A systolic array is used in whole rows.
    """
    chip = view.chip
    depth = ceil(op.head_dim / chip.array) * chip.array if chip.kind == "systolic" else op.head_dim
    exponentials = block.rows / EXPONENTIALS if chip.compute_capability is not None else 0.0
    return block.rows * 2 * depth / view.macs(16) + exponentials


def _block(view: ChipView, op: Attention, block: Block, keys: float, resident: int) -> float:
    """Cycles of a block over so many keys, where `resident` blocks share a core.

    Keys are read in whole tiles. For each, a block waits for the chain of its load, products and exponentials, or for the core.
    """
    chip = view.chip
    chain = 0.0 if block.ahead else float(chip.attention_key_cycles)
    pace = max(chain, resident * _work(view, op, block))
    return chip.attention_block_cycles + ceil(max(1.0, keys) / block.keys) * block.keys * pace


def _body(view: ChipView, op: Attention, block: Block, blocks: list[tuple[float, int]]) -> float:
    """When the last of some blocks, given by keys and number in the order of their start, ends."""
    cores = view.chip.cores
    resident = max(1, min(block.resident, -(-sum(count for _, count in blocks) // cores)))
    return makespan([(_block(view, op, block, keys, resident), count) for keys, count in blocks], cores * resident)


def _key_bytes(op: Attention) -> float:
    """The bytes of one key and value of all heads."""
    return 2 * op.kv_heads * op.head_dim * op.element_bytes


def _query_bytes(op: Attention, tokens: float) -> float:
    return tokens * op.heads * op.head_dim * op.element_bytes


def _ramp(view: ChipView, nbytes: float, rate: float) -> float:
    """Cycles that a stream of keys lasts longer than its bytes: few blocks at its start and end do not fill the queues."""
    most, stream = view.cycles(float(view.chip.attention_ramp_ns)), nbytes / rate
    return most * stream / (stream + most) if most else 0.0


def _split(view: ChipView, op: Attention, cost: AttentionCost, sequences: int) -> Kernel:
    cores, block = view.chip.cores, block_of(view.chip, op, cost)
    blocks = sequences * op.kv_heads
    longest = max(one.cached + one.new for one in op.groups)
    splits = min(
        cost.most_splits, max(1, cores * block.resident // blocks), ceil(longest / block.keys)
    )
    jobs = [((one.cached + one.new) / splits, one.count * op.kv_heads * splits) for one in op.groups]
    keys = sum(one.count * (one.cached + one.new) for one in op.groups) * _key_bytes(op)
    start = float(cost.start_ns) + (float(cost.split_ns) if splits > 1 else 0.0)
    body = _body(view, op, block, sorted(jobs, reverse=True))
    held = sequences <= cost.cached_sequences and keys <= float(view.chip.cache_bytes or 0)
    rate = view.stream_rate if held else view.memory_rate
    return Kernel(
        op.name, "te", max(body, keys / rate) if held else body, 0.0 if held else keys, _query_bytes(op, sequences),
        start=view.cycles(start), after=_ramp(view, keys, rate),
        notes={"splits": splits, "blocks": blocks * splits, "keys": "cache" if held else "DRAM"},
    )  # fmt: skip


def _whole(view: ChipView, op: Attention, cost: AttentionCost, sequences: int) -> Kernel:
    """Keys that are not cut. A block of a GPU has rows of one head, and its grid has as many blocks for each sequence.

    A block of another chip has the rows of all heads that share keys, which it reads once, and there are no empty blocks.
    """
    cores, block = view.chip.cores, block_of(view.chip, op, cost)
    rows = block.rows
    jobs: list[tuple[float, int]] = []
    reading = 0.0
    group = op.heads // op.kv_heads
    merged = 1 if view.chip.kind == "gpu" else group
    sweep = sum(one.count * (one.cached + one.new) for one in op.groups) * _key_bytes(op) / op.kv_heads
    most_parts = ceil(max(one.new for one in op.groups) * merged / rows)
    idle = 0
    for one in op.groups:
        parts = ceil(one.new * merged / rows)
        if merged == 1:
            idle += one.count * op.heads * (most_parts - parts)
        for part in range(parts):
            seen = min(one.new, (part + 1) * rows // merged) if op.causal else one.new
            jobs.append((one.cached + seen, one.count * op.heads // merged))
        together = max(1, min(group, cores // max(1, one.count * parts)))
        again = 1.0 if merged > 1 or sweep <= float(view.chip.cache_bytes or 0) else group / together
        reading += one.count * (one.cached + one.new) * _key_bytes(op) * again
    body = _body(view, op, block, sorted(jobs)) + idle * view.chip.attention_idle_cycles / cores
    tokens = sum(one.count * one.new for one in op.groups)
    return Kernel(
        op.name, "te", body, reading + _query_bytes(op, tokens), _query_bytes(op, tokens),
        start=view.cycles(float(cost.start_ns)), notes={"blocks": sum(count for _, count in jobs), "idle_blocks": idle},
    )  # fmt: skip


def makespan(jobs: Iterable[tuple[float, int]], cores: int) -> float:
    """When the last of some jobs ends: kinds of (cycles, count) in order, each job on the core that is free first."""
    levels: dict[float, int] = {0.0: cores}  # when cores are free: how many
    for cycles, count in jobs:
        left = count
        while left:
            if left >= 2 * cores and max(levels) - min(levels) <= cycles:  # whole rounds move every core alike
                rounds = left // cores - 1
                levels = {at + rounds * cycles: some for at, some in levels.items()}
                left -= rounds * cores
            first = min(levels)
            free = levels.pop(first)
            taken = min(free, left)
            if free > taken:
                levels[first] = free - taken
            levels[first + cycles] = levels.get(first + cycles, 0) + taken
            left -= taken
    return max(levels)
