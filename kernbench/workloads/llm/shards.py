"""Tensor parallelism: a model cut into equal parts over the PEs of a system.

Each PE has its share of the heads and of the columns inside the feed-forward network, with their weights and KV cache in
its own slice of memory. The output of the output and down projections is a partial sum on each PE. The rows are cut
into as many chunks as there are PEs: every PE sends each other one its part of that one's chunk, adds up its own, and
sends the sum to all others. Norms, the router and the embedding are on every PE; the LM head's words are shared out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, Literal

from kernbench.cmdq.footprint import bytes_of
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config.kinds import as_npu, larger
from kernbench.config.system import SystemConfig
from kernbench.policy.routing import PathRouter
from kernbench.topology.builder import build_topology
from kernbench.workloads.layer.buffers import chunk_bytes
from kernbench.workloads.layer.layer import Layer
from kernbench.workloads.layer.projections import PartialRows
from kernbench.workloads.models import ModelShape

Reduction = Literal["direct", "ring"]
REDUCTIONS: tuple[Reduction, ...] = ("direct", "ring")


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a shard: a PE with its memory from `dram_base` on, or the NPU itself."""

    node: str | None
    dram_base: int


def pe_places(config: SystemConfig, shards: int) -> list[Place]:
    """The first `shards` PEs in the order of SIPs, cubes and numbers. InputError if there are too few."""
    if not 1 <= shards <= config.pes:
        rule = f"{config.source} has {config.pes} PEs: it must be an integer from 1 to {config.pes}"
        fits = larger(shards) if shards > config.pes else ""
        raise InputError(Problem("kbsim llm", rule, "tp", shards, f"machines that fit: {fits}" if fits else ""))
    resolver = PathRouter(build_topology(config)).resolver
    pes, slices = config.cube.pes, config.slices
    found = []
    for number in range(shards):
        stack, pe = divmod(number, pes)
        sip, cube = divmod(stack, config.cubes)
        part = pe * slices // pes
        before = pe - next(first for first in range(pes) if first * slices // pes == part)
        offset = before * as_npu(config).dram.capacity_bytes
        found.append(Place(naming.place(sip, cube=cube) + "." + naming.pe(pe), resolver.address(sip, cube, part, offset)))
    return found


def shard_of(shape: ModelShape, shards: int) -> ModelShape:
    """One shard of a layer. Key and value heads are on several PEs each where there are more PEs than heads.

    InputError if the layer cannot be divided into this number.
    """
    for name in ("heads", "ffn"):
        if getattr(shape, name) % shards:
            rule = f"a model is cut into {shards} parts, so this must divide its {name} = {getattr(shape, name)}"
            raise InputError(Problem(f"model {shape.name}", rule, "tp", shards, _remedy(shape, shards)))
    if shape.kv_heads % shards and shards % shape.kv_heads:
        rule = f"a model is cut into {shards} parts, so this and its kv_heads = {shape.kv_heads} must divide one another"
        raise InputError(Problem(f"model {shape.name}", rule, "tp", shards, _remedy(shape, shards)))
    if shards > 1 and shape.head_bits:
        raise InputError(Problem(f"model {shape.name}", "heads with bits of their own cannot be divided", "tp", shards))
    cut = {name: getattr(shape, name) // shards for name in ("heads", "ffn")}
    return replace(shape, **cut, kv_heads=max(1, shape.kv_heads // shards), shards=shards)


def _remedy(shape: ModelShape, shards: int) -> str:
    """The nearest numbers of parts that a layer can be divided into."""
    most = gcd(shape.heads, shape.ffn)
    able = [n for n in range(1, most + 1) if most % n == 0 and (shape.kv_heads % n == 0 or n % shape.kv_heads == 0)]
    above = next((n for n in able if n > shards), 0)
    return f"take --tp {max(n for n in able if n < shards)}" + (f" or --tp {above}" if above else "")


def all_reduce(layers: Sequence[Layer], parts: Sequence[PartialRows], way: Reduction = "direct") -> None:
    """Adds the partial sums of all shards; afterwards the sum replaces the partial sum on each."""
    first, count = parts[0], len(layers)
    total = bytes_of(first.elements, layers[0].act_bits)
    chunk = chunk_bytes(total, count, layers[0].config.spm.bank_width_bytes)
    meta = {**first.meta, "phase": "ALL_REDUCE"}
    sizes = [max(0, min(chunk, total - i * chunk)) for i in range(count)]
    reduce = _direct if way == "direct" else _ring
    reduce(layers, parts, chunk, sizes, meta)


def _direct(
    layers: Sequence[Layer], parts: Sequence[PartialRows], chunk: int, sizes: Sequence[int], meta: dict[str, Any]
) -> None:
    """Each sends each other one its part of that one's chunk, adds up its own, and sends the sum to all."""
    count, bits = len(layers), layers[0].act_bits
    for i, owner in enumerate(layers):
        for turn in range(1, count):  # from its neighbour on, so that not all send to one at a time
            j = (i + turn) % count
            if sizes[j]:
                slot = parts[j].room + (turn - 1) * chunk
                own = parts[i].place + j * chunk
                owner.emit.send(layers[j].emit, own, slot, sizes[j] * 8 // bits, bits, **meta)
    for i, owner in enumerate(layers):
        mine = parts[i].place + i * chunk
        for turn in range(1, count):
            if sizes[i]:
                owner.vector("add", sizes[i] * 8 // bits, 1, mine, mine, parts[i].room + (turn - 1) * chunk, **meta)
    for i, owner in enumerate(layers):
        for turn in range(1, count):
            j = (i + turn) % count
            if sizes[i]:
                own, its = parts[i].place + i * chunk, parts[j].place + i * chunk
                owner.emit.send(layers[j].emit, own, its, sizes[i] * 8 // bits, bits, **meta)


def _ring(
    layers: Sequence[Layer], parts: Sequence[PartialRows], chunk: int, sizes: Sequence[int], meta: dict[str, Any]
) -> None:
    """Each shard sends only to the next one: a chunk goes around the ring and is summed, then the sum goes around."""
    count, bits = len(layers), layers[0].act_bits
    for turn in range(2 * (count - 1)):
        adds = turn < count - 1
        for i, owner in enumerate(layers):
            j, c = (i + 1) % count, (i - turn + (0 if adds else count)) % count
            if sizes[c]:
                target = parts[j].room + turn * chunk if adds else parts[j].place + c * chunk
                owner.emit.send(layers[j].emit, parts[i].place + c * chunk, target, sizes[c] * 8 // bits, bits, **meta)
        for j, owner in enumerate(layers if adds else ()):
            c = (j - 1 - turn) % count
            if sizes[c]:
                mine = parts[j].place + c * chunk
                owner.vector("add", sizes[c] * 8 // bits, 1, mine, mine, parts[j].room + turn * chunk, **meta)
