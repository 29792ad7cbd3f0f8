"""Plans of attention: blocks of a sequence, a head and some query rows, each a chain over the keys.

A step with only decode splits keys over idle cores; a step with a prefill does not. Then each block of a head reads its keys
itself: heads that share keys share the reads only while they run at the same time, or if the cache holds the keys of all
sequences.

A GPU starts blocks in the order of the grid, each on the core that is free first: head by head, and for each head sequence by
sequence. The longest blocks of a prompt therefore do not all start first, and cores wait for the last of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, pairwise, repeat
from math import ceil

from kernbench.config.chip import Chip
from kernbench.config.runtime import AttentionCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Attention
from kernbench.workloads.ops.schedule import makespan

MAX_RESIDENT = 2  #: blocks of FlashAttention on a core, at most: its 128 threads take all registers that a thread may have
AHEAD = (9, 10)  #: major versions of the instruction set whose kernels load tiles of keys ahead: FlashAttention 3 and its like
#: Of the cores, the share that blocks must occupy so that FlashAttention does not cut keys; the tiles of keys of which
#: FlashAttention 3 cuts none; and what it allows a core beyond its share of the tiles.
NEARLY_FULL, FEW_TILES, BALANCE = 0.8, 4, 1.1
AHEAD_STAGES = 2  #: tiles of keys in a core's shared memory at a time, in those kernels
#: Kernels that copy queries and results into another order, before and after the attention of a decode step whose heads share
#: keys. A single sequence needs no copy (mha_varlen_fwd in FlashAttention 2, csrc/flash_attn/flash_api.cpp, 0251105a). Results
#: of cut keys need none either: without a second copy, these steps take as long as on an RTX 4090 (LLMServingSim 5daddb21).
COPIES = 2
COPY_STARTS = 2  #: starts of a kernel that a copy of few queries takes, as other short kernels of the same source
#: Of the last-level cache, the part that DRAM fills until half of the keys that a block has read have left it. All of them are
#: there until half of that time, and none after 1.5 of it. Fitted on steps of 16 to 64 sequences with 4,096 to 16,384 keys
#: beside a prompt, on an RTX 4090 (LLMServingSim 5daddb21).
HELD = 0.6
PARTITION = 256  #: keys of a part on an AMD GPU (_PARTITION_SIZE_ROCM in vLLM, not read again: assumed)
MMA_ROWS = 16  #: of a product of an NVIDIA GPU's matrix units (CUDA programming guide, not read again: assumed)
RAMPS = 2  #: waves of blocks in a decode step that do not fill the queues at their start and end; later waves overlap: assumed
#: Of a core of a GPU in a cycle. NVIDIA GPUs: CUDA programming guide (not read again: assumed). AMD GPUs: a quarter of their 64
#: lanes (assumed).
EXPONENTIALS = 16
#: Cycles of the softmax of a score over those of its exponential: the maximum, the scale, the sum and the conversion. Fitted on
#: blocks of 64 rows on an RTX 4090, and of 128 rows on an A6000, one or two of them on a core (LLMServingSim 5daddb21).
SOFTMAX = 1.75
WIDTHS = (32, 64, 96, 128, 192, 256)  #: head sizes for which FlashAttention has kernels; other heads are padded (same code)
#: Shared memory of a core with which FlashAttention 2 gives a block 128 rows of heads of 256 elements (same code).
WIDE_ROWS, WIDE_PAIR = 128 << 10, 192 << 10
KEY_BYTES = 512  #: of the key and the value to which `chip.attention_key_cycles` refers: heads of 128 elements of 16 bits


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
    wide = padded_width(op.head_dim)
    ahead = int(version) in AHEAD
    middle = int(version) == 8 and version > 8  # GPUs of compute capability 8.x with less shared memory than an A100
    if ahead:
        rows, keys = 128, 128
    elif cost.kernel == "paged":
        rows, keys = 64, 256 if wide <= 64 else 128 if wide <= 128 else 64
    elif wide <= 64:
        rows, keys = 128, 128
    elif middle and wide <= 128:
        rows, keys = (64, 64) if op.causal else (128, 64 if wide <= 96 else 32)
    else:
        rows, keys = 128 if wide <= 192 or WIDE_ROWS <= shared < WIDE_PAIR else 64, 64
    held = (rows + 2 * (AHEAD_STAGES if ahead else 1) * keys) * wide * op.element_bytes
    return Block(rows, keys, max(1, min(MAX_RESIDENT, int(Fraction(shared) // Fraction(held)))), ahead)


def plan_attention(view: ChipView, op: Attention, cost: AttentionCost) -> Kernel:
    """The kernel of a step's attention."""
    sequences = sum(group.count for group in op.groups)
    if op.decodes and cost.split and sequences >= cost.split_sequences:
        return _split(view, op, cost, sequences)
    return _whole(view, op, cost, sequences)


def padded_width(width: int) -> int:
    """The width of the kernel that computes heads of a width; wider heads than those of any kernel are not padded."""
    return next((one for one in WIDTHS if one >= width), width)


