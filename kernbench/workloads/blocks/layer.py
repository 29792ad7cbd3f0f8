"""A block of parts as a command queue: its rows go through mixer and network, part by part.

The rows of a step are cut into blocks that fit the scratchpad; each block goes through the whole layer, so its weights are
loaded once a block. If the network alone fits with more rows, the mixer of all blocks comes first, and the network has larger
blocks. Keys go through the scratchpad tile by tile, with a softmax of each tile and a correction of the output so
far. Bias, RoPE, norms and gates are vector operations as in the planner of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.errors import InputError
from kernbench.common.units import ceil_div, even_parts
from kernbench.config.kinds import beyond_scratchpad
from kernbench.config.schema import NpuConfig
from kernbench.workloads.blocks.arena import Arena
from kernbench.workloads.blocks.batch import QUERY_TOKENS, Batch, Piece, Sequences, first_key
from kernbench.workloads.blocks.meetings import ALONE, GatheredRows, Meeting, ScatteredRows, Seat
from kernbench.workloads.blocks.memory import BlockMemory
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.buffers import chunk_bytes
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS
from kernbench.workloads.layer.projections import PartialRows
from kernbench.workloads.models.parts import (
    Attention,
    Experts,
    LatentAttention,
    LinearAttention,
    Mixer,
    Mlp,
    StateSpace,
    Weight,
)
from kernbench.workloads.routing import Routing
from kernbench.workloads.scratchpad import Buffer, DoesNotFit, Ring
from kernbench.workloads.transfers import LAYER_PART, in_flight, setup_bytes, tile_sizes

_TILE_KIB = (256, 128, 64, 32, 16, 8, 4, 2)
_PIECE_BYTES = 64 << 10  # activations and keys go through DMA in pieces of about this
_ACTIVATION = {"silu": "silu", "gelu": "gelu", "relu": "copy", "relu2": "mul"}  # as long as


def _as_elements(count: int, bits: int) -> tuple[int, int]:
    """The width and number of elements that an entry states: packed elements of an odd width travel as bytes."""
    return (bits, count) if bits == unpacked_bits(bits) else (8, bytes_of(count, bits))


class BlockLayer:
    """A layer of one shard in the making. `rows`: [token] of a block, at most. `ends`: where the layer reads and writes.

    `encoded`: the address of the encoder's output. `words`: of the rows of the embedding, for a block that predicts.
    `splits_rows`: shards have rows of their own between products (sequence parallelism). `prefetches`: the weights of all
    experts are loaded without waiting for the router. `deep`: half of the scratchpad holds weights. `network_rows`: [token] of
    a block of the network, which then follows the mixer of all blocks; 0: each block goes through both.
    """

    def __init__(
        self, shape: BlockShape, config: NpuConfig, emit: Emitter, memory: BlockMemory, batch: Batch, rows: int,
        ends: tuple[int, int, int], routing: Routing, encoded: int = 0, words: int = 0, seat: Seat = ALONE,
        splits_rows: bool = False, prefetches: bool = False, deep: bool = False, network_rows: int = 0,
    ) -> None:  # fmt: skip
        self.shape, self.config, self.emit, self.memory, self.batch = shape, config, emit, memory, batch
        self.rows, self.network_rows, self.routing = rows, network_rows, routing
        self.source, self.target, self.rope = ends
        self.encoded, self.words = encoded, words
        self.seat, self.splits_rows, self.prefetches = seat, splits_rows, prefetches
        self.act_bits, self.act = shape.activation_bits, shape.act
        self.hidden = shape.hidden
        self._align = config.dma.alignment_bytes
        self.meta: dict[str, Any] = {}
        self._table: tuple[int, int] | None = None  # of the page table in the scratchpad: address and bytes
        line, size = config.spm.bank_width_bytes, config.spm.size_bytes
        self._tile_bytes, ring = weight_ring(config, longest_column(shape), deep=deep)
        self._loaded = -1, 0  # matrices that are loaded together: the address of the latest ones in DRAM and in the scratchpad
        self._weights = Ring(Buffer("weights", 0, ring, 0, 0), line, (config.spm.num_banks // 4 + 1) * line)
        self.arena = Arena(ceil_div(ring, line) * line, size, line)

    def emit_all(self) -> Iterator[Meeting]:
        """Emit all blocks of rows; on a shard, yield where shards must exchange data."""
        self.meta = {"phase": "NORM", "token_idx": self.batch.groups[0].context}
        if self.shape.vector_elements:
            self._load("weight", self.shape.gain_bits, self.memory.vectors, self.shape.vector_elements)
        self._load_page_table()
        yield from self._first_pass()
        if self.network_rows:
            yield from self._blocks(self.rows, self._mixer_block)
            yield from self._blocks(self.network_rows, self._network_block)
        else:
            yield from self._blocks(self.rows, self._block)

    def _blocks(self, most: int, emit: Callable[[Sequence[Piece], int, int], Iterator[Meeting]]) -> Iterator[Meeting]:
        """All rows, in blocks of at most `most` rows."""
        first = 0
        for number, pieces in enumerate(self.batch.blocks(most)):
            self.meta = {"block_id": number, "token_idx": pieces[0].cached, "phase": "LAYER"}
            rows = sum(piece.rows for piece in pieces)
            yield from emit(pieces, first, rows)
            first += self.own(rows)[1]

    def _first_pass(self) -> Iterator[Meeting]:
        """Keys and values that must be in memory before the first block of rows."""
        if self.shape.encoder:
            self._keep_all()
        elif self.shape.crossed and any(not group.context for group in self.batch.groups):
            self._keep_sources()
        yield from ()

    def own(self, rows: int) -> tuple[int, int]:
        """The first and the number of the rows of a block that this shard has between products: with --sp a part of them."""
        if not self.splits_rows:
            return 0, rows
        parts = even_parts(rows, self.shape.shards)
        return sum(parts[: self.seat.shard]), parts[self.seat.shard]

    def _load_page_table(self) -> None:
        """The numbers of the pages of all sequences: transfers with the cache wait for them."""
        memory = self.memory
        self._table = None
        if memory.pages is not None:
            many, self.meta["phase"] = memory.pages, "PAGE_TABLE"
            row = bytes_of(many.pages, PAGE_NUMBER_BITS)
            place = self.arena.take(many.sequences * row + 2 * self._align)
            span = Span(memory.page_table, many.sequences, many.pages, row)
            if many.sequences == 1:
                span = Span(memory.page_table, 1, many.pages, row)
            self.emit.load("kv", PAGE_NUMBER_BITS, span, place, **self.meta)
            self._table = place, many.sequences * row

    def _after_table(self, job: int) -> None:
        """The address of the last transfer is in the page table."""
        if self._table is not None:
            self.emit.after(job, *self._table)

    def _by_page(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """First token and number of tokens of each transfer with the cache: one, or one a page."""
        size = self.memory.page_tokens
        end = start + count
        while start < end:
            some = min(end, (start // size + 1) * size) - start if size else count
            yield start, some
            start += some

    def _load_cache(self, name: str, piece: Piece, head: int, start: int, count: int, dim: int) -> int:
        """Keys or values of cached tokens, in a new buffer."""
        bits, memory = self.shape.kv_bits, self.memory
        if memory.pages is None:
            return self._load("kv", bits, memory.cache_address(self.shape, name, piece.sequence, head, start), count * dim)
        place = self.take(count * dim, unpacked_bits(bits))
        for token, some in self._by_page(start, count):
            address = memory.cache_address(self.shape, name, piece.sequence, head, token)
            whole, number = _as_elements(some * dim, bits)
            span = Span(address, 1, number, bytes_of(some * dim, bits))
            to = place + bytes_of((token - start) * dim, bits)
            self._after_table(self.emit.load("kv", whole, span, to, **self.meta))
        return place

    def _block(self, pieces: Sequence[Piece], first: int, rows: int) -> Iterator[Meeting]:
        block, hidden = self.shape.block, self.hidden
        x = self._input(first, rows)
        if block.predicts:
            x = self._with_words(x, first, rows)
        out = None
        normed = yield from self._normed(x, rows)
        if block.mixer is not None:
            out = yield from self._mix(block.mixer, normed, pieces, rows)
        if not block.parallel and out is not None:
            yield from self._reduce(out, rows)
            self._add_to_stream(x, out, rows)
        if block.cross is not None:
            self.arena.give(normed)
            normed = self._norm(x, rows)
            seen = self._cross(block.cross, normed, pieces, rows)
            yield from self._reduce(seen, rows)
            self._phase("RESIDUAL")
            self.vector("add", hidden, rows, x, x, seen)
            self.arena.give(seen)
        if block.ffn is not None:
            if not block.parallel or block.norms == 2:
                self.arena.give(normed)
                normed = yield from self._normed(x, rows)
            network = yield from self._network_of(block.ffn, normed, rows)
            if block.parallel and out is not None:
                self._phase("RESIDUAL")
                self.vector("add", hidden, rows, network, network, out)
                self.arena.give(out)
            yield from self._reduce(network, rows)
            self._add_to_stream(x, network, rows)
        self.arena.give(normed)
        if self.shape.closing is not None:
            self._phase("NORM")
            self._split(self.shape.closing.kind, hidden, rows, x, x)
        self._output(x, first, rows)

    def _mixer_block(self, pieces: Sequence[Piece], first: int, rows: int) -> Iterator[Meeting]:
        """A block through the mixer alone; the residual stream goes to memory."""
        assert self.shape.block.mixer is not None
        x = self._input(first, rows)
        normed = yield from self._normed(x, rows)
        out = yield from self._mix(self.shape.block.mixer, normed, pieces, rows)
        self.arena.give(normed)
        yield from self._reduce(out, rows)
        self._add_to_stream(x, out, rows)
        self._output(x, first, rows)

    def _network_block(self, pieces: Sequence[Piece], first: int, rows: int) -> Iterator[Meeting]:
        """A block through the network alone, which needs the residual stream only before and after its experts."""
        assert self.shape.block.ffn is not None
        address, count = self.target + self.act(first * self.hidden), rows * self.hidden
        normed = self._load("activation", self.act_bits, address, count)
        self._norm(normed, rows, normed)
        network = yield from self._network_of(self.shape.block.ffn, normed, rows)
        self.arena.give(normed)
        yield from self._reduce(network, rows)
        self._phase("RESIDUAL")
        x = self._load("activation", self.act_bits, address, count)
        self._add_to_stream(x, network, rows)
        if self.shape.closing is not None:
            self._phase("NORM")
            self._split(self.shape.closing.kind, self.hidden, rows, x, x)
        self._output(x, first, rows)

    def _input(self, first: int, rows: int) -> int:
        """The own rows of the residual stream, from row `first` of memory on."""
        self._phase("LAYER_INPUT")
        count = self.own(rows)[1] * self.hidden
        if not count:
            return self.take(0)
        return self._load("activation", self.act_bits, self.source + self.act(first * self.hidden), count)

    def _output(self, x: int, first: int, rows: int) -> None:
        """The own rows of the residual stream, to memory."""
        count = self.own(rows)[1] * self.hidden
        if count:
            self._store("activation", self.act_bits, self.target + self.act(first * self.hidden), count, x)
        self.arena.give(x)

    def _normed(self, x: int, rows: int) -> Generator[Meeting, None, int]:
        """The norm of all rows of a block. With --sp each shard norms its own rows, and an all-gather follows."""
        if not self.splits_rows:
            return self._norm(x, rows)
        self._phase("NORM")
        place = self.take(rows * self.hidden)
        first, count = self.own(rows)
        if count:
            self._split(self.shape.norm, self.hidden, count, x, place + self.act(first * self.hidden))
        yield GatheredRows("all-gather", "shards", place, self._row_parts(rows), self.act_bits, dict(self.meta))
        return place

    def _row_parts(self, rows: int) -> tuple[int, ...]:
        """[element] of the rows of each shard."""
        return tuple(count * self.hidden for count in even_parts(rows, self.shape.shards))

    def _add_to_stream(self, x: int, out: int, rows: int) -> None:
        """The output of a mixer or network, perhaps with a norm behind it, added to the own rows of the residual stream."""
        first, count = self.own(rows)
        place = out + self.act(first * self.hidden)
        if count and self.shape.block.norms == 4:
            self._norm(place, count, place)
        self._phase("RESIDUAL")
        if count:
            self.vector("add", self.hidden, count, x, x, place)
        self.arena.give(out)

    def _with_words(self, x: int, first: int, rows: int) -> int:
        """The input of a block that predicts: both norms, and the product of each with its half of the projection."""
        words = self._load("activation", self.act_bits, self.words + self.act(first * self.hidden), rows * self.hidden)
        made = []
        for place, name in ((words, "word_proj"), (x, "state_proj")):
            self._norm(place, rows, place)
            self._phase("MTP_PROJ")
            made.append(self.product(name, rows, place))
        self._split("add", self.hidden, rows, made[0], made[0], made[1])
        self.arena.give(words, x, made[1])
        return made[0]

    def _phase(self, name: str) -> None:
        self.meta["phase"] = name

    def _reduce(self, place: int, rows: int) -> Iterator[Meeting]:
        """The partial sums that the shards add up. The shards wait for each other here. With --sp each shard gets the sum of
        its own rows."""
        shards = self.shape.shards
        line = self.config.spm.bank_width_bytes
        if self.splits_rows:
            parts = self._row_parts(rows)
            room = self.arena.take((shards - 1) * ceil_div(self.act(max(parts)), line) * line)
            yield ScatteredRows("reduce-scatter", "shards", place, parts, self.act_bits, dict(self.meta), room)
            self.arena.give(room)
        elif shards > 1:
            room = self.arena.take((shards - 1) * chunk_bytes(self.act(rows * self.hidden), shards, line))
            yield PartialRows(place, room, rows * self.hidden, dict(self.meta))
            self.arena.give(room)

    def take(self, elements: int, bits: int = 0) -> int:
        """A buffer for elements, with room for the alignment of transfers."""
        return self.arena.take(bytes_of(elements, bits or self.act_bits) + 2 * self._align)

    def vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None, **meta: Any) -> int:
        """A vector operation on `batch` rows of `length` activations."""
        shape = {"length": length, "batch": batch, "qbits_activation": self.act_bits}
        return self.emit.ve(op, source, out, second, **shape, **{**self.meta, **meta})

    def _split(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None) -> None:
        """The same, distributed over the vector engines."""
        step = ceil_div(batch, self.config.ve.engines)
        for row in range(0, batch, step):
            at = self.act(row * length)
            self.vector(op, length, min(step, batch - row), source + at, out + at, None if second is None else second + at)

    def _pieces(self, elements: int, bits: int) -> Iterator[tuple[int, int]]:
        """First element and number of each transfer: whole lines, so that pieces follow each other in both memories."""
        unit = self._align * 8
        step = max(unit, _PIECE_BYTES * 8 // bits // unit * unit)
        for at in range(0, elements, step):
            yield at, min(step, elements - at)

    def _load(self, role: str, bits: int, address: int, elements: int) -> int:
        """DRAM to a new buffer."""
        place = self.take(elements, unpacked_bits(bits))
        self._load_to(role, bits, address, elements, place)
        return place

    def _load_to(self, role: str, bits: int, address: int, elements: int, place: int) -> None:
        """DRAM to a buffer."""
        for at, count in self._pieces(elements, bits):
            begin = bytes_of(at, bits)
            whole, number = _as_elements(count, bits)
            self.emit.load(role, whole, Span(address + begin, 1, number, bytes_of(count, bits)), place + begin, **self.meta)

    def _store(self, role: str, bits: int, address: int, elements: int, place: int) -> None:
        for at, count in self._pieces(elements, bits):
            begin = bytes_of(at, bits)
            self.emit.store(role, bits, Span(address + begin, 1, count, bytes_of(count, bits)), place + begin, **self.meta)

    def _norm(self, source: int, rows: int, out: int | None = None) -> int:
        """Emit the norm of rows of the hidden width; return its buffer."""
        self._phase("NORM")
        place = self.take(rows * self.hidden) if out is None else out
        self._split(self.shape.norm, self.hidden, rows, source, place)
        return place

    def product(self, name: str, rows: int, source: int, copy: int = 0, wait: tuple[int, int] | None = None) -> int:
        """Rows times a matrix, in a new buffer. `wait`: bytes that must be there before its weights are loaded."""
        weight, base, each = self.memory.weights[name]
        out = self.take(rows * weight.cols)
        if name in self.memory.together:
            slot = self._load_together(name, copy, wait)
            self._gemm(weight, rows, source, slot, out, weight.rows, weight.cols)
        else:
            self._multiply(weight, rows, source, out, base + copy * each, weight.rows, weight.cols, wait)
        return out

    def _load_together(self, name: str, copy: int, wait: tuple[int, int] | None) -> int:
        """The matrix of an expert in the scratchpad; the first of several adjacent matrices loads all of them."""
        first, nbytes, offset = self.memory.together[name]
        address, bits = first + copy * nbytes, self.shape.bits_of(self.memory.weights[name][0])
        if self._loaded[0] != address:
            self._loaded = address, self._weights.take(nbytes + 2 * self._align)
            whole, count = _as_elements(nbytes * 8 // bits, bits)
            load = self.emit.load("weight", whole, Span(address, 1, count, nbytes), self._loaded[1], **self.meta)
            self._after_router(load, wait)
        return self._loaded[1] + offset

    def _after_router(self, load: int, wait: tuple[int, int] | None) -> None:
        """Makes a load of an expert wait for the bytes that name the expert, unless experts are loaded ahead of the router."""
        if wait is not None and not self.prefetches:
            self.emit.after(load, *wait)

    def _gemm(self, weight: Weight, rows: int, source: int, slot: int, out: int, k: int, n: int) -> None:
        if not rows:  # of an expert that no row has chosen
            return
        sizes = {"m": rows, "n": n, "k": k, "qbits_weight": self.shape.bits_of(weight), "qbits_activation": self.act_bits}
        self.emit.te("gemm", source, slot, out, **sizes, **self.meta)

    def _multiply(
        self, weight: Weight, rows: int, source: int, out: int, base: int, k: int, n: int, wait: tuple[int, int] | None = None
    ) -> None:
        bits = self.shape.bits_of(weight)
        stored = self.shape.stored(weight, k)
        cols = min(n, max(1, self._tile_bytes * 8 // (stored * bits)))
        cols = n if cols == n else max(cols // 16 * 16, min(cols, 8))
        for col in range(0, n, cols):
            width = min(cols, n - col)
            nbytes = bytes_of(stored * width, bits)
            slot = self._weights.take(nbytes + 2 * self._align)
            self._loaded = -1, 0  # later tiles take the place of the latest expert
            span = Span(base + bytes_of(stored * col, bits), 1, stored * width, nbytes)
            load = self.emit.load("weight", bits, span, slot, **self.meta)
            self._after_router(load, wait)
            self._gemm(weight, rows, source, slot, out + self.act(rows * col), k, width)

    def _te(self, op: str, left: int, right: int, out: int, m: int, n: int, k: int, bits: int, head: int) -> None:
        sizes = {"m": m, "n": n, "k": k, "qbits_weight": bits, "qbits_activation": self.act_bits}
        self.emit.te(op, left, right, out, **sizes, **{**self.meta, "head_id": head})

    def _bias(self, there: bool, place: int, length: int, rows: int) -> None:
        if there:
            self._split("add", length, rows, place, place, place)

    # Mixers

    def _mix(self, mixer: Mixer, normed: int, pieces: Sequence[Piece], rows: int) -> Generator[Meeting, None, int]:
        """The output of the mixer, which the residual stream gets."""
        yield from ()
        if isinstance(mixer, Attention) and self.shape.encoder:
            return self._attend_all(mixer, ("wq", "wo"), ("k", "v"), normed, pieces, rows)
        if isinstance(mixer, Attention):
            return self._attention(mixer, normed, pieces, rows)
        if isinstance(mixer, LatentAttention):
            return self._latent(mixer, normed, pieces, rows)
        if isinstance(mixer, LinearAttention):
            return self._linear(mixer, normed, pieces, rows)
        return self._state_space(mixer, normed, pieces, rows)

    def _rope(self, place: int, width: int, rows: int) -> None:
        """Two products and a sum, as in the planner of layers."""
        self._phase("ROPE")
        rotated = self.take(rows * width)
        self._split("mul", width, rows, place, rotated, place)
        self._split("mul", width, rows, place, place, place)
        self._split("add", width, rows, place, place, rotated)
        self.arena.give(rotated)

    def _rope_tables(self, dim: int, rows: int) -> None:
        """The rows of the tables of new tokens."""
        self._phase("ROPE")
        self.arena.give(self._load("embedding", self.act_bits, self.rope, 2 * rows * dim))

    def _attention(self, mixer: Attention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
        made = self._projected(mixer, normed, rows, "qkv")
        out = self.take(rows * mixer.out_width)
        for piece in pieces:
            new = self._keep({"k": made["k"], "v": made["v"]}, piece)
            for head in range(mixer.kv_heads):
                self._attend(mixer, piece, head, made["q"], out, new)
            self.arena.give(*new.values())
        return self._attended(mixer, made, out, rows)

    def _projected(self, mixer: Attention, normed: int, rows: int, names: str) -> dict[str, int]:
        """The projections of queries, keys and values that are in `names`, with biases, norms and RoPE."""
        self._phase("QKV_PROJ")
        widths = {"q": mixer.query_width, "k": mixer.kv_width, "v": mixer.value_width}
        biased = {"q": mixer.q_bias, "k": mixer.k_bias, "v": mixer.v_bias}
        heads = {"q": mixer.heads, "k": mixer.kv_heads}
        made = {name: self.product(f"w{name}", rows, normed) for name in names}
        for name, place in made.items():
            self._bias(biased[name], place, widths[name], rows)
        turned = {name: place for name, place in made.items() if name != "v"}
        for name, place in turned.items() if mixer.qk_norm else ():
            self._split("layernorm" if mixer.qk_shift else "rmsnorm", mixer.head_dim, rows * heads[name], place, place)
        if mixer.rope and turned:
            self._rope_tables(mixer.head_dim, rows)
            for name, place in turned.items():
                self._rope(place, heads[name] * mixer.head_dim, rows)
        return made

    def _attended(self, mixer: Attention, made: dict[str, int], out: int, rows: int) -> int:
        """The gate and the output projection behind the attention of queries, keys and values."""
        if mixer.gated:
            self.vector("sigmoid", mixer.out_width, rows, made["q"], made["q"])
            self._split("mul", mixer.out_width, rows, out, out, made["q"])
        self.arena.give(*made.values())
        self._phase("OUT_PROJ")
        found = self.product("wo", rows, out)
        self._bias(mixer.out_bias, found, self.hidden, rows)
        self.arena.give(out)
        return found

    def _keep(self, new: dict[str, int], piece: Piece) -> dict[str, int]:
        """New keys and values at the cache's bits: where they are in the scratchpad; they are stored to the cache as well."""
        found = {}
        self._phase("KV_STORE")
        for name, heads, dim in self.shape.cached:
            bits = self.shape.kv_bits
            row = bytes_of(piece.rows * dim, unpacked_bits(bits))
            cuts = sum(1 for _ in self._by_page(piece.cached, piece.rows))
            lines = heads * (ceil_div(row, self._align) + 2 * cuts) * self._align
            place = self.arena.take(lines)
            source = new[name] + self.act(piece.row * heads * dim)
            sizes = {"length": heads * dim, "batch": piece.rows, "qbits_activation": unpacked_bits(bits)}
            self.emit.ve("copy", source, place, **sizes, **self.meta)
            stride = bytes_of((self.memory.page_tokens or self.memory.positions) * dim, bits)
            for token, some in self._by_page(piece.cached, piece.rows):
                address = self.memory.cache_address(self.shape, name, piece.sequence, 0, token)
                whole, number = _as_elements(some * dim, bits)
                span = Span(address, heads, number, stride if heads > 1 else bytes_of(some * dim, bits))
                at = place + heads * bytes_of((token - piece.cached) * dim, bits)
                self._after_table(self.emit.store("kv", whole, span, at, **self.meta))
            found[name] = place
        return found

    # The encoder, and attention to it

    def _keep_all(self) -> None:
        """Keys and values of all tokens of an encoder's layer go to memory first: every query attends to all of them."""
        mixer = self.shape.block.mixer
        assert isinstance(mixer, Attention)
        first = 0
        for number, pieces in enumerate(self.batch.blocks(self.rows)):
            self.meta = {"block_id": number, "token_idx": pieces[0].cached, "phase": "LAYER_INPUT"}
            rows = sum(piece.rows for piece in pieces)
            x = self._load("activation", self.act_bits, self.source + self.act(first * self.hidden), rows * self.hidden)
            normed = self._norm(x, rows)
            self._keep_rows(mixer, ("wk", "wv"), self.shape.cached, normed, pieces, rows)
            self.arena.give(x, normed)
            first += rows

    def _keep_sources(self) -> None:
        """Keys and values of the encoder's output, of the sequences that begin in this step."""
        cross, hidden = self.shape.block.cross, self.hidden
        assert cross is not None
        number, begun = 0, list[int]()
        for group in self.batch.groups:
            begun += range(number, number + group.count) if not group.context else ()
            number += group.count
        total = len(begun) * self.shape.sources
        most = max(1, total * self.rows // self.batch.tokens)  # as large a part of all as a block is of the step
        for block, pieces in enumerate(Batch((Sequences(self.shape.sources, 0, len(begun)),)).blocks(min(most, total))):
            self.meta = {"block_id": block, "token_idx": pieces[0].cached, "phase": "CROSS_INPUT"}
            rows = sum(piece.rows for piece in pieces)
            x = self.take(rows * hidden)
            for piece in pieces:
                at = self.encoded + self.act((begun[piece.sequence] * self.shape.sources + piece.cached) * hidden)
                self._load_to("activation", self.act_bits, at, piece.rows * hidden, x + self.act(piece.row * hidden))
            owned = [replace(piece, sequence=begun[piece.sequence]) for piece in pieces]
            self._keep_rows(cross, ("cross_wk", "cross_wv"), self.shape.crossed, x, owned, rows)
            self.arena.give(x)

    def _keep_rows(
        self, mixer: Attention, names: tuple[str, str], cached: tuple[tuple[str, int, int], ...], source: int,
        pieces: Sequence[Piece], rows: int,
    ) -> None:  # fmt: skip
        """Keys and values of rows, at the cache's bits, to memory."""
        self._phase("QKV_PROJ")
        bits = self.shape.kv_bits
        room = self.memory.positions if self.shape.encoder else self.memory.sources
        for weight, biased, (name, heads, dim) in zip(names, (mixer.k_bias, mixer.v_bias), cached, strict=True):
            made = self.product(weight, rows, source)
            self._bias(biased, made, heads * dim, rows)
            if mixer.rope and name == "k":
                self._rope_tables(dim, rows)
                self._rope(made, heads * dim, rows)
            self._phase("KV_STORE")
            for piece in pieces:
                row = bytes_of(piece.rows * dim, unpacked_bits(bits))
                place = self.arena.take(heads * (ceil_div(row, self._align) + 2) * self._align)
                sizes = {"length": heads * dim, "batch": piece.rows, "qbits_activation": unpacked_bits(bits)}
                self.emit.ve("copy", made + self.act(piece.row * heads * dim), place, **sizes, **self.meta)
                address = self.memory.cache_address(self.shape, name, piece.sequence, 0, piece.cached)
                whole, number = _as_elements(piece.rows * dim, bits)
                stride = bytes_of(room * dim, bits) if heads > 1 else bytes_of(piece.rows * dim, bits)
                self.emit.store("kv", whole, Span(address, heads, number, stride), place, **self.meta)
                self.arena.give(place)
            self.arena.give(made)
            self._phase("QKV_PROJ")

    def _cross(self, cross: Attention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
        """Attention to the encoder's output."""
        return self._attend_all(cross, ("cross_wq", "cross_wo"), ("cross_k", "cross_v"), normed, pieces, rows)

    def _attend_all(
        self, mixer: Attention, names: tuple[str, str], keys: tuple[str, str], normed: int, pieces: Sequence[Piece], rows: int
    ) -> int:
        """Queries of rows attend to all tokens of the encoder of their sequence, tile by tile from memory."""
        self._phase("QKV_PROJ")
        q = self.product(names[0], rows, normed)
        self._bias(mixer.q_bias, q, mixer.width, rows)
        if mixer.rope and not mixer.cross:
            self._rope_tables(mixer.head_dim, rows)
            self._rope(q, mixer.width, rows)
        out = self.take(rows * mixer.out_width)
        group, dims = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim)
        tile = max(64, _PIECE_BYTES * 8 // (mixer.head_dim * unpacked_bits(self.shape.kv_bits)) // 64 * 64)
        for piece in pieces:
            behind = replace(piece, cached=self.shape.sources)  # no token is hidden from any query
            for head in range(mixer.kv_heads):
                at, to = self._of_head(mixer, piece, head)
                begun = set[int]()
                for start in range(0, self.shape.sources, tile):
                    count = min(tile, self.shape.sources - start)
                    self._phase("ATTENTION_SCORE")
                    places = [
                        self._load_source(name, piece.sequence, head, start, count, dim)
                        for name, dim in zip(keys, dims, strict=True)
                    ]
                    pair = places[0], places[1]
                    self._tile(mixer, behind, group, q + at, out + to, pair, (start, count), dims, head, begun)
                    self.arena.give(*places)
        self.arena.give(q)
        self._phase("OUT_PROJ")
        found = self.product(names[1], rows, out)
        self._bias(mixer.out_bias, found, self.hidden, rows)
        self.arena.give(out)
        return found

    def _load_source(self, name: str, sequence: int, head: int, start: int, count: int, dim: int) -> int:
        address = self.memory.cache_address(self.shape, name, sequence, head, start)
        return self._load("kv", self.shape.kv_bits, address, count * dim)

    def _attend(self, mixer: Attention, piece: Piece, head: int, q: int, out: int, new: dict[str, int] | None) -> None:
        """The query heads of one key and value head, over the cached keys tile by tile and then over the new ones."""
        group, dims, bits = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim), self.shape.kv_bits
        at, to = self._of_head(mixer, piece, head)
        first = first_key(mixer.window, mixer.chunk, piece.cached)
        tile = max(64, _PIECE_BYTES * 8 // (mixer.head_dim * unpacked_bits(bits)) // 64 * 64)
        begun: set[int] = set()
        for start in range(first, piece.cached, tile):
            count = min(tile, piece.cached - start)
            self._phase("ATTENTION_SCORE")
            places = [
                self._load_cache(name, piece, head, start, count, dim) for name, dim in zip(("k", "v"), dims, strict=True)
            ]
            self._tile(mixer, piece, group, q + at, out + to, (places[0], places[1]), (start, count), dims, head, begun)
            self.arena.give(*places)
        if new is None:  # which another PE has
            return
        k, v = (new[name] + bytes_of(piece.rows * head * dim, bits) for name, dim in zip(("k", "v"), dims, strict=True))
        self._tile(mixer, piece, group, q + at, out + to, (k, v), (piece.cached, piece.rows), dims, head, begun)

    def _of_head(self, mixer: Attention, piece: Piece, head: int) -> tuple[int, int]:
        """[byte] from the first query of a block to those of a key and value head, and the same of the outputs."""
        group = mixer.heads // mixer.kv_heads
        q, out = (
            self.act(piece.row * mixer.heads * dim + piece.rows * head * group * dim)
            for dim in (mixer.head_dim, mixer.value_dim)
        )
        return q, out

    def _tile(
        self, mixer: Attention | LatentAttention, piece: Piece, group: int, q: int, out: int, keys: tuple[int, int],
        span: tuple[int, int], dims: tuple[int, int], head: int, begun: set[int],
    ) -> None:  # fmt: skip
        """Scores, softmax and output of the queries that see some of a tile; `begun`: queries that have an output already."""
        start, count = span
        score_dim, value_dim = dims
        bits = self.shape.kv_bits
        window, chunk = (mixer.window, mixer.chunk) if isinstance(mixer, Attention) else (0, 0)
        for row in range(0, piece.rows, QUERY_TOKENS):
            some = min(QUERY_TOKENS, piece.rows - row)
            low = max(start, first_key(window, chunk, piece.cached + row))
            high = min(start + count, piece.cached + row + some)
            if low >= high:
                continue
            m, n = some * group, high - low
            scores = self.take(m * n)
            key, value = (place + bytes_of((low - start) * dim, bits) for place, dim in zip(keys, dims, strict=True))
            self._phase("ATTENTION_SCORE")
            self._te("qkt", q + self.act(row * group * score_dim), key, scores, m, n, score_dim, unpacked_bits(bits), head)
            self._phase("ATTENTION_SOFTMAX")
            if self.shape.softcap:
                self.vector("tanh", n, m, scores, scores)
            self.vector("softmax", n, m, scores, scores)
            self._phase("ATTENTION_APPLY")
            place = out + self.act(row * group * value_dim)
            part = self.take(m * value_dim) if row in begun else place
            self._te("av", scores, value, part, m, value_dim, n, unpacked_bits(bits), head)
            if part != place:
                self.vector("mul", value_dim, m, place, place, place)
                self.vector("add", value_dim, m, place, place, part)
                self.arena.give(part)
            begun.add(row)
            self.arena.give(scores)

    def _latent(self, mixer: LatentAttention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
        """Queries go through the matrix that expands keys, outputs through the one that expands values: keys stay latent."""
        made = self._projected_latent(mixer, normed, rows, ("q", "latent"))
        queries = self._latent_queries(mixer, made["q"], rows)
        out = self.take(rows * mixer.heads * mixer.kv_rank)
        for piece in pieces:
            new = self._keep({"latent": made["latent"]}, piece)["latent"]
            self._attend_latent(mixer, piece, queries, out, new)
            self.arena.give(new)
        self.arena.give(*made.values(), queries)
        return self._attended_latent(mixer, out, rows)

    def _projected_latent(self, mixer: LatentAttention, normed: int, rows: int, names: tuple[str, ...]) -> dict[str, int]:
        """The projections of queries and latent vectors that are in `names`, with biases, norms and RoPE."""
        self._phase("QKV_PROJ")
        made = {}
        if "q" in names and mixer.q_rank:
            narrow = self.product("wq_a", rows, normed)
            self._bias(mixer.bias, narrow, mixer.q_rank, rows)
            self._split("rmsnorm", mixer.q_rank, rows, narrow, narrow)
            made["q"] = self.product("wq_b", rows, narrow)
            self.arena.give(narrow)
        elif "q" in names:
            made["q"] = self.product("wq", rows, normed)
        if "latent" in names:
            latent = made["latent"] = self.product("wkv_a", rows, normed)
            self._bias(mixer.bias, latent, mixer.token_elements, rows)
            self._split("rmsnorm", mixer.kv_rank, rows, latent, latent)
        self._rope_tables(mixer.rope_dim, rows)
        for name, place in made.items():
            self._rope(place, (mixer.heads if name == "q" else 1) * mixer.rope_dim, rows)
        return made

    def _latent_queries(self, mixer: LatentAttention, q: int, rows: int) -> int:
        """Queries that are multiplied by latent vectors."""
        queries = self.take(rows * mixer.heads * mixer.token_elements)
        self._phase("QKV_PROJ")
        self._by_head("wk_b", rows, q, queries, mixer.nope_dim, mixer.kv_rank, mixer.heads)
        self._split("copy", mixer.heads * mixer.rope_dim, rows, q, queries)
        return queries

    def _attended_latent(self, mixer: LatentAttention, out: int, rows: int) -> int:
        """The values of latent outputs, and the output projection."""
        heads, rank = mixer.heads, mixer.kv_rank
        values = self.take(rows * heads * mixer.value_dim)
        self._phase("OUT_PROJ")
        self._by_head("wv_b", rows, out, values, rank, mixer.value_dim, heads)
        found = self.product("wo", rows, values)
        self._bias(mixer.bias, found, self.hidden, rows)
        self.arena.give(out, values)
        return found

    def _by_head(self, name: str, rows: int, source: int, out: int, k: int, n: int, heads: int) -> None:
        """The rows of each head times the matrix of that head."""
        weight, base, _ = self.memory.weights[name]
        bits = self.shape.bits_of(weight)
        for head in range(heads):
            at, to = source + self.act(rows * head * k), out + self.act(rows * head * n)
            first = base + bytes_of(head * self.shape.stored(weight, k) * n, bits)
            self._multiply(weight, rows, at, to, first, k, n)

    def _attend_latent(
        self, mixer: LatentAttention, piece: Piece, q: int, out: int, new: int | None, first: int = 0
    ) -> None:
        """All heads at once: they share the keys, and the values are the first elements of these."""
        heads, dim, bits = mixer.heads, mixer.token_elements, self.shape.kv_bits
        q += self.act(piece.row * heads * dim)
        out += self.act(piece.row * heads * mixer.kv_rank)
        tile, begun = max(64, _PIECE_BYTES * 8 // (dim * unpacked_bits(bits)) // 64 * 64), set[int]()
        for start in range(first, piece.cached, tile):
            count = min(tile, piece.cached - start)
            self._phase("ATTENTION_SCORE")
            place = self._load_cache("latent", piece, 0, start, count, dim)
            self._tile(mixer, piece, heads, q, out, (place, place), (start, count), (dim, mixer.kv_rank), 0, begun)
            self.arena.give(place)
        if new is not None:
            self._tile(mixer, piece, heads, q, out, (new, new), (piece.cached, piece.rows), (dim, mixer.kv_rank), 0, begun)

    def _state(self, piece: Piece) -> tuple[int, int]:
        """The state of a sequence, loaded if it has one: its place and its address."""
        each = ceil_div(self.act(self.shape.state_elements), self._align) * self._align
        address = self.memory.state + piece.sequence * each
        if piece.cached:
            return self._load("kv", self.act_bits, address, self.shape.state_elements), address
        return self.take(self.shape.state_elements), address

    def _convolution(self, place: int, width: int, taps: int, rows: int) -> None:
        """A product and a sum for each tap, and the activation."""
        self._phase("CONVOLUTION")
        for _ in range(taps):
            self._split("mul", width, rows, place, place, place)
            self._split("add", width, rows, place, place, place)
        self._split("silu", width, rows, place, place)

    def _linear(self, mixer: LinearAttention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
        self._phase("QKV_PROJ")
        qkv, gate = (self.product(name, rows, normed) for name in ("qkv", "gate"))
        if mixer.kind == "delta":
            self.arena.give(self.product("decay", rows, normed))
        if mixer.conv:
            self._convolution(qkv, mixer.conv_width, mixer.conv, rows)
        else:
            self._split("silu", 2 * mixer.key_width + mixer.value_width, rows, qkv, qkv)
        out = self.take(rows * mixer.value_width)
        for piece in pieces:
            dims = mixer.key_heads, mixer.value_heads, mixer.key_dim, mixer.value_dim
            self._recurrence(piece, qkv, out, dims, delta=mixer.kind == "delta")
        self._phase("OUT_PROJ")
        length = mixer.value_dim if mixer.kind == "delta" else mixer.value_width
        self._split("rmsnorm", length, rows * mixer.value_width // length, out, out)
        self._gate(mixer.value_width, rows, out, gate)
        found = self.product("wo", rows, out)
        self.arena.give(qkv, gate, out)
        return found

    def _gate(self, width: int, rows: int, place: int, gate: int) -> None:
        self._split("silu", width, rows, gate, gate)
        self._split("mul", width, rows, place, place, gate)

    def _recurrence(self, piece: Piece, source: int, out: int, dims: tuple[int, int, int, int], *, delta: bool) -> None:
        """Chunks of at most 128 tokens: scores inside the chunk, the contribution of the state, and the state after the chunk.

        The delta rule corrects keys and values of a chunk first: two more squares, and two products with them.
        """
        groups, heads, key, value = dims
        self._phase("STATE")
        state, address = self._state(piece)
        for row in range(0, piece.rows, QUERY_TOKENS):
            c = min(QUERY_TOKENS, piece.rows - row)
            scores, place = self.take(c * c), out + self.act((piece.row + row) * heads * value)
            left = source + self.act((piece.row + row) * key)
            spare = self.take(c * max(key, value))
            for group in range(groups):
                for _ in range(2 if delta else 1):
                    self._te("gemm", left, left, scores, c, c, key, self.act_bits, group)
                for head in range(group * heads // groups, (group + 1) * heads // groups):
                    at, kept = place + self.act(c * head * value), state + self.act(head * key * value)
                    if delta:
                        self._te("gemm", scores, left, spare, c, key, c, self.act_bits, head)
                        self._te("gemm", scores, left, spare, c, value, c, self.act_bits, head)
                    self._te("gemm", scores, left, at, c, value, c, self.act_bits, head)
                    self._te("gemm", left, kept, spare, c, value, key, self.act_bits, head)
                    self._te("gemm", left, left, kept, key, value, c, self.act_bits, head)
                    self.vector("add", value, c, at, at, spare)
            self.arena.give(scores, spare)
        self._store("kv", self.act_bits, address, self.shape.state_elements, state)
        self.arena.give(state)

    def _state_space(self, mixer: StateSpace, normed: int, pieces: Sequence[Piece], rows: int) -> int:
        self._phase("QKV_PROJ")
        wide = self.product("in_proj", rows, normed)
        self._bias(mixer.bias, wide, self.memory.weights["in_proj"][0].cols, rows)
        self._convolution(wide, mixer.conv_width, mixer.conv, rows)
        out = self.take(rows * mixer.inner)
        if mixer.groups:
            for piece in pieces:
                dims = mixer.groups, mixer.heads, mixer.state, mixer.inner // mixer.heads
                self._recurrence(piece, wide, out, dims, delta=False)
            self._split("rmsnorm", mixer.inner, rows, out, out)
        else:
            narrow = self.product("x_proj", rows, wide)
            if mixer.inner_norms:
                for width in (mixer.rank, mixer.state, mixer.state):
                    self._split("rmsnorm", width, rows, narrow, narrow)
            steps = self.product("dt_proj", rows, narrow)
            self._bias(True, steps, mixer.inner, rows)
            for piece in pieces:
                self._scan(mixer, piece, steps, out)
            self.arena.give(narrow, steps)
        self._phase("OUT_PROJ")
        self._gate(mixer.inner, rows, out, wide)
        found = self.product("out_proj", rows, out)
        self._bias(mixer.bias, found, self.hidden, rows)
        self.arena.give(wide, out)
        return found

    def _scan(self, mixer: StateSpace, piece: Piece, steps: int, out: int) -> None:
        """Token by token: the state decays, gets the input, and is read: four operations on all of its elements."""
        self._phase("STATE")
        state, address = self._state(piece)
        elements = mixer.inner * mixer.state
        decay = self.take(elements)
        for row in range(piece.rows):
            at = out + self.act((piece.row + row) * mixer.inner)
            self.vector("exp", elements, 1, decay, decay)
            self.vector("mul", elements, 1, state, state, decay)
            self.vector("add", elements, 1, state, state, decay)
            self.vector("mul", elements, 1, state, decay, state)
            self.vector("add", mixer.inner, 1, decay, at, decay)
        self._store("kv", self.act_bits, address, self.shape.state_elements, state)
        self.arena.give(state, decay)

    # Networks

    def _network_of(self, ffn: Mlp | Experts, normed: int, rows: int) -> Generator[Meeting, None, int]:
        """The output of the network; PEs that share experts exchange rows here."""
        yield from ()
        return self._feed_forward(ffn, normed, rows)

    def _feed_forward(self, ffn: Mlp | Experts, normed: int, rows: int) -> int:
        """The output of the network, which the residual stream gets."""
        if isinstance(ffn, Mlp):
            return self._network(ffn, "", rows, normed, 0, None)
        self._phase("MLP_ROUTER")
        routes = self.product("router", rows, normed)
        self._bias(ffn.router_bias, routes, ffn.count, rows)
        self.vector("softmax", ffn.count, rows, routes, routes)
        if ffn.shared is not None:
            total = self._network(ffn.shared, "shared_", rows, normed, 0, None)
            if ffn.shared_gate:
                self.arena.give(self.product("shared_gate", rows, normed))
                self._split("mul", self.hidden, rows, total, total, total)
        else:
            total = self.take(rows * self.hidden)
            self._split("copy", self.hidden, rows, normed, total)
        first, count = self.shape.local_experts or (0, ffn.count)
        wait = routes, self.act(rows * ffn.count)
        for expert, some in enumerate(self.routing.rows(ffn.count, ffn.top_k, rows)):
            if not first <= expert < first + count:
                continue
            if not some:
                self.load_unused(ffn, expert - first)
                continue
            self._phase("MLP_GATE_UP")
            gathered = self.take(some * self.hidden)
            self._split("copy", self.hidden, some, normed, gathered)
            found = self._network(ffn.expert, "", some, gathered, expert - first, wait)
            self._phase("MLP_DOWN")
            self._split("mul", self.hidden, some, found, found, found)
            self._split("add", self.hidden, some, total, total, found)
            self.arena.give(gathered, found)
        self.arena.give(routes)
        return total

    def load_unused(self, ffn: Experts, copy: int) -> None:
        """Loads the matrices of an expert without rows: a load ahead of the router cannot depend on the router's choice."""
        if self.prefetches:
            self._phase("MLP_GATE_UP")
            for name in (*(("w_gate",) if ffn.expert.gated else ()), "w_up", "w_down"):
                self.arena.give(self.product(name, 0, 0, copy))

    def _network(self, mlp: Mlp, prefix: str, rows: int, source: int, copy: int, wait: tuple[int, int] | None) -> int:
        self._phase("MLP_GATE_UP")
        if wait is not None and self.shape.expert_vectors:
            each = ceil_div(bytes_of(self.shape.expert_vectors, self.shape.gain_bits), self._align) * self._align
            address = self.memory.biases + copy * each
            self.arena.give(self._load("weight", self.shape.gain_bits, address, self.shape.expert_vectors))
        names = ("w_gate", "w_up") if mlp.gated else ("w_up",)
        places = [self.product(prefix + name, rows, source, copy, wait) for name in names]
        for place in places:
            self._bias(mlp.up_bias, place, mlp.width, rows)
        self._phase("MLP_ACTIVATION")
        second = places[0] if mlp.activation == "relu2" else None
        self._split(_ACTIVATION[mlp.activation], mlp.width, rows, places[0], places[0], second)
        if mlp.gated:
            self._split("mul", mlp.width, rows, places[0], places[0], places[1])
        self._phase("MLP_DOWN")
        found = self.product(f"{prefix}w_down", rows, places[0], copy, wait)
        self._bias(mlp.down_bias, found, self.hidden, rows)
        self.arena.give(*places)
        return found


def longest_column(shape: BlockShape) -> int:
    """[bit] The column of a matrix that takes most."""
    return max(shape.stored(weight, weight.rows) * shape.bits_of(weight) for weight in shape.block.weights(shape.hidden))


def expert_transfer(shape: BlockShape, config: NpuConfig) -> int:
    """[byte] The matrices of an expert that one transfer loads, at most: a tile. 0 where setups of transfers hardly count, or
    where other transfers hide them."""
    return weight_ring(config, longest_column(shape))[0] if setup_bytes(config) and in_flight(config) == 1 else 0


def weight_ring(config: NpuConfig, column_bits: int, *, deep: bool = False) -> tuple[int, int]:
    """[byte] of a weight tile and of the ring of tiles: the largest tiles with which the ring is a third of the scratchpad.

    A `deep` ring has as many of these tiles as half of the scratchpad holds.
    """
    line = config.spm.bank_width_bytes
    skew = (config.spm.num_banks // 4 + 1) * line
    most = config.spm.size_bytes // 3
    for wanted in (2 * config.dma.engines + config.te.engines, 3, 2):
        for kib in tile_sizes(config, _TILE_KIB, LAYER_PART):
            slot = ceil_div((kib << 10) + 2 * config.dma.alignment_bytes, line) * line + skew
            if wanted * slot <= most and column_bits <= kib << 13:
                return kib << 10, max(wanted, config.spm.size_bytes // 2 // slot if deep else 0) * slot
    rule = "two tiles of one column of each matrix must fit a third of the scratchpad"
    raise InputError(beyond_scratchpad(config, rule))


__all__ = ["BlockLayer", "DoesNotFit", "expert_transfer", "weight_ring"]
