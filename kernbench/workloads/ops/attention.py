"""Plans of attention: blocks of a sequence, a head and some query rows, each a chain over the keys.

A step with only decode splits keys over idle cores; a step with a prefill does not. Then each block of a head reads its keys
itself: heads that share keys share the reads only while they run at the same time, or if the cache holds the keys of all
sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from kernbench.config.runtime import AttentionCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Attention


def plan_attention(view: ChipView, op: Attention, cost: AttentionCost) -> Kernel:
    """The kernel of a step's attention."""
    sequences = sum(group.count for group in op.groups)
    if op.decodes and cost.split and sequences >= cost.split_sequences:
        return _split(view, op, cost, sequences)
    return _whole(view, op, cost, sequences)


def _products(view: ChipView, op: Attention) -> float:
    """Cycles of a core for the two products of a block's rows with one key; a systolic array is used in whole rows."""
    chip = view.chip
    depth = ceil(op.head_dim / chip.array) * chip.array if chip.kind == "systolic" else op.head_dim
    return chip.attention_rows * 2 * depth / view.macs(16)


def _block(view: ChipView, op: Attention, keys: float, resident: int) -> float:
    """Cycles of a block over so many keys, where `resident` blocks share a core.

    Keys are read in whole tiles. For each, a block waits for the chain of its load, products and exponentials, or for the core.
    """
    chip = view.chip
    pace = max(float(chip.attention_key_cycles), resident * _products(view, op))
    return chip.attention_block_cycles + ceil(max(1.0, keys) / chip.attention_keys) * chip.attention_keys * pace


def _body(view: ChipView, op: Attention, blocks: list[tuple[float, int]]) -> float:
    """When the last of some blocks, given by keys and number in the order of their start, ends."""
    cores = view.chip.cores
    resident = max(1, min(view.chip.attention_resident, -(-sum(count for _, count in blocks) // cores)))
    return makespan([(_block(view, op, keys, resident), count) for keys, count in blocks], cores * resident)


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
    cores = view.chip.cores
    blocks = sequences * op.kv_heads
    longest = max(one.cached + one.new for one in op.groups)
    splits = min(
        cost.most_splits, max(1, cores * view.chip.attention_resident // blocks), ceil(longest / view.chip.attention_keys)
    )
    jobs = [((one.cached + one.new) / splits, one.count * op.kv_heads * splits) for one in op.groups]
    keys = sum(one.count * (one.cached + one.new) for one in op.groups) * _key_bytes(op)
    combined = sequences > 1 or longest >= view.chip.attention_keys
    start = float(cost.start_ns) + (float(cost.split_ns) if combined else 0.0)
    body = _body(view, op, sorted(jobs, reverse=True))
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
    cores, rows = view.chip.cores, view.chip.attention_rows
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
    body = _body(view, op, sorted(jobs)) + idle * view.chip.attention_idle_cycles / cores
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