def _work(view: ChipView, op: Attention, block: Block) -> float:
    """Cycles of a core for a block's rows with one key: two products, and on a GPU the softmax.

    A systolic array is used in whole rows. Kernels that load keys ahead compute products beside the softmax, so that only the
    exponentials count.
    """
    chip = view.chip
    if chip.kind != "gpu":
        depth = ceil(op.head_dim / chip.array) * chip.array if chip.kind == "systolic" else op.head_dim
        return block.rows * 2 * depth / view.macs(16)
    depth, exponentials = padded_width(op.head_dim), block.rows / EXPONENTIALS
    if block.ahead:
        return block.rows * 2 * depth / view.macs(16) + exponentials
    products = block.rows * 2 * depth / float(chip.macs(16))
    work = products + SOFTMAX * exponentials
    clock: float = min(1.0, float(chip.power_share) * (products / work) ** (-1 / 3))
    return work / clock


@dataclass(frozen=True, slots=True)
class Pace:
    """Cycles of a block for a key."""

    shared: float  #: if the core has as many blocks as it holds
    alone: float  #: if the block has the core to itself


def _pace(view: ChipView, op: Attention, block: Block, resident: int) -> Pace:
    """How fast blocks are of which `resident` share a core.

    A block of FlashAttention 2 loads a tile of keys, multiplies, and computes the softmax, one after the other. Other kernels
    load keys while they compute.
    """
    chip, work = view.chip, _work(view, op, block)
    alone, waiting = work, float(chip.attention_key_cycles)
    if chip.kind != "gpu":
        alone = max(work, waiting)
    elif not block.ahead:
        alone = work + waiting * 2 * op.head_dim * op.element_bytes / KEY_BYTES
    return Pace(max(alone, resident * work), alone)


def _block(view: ChipView, block: Block, keys: float, pace: Pace) -> float:
    """Cycles of a block over so many keys. Keys are read in whole tiles."""
    return view.chip.attention_block_cycles + ceil(max(1.0, keys) / block.keys) * block.keys * pace.shared


