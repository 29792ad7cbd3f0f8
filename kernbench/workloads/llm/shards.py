"""Tensor parallelism: a model cut into equal parts over the PEs of a system.

Each PE has its share of the heads and of the inner columns of the feed-forward network, with their weights and KV cache in its
own slice of memory. The output of the output and down projections is a partial sum on each PE; an all-reduce adds them
(`reductions`). Norms, the router and the embedding are on every PE; the words of the LM head are divided over the PEs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.config.kinds import as_npu, board_of, larger
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.policy.routing import AddressResolver, PathRouter
from kernbench.topology.builder import build_topology
from kernbench.workloads.llm.known import Known
from kernbench.workloads.models import ModelShape


@dataclass(frozen=True, slots=True)
class ShardLocation:
    """The location of a shard: a PE with its memory from `dram_base` on, or the whole NPU."""

    node: str | None
    dram_base: int


#: Resolvers of machines; for a topology of a thousand PEs, making a resolver takes seconds.
RESOLVERS = Known[AddressResolver](4)


def shard_locations(config: NpuConfig | SystemConfig, shards: int, first: int = 0) -> list[ShardLocation]:
    """`shards` PEs from number `first` on, in the order of SIPs, cubes and numbers. Raises InputError if the system has too
    few."""
    if not 1 <= shards <= config.pes - first:
        allowed = f"from 1 to {config.pes}" if config.pes > 1 else "1"
        rule = f"{config.source} has {counted(config.pes, 'PE')}, so tp must be {allowed}"
        board = f"-c {board_of(config)}" if board_of(config) else ""
        fits = (board or larger(shards)) if shards > config.pes else ""
        raise InputError(Problem("kbsim llm", rule, "tp", shards, f"use a larger machine: {fits}" if fits else ""))
    if isinstance(config, NpuConfig):  # entries of an NPU name no node
        return [ShardLocation(None, 0)]
    resolver = RESOLVERS.get(config.digest(), lambda: PathRouter(build_topology(config)).resolver)
    each = as_npu(config).dram.capacity_bytes
    pes, slices = config.cube.pes, config.slices
    found = []
    for number in range(first, first + shards):
        stack, pe = divmod(number, pes)
        sip, cube = divmod(stack, config.cubes)
        part = pe * slices // pes
        before = pe - next(first for first in range(pes) if first * slices // pes == part)
        offset = before * each
        found.append(
            ShardLocation(naming.place(sip, cube=cube) + "." + naming.pe(pe), resolver.address(sip, cube, part, offset))
        )
    return found


def alike(config: NpuConfig | SystemConfig, places: Sequence[ShardLocation]) -> Hashable:
    """The key of a group of PEs: the same programs take the same cycles on groups with equal keys.

    All cubes are equal, and so are the links between neighbouring cubes of a SIP. Links between SIPs may differ: a group over
    several SIPs equals no other group.
    """
    if not isinstance(config, SystemConfig):
        return None
    found = [naming.parse_pe(place.node) for place in places if place.node is not None]
    if len({sip for sip, _, _ in found}) > 1:
        return tuple(found)
    grid = [(divmod(cube, config.sip.cols), pe) for _, cube, pe in found]
    top, left = min(row for (row, _), _ in grid), min(col for (_, col), _ in grid)
    return tuple((row - top, col - left, pe) for (row, col), pe in grid)


def shard_of(shape: ModelShape, shards: int) -> ModelShape:
    """One shard of a layer. If there are more PEs than key and value heads, each of these heads is on several PEs.

    Raises InputError if the layer cannot be divided into this number of shards.
    """
    for name, meaning in (("heads", "the number of heads"), ("ffn", "the width of the feed-forward network")):
        if getattr(shape, name) % shards:
            rule = f"it must divide {getattr(shape, name)}, {meaning}"
            raise InputError(Problem(f"model {shape.name}", rule, "tp", shards, _remedy(shape, shards)))
    if shape.kv_heads % shards and shards % shape.kv_heads:
        rule = f"it must divide {shape.kv_heads} (kv_heads in the model), or be a multiple of {shape.kv_heads}"
        raise InputError(Problem(f"model {shape.name}", rule, "tp", shards, _remedy(shape, shards)))
    if shards > 1 and shape.head_bits:
        raise InputError(
            Problem(f"model {shape.name}", "heads with separate bit widths cannot be divided among devices", "tp", shards)
        )
    cut = {name: getattr(shape, name) // shards for name in ("heads", "ffn")}
    return replace(shape, **cut, kv_heads=max(1, shape.kv_heads // shards), shards=shards)


def _remedy(shape: ModelShape, shards: int) -> str:
    """The nearest numbers of shards into which a layer can be divided."""
    most = gcd(shape.heads, shape.ffn)
    able = [n for n in range(1, most + 1) if most % n == 0 and (shape.kv_heads % n == 0 or n % shape.kv_heads == 0)]
    above = next((n for n in able if n > shards), 0)
    return f"use --tp {max(n for n in able if n < shards)}" + (f" or --tp {above}" if above else "")
