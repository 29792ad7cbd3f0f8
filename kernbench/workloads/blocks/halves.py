"""Layers with experts whose rows are in two halves: one half goes through the mixer while experts process the other half.

The router needs the output of the mixer. In a layer by itself, the DRAM can therefore load only those weights of experts that
the scratchpad holds, until all rows have gone through the mixer. Here, the early half of the rows is ahead of the late one:

1. The first experts process the early half. Meanwhile, the late half goes through the mixer of the same layer.
2. The other experts process both halves.
3. The first experts are loaded again, and process the late half. Meanwhile, the early half goes through the mixer of the next
   layer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kernbench.workloads.blocks import attention, feed_forward
from kernbench.workloads.blocks.arena import Arena
from kernbench.workloads.blocks.batch import Piece
from kernbench.workloads.blocks.division import EXPERT_PARTS
from kernbench.workloads.blocks.feed_forward import RoutedRows
from kernbench.workloads.blocks.layer import BlockLayer
from kernbench.workloads.blocks.meetings import Meeting
from kernbench.workloads.blocks.memory import BlockMemory
from kernbench.workloads.models.parts import Attention, Experts

MIXER_TILES = 3  #: small tiles of a mixer's weights in the scratchpad
ROUTER_TILES = 1  #: the same of the router and of a network that all rows use beside the experts
IN_PROGRESS = 2  #: experts whose activations have room


@dataclass(slots=True)
class Half:
    """Half of the rows on a PE."""

    pieces: Sequence[Piece]
    first: int  #: the first row in memory
    rows: int
    x: int  #: the place of the residual stream


class HalvesLayer(BlockLayer):
    """The experts of a layer, the mixer of its late half, and the mixer of the early half of the next layer.

    At the beginning, the memory has the residual stream of the early half behind the mixer of this layer, and that of the late
    half before it. `begins`: the early half has to go through the mixer of this layer, too. `following`: the addresses and the
    number of the next layer; None if the early half ends with this layer.
    """

    begins = False
    following: tuple[BlockMemory, int] | None = None

    def emit_all(self) -> Iterator[Meeting]:
        """Emit both halves; on a shard, yield where shards must exchange data."""
        ffn = self.shape.block.ffn
        assert isinstance(ffn, Experts)
        self.paces = True  # one half would otherwise wait for weights of the other
        self._load_vectors()
        working = self._room_of_experts(ffn)
        early, late = self._halves()
        if self.begins:
            yield from self._through_mixer(early)
        of_early = yield from self._routed(ffn, early)
        yield from self._through_mixer(late)
        of_late = yield from self._routed(ffn, late)
        count = len(of_early.counts)
        twice = count * self.blocks.twice // EXPERT_PARTS
        with self._in_arena(working):
            feed_forward.on_experts(self, ffn, range(twice), [of_early])
            feed_forward.on_experts(self, ffn, range(twice, count), [of_early, of_late])
        yield from self._end(early, of_early)
        if self.following is not None:
            memory, (self.memory, number) = self.memory, self.following
            self._load_vectors()
            self.meta["layer_id"] = number
            yield from self._through_mixer(early)
            self.memory = memory
            del self.meta["layer_id"]
        self._output(early.x, early.first, early.rows)
        with self._in_arena(working):
            feed_forward.on_experts(self, ffn, range(twice), [of_late])
        yield from self._end(late, of_late)
        self._output(late.x, late.first, late.rows)

    def _load_vectors(self) -> None:
        """Gains and the page table of a layer."""
        self.meta = {"phase": "NORM", "token_idx": self.batch.groups[0].context}
        if self.shape.vector_elements:
            self.arena.give(self.load("weight", self.shape.gain_bits, self.memory.vectors, self.shape.vector_elements))
        self.load_page_table()

    def _room_of_experts(self, ffn: Experts) -> Arena:
        """Room for the activations of experts: in bytes of a mixer, they would wait for jobs of the other half."""
        most = max(self.routing.rows(ffn.count, ffn.top_k, self.batch.tokens))
        width = self.memory.weights["w_down"][0].rows
        buffers = [2 * self.align + self.act(most * elements) + self.arena.line for elements in (self.hidden, width)]
        nbytes = 2 * IN_PROGRESS * sum(buffers)
        place = self.arena.take(nbytes)
        return Arena(place, place + nbytes, self.arena.line)

    @contextmanager
    def _in_arena(self, arena: Arena) -> Iterator[None]:
        """Buffers in another arena."""
        before, self.arena = self.arena, arena
        yield
        self.arena = before

    def _halves(self) -> tuple[Half, Half]:
        """Both halves; their residual streams are loaded."""
        found: list[Half] = []
        for pieces in self.batch.blocks(self.rows):
            first, rows = sum(half.rows for half in found), sum(piece.rows for piece in pieces)
            found.append(Half(pieces, first, rows, self._input(first, rows)))
        early, late = found
        return early, late

    def _through_mixer(self, half: Half) -> Iterator[Meeting]:
        """The mixer of a half; its weights are loaded beside those of experts."""
        mixer = self.shape.block.mixer
        assert mixer is not None
        with self.own_weights(MIXER_TILES):
            normed = self.norm(half.x, half.rows)
            if isinstance(mixer, Attention):
                made = attention.project(self, mixer, normed, half.rows, "qkv")
                self.arena.give(normed)
                out = attention.mix_projected(self, mixer, made, half.pieces, half.rows)
            else:
                out = yield from self._mix(mixer, normed, half.pieces, half.rows)
                self.arena.give(normed)
            yield from self._reduce(out, half.rows)
            self._add_to_stream(half.x, out, half.rows)

    def _routed(self, ffn: Experts, half: Half) -> Generator[Meeting, None, RoutedRows]:
        """The router on the norm of a half."""
        normed = yield from self._normed(half.x, half.rows)
        with self.own_weights(ROUTER_TILES):
            return feed_forward.routed(self, ffn, normed, half.rows)

    def _end(self, half: Half, routed: RoutedRows) -> Iterator[Meeting]:
        """The sum of experts, added to the residual stream."""
        self.arena.give(routed.routes, routed.normed)
        yield from self._reduce(routed.total, half.rows)
        self._add_to_stream(half.x, routed.total, half.rows)