def _resident(view: ChipView, block: Block, blocks: int) -> int:
    """The number of blocks that share a core, at most the number of all blocks."""
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
    if blocks >= NEARLY_FULL * slots:
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
    amd = view.chip.kind == "gpu" and view.chip.compute_capability is None
    if amd or (cost.kernel == "chip" and view.chip.kind == "gpu"):  # servers have a kernel for single queries
        block = replace(block, rows=min(block.rows, max(MMA_ROWS, op.heads // op.kv_heads)))
    blocks = sequences * op.kv_heads
    longest = max(one.cached + one.new for one in op.groups)
    tiles = ceil(longest / block.keys)
    if amd:
        splits = min(cost.most_splits, ceil(longest / PARTITION))
    elif view.chip.compute_capability is not None and cost.kernel == "paged" and not block.ahead:
        splits = min(cost.most_splits, _paged_splits(blocks, MAX_RESIDENT * cores, tiles))
    else:
        splits = min(cost.most_splits, max(1, cores * block.resident // blocks), tiles)
    resident = _resident(view, block, blocks * splits)
    pace = _pace(view, op, block, resident)
    jobs = [(_block(view, block, (one.cached + one.new) / splits, pace), one.count * op.kv_heads * splits) for one in op.groups]
    keys = sum(one.count * (one.cached + one.new) for one in op.groups) * _key_bytes(op)
    start = float(cost.start_ns) + (float(cost.split_ns) if splits > 1 else 0.0)
    if cost.kernel == "paged" and not block.ahead and sequences > 1 and op.heads > op.kv_heads:
        start += (COPIES - (splits > 1)) * COPY_STARTS * float(view.chip.graph_start_ns)
    body = makespan(sorted(jobs, reverse=True), cores, resident, pace.alone / pace.shared)
    held = sequences <= cost.cached_sequences and keys <= float(view.chip.cache_bytes or 0)
    rate = view.stream_rate if held else view.memory_rate
    waves = 1 if splits > 1 or block.ahead else ceil(blocks / (cores * resident))
    ramp = _ramp(view, keys, rate, waves)  # kernels that load keys ahead fill the queues while blocks still compute
    return Kernel(
        op.name, "te", max(body, keys / rate) if held else body, 0.0 if held else keys, _query_bytes(op, sequences),
        start=view.cycles(start), after=max(0.0, ramp - max(0.0, body - keys / rate)) if block.ahead else ramp,
        notes={"splits": splits, "blocks": blocks * splits, "keys": "cache" if held else "DRAM"},
    )  # fmt: skip


def _whole(view: ChipView, op: Attention, cost: AttentionCost, sequences: int) -> Kernel:
    """A step with a prompt, or without a kernel that cuts keys.

    A block of FlashAttention 2 has rows of one head, and its grid has as many blocks for each sequence. A block of another
    kernel has the rows of all heads that share keys, which it reads once, and there are no empty blocks.
    """
    cores, block = view.chip.cores, block_of(view.chip, op, cost)
    group = op.heads // op.kv_heads
    grid = view.chip.kind == "gpu" and not block.ahead
    merged = 1 if grid else group
    heads = op.heads // merged
    parts = [ceil(one.new * merged / block.rows) for one in op.groups]
    blocks = heads * sum(one.count * some for one, some in zip(op.groups, parts, strict=True))
    most = _tiles_at_once(op, block, cores, parts) if block.ahead else 0
    resident = _resident(view, block, blocks)
    pace = _pace(view, op, block, resident)
    jobs: list[tuple[float, int]] = []  # of one head
    readers: list[int] = []  # of each job, whose keys it is the first of a head to read; -1 if there are none
    idle = cut = 0
    for number, (one, some) in enumerate(zip(op.groups, parts, strict=True)):
        for part in range(some):
            seen = one.cached + (min(one.new, (part + 1) * block.rows // merged) if op.causal else one.new)
            pieces = ceil(ceil(seen / block.keys) / most) if most else 1
            cut += pieces - 1
            jobs.append((_block(view, block, seen / pieces, pace), one.count * pieces))
            readers.append(-1 if part else number)
        if grid and some < max(parts):
            empty = one.count * (max(parts) - some)
            jobs.append((float(view.chip.attention_idle_cycles), empty))
            readers.append(-1)
            idle += heads * empty
    keys = [one.count * (one.cached + one.new) * _key_bytes(op) for one in op.groups]
    reading, cached = sum(keys), float(view.chip.cache_bytes or 0)
    alone = pace.alone / pace.shared
    if not grid:  # kernels that load keys ahead start the longest blocks first
        order = sorted(((cycles, count * heads) for cycles, count in jobs), reverse=block.ahead)
        body = makespan(order, cores, resident, alone)
    elif group == 1 or reading / op.kv_heads <= cached:
        body = makespan(chain.from_iterable(repeat(jobs, heads)), cores, resident, alone)
    else:  # keys may leave the cache between two heads
        starts: list[list[float]] = []
        body = makespan(chain.from_iterable(repeat(jobs, heads)), cores, resident, alone, starts)
        times = _times_read(starts, readers, group, HELD * cached / view.memory_rate)
        reading = sum(nbytes * often for nbytes, often in zip(keys, times, strict=True))
    tokens = sum(one.count * one.new for one in op.groups)
    waiting = _ramp(view, reading, view.memory_rate, 1) - max(0.0, body - reading / view.memory_rate)  # as in `_split`
    return Kernel(
        op.name, "te", body, reading + _query_bytes(op, tokens), _query_bytes(op, tokens),
        start=view.cycles(float(cost.start_ns) + (float(cost.split_ns) if cut else 0.0)),
        after=max(0.0, waiting), notes={"blocks": blocks, "idle_blocks": idle},
    )  # fmt: skip


def _tiles_at_once(op: Attention, block: Block, cores: int, parts: list[int]) -> int:
    """Tiles of keys that a block of FlashAttention 3 takes at most; 0 if it takes all of its sequence.

    Its code (num_splits_heuristic in hopper/heuristics.h, prepare_varlen_num_blocks in flash_prepare_scheduler.cu) cuts keys if
    the rows of the longest prompt leave cores idle, so that each core has about the same number of tiles.
    """
    tiles = [ceil((one.cached + one.new) / block.keys) for one in op.groups]
    if op.kv_heads * max(parts) >= NEARLY_FULL * cores or max(tiles) <= FEW_TILES:
        return 0
    work = sum(one.count * some * each for one, some, each in zip(op.groups, parts, tiles, strict=True)) * op.kv_heads
    return ceil(BALANCE * work / cores)


def _times_read(starts: list[list[float]], readers: list[int], group: int, kept: float) -> list[float]:
    """How often the keys of each group of sequences are read from DRAM, on average over sequences and KV heads.

    `starts`: of the blocks, head by head and job by job. `readers`: of each job of a head, the group of sequences whose keys it
    is the first to read, or -1: the other blocks of a prompt follow at once. Blocks of `group` heads read the same keys, all at
    the same pace. The longer after another one a block starts, the fewer keys it finds in the cache: half of them after `kept`
    cycles.
    """
    jobs = len(readers)
    found: list[list[float]] = [[] for _ in range(max(readers) + 1)]
    for first in range(0, len(starts), group * jobs):
        for number, times in enumerate(found):
            some = (place for place in range(first, min(first + group * jobs, len(starts))) if readers[place % jobs] == number)
            for begun in zip(*(sorted(starts[place]) for place in some), strict=True):  # of one sequence
                times.append(1 + sum(_left((after - before) / kept) for before, after in pairwise(sorted(begun))))
    return [sum(times) / len(times) if times else 1.0 for times in found]


def _left(time: float) -> float:
    """The share of keys that have left the cache, by the time since they were read over the time after which half have left."""
    return min(1.0, max(0.0, time - 0.5))
