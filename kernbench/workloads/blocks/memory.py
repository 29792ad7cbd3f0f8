"""Where a layer of parts is in DRAM: its matrices, small tensors, caches and states, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS, PageTable
from kernbench.workloads.models.parts import Weight


@dataclass(slots=True)
class BlockMemory:
    """Addresses of one layer. `end`: one past its last byte."""

    end: int = 0
    weights: dict[str, tuple[Weight, int, int]] = field(default_factory=dict)  #: matrix, first address, bytes from copy to copy
    #: matrices of an expert that one transfer loads, by name: first address of expert 0, bytes of all of them, where it begins
    together: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    vectors: int = 0
    biases: int = 0  #: of experts
    caches: dict[str, int] = field(default_factory=dict)  #: first address by name
    state: int = 0
    positions: int = 0  #: [token] room of a sequence in the cache
    sources: int = 0  #: [token] room of a sequence in the cache of the encoder's keys and values
    page_tokens: int = 0  #: of a page of the cache; 0: a sequence's cache is one piece
    pages: PageTable | None = None
    page_table: int = 0  #: its address

    def cache_address(self, shape: BlockShape, name: str, sequence: int, head: int, token: int) -> int:
        """The address of a token of a head. Tokens are in the order `[sequence or page][head][token][element]`."""
        heads, dim = next((heads, dim) for known, heads, dim in (*shape.cached, *shape.crossed) if known == name)
        if name.startswith("cross_"):
            row = (sequence * heads + head) * self.sources + token
            return self.caches[name] + bytes_of(row * dim, shape.kv_bits)
        if self.pages is not None:
            page, within = divmod(token, self.page_tokens)
            row = (self.pages.page(sequence, page) * heads + head) * self.page_tokens + within
            return self.caches[name] + bytes_of(row * dim, shape.kv_bits)
        return self.caches[name] + bytes_of(((sequence * heads + head) * self.positions + token) * dim, shape.kv_bits)


def place_blocks(
    shape: BlockShape, base: int, step: int, positions: int, sequences: int, page_tokens: int = 0, transfer: int = 0
) -> BlockMemory:
    """Place a layer from `base` on; regions begin at multiples of `step`. `positions`: [token] of the longest sequence.

    `transfer`: [byte] the matrices of an expert that lie next to each other have at most so many. With 0, each matrix has a
    region with the copies of all experts.
    """
    found = BlockMemory(end=base, positions=ceil_div(positions, 64) * 64)
    if page_tokens and shape.cached:
        found.page_tokens, found.pages = page_tokens, PageTable(sequences, ceil_div(positions, page_tokens))
        found.positions = found.pages.pages * page_tokens

    def take(nbytes: int) -> int:
        at = ceil_div(found.end, step) * step
        found.end = at + nbytes
        return at

    for group in _groups(shape, step, transfer):
        sizes = [ceil_div(shape.matrix_bytes(weight), step) * step for weight in group]
        each, many = sum(sizes), group[0].copies
        base = take(each * (many if shape.local_experts is None or many == 1 else shape.local_experts[1]))
        for weight, offset in zip(group, accumulate(sizes, initial=0), strict=False):
            found.weights[weight.name] = weight, base + offset, each
            if len(group) > 1:
                found.together[weight.name] = base, each, offset
    found.vectors = take(bytes_of(max(1, shape.vector_elements), shape.gain_bits))
    if shape.expert_vectors:
        each = ceil_div(bytes_of(shape.expert_vectors, shape.gain_bits), step) * step
        found.biases = take(each * shape.experts)
    for name, heads, dim in shape.cached:
        found.caches[name] = take(bytes_of(sequences * heads * found.positions * dim, shape.kv_bits))
    found.sources = ceil_div(shape.sources, 64) * 64 if shape.crossed else 0
    for name, heads, dim in shape.crossed:
        found.caches[name] = take(bytes_of(sequences * heads * found.sources * dim, shape.kv_bits))
    if found.pages is not None:
        found.page_table = take(sequences * bytes_of(found.pages.pages, PAGE_NUMBER_BITS))
    if shape.state_elements:
        found.state = take(sequences * ceil_div(shape.act(shape.state_elements), step) * step)
    return found


def _groups(shape: BlockShape, step: int, transfer: int) -> Iterator[list[Weight]]:
    """The matrices of a layer in order; those of an expert in groups that fit a transfer."""
    group: list[Weight] = []
    room = 0
    for weight in shape.block.weights(shape.hidden):
        nbytes = ceil_div(shape.matrix_bytes(weight), step) * step
        kind = weight.copies, shape.bits_of(weight)
        joins = group and weight.copies > 1 and kind == (group[0].copies, shape.bits_of(group[0]))
        if not joins or nbytes > room:
            if group:
                yield group
            group, room = [], transfer
        group.append(weight)
        room -= nbytes
    yield group
