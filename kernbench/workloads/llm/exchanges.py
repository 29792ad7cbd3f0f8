"""Collectives of a layer other than the all-reduce: all-gather, reduce-scatter and all-to-all, by sends and vector operations.

`direct` sends each message directly to the PE that needs it; `ring` sends only to the next PE. `torus` sends parts of the rows
around the rings of a grid, in both directions and along both axes at the same time; it moves rows of which each PE has a part.
A tree and recursive doubling are algorithms of all-reduces only: if a job selects one of them, these collectives are `direct`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernbench.ccl.patterns import backwards, torus_gather, torus_parts
from kernbench.ccl.schedule import Message
from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.program import Program
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.layer.projections import Among
from kernbench.workloads.llm.reductions import Reduction, Rows, Sharded
from kernbench.workloads.llm.shards import ShardLocation
from kernbench.workloads.scratchpad import Buffer, Ring

Exchange = Literal["direct", "ring", "torus"]
EXCHANGES: tuple[Exchange, ...] = ("direct", "ring", "torus")
ON_GRIDS = ("all-gather", "reduce-scatter", "softmax all-gather")  #: collectives that have a torus algorithm
#: [byte] assumed size of a tile of keys and values that one PE sends to another: a slot of the queues between PEs
TILE_BYTES = 16 << 10
PHASES = {
    "all-gather": "ALL_GATHER", "reduce-scatter": "REDUCE_SCATTER", "softmax all-gather": "CONTEXT_COMBINE",
    "softmax all-reduce": "CONTEXT_COMBINE", "KV all-gather": "KV_GATHER", "dispatch": "EXPERT_DISPATCH",
    "combine": "EXPERT_COMBINE", "broadcast": "BROADCAST",
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Sent:
    """A collective that was lowered. `sizes`: the size of each PE's data or, for an all-to-all, of the data that it sends to
    each other PE."""

    name: str
    algorithm: str
    pes: int
    elements: int  #: elements in the rows of a PE; for an all-to-all, those that the busiest PE sends
    bits: int
    among: Among = "shards"
    sizes: tuple[tuple[int, ...], ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of these elements."""
        return bytes_of(self.elements, self.bits)


def exchange_of(algorithm: Reduction) -> Reduction:
    """The algorithm of a collective other than an all-reduce, for the algorithm of the job; `auto` is unchanged."""
    return algorithm if algorithm in ("ring", "torus", "auto") else "direct"


def gather_rows(
    layers: Sequence[Sharded],
    places: Sequence[int],
    parts: Sequence[int],
    bits: int,
    algorithm: Exchange,
    meta: Mapping[str, Any],
) -> None:
    """Gathers all parts on every PE. Part i is at its offset from `places[i]` on PE i; `parts`: [element] size of each."""
    offsets, count = _offsets(parts, bits), len(layers)
    if algorithm == "torus":
        cuts = _cuts(layers, parts, bits)
        for step in torus_gather(count):
            for one, block, at, elements in _in_pieces(step, cuts):
                source, target = places[one.source] + offsets[block] + at, places[one.target] + offsets[block] + at
                layers[one.source].emit.send(layers[one.target].emit, source, target, elements, bits, **meta)
        return
    turns = range(1, count)
    for turn in turns:
        for i, owner in enumerate(layers):
            j = (i + turn) % count if algorithm == "direct" else (i + 1) % count
            c = i if algorithm == "direct" else (i - turn + 1) % count
            if parts[c]:
                source, target = places[i] + offsets[c], places[j] + offsets[c]
                owner.emit.send(layers[j].emit, source, target, parts[c], bits, **meta)


