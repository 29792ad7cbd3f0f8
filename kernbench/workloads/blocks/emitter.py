"""What the emitters of all parts of a layer share: buffers, transfers, products and vector operations of one PE."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.errors import InputError
from kernbench.common.units import ceil_div
from kernbench.config.kinds import beyond_scratchpad
from kernbench.config.schema import NpuConfig
from kernbench.workloads.blocks.arena import Arena
from kernbench.workloads.blocks.batch import Batch, Piece
from kernbench.workloads.blocks.division import EIGHTHS, LOADS, Blocks
from kernbench.workloads.blocks.meetings import ALONE, Meeting, Seat
from kernbench.workloads.blocks.memory import BlockMemory
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS
from kernbench.workloads.models.parts import Weight
from kernbench.workloads.routing import Routing
from kernbench.workloads.scratchpad import Buffer, DoesNotFit, Ring
from kernbench.workloads.transfers import LAYER_PART, in_flight, setup_bytes, tile_sizes

_PIECE_BYTES = 64 << 10  #: activations and keys go through DMA in pieces of about this
_TILE_KIB = (256, 128, 64, 32, 16, 8, 4, 2)
SMALL = 4  #: small tiles of weights have this part of the bytes of others
Part = tuple[int, int, int]  #: rows of a product, the first one of its source, and the first one of its output
Tile = tuple[int, int, int]  #: of a matrix in the scratchpad: its place, its first column and its columns


@dataclass(frozen=True, slots=True)
class Load:
    """A load of weights."""

    job: int
    nbytes: int
    waits: set[int] | None  #: earlier loads that it waits for; None if it may end before earlier ones


def as_elements(count: int, bits: int) -> tuple[int, int]:
    """The width and number of elements that an entry states: packed elements of an odd width travel as bytes."""
    return (bits, count) if bits == unpacked_bits(bits) else (8, bytes_of(count, bits))


@dataclass(slots=True)
class WeightStream:
    """Weights that are loaded in turn."""

    ring: Ring
    nbytes: int = 0  #: of all loads
    in_progress: deque[Load] = field(default_factory=deque)  #: loads that the latest load does not wait for
    ended: list[int] = field(default_factory=list)  #: those that it waits for; others that these wait for are left out
    #: matrices that are loaded together: the address of the latest ones in DRAM and in the scratchpad
    loaded: tuple[int, int] = -1, 0


class LayerEmitter(ABC):
    """A layer of one shard in the making. `ends`: where the layer reads and writes.

    `encoded`: the address of the encoder's output. `words`: of the rows of the embedding, for a block that predicts.
    `splits_rows`: shards have rows of their own between products (sequence parallelism). `prefetches`: the weights of all
    experts are loaded without waiting for the router; on several PEs, those of a prefill then wait for earlier loads. `blocks`:
    how the rows and the scratchpad are divided.
    """

    def __init__(
        self, shape: BlockShape, config: NpuConfig, emit: Emitter, memory: BlockMemory, batch: Batch, blocks: Blocks,
        ends: tuple[int, int, int], routing: Routing, encoded: int = 0, words: int = 0, seat: Seat = ALONE,
        splits_rows: bool = False, prefetches: bool = False,
    ) -> None:  # fmt: skip
        self.shape, self.config, self.emit, self.memory, self.batch = shape, config, emit, memory, batch
        self.rows, self.blocks, self.routing = blocks.rows, blocks, routing
        self.source, self.target, self.rope = ends
        self.encoded, self.words = encoded, words
        self.seat, self.splits_rows, self.prefetches = seat, splits_rows, prefetches
        self.act_bits, self.act = shape.activation_bits, shape.act
        self.hidden = shape.hidden
        self.align = config.dma.alignment_bytes
        self.meta: dict[str, Any] = {}
        self._table: tuple[int, int] | None = None  # of the page table in the scratchpad: address and bytes
        line, size = config.spm.bank_width_bytes, config.spm.size_bytes
        self._tile_bytes, of_weights = weight_ring(config, longest_column(shape), blocks.ring)
        self.paces = seat.shards * seat.groups > 1 and any(group.tokens > 1 for group in batch.groups)
        self.room_for_more = EIGHTHS  # eighths of the scratchpad that could hold further weights when the network begins
        self._network_began = False
        self._skew = (config.spm.num_banks // 4 + 1) * line
        self._weights = WeightStream(Ring(Buffer("weights", 0, of_weights, 0, 0), line, self._skew))
        self.arena = Arena(ceil_div(of_weights, line) * line, size, line)

    @abstractmethod
    def emit_all(self) -> Iterator[Meeting]:
        """Emit the whole layer; yield where PEs must exchange data."""

    def extend_weights(self) -> None:
        """Let the weights of the network also use bytes that the mixer has used, each as soon as the mixer has read it."""
        self._network_began = True
        if self.blocks.extra:
            self.room_for_more = self.arena.largest * 8 // self.config.spm.size_bytes
            nbytes = self.config.spm.size_bytes * self.blocks.extra // 8
            self._weights.ring.extend(Buffer("more weights", self.arena.take(nbytes), nbytes, 0, 0))

    @contextmanager
    def own_weights(self, tiles: int) -> Iterator[None]:
        """Weights that are loaded meanwhile go through a ring of their own with so many small tiles, so that they wait for no
        others."""
        before, size, line = self._weights, self._tile_bytes, self.arena.line
        self._tile_bytes = max(size // SMALL, ceil_div(longest_column(self.shape), 8))
        slot = ceil_div(self._tile_bytes + 2 * self.align, line) * line + self._skew
        place = self.arena.take(tiles * slot)
        self._weights = WeightStream(Ring(Buffer("own weights", place, tiles * slot, 0, 0), line, self._skew))
        yield
        self._weights, self._tile_bytes = before, size
        self.arena.give(place)

    def parts_of(self, rows: int) -> list[Part]:
        """The parts of the rows for which a router has products of its own; none if all rows have one."""
        most = self.blocks.part_rows if self.blocks.part_router else 0
        return [(min(most, rows - first), first, first) for first in range(0, rows, most)] if most else []

    def not_far_ahead(self, outputs: Sequence[int]) -> Sequence[int]:
        """The job for which the scores of the next part wait, so that the vector engines add up earlier parts before too many
        softmaxes are ready. `outputs`: of each part before, the first job of its output projection."""
        ahead = self.blocks.ahead
        return outputs[-ahead : len(outputs) - ahead + 1] if 0 < ahead <= len(outputs) else ()

    def load_page_table(self) -> None:
        """The numbers of the pages of all sequences: transfers with the cache wait for them."""
        memory = self.memory
        self._table = None
        if memory.pages is not None:
            many, self.meta["phase"] = memory.pages, "PAGE_TABLE"
            row = bytes_of(many.pages, PAGE_NUMBER_BITS)
            place = self.arena.take(many.sequences * row + 2 * self.align)
            span = Span(memory.page_table, many.sequences, many.pages, row)
            if many.sequences == 1:
                span = Span(memory.page_table, 1, many.pages, row)
            self.emit.load("kv", PAGE_NUMBER_BITS, span, place, **self.meta)
            self._table = place, many.sequences * row

    def after_table(self, job: int) -> None:
        """The address of the last transfer is in the page table."""
        if self._table is not None:
            self.emit.after(job, *self._table)

    def key_tile(self, dim: int) -> int:
        """[token] of cached keys with `dim` elements each that are in the scratchpad at a time."""
        return max(64, _PIECE_BYTES * 8 // (dim * unpacked_bits(self.shape.kv_bits)) // 64 * 64)

    def by_page(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """First token and number of tokens of each transfer with the cache: one, or one a page."""
        size = self.memory.page_tokens
        end = start + count
        while start < end:
            some = min(end, (start // size + 1) * size) - start if size else count
            yield start, some
            start += some

    def load_cache(self, name: str, piece: Piece, head: int, start: int, count: int, dim: int) -> int:
        """Keys or values of cached tokens, in a new buffer."""
        bits, memory = self.shape.kv_bits, self.memory
        if memory.pages is None:
            return self.load("kv", bits, memory.cache_address(self.shape, name, piece.sequence, head, start), count * dim)
        place = self.take(count * dim, unpacked_bits(bits))
        for token, some in self.by_page(start, count):
            address = memory.cache_address(self.shape, name, piece.sequence, head, token)
            whole, number = as_elements(some * dim, bits)
            span = Span(address, 1, number, bytes_of(some * dim, bits))
            to = place + bytes_of((token - start) * dim, bits)
            self.after_table(self.emit.load("kv", whole, span, to, **self.meta))
        return place

    def set_phase(self, name: str) -> None:
        self.meta["phase"] = name

    def take(self, elements: int, bits: int = 0) -> int:
        """A buffer for elements, with room for the alignment of transfers."""
        return self.arena.take(bytes_of(elements, bits or self.act_bits) + 2 * self.align)

    def vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None, **meta: Any) -> int:
        """A vector operation on `batch` rows of `length` activations."""
        shape = {"length": length, "batch": batch, "qbits_activation": self.act_bits}
        return self.emit.ve(op, source, out, second, **shape, **{**self.meta, **meta})

    def split_vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None) -> None:
        """The same, distributed over the vector engines."""
        step = ceil_div(batch, self.config.ve.engines)
        for row in range(0, batch, step):
            at = self.act(row * length)
            self.vector(op, length, min(step, batch - row), source + at, out + at, None if second is None else second + at)

    def _pieces(self, elements: int, bits: int) -> Iterator[tuple[int, int]]:
        """First element and number of each transfer: whole lines, so that pieces follow each other in both memories."""
        unit = self.align * 8
        step = max(unit, _PIECE_BYTES * 8 // bits // unit * unit)
        for at in range(0, elements, step):
            yield at, min(step, elements - at)

    def load(self, role: str, bits: int, address: int, elements: int) -> int:
        """DRAM to a new buffer."""
        place = self.take(elements, unpacked_bits(bits))
        self.load_to(role, bits, address, elements, place)
        return place

    def load_to(self, role: str, bits: int, address: int, elements: int, place: int) -> None:
        """DRAM to a buffer."""
        for at, count in self._pieces(elements, bits):
            begin = bytes_of(at, bits)
            whole, number = as_elements(count, bits)
            self.emit.load(role, whole, Span(address + begin, 1, number, bytes_of(count, bits)), place + begin, **self.meta)

    def store(self, role: str, bits: int, address: int, elements: int, place: int) -> None:
        for at, count in self._pieces(elements, bits):
            begin = bytes_of(at, bits)
            self.emit.store(role, bits, Span(address + begin, 1, count, bytes_of(count, bits)), place + begin, **self.meta)

    def norm(self, source: int, rows: int, out: int | None = None) -> int:
        """Emit the norm of rows of the hidden width; return its buffer."""
        self.set_phase("NORM")
        place = self.take(rows * self.hidden) if out is None else out
        self.split_vector(self.shape.norm, self.hidden, rows, source, place)
        return place

    def product(
        self, name: str, rows: int, source: int, copy: int = 0, wait: tuple[int, int] | None = None, out: int | None = None,
        parts: Sequence[Part] = (),
    ) -> int:  # fmt: skip
        """Rows times a matrix, at `out` or in a new buffer. `wait`: bytes that must be there before its weights are loaded.
        `parts`: these have products of their own."""
        weight, base, each = self.memory.weights[name]
        if out is None:
            out = self.take(rows * weight.cols)
        if name in self.memory.together:
            slot = self._load_together(name, copy, wait)
            self._gemm(weight, rows, source, slot, out, weight.rows, weight.cols)
        else:
            self.multiply(weight, rows, source, out, base + copy * each, weight.rows, weight.cols, wait, parts)
        return out

    def columns(
        self, name: str, rows: int, source: int, copy: int, wait: tuple[int, int] | None, first: int, width: int,
        out: int | None = None, parts: Sequence[Part] = (),
    ) -> int:  # fmt: skip
        """Rows times some columns of a matrix, at `out` or in a new buffer. `parts`: as of `product`."""
        weight, base, each = self.memory.weights[name]
        if out is None:
            out = self.take(rows * width)
        begin = bytes_of(self.shape.stored(weight, weight.rows) * first, self.shape.bits_of(weight))
        self.multiply(weight, rows, source, out, base + copy * each + begin, weight.rows, width, wait, parts)
        return out

    def _load_together(self, name: str, copy: int, wait: tuple[int, int] | None) -> int:
        """The matrix of an expert in the scratchpad; the first of several adjacent matrices loads all of them."""
        first, nbytes, offset = self.memory.together[name]
        address, bits = first + copy * nbytes, self.shape.bits_of(self.memory.weights[name][0])
        stream = self._weights
        if stream.loaded[0] != address:
            stream.loaded = address, stream.ring.take(nbytes + 2 * self.align)
            whole, count = as_elements(nbytes * 8 // bits, bits)
            load = self.emit.load("weight", whole, Span(address, 1, count, nbytes), stream.loaded[1], **self.meta)
            self._delay(load, nbytes, wait)
        return stream.loaded[1] + offset

    def _delay(self, load: int, nbytes: int, wait: tuple[int, int] | None) -> None:
        """Makes a load of weights wait for `wait`, the bytes that name the expert, unless experts are loaded ahead of the
        router; and for earlier loads if a large ring holds many weights.

        All loads in progress share the DRAM. If the ring of weights could be filled at once, the first weights of a layer would
        come as late as the last ones, and other PEs would wait for the rows of this PE. A decode step has few rows to wait for.
        """
        if wait is not None and not self.prefetches:
            self.emit.after(load, *wait)
        if not self.paces or not (self.prefetches or self.blocks.ring):
            return
        stream, config = self._weights, self.config
        stream.nbytes += nbytes
        full = self._network_began and stream.nbytes > stream.ring.buffer.nbytes
        in_order, most = self.blocks.loads < LOADS and not full, self._tile_bytes * self.blocks.tiles
        if in_order and not self.blocks.part_products:  # parts with products use all tiles in turn, none of them first
            most = min(most, setup_bytes(config))
        least = (self.blocks.loads if in_order else LOADS) * in_flight(config)
        one = Load(load, nbytes, set() if in_order else None)
        stream.in_progress.append(one)
        left = sum(some.nbytes for some in stream.in_progress)
        while len(stream.in_progress) > least and left - stream.in_progress[0].nbytes >= most:
            before = stream.in_progress.popleft()
            others = [] if before.waits is None else [job for job in stream.ended if job not in before.waits]
            stream.ended = [*others, before.job]
            left -= before.nbytes
        if one.waits is not None:
            one.waits.update(stream.ended)
        self.emit.behind(stream.ended)

    def _gemm(self, weight: Weight, rows: int, source: int, slot: int, out: int, k: int, n: int) -> None:
        if not rows:  # of an expert that no row has chosen
            return
        sizes = {"m": rows, "n": n, "k": k, "qbits_weight": self.shape.bits_of(weight), "qbits_activation": self.act_bits}
        self.emit.te("gemm", source, slot, out, **sizes, **self.meta)

    def multiply(
        self, weight: Weight, rows: int, source: int, out: int, base: int, k: int, n: int, wait: tuple[int, int] | None = None,
        parts: Sequence[Part] = (),
    ) -> None:  # fmt: skip
        tiles = self.tiles(weight, base, k, n, wait)
        if not parts:
            self.multiply_loaded(weight, rows, source, out, tiles, k)
            return
        for slot, col, width in tiles:
            for count, at, to in parts:
                self._gemm(weight, count, source + self.act(at * k), slot, out + self.act(to * n + count * col), k, width)

    def tiles(
        self, weight: Weight, base: int, k: int, n: int, wait: tuple[int, int] | None = None
    ) -> Iterator[Tile]:
        """Loads the tiles of a matrix in turn; yields the place, the first column and the columns of each."""
        bits = self.shape.bits_of(weight)
        stored = self.shape.stored(weight, k)
        cols = min(n, max(1, self._tile_bytes * 8 // (stored * bits)))
        cols = n if cols == n else max(cols // 16 * 16, min(cols, 8))
        for col in range(0, n, cols):
            width = min(cols, n - col)
            nbytes = bytes_of(stored * width, bits)
            slot = self._weights.ring.take(nbytes + 2 * self.align)
            self._weights.loaded = -1, 0  # later tiles take the place of the latest expert
            span = Span(base + bytes_of(stored * col, bits), 1, stored * width, nbytes)
            load = self.emit.load("weight", bits, span, slot, **self.meta)
            self._delay(load, nbytes, wait)
            yield slot, col, width

    def tiles_that_stay(self, *matrices: tuple[Weight, int, int, int], phases: Sequence[str] = ()) -> list[list[Tile]]:
        """Loads all tiles of matrices, for several products with each. DoesNotFit if the ring of weights has no room for them.

        `matrices`: weight, address, rows and columns of each. `phases`: the phase of each, if they differ. No other tile may be
        loaded before the last of the products.
        """
        found, ranges = [], list[tuple[int, int]]()
        for number, (weight, base, k, n) in enumerate(matrices):
            if phases:
                self.set_phase(phases[number])
            tiles = list(self.tiles(weight, base, k, n))
            column = self.shape.stored(weight, k), self.shape.bits_of(weight)
            ranges += [(slot, slot + bytes_of(column[0] * width, column[1])) for slot, _, width in tiles]
            found.append(tiles)
        for (_, end), (behind, _) in pairwise(sorted(ranges)):
            if end > behind:
                raise DoesNotFit(sum(end - begin for begin, end in ranges))
        return found

    def multiply_loaded(
        self, weight: Weight, rows: int, source: int, out: int, tiles: Iterable[Tile], k: int, before: Sequence[int] = ()
    ) -> list[int]:
        """Rows times a matrix whose tiles are loaded, or are loaded in turn; returns the jobs, one for each tile.

        `before`: earlier jobs with the same tiles, behind which these ones go one by one.
        """
        jobs = []
        for number, (slot, col, width) in enumerate(tiles):
            self._gemm(weight, rows, source, slot, out + self.act(rows * col), k, width)
            if before:
                self.emit.behind([before[number]])
            jobs.append(self.emit.last)
        return jobs

    def te(self, op: str, left: int, right: int, out: int, m: int, n: int, k: int, bits: int, head: int) -> None:
        sizes = {"m": m, "n": n, "k": k, "qbits_weight": bits, "qbits_activation": self.act_bits}
        self.emit.te(op, left, right, out, **sizes, **{**self.meta, "head_id": head})

    def add_bias(self, there: bool, place: int, length: int, rows: int) -> None:
        if there:
            self.split_vector("add", length, rows, place, place, place)


def longest_column(shape: BlockShape) -> int:
    """[bit] The column of a matrix that takes most."""
    return max(shape.stored(weight, weight.rows) * shape.bits_of(weight) for weight in shape.block.weights(shape.hidden))


def expert_transfer(shape: BlockShape, config: NpuConfig) -> int:
    """[byte] The matrices of an expert that one transfer loads, at most: a tile. 0 where setups of transfers hardly count, or
    where other transfers hide them."""
    return weight_ring(config, longest_column(shape))[0] if setup_bytes(config) and in_flight(config) == 1 else 0


def weight_ring(config: NpuConfig, column_bits: int, eighths: int = 0) -> tuple[int, int]:
    """[byte] of a weight tile and of the ring of tiles: the largest tiles with which the ring is a third of the scratchpad.

    `eighths`: the ring has as many of these tiles as this part of the scratchpad holds, if they are more.
    """
    line = config.spm.bank_width_bytes
    skew = (config.spm.num_banks // 4 + 1) * line
    most = config.spm.size_bytes // 3
    for wanted in (2 * config.dma.engines + config.te.engines, 3, 2):
        for kib in tile_sizes(config, _TILE_KIB, LAYER_PART):
            slot = ceil_div((kib << 10) + 2 * config.dma.alignment_bytes, line) * line + skew
            if wanted * slot <= most and column_bits <= kib << 13:
                return kib << 10, max(wanted, config.spm.size_bytes * eighths // 8 // slot) * slot
    rule = "two tiles of one column of each matrix must fit a third of the scratchpad"
    raise InputError(beyond_scratchpad(config, rule))
