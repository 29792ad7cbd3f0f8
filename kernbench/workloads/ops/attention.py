"""Plans of attention: blocks of a sequence, a head and some query rows, each a chain over the keys.

A step with only decode splits keys over idle cores; a step with a prefill does not. Then each block of a head reads its keys
itself: heads that share keys share the reads only while they run at the same time, or if the cache holds the keys of all
sequences.

A GPU starts blocks in the order of the grid, each on the core that is free first: head by head, and for each head sequence by
sequence. The longest blocks of a prompt therefore do not all start first, and cores wait for the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heapreplace
from itertools import chain, repeat
from math import ceil

from kernbench.config.chip import Chip
from kernbench.config.runtime import AttentionCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Attention

MAX_RESIDENT = 2  #: blocks of FlashAttention on a core, at most: its 128 threads take all registers that a thread may have
AHEAD = (9, 10)  #: major versions of the instruction set whose kernels load tiles of keys ahead: FlashAttention 3 and its like
AHEAD_STAGES = 2  #: tiles of keys in a core's shared memory at a time, in those kernels
#: Kernels that copy queries and results into another order, before and after the attention of a decode step whose heads share
#: keys. A single sequence needs no copy (mha_varlen_fwd in FlashAttention 2, csrc/flash_attn/flash_api.cpp, 0251105a).
COPIES = 2
RAMPS = 2  #: waves of blocks in a decode step that do not fill the queues at their start and end; later waves overlap: assumed
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
    the cache has pages. A core runs as many blocks as its shared memory holds.
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


def _resident(view: ChipView, block: Block, blocks: int) -> int:
    """Blocks that share a core, if there are so many in all."""
    return max(1, min(block.resident, ceil(blocks / view.chip.cores)))


def _key_bytes(op: Attention) -> float:
    """The bytes of one key and value of all heads."""
    return 2 * op.kv_heads * op.head_dim * op.element_bytes


def _query_bytes(op: Attention, tokens: float) -> float:
    return tokens * op.heads * op.head_dim * op.element_bytes


def _ramp(view: ChipView, nbytes: float, rate: float, waves: int) -> float:
    """Cycles that a stream of keys lasts longer than its bytes: few blocks at the ends of a wave do not fill the queues."""
    most, stream = min(waves, RAMPS) * view.cycles(float(view.chip.attention_ramp_ns)), nbytes / rate
    return most * stream / (stream + most) if most else 0.0


def _paged_splits(blocks: int, slots: int, tiles: int) -> int:
    """Parts into which FlashAttention 2 cuts the keys of a decode step (num_splits_heuristic in flash_api.cpp, 0251105a).

    The smallest number of parts for which the waves of blocks are nearly as full as possible, with two blocks on each core. A
    number of parts counts only if each part has fewer tiles than with one part less.
    """
    if blocks >= 0.8 * slots:
        return 1
    filled: dict[int, float] = {}
    for parts in range(1, min(128, slots, tiles) + 1):
        if parts == 1 or ceil(tiles / parts) != ceil(tiles / (parts - 1)):
            waves = blocks * parts / slots
            filled[parts] = waves / ceil(waves)
    best = max(filled.values())
    return next(parts for parts, share in filled.items() if share >= 0.85 * best)


def _split(view: ChipView, op: Attention, cost: AttentionCost, sequences: int) -> Kernel:
    cores, block = view.chip.cores, block_of(view.chip, op, cost)
    blocks = sequences * op.kv_heads
    longest = max(one.cached + one.new for one in op.groups)
    tiles = ceil(longest / block.keys)
    if view.chip.compute_capability is not None and cost.kernel == "paged" and not block.ahead:
        splits = min(cost.most_splits, _paged_splits(blocks, MAX_RESIDENT * cores, tiles))
    else:
        splits = min(cost.most_splits, max(1, cores * block.resident // blocks), tiles)
    resident = _resident(view, block, blocks * splits)
    jobs = [
        (_block(view, op, block, (one.cached + one.new) / splits, resident), one.count * op.kv_heads * splits)
        for one in op.groups
    ]
    keys = sum(one.count * (one.cached + one.new) for one in op.groups) * _key_bytes(op)
    start = float(cost.start_ns) + (float(cost.split_ns) if splits > 1 else 0.0)
    if cost.kernel == "paged" and not block.ahead and sequences > 1 and op.heads > op.kv_heads:
        start += COPIES * float(view.chip.graph_start_ns)
    body = makespan(sorted(jobs, reverse=True), cores * resident)
    held = sequences <= cost.cached_sequences and keys <= float(view.chip.cache_bytes or 0)
    rate = view.stream_rate if held else view.memory_rate
    waves = 1 if splits > 1 or block.ahead else ceil(blocks / (cores * resident))
    return Kernel(
        op.name, "te", max(body, keys / rate) if held else body, 0.0 if held else keys, _query_bytes(op, sequences),
        start=view.cycles(start), after=_ramp(view, keys, rate, waves),
        notes={"splits": splits, "blocks": blocks * splits, "keys": "cache" if held else "DRAM"},
    )  # fmt: skip


def _whole(view: ChipView, op: Attention, cost: AttentionCost, sequences: int) -> Kernel:
    """Keys that are not cut. A block of a GPU has rows of one head, and its grid has as many blocks for each sequence.

    A block of another chip has the rows of all heads that share keys, which it reads once, and there are no empty blocks.
    """
    cores, block = view.chip.cores, block_of(view.chip, op, cost)
    rows = block.rows
    reading = 0.0
    group = op.heads // op.kv_heads
    merged = 1 if view.chip.kind == "gpu" else group
    heads = op.heads // merged
    sweep = sum(one.count * (one.cached + one.new) for one in op.groups) * _key_bytes(op) / op.kv_heads
    parts = [ceil(one.new * merged / rows) for one in op.groups]
    blocks = heads * sum(one.count * some for one, some in zip(op.groups, parts, strict=True))
    resident = _resident(view, block, blocks)
    grid = merged == 1 and not block.ahead
    jobs: list[tuple[float, int]] = []  # of one head
    idle = 0
    for one, some in zip(op.groups, parts, strict=True):
        for part in range(some):
            seen = min(one.new, (part + 1) * rows // merged) if op.causal else one.new
            jobs.append((_block(view, op, block, one.cached + seen, resident), one.count))
        if grid and some < max(parts):
            empty = one.count * (max(parts) - some)
            jobs.append((float(view.chip.attention_idle_cycles), empty))
            idle += heads * empty
        together = max(1, min(group, cores // max(1, one.count * some)))
        again = 1.0 if merged > 1 or sweep <= float(view.chip.cache_bytes or 0) else group / together
        reading += one.count * (one.cached + one.new) * _key_bytes(op) * again
    if grid:
        body = makespan(chain.from_iterable(repeat(jobs, heads)), cores * resident)
    else:
        body = makespan(sorted(((cycles, count * heads) for cycles, count in jobs), reverse=block.ahead), cores * resident)
    tokens = sum(one.count * one.new for one in op.groups)
    return Kernel(
        op.name, "te", body, reading + _query_bytes(op, tokens), _query_bytes(op, tokens),
        start=view.cycles(float(cost.start_ns)), notes={"blocks": blocks, "idle_blocks": idle},
    )  # fmt: skip


def makespan(jobs: Iterable[tuple[float, int]], cores: int) -> float:
    """When the last of some jobs ends: kinds of (cycles, count) in order, each job on the core that is free first."""
    free = [0.0] * cores  # heap of when each core is free
    for cycles, count in jobs:
        if count > 2 * cores and cycles:
            count -= _fill(free, cycles, count)
        for _ in repeat(None, count):
            heapreplace(free, free[0] + cycles)
    return max(free)


def _fill(free: list[float], cycles: float, count: int) -> int:
    """Give cores at once most of many equal jobs: all that start before a time by which fewer than `count` have started.

    Returns their number.
    """
    free.sort()
    rest = (count - len(free)) * cycles  # core cycles to give out, so that no core is given too much
    below = level = 0.0
    for many, at in enumerate(free, 1):  # the time up to which the first cores can take them
        below += at
        level = (rest + below) / many
        if many == len(free) or level <= free[many]:
            break
    given = 0
    for index, at in enumerate(free):
        if at >= level:
            break
        some = ceil((level - at) / cycles)
        free[index] = at + some * cycles
        given += some
    heapify(free)
    return given