def scatter_rows(
    layers: Sequence[Sharded], places: Sequence[int], rooms: Sequence[int], parts: Sequence[int], bits: int,
    algorithm: Exchange, meta: Mapping[str, Any],
) -> None:  # fmt: skip
    """Leaves the sum of part i on PE i. Every PE has its own values of all parts at `places`; `rooms`: the places for arriving
    parts."""
    offsets, count = _offsets(parts, bits), len(layers)
    line = layers[0].config.spm.bank_width_bytes
    slot = ceil_div(bytes_of(max(parts), bits), line) * line
    if algorithm == "torus":
        cuts, arrived = _cuts(layers, parts, bits), Counter[tuple[int, int]]()
        for step in backwards(torus_gather(count)):
            found = []
            for one, block, at, elements in _in_pieces(step, cuts):
                room = rooms[one.target] + arrived[one.target, at] * slot + at
                arrived[one.target, at] += 1
                place = places[one.source] + offsets[block] + at
                layers[one.source].emit.send(layers[one.target].emit, place, room, elements, bits, **meta)
                found.append((one.target, places[one.target] + offsets[block] + at, room, elements))
            for target, mine, room, elements in found:
                layers[target].vector("add", elements, 1, mine, mine, room, **meta)
        return
    for turn in range(1, count):
        for i, owner in enumerate(layers):
            j = (i + turn) % count if algorithm == "direct" else (i + 1) % count
            c = j if algorithm == "direct" else (i - turn) % count
            if parts[c]:
                target = rooms[j] + (turn - 1) * slot
                owner.emit.send(layers[j].emit, places[i] + offsets[c], target, parts[c], bits, **meta)
        for j, owner in enumerate(layers):
            c = j if algorithm == "direct" else (j - 1 - turn) % count
            if parts[c]:
                mine = places[j] + offsets[c]
                owner.vector("add", parts[c], 1, mine, mine, rooms[j] + (turn - 1) * slot, **meta)


