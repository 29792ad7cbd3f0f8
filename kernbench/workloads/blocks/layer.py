"""A block of parts as a command queue: its rows go through mixer and network, part by part.

The rows of a step are cut into blocks that fit the scratchpad; each block goes through the whole layer, so its weights are
loaded once a block. If the network alone fits with more rows, the mixer of all blocks comes first, and the network has larger
blocks. Bias, RoPE, norms and gates are vector operations as in the planner of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from kernbench.common.units import ceil_div, even_parts
from kernbench.workloads.blocks import attention, encoder, feed_forward, latent_attention, recurrences
from kernbench.workloads.blocks.batch import Piece
from kernbench.workloads.blocks.emitter import LayerEmitter
from kernbench.workloads.blocks.meetings import GatheredRows, Meeting, ScatteredRows
from kernbench.workloads.layer.buffers import chunk_bytes
from kernbench.workloads.layer.projections import PartialRows
from kernbench.workloads.models.parts import Attention, Experts, LatentAttention, LinearAttention, Mixer, Mlp


class BlockLayer(LayerEmitter):
    """A layer that goes block by block through its mixer and its network."""

    def emit_all(self) -> Iterator[Meeting]:
        """Emit all blocks of rows; on a shard, yield where shards must exchange data."""
        self.meta = {"phase": "NORM", "token_idx": self.batch.groups[0].context}
        if self.shape.vector_elements:
            self.load("weight", self.shape.gain_bits, self.memory.vectors, self.shape.vector_elements)
        self.load_page_table()
        yield from self._first_pass()
        if self.blocks.network_rows:
            yield from self._blocks(self.rows, self._mixer_block)
            yield from self._blocks(self.blocks.network_rows, self._network_block)
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
            encoder.store_all_keys(self)
        elif self.shape.crossed and any(not group.context for group in self.batch.groups):
            encoder.store_source_keys(self)
        yield from ()

    def own(self, rows: int) -> tuple[int, int]:
        """The first and the number of the rows of a block that this shard has between products: with --sp a part of them."""
        if not self.splits_rows:
            return 0, rows
        parts = even_parts(rows, self.shape.shards)
        return sum(parts[: self.seat.shard]), parts[self.seat.shard]

    def _block(self, pieces: Sequence[Piece], first: int, rows: int) -> Iterator[Meeting]:
        block, hidden = self.shape.block, self.hidden
        x = self._input(first, rows)
        if block.predicts:
            x = self._with_words(x, first, rows)
        out, in_parts = None, self._has_parts(pieces)
        if not in_parts:
            normed = yield from self._normed(x, rows)
        if in_parts:
            normed = yield from self._mixed_in_parts(x, pieces, rows)
        elif block.mixer is not None:
            out = yield from self._mix(block.mixer, normed, pieces, rows)
        if not block.parallel and out is not None:
            yield from self._reduce(out, rows)
            self._add_to_stream(x, out, rows)
        if block.cross is not None:
            self.arena.give(normed)
            normed = self.norm(x, rows)
            seen = encoder.cross_attention(self, block.cross, normed, pieces, rows)
            yield from self._reduce(seen, rows)
            self.set_phase("RESIDUAL")
            self.vector("add", hidden, rows, x, x, seen)
            self.arena.give(seen)
        network_parts = self._network_parts(rows)
        if in_parts and network_parts:
            yield from self._network_in_parts(x, normed, first, network_parts)
            self.arena.give(normed, x)
            return
        if block.ffn is not None:
            if not in_parts and (not block.parallel or block.norms == 2):
                self.arena.give(normed)
                normed = yield from self._normed(x, rows)
            network = yield from self._network_of(block.ffn, normed, rows)
            if block.parallel and out is not None:
                self.set_phase("RESIDUAL")
                self.vector("add", hidden, rows, network, network, out)
                self.arena.give(out)
            slices = self._slices(rows)
            if not slices:
                yield from self._reduce(network, rows)
            self._add_to_stream(x, network, rows, sliced=bool(slices))
        self.arena.give(normed)
        if self.shape.closing is not None:
            self.set_phase("NORM")
            self.split_vector(self.shape.closing.kind, hidden, rows, x, x)
        self._output(x, first, rows)

    def _network_parts(self, rows: int) -> list[int]:
        """The rows of the parts of a network that have products of their own; none if all rows have one."""
        block, most = self.shape.block, self.blocks.part_rows
        plain = isinstance(block.ffn, Mlp) and not block.parallel and block.cross is None and self.shape.closing is None
        if not plain or not self.blocks.part_products or self.splits_rows or self.memory.together:
            return []
        return [min(most, rows - first) for first in range(0, rows, most)]

    def _network_in_parts(self, x: int, normed: int, first: int, parts: Sequence[int]) -> Iterator[Meeting]:
        """A network in parts of the rows, each added to the residual stream and stored when all PEs have it."""
        assert isinstance(self.shape.block.ffn, Mlp)
        for out, row, count in feed_forward.in_parts(self, self.shape.block.ffn, normed, parts):
            yield from self._reduce(out, count)
            place = x + self.act(row * self.hidden)
            self._add_to_stream(place, out, count)
            address = self.target + self.act((first + row) * self.hidden)
            self.store("activation", self.act_bits, address, count * self.hidden, place)

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
        address, count = self.target + self.act(first * self.hidden), self.own(rows)[1] * self.hidden
        x = self.load("activation", self.act_bits, address, count)
        if self.splits_rows:
            normed = yield from self._normed(x, rows)
            self.arena.give(x)
        else:
            normed = self.norm(x, rows, x)
        network = yield from self._network_of(self.shape.block.ffn, normed, rows)
        self.arena.give(normed)
        slices = self._slices(rows)
        if not slices:
            yield from self._reduce(network, rows)
        self.set_phase("RESIDUAL")
        x = self.load("activation", self.act_bits, address, count)
        self._add_to_stream(x, network, rows, sliced=bool(slices))
        if self.shape.closing is not None:
            self.set_phase("NORM")
            self.split_vector(self.shape.closing.kind, self.hidden, rows, x, x)
        self._output(x, first, rows)

    def _input(self, first: int, rows: int) -> int:
        """The own rows of the residual stream, from row `first` of memory on."""
        self.set_phase("LAYER_INPUT")
        count = self.own(rows)[1] * self.hidden
        if not count:
            return self.take(0)
        return self.load("activation", self.act_bits, self.source + self.act(first * self.hidden), count)

    def _output(self, x: int, first: int, rows: int) -> None:
        """The own rows of the residual stream, to memory."""
        count = self.own(rows)[1] * self.hidden
        if count:
            self.store("activation", self.act_bits, self.target + self.act(first * self.hidden), count, x)
        self.arena.give(x)

    def _has_parts(self, pieces: Sequence[Piece]) -> bool:
        """Whether the sums over PEs of parts of a block run beside the attention of the next part."""
        mixer = self.shape.block.mixer
        plain = isinstance(mixer, LatentAttention) or (isinstance(mixer, Attention) and not mixer.gated)
        return plain and self.blocks.part_rows > 0 and not any(piece.cached for piece in pieces)

    def _mixed_in_parts(self, x: int, pieces: Sequence[Piece], rows: int) -> Generator[Meeting, None, int]:
        """Attention in parts of the rows, each added to the residual stream when all PEs have it; the norm of all rows behind
        it."""
        mixer, most = self.shape.block.mixer, self.blocks.part_rows
        if isinstance(mixer, LatentAttention):
            made, place = yield from self._latents(mixer, x, rows)
            parts = latent_attention.in_parts(self, mixer, made, pieces, rows, most)
        else:
            assert isinstance(mixer, Attention)
            if self.blocks.part_products:
                place = self.take(rows * self.hidden)
                parts = attention.in_parts_with_products(self, mixer, x, place, pieces, most)
            else:
                place = self.norm(x, rows)
                made = attention.project(self, mixer, place, rows, "qkv")
                parts = attention.in_parts(self, mixer, made, pieces, most)
        for out, first, count in parts:
            yield from self._reduce(out, count, queued=self.blocks.part_products > 0, pairs=True)
            begin = self.act(first * self.hidden)
            self._add_to_stream(x + begin, out, count)
            self.norm(x + begin, count, place + begin)
        self.arena.restart()
        return place

    def _latents(self, mixer: LatentAttention, x: int, rows: int) -> Generator[Meeting, None, tuple[dict[str, int], int]]:
        """Queries and latent vectors of all rows, and a buffer that has room for all rows."""
        counts, line = even_parts(rows, self.shape.shards), self.config.spm.bank_width_bytes
        widths = mixer.q_rank, mixer.token_elements
        lines = all(self.act(count * width) % line == 0 for count in counts for width in widths)
        if not self.blocks.shares_latents or not mixer.q_rank or not lines:
            normed = self.norm(x, rows)
            return latent_attention.project(self, mixer, normed, rows, ("q", "latent")), normed
        first, count = sum(counts[: self.seat.shard]), counts[self.seat.shard]
        normed = self.norm(x + self.act(first * self.hidden), count)
        made = yield from latent_attention.project_shares(self, mixer, normed, rows, (first, count))
        self.arena.give(normed)
        return made, self.take(rows * self.hidden)

    def _normed(self, x: int, rows: int) -> Generator[Meeting, None, int]:
        """The norm of all rows of a block. With --sp each shard norms its own rows, and an all-gather follows."""
        if not self.splits_rows:
            return self.norm(x, rows)
        self.set_phase("NORM")
        place = self.take(rows * self.hidden)
        first, count = self.own(rows)
        if count:
            self.split_vector(self.shape.norm, self.hidden, count, x, place + self.act(first * self.hidden))
        yield GatheredRows("all-gather", "shards", place, self._row_parts(rows), self.act_bits, dict(self.meta))
        return place

    def _row_parts(self, rows: int) -> tuple[int, ...]:
        """[element] of the rows of each shard."""
        return tuple(count * self.hidden for count in even_parts(rows, self.shape.shards))

    def _add_to_stream(self, x: int, out: int, rows: int, *, sliced: bool = False) -> None:
        """The output of a mixer or network, perhaps with a norm behind it, added to the own rows of the residual stream.

        `sliced`: the output is in slices of columns, so that each slice has elements of the own rows.
        """
        first, count = self.own(rows)
        place = out + self.act(first * self.hidden)
        if count and self.shape.block.norms == 4:
            self.norm(place, count, place)
        self.set_phase("RESIDUAL")
        if count:
            job = self.vector("add", self.hidden, count, x, x, place)
            if sliced and self.splits_rows:
                self.emit.after(job, out, self.act(rows * self.hidden))
        self.arena.give(out)

    def _with_words(self, x: int, first: int, rows: int) -> int:
        """The input of a block that predicts: both norms, and the product of each with its half of the projection."""
        words = self.load("activation", self.act_bits, self.words + self.act(first * self.hidden), rows * self.hidden)
        made = []
        for place, name in ((words, "word_proj"), (x, "state_proj")):
            self.norm(place, rows, place)
            self.set_phase("MTP_PROJ")
            made.append(self.product(name, rows, place))
        self.split_vector("add", self.hidden, rows, made[0], made[0], made[1])
        self.arena.give(words, x, made[1])
        return made[0]

    def _reduce(
        self, place: int, rows: int, width: int = 0, *, queued: bool = False, pairs: bool = False
    ) -> Iterator[Meeting]:
        """The partial sums that the shards add up. The shards wait for each other here. With --sp each shard gets the sum of
        its own rows. `width`: [element] of the columns that are added up; 0: all. `queued`, `pairs`: as of `PartialRows`."""
        shards, width = self.shape.shards, width or self.hidden
        line = self.config.spm.bank_width_bytes
        if self.splits_rows:
            parts = tuple(count * width for count in even_parts(rows, shards))
            room = self.arena.take((shards - 1) * ceil_div(self.act(max(parts)), line) * line)
            yield ScatteredRows("reduce-scatter", "shards", place, parts, self.act_bits, dict(self.meta), room)
            self.arena.give(room)
        elif shards > 1:
            room = self.arena.take((shards - 1) * chunk_bytes(self.act(rows * width), shards, line))
            yield PartialRows(place, room, rows * width, dict(self.meta), queued=queued, pairs=pairs)
            self.arena.give(room)

    def _mix(self, mixer: Mixer, normed: int, pieces: Sequence[Piece], rows: int) -> Generator[Meeting, None, int]:
        """The output of the mixer, which the residual stream gets."""
        yield from ()
        if isinstance(mixer, Attention) and self.shape.encoder:
            return encoder.attend_to_all(self, mixer, ("wq", "wo"), ("k", "v"), normed, pieces, rows)
        if isinstance(mixer, Attention):
            return attention.mix(self, mixer, normed, pieces, rows)
        if isinstance(mixer, LatentAttention):
            return latent_attention.mix(self, mixer, normed, pieces, rows)
        if isinstance(mixer, LinearAttention):
            return recurrences.mix_linear_attention(self, mixer, normed, pieces, rows)
        return recurrences.mix_state_space(self, mixer, normed, pieces, rows)

    def _slices(self, rows: int) -> list[int]:
        """[element] The slices of columns, each from a line on, in which the outputs of the network are added up; none: as a
        whole."""
        block = self.shape.block
        whole = not self.blocks.slices or not self.paces or self.memory.together or block.parallel or block.norms == 4
        if whole or self.shape.shards == 1:
            return []
        slices = self.blocks.slices
        while slices > 1 and not self._has_slices(rows, slices):
            slices //= 2
        if slices < 2:
            return []
        halved = self.blocks.halved
        while halved and not self._has_slices(rows, slices << halved):
            halved -= 1
        width = self.hidden // slices
        return [width] * (slices - 1) + [width >> number for number in range(1, halved + 1)] + [width >> halved]

    def _has_slices(self, rows: int, slices: int) -> bool:
        """Whether slices of equal widths begin at lines, also those of the own rows of each shard."""
        parts, line = even_parts(rows, self.shape.shards) if self.splits_rows else [rows], self.config.spm.bank_width_bytes
        return self.hidden % slices == 0 and all(self.act(count * self.hidden) % (slices * line) == 0 for count in parts)

    def _network_of(self, ffn: Mlp | Experts, normed: int, rows: int) -> Generator[Meeting, None, int]:
        """The output of the network; PEs that share experts exchange rows here, and add up the slices of experts' outputs."""
        slices = self._slices(rows)
        self.extend_weights()
        if not slices:
            yield from ()
            return feed_forward.feed_forward(self, ffn, normed, rows)
        running = feed_forward.in_slices(self, ffn, normed, rows, slices)
        while True:
            try:
                place, elements = next(running)
            except StopIteration as ended:
                return int(ended.value)
            yield from self._reduce(place, rows, elements // rows)