def _cuts(layers: Sequence[Sharded], parts: Sequence[int], bits: int) -> list[list[tuple[int, int]]]:
    """The offset [byte] and the elements of each piece of a part that takes another route on a torus. Pieces begin at lines."""
    line = layers[0].config.spm.bank_width_bytes
    pieces = torus_parts(len(layers))
    each = ceil_div(ceil_div(bytes_of(max(parts), bits), pieces), line) * line
    return [
        [(at * each, max(0, min(each * 8 // bits, part - at * each * 8 // bits))) for at in range(pieces)] for part in parts
    ]


def _in_pieces(
    step: Sequence[Any], cuts: Sequence[Sequence[tuple[int, int]]]
) -> Iterator[tuple[Message, int, int, int]]:
    """The blocks of the messages of a step: message, block, offset in the block, and elements."""
    for one in step:
        for position in one.sent:
            algorithm, block = divmod(position, len(cuts))
            at, elements = cuts[block][algorithm]
            if elements:
                yield one, block, at, elements


def _offsets(parts: Sequence[int], bits: int) -> list[int]:
    """[byte] offset of each part."""
    return [bytes_of(sum(parts[:i]), bits) for i in range(len(parts))]


@dataclass(frozen=True, slots=True)
class Departure:
    """Elements that are sent to the PE with number `target` in the group; `tag` also names the place where they arrive."""

    target: int
    tag: int
    place: int
    elements: int


def send_rows(
    layers: Sequence[Sharded], departures: Sequence[Sequence[Departure]],
    arrivals: Sequence[Mapping[tuple[int, int], int]], bits: int, meta: Mapping[str, Any],
) -> None:  # fmt: skip
    """An all-to-all: each PE sends to its next neighbour first, so that not all PEs send to the same PE at the same time."""
    count = len(layers)
    for turn in range(1, count):
        for i, owner in enumerate(layers):
            j = (i + turn) % count
            for one in departures[i]:
                if one.target == j:
                    to = arrivals[j][i, one.tag]
                    owner.emit.send(layers[j].emit, one.place, to, one.elements, bits, **meta)


@dataclass(frozen=True, slots=True)
class Keeper:
    """A PE that has some tiles of keys and values in its memory, and space for the tiles of all other PEs."""

    emit: Emitter
    tiles: Sequence[int]  #: [byte] size of each tile
    load: Callable[[int], int]  #: loads the tile with this number into the scratchpad; returns its place
    take: Callable[[int], int]  #: space in the scratchpad for this number of bytes
    store: Callable[[int, int, int], None]  #: stores a tile in memory; its PE, its number and its place in the scratchpad
    give: Callable[[int], None]


def gather_kept(keepers: Sequence[Keeper], algorithm: Exchange, meta: Mapping[str, Any]) -> None:
    """Brings all tiles into the memory of every PE: one PE loads and sends a tile, and the others store it."""
    count = len(keepers)
    for k in range(max(len(one.tiles) for one in keepers)):
        some = [i for i in range(count) if k < len(keepers[i].tiles)]
        at = {(i, i): keepers[i].load(k) for i in some}
        for turn in range(1, count):
            for i in some:
                source, target = (
                    (i, (i + turn) % count) if algorithm == "direct" else ((i + turn - 1) % count, (i + turn) % count)
                )
                nbytes = keepers[i].tiles[k]
                at[i, target] = keepers[target].take(nbytes)
                keepers[source].emit.send(keepers[target].emit, at[i, source], at[i, target], nbytes, 8, **meta)
                keepers[target].store(i, k, at[i, target])
        for (_, pe), place in at.items():
            keepers[pe].give(place)


def exchange_program(config: NpuConfig, places: Sequence[ShardLocation], sent: Sent, common: dict[str, Any]) -> Program:
    """A collective without a layer: rows lie at the beginning of each scratchpad, keys and values at the beginning of each
    memory."""
    program = Program(f"{sent.name} ({sent.algorithm}) of {sent.elements} elements on {len(places)} PEs")
    emits = [Emitter("", config, common, program, place.node, place.dram_base) for place in places]
    layers = [Rows(emit, config, sent.bits) for emit in emits]
    line = config.spm.bank_width_bytes
    meta = {"phase": PHASES[sent.name]}
    algorithm: Exchange = sent.algorithm if sent.algorithm in EXCHANGES else "direct"
    none = [0] * len(places)
    if sent.name in ("all-gather", "softmax all-gather"):
        gather_rows(layers, none, sent.sizes[0], sent.bits, algorithm, meta)
    elif sent.name == "reduce-scatter":
        room = ceil_div(bytes_of(sum(sent.sizes[0]), sent.bits), line) * line
        scatter_rows(layers, none, [room] * len(places), sent.sizes[0], sent.bits, algorithm, meta)
    elif sent.name == "KV all-gather":
        gather_kept([_alone(emit, config, nbytes) for emit, nbytes in zip(emits, sent.sizes[0], strict=True)], algorithm, meta)
    else:
        departures = [[Departure(j, 0, 0, some) for j, some in enumerate(row) if some and j != i] for i, row in
                      enumerate(sent.sizes)]  # fmt: skip
        send_rows(layers, departures, [dict(_rooms(sent, j, line)) for j in range(len(places))], sent.bits, meta)
    program.end(**common)
    return program


def _rooms(sent: Sent, target: int, line: int) -> Iterator[tuple[tuple[int, int], int]]:
    """The places at which the data of each other PE arrive on PE `target`."""
    for source, row in enumerate(sent.sizes):
        yield (source, 0), ceil_div(bytes_of(row[target], sent.bits), line) * line


def _alone(emit: Emitter, config: NpuConfig, nbytes: int) -> Keeper:
    """A PE with this number of bytes of keys and values."""
    line = config.spm.bank_width_bytes
    ring = Ring(Buffer("tiles", 0, config.spm.size_bytes // line * line, 0, 0), line)
    tiles = [min(TILE_BYTES, nbytes - at) for at in range(0, nbytes, TILE_BYTES)]

    def load(k: int) -> int:
        place = ring.take(TILE_BYTES)
        emit.load("kv", 8, Span(k * TILE_BYTES, 1, tiles[k], tiles[k]), place, phase="KV_GATHER")
        return place

    def store(owner: int, k: int, place: int) -> None:
        at = (owner * len(tiles) + k) * TILE_BYTES
        emit.store("kv", 8, Span(at, 1, tiles[min(k, len(tiles) - 1)], tiles[min(k, len(tiles) - 1)]), place, phase="KV_GATHER")

    return Keeper(emit, tiles, load, lambda _: ring.take(TILE_BYTES), store, lambda _: None)
