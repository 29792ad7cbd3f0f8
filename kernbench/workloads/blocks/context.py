"""Context parallelism: the tokens of each sequence, with their keys and values, are shared out over ranks.

A prompt is cut into twice as many parts as there are ranks. A rank has one part from the beginning and one from the end, so
that all ranks have as many keys to look at. In prefill, each rank works on its own rows. The ranks first make the keys and
values of all rows, and all-gather them in memory. In decode, every rank has all new tokens and attends to its own keys. The
partial outputs are scaled by the largest scores and the sums of the exponentials of all ranks. An all-reduce adds them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div, even_parts
from kernbench.workloads.blocks import attention, latent_attention
from kernbench.workloads.blocks.batch import Batch, Piece, Sequences, first_key
from kernbench.workloads.blocks.layer import BlockLayer
from kernbench.workloads.blocks.meetings import GatheredRows, KeptRows, Meeting
from kernbench.workloads.layer.buffers import chunk_bytes
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.layer.projections import PartialRows
from kernbench.workloads.llm.exchanges import TILE_BYTES, Keeper
from kernbench.workloads.models.parts import Attention, Block, LatentAttention, Mixer

STATISTIC_BITS = 32  #: assumed: bits of the largest score and of the sum of exponentials, which a softmax returns for each head


@dataclass(frozen=True)
class ContextShare:
    """The tokens of each sequence that rank `rank` of `ranks` keeps: two parts of the prompt, and every `ranks`-th token after
    it. The first one of these is that whose position is `rank` modulo `ranks`.
    """

    ranks: int
    rank: int
    prompt: int

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """[token] where each part of the prompt begins, and the end."""
        sizes = even_parts(self.prompt, 2 * self.ranks)
        return tuple(sum(sizes[:i]) for i in range(len(sizes) + 1))

    @property
    def parts(self) -> tuple[int, int]:
        """The numbers of the own parts."""
        return self.rank, 2 * self.ranks - 1 - self.rank

    def cached(self, context: int) -> int:
        """How many of the first `context` tokens are here: tokens are kept in the order of their positions."""
        found = 0
        for part in self.parts:
            found += max(0, min(context, self.edges[part + 1]) - self.edges[part])
        after = max(0, context - self.prompt)
        return found + len(range((self.rank - self.prompt) % self.ranks, after, self.ranks))

    def owns(self, token: int) -> bool:
        """Whether a token that was decoded is here."""
        return token % self.ranks == self.rank

    def owner(self, token: int) -> int:
        """The part of the prompt that has a token."""
        return next(part for part in range(2 * self.ranks) if token < self.edges[part + 1])

    def batch(self, sequences: int) -> Batch:
        """The own rows of a prefill: the first parts of all sequences, then the second ones."""
        some = ((self.edges[part], self.edges[part + 1]) for part in self.parts)
        return Batch(tuple(Sequences(end - start, start, sequences) for start, end in some))


def most_cached(ranks: int, prompt: int, positions: int) -> int:
    """[token] of the fullest rank, of a sequence of so many."""
    return max(ContextShare(ranks, rank, prompt).cached(positions) for rank in range(ranks))


def check_context(name: str, blocks: Sequence[Block], ranks: int, prompt: int, *, encoder: bool) -> None:
    """InputError if tokens of this model cannot be shared out over ranks."""
    if encoder:
        rule = "the layers of a model with an encoder attend to all tokens of the encoder"
        raise InputError(Problem(f"model {name}", f"{rule}, which are not shared out", "cp", ranks, "take --cp 1"))
    if any(not isinstance(block.mixer, Attention | LatentAttention | None) for block in blocks):
        rule = "it has layers with a state, and each token needs the state after the token before it"
        raise InputError(Problem(f"model {name}", rule, "cp", ranks, "take --cp 1"))
    if prompt < 2 * ranks:
        rule = f"each rank keeps two parts of the prompt, so the prompt must have at least {2 * ranks} tokens"
        raise InputError(Problem("kbsim llm", rule, "prompt", prompt, f"take --cp {max(1, prompt // 2)}, or a longer --prompt"))


class ContextLayer(BlockLayer):
    """A layer of one rank. `share`: its tokens; `gathered`: where keys and values of all tokens are in memory in prefill."""

    share: ContextShare
    prefill: bool
    sequences: int
    gathered: dict[str, int]

    def _local(self, piece: Piece) -> Piece:
        """A piece of the own rows as this rank keeps it."""
        return replace(piece, sequence=piece.sequence % self.sequences, cached=self.share.cached(piece.cached))

    # Prefill

    def _first_pass(self) -> Iterator[Meeting]:
        """The keys and values of all own rows, to memory; then those of all ranks."""
        if not self.prefill:
            return
        mixer, first = self.shape.block.mixer, 0
        if mixer is None:
            return
        for number, pieces in enumerate(self.batch.blocks(self.rows)):
            self.meta = {"block_id": number, "token_idx": pieces[0].cached, "phase": "LAYER_INPUT"}
            rows = sum(piece.rows for piece in pieces)
            x = self._input(first, rows)
            normed = yield from self._normed(x, rows)
            made = self._keys(mixer, normed, rows)
            for piece in pieces:
                new = attention.store_new_keys(self, made, self._local(piece))
                self.arena.give(*new.values())
            self.arena.give(*made.values(), normed, x)
            first += self.own(rows)[1]
        yield KeptRows("KV all-gather", "groups", self._keeper(), {"token_idx": 0})

    def _keys(self, mixer: Mixer, normed: int, rows: int) -> dict[str, int]:
        """New keys and values, or latent vectors."""
        if isinstance(mixer, Attention):
            return attention.project(self, mixer, normed, rows, "kv")
        assert isinstance(mixer, LatentAttention)
        return latent_attention.project(self, mixer, normed, rows, ("latent",))

    def _tiles(self, share: ContextShare) -> list[tuple[str, int, int, int, int]]:
        """Tiles of a rank's keys and values: name, sequence, head, first position and number of tokens."""
        found = []
        for name, heads, dim in self.shape.cached:
            most = max(1, TILE_BYTES * 8 // (dim * unpacked_bits(self.shape.kv_bits)))
            for sequence in range(self.sequences):
                for head in range(heads):
                    for part in share.parts:
                        start, end = share.edges[part], share.edges[part + 1]
                        found += [(name, sequence, head, at, min(most, end - at)) for at in range(start, end, most)]
        return found

    def _keeper(self) -> Keeper:
        """The input of this rank to the all-gather of keys and values."""
        dims = {name: dim for name, _, dim in self.shape.cached}
        bits, tiles = self.shape.kv_bits, self._tiles(self.share)
        others = {
            rank: self._tiles(replace(self.share, rank=rank)) for rank in range(self.share.ranks) if rank != self.share.rank
        }

        def load(k: int) -> int:
            name, sequence, head, start, count = tiles[k]
            self.meta["phase"] = "KV_GATHER"
            piece = Piece(sequence, 0, count, 0, last=False)
            return self.load_cache(name, piece, head, self.share.cached(start), count, dims[name])

        def store(owner: int, k: int, place: int) -> None:
            name, sequence, head, start, count = others[owner][k]
            whole = count * dims[name]
            span = Span(self._gathered_address(name, sequence, head, start), 1, bytes_of(whole, bits), bytes_of(whole, bits))
            self.emit.store("kv", 8, span, place, **{**self.meta, "phase": "KV_GATHER"})

        def take(nbytes: int) -> int:
            return self.take(nbytes, 8)

        sizes = [bytes_of(count * dims[name], bits) for name, _, _, _, count in tiles]
        return Keeper(self.emit, sizes, load, take, store, self.arena.give)

    def _gathered_address(self, name: str, sequence: int, head: int, token: int) -> int:
        """`[sequence][head][token][element]`."""
        heads, dim = next((heads, dim) for known, heads, dim in self.shape.cached if known == name)
        return self.gathered[name] + bytes_of(((sequence * heads + head) * self.share.prompt + token) * dim, self.shape.kv_bits)

    def _runs(self, piece: Piece, first: int, tile: int) -> Iterator[tuple[int, int]]:
        """First position and number of the tokens of each tile that a piece looks at; none is of two parts of the prompt."""
        end = piece.cached + piece.rows
        while first < end:
            part = self.share.owner(first)
            count = min(tile, self.share.edges[part + 1] - first, end - first)
            yield first, count
            first += count

    def _keys_at(self, name: str, piece: Piece, head: int, start: int, count: int, dim: int) -> int:
        """Keys or values of any tokens: from the rank's own cache, or from the gathered keys and values."""
        sequence = piece.sequence % self.sequences
        if self.share.owner(start) in self.share.parts:
            own = replace(piece, sequence=sequence)
            return self.load_cache(name, own, head, self.share.cached(start), count, dim)
        return self.load("kv", self.shape.kv_bits, self._gathered_address(name, sequence, head, start), count * dim)

    # Both phases

    def _mix(self, mixer: Mixer, normed: int, pieces: Sequence[Piece], rows: int) -> Generator[Meeting, None, int]:
        if isinstance(mixer, LatentAttention):
            return (yield from self._share_latent(mixer, normed, pieces, rows))
        assert isinstance(mixer, Attention)
        owns = not self.prefill and self.share.owns(pieces[0].cached)
        made = attention.project(self, mixer, normed, rows, "qkv" if owns else "q")
        out = self.take(rows * mixer.out_width)
        tile = self.key_tile(mixer.head_dim)
        group, dims = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim)
        for piece in pieces:
            if not self.prefill:
                local = self._local(piece)
                new = attention.store_new_keys(self, {"k": made["k"], "v": made["v"]}, local) if owns else None
                for head in range(mixer.kv_heads):
                    attention.attend(self, self._narrowed(mixer, piece), local, head, made["q"], out, new)
                self.arena.give(*(new or {}).values())
                continue
            for head in range(mixer.kv_heads):
                at, to = attention.head_offsets(self, mixer, piece, head)
                begun = set[int]()
                for start, count in self._runs(piece, first_key(mixer.window, mixer.chunk, piece.cached), tile):
                    self.set_phase("ATTENTION_SCORE")
                    k, v = (
                        self._keys_at(name, piece, head, start, count, dim) for name, dim in zip(("k", "v"), dims, strict=True)
                    )
                    places = made["q"] + at, out + to
                    attention.attend_to_tile(self, mixer, piece, group, *places, (k, v), (start, count), dims, head, begun)
                    self.arena.give(k, v)
        yield from self._combine(out, rows, mixer.heads, mixer.value_dim)
        return attention.project_output(self, mixer, made, out, rows)

    def _narrowed(self, mixer: Attention, piece: Piece) -> Attention:
        """The attention of a new token to the tokens that this rank keeps, which are numbered without gaps."""
        hidden = self.share.cached(first_key(mixer.window, mixer.chunk, piece.cached))
        return replace(mixer, window=self.share.cached(piece.cached) - hidden + 1, chunk=0)

    def _share_latent(
        self, mixer: LatentAttention, normed: int, pieces: Sequence[Piece], rows: int
    ) -> Generator[Meeting, None, int]:
        owns = not self.prefill and self.share.owns(pieces[0].cached)
        made = latent_attention.project(self, mixer, normed, rows, ("q", "latent") if owns else ("q",))
        queries = latent_attention.latent_queries(self, mixer, made["q"], rows)
        out = self.take(rows * mixer.heads * mixer.kv_rank)
        dim = mixer.token_elements
        for piece in pieces:
            if not self.prefill:
                local = self._local(piece)
                new = attention.store_new_keys(self, {"latent": made["latent"]}, local)["latent"] if owns else None
                latent_attention.attend(self, mixer, local, queries, out, new)
                if new is not None:
                    self.arena.give(new)
                continue
            q, to = queries + self.act(piece.row * mixer.heads * dim), out + self.act(piece.row * mixer.heads * mixer.kv_rank)
            begun = set[int]()
            for start, count in self._runs(piece, 0, self.key_tile(dim)):
                self.set_phase("ATTENTION_SCORE")
                place = self._keys_at("latent", piece, 0, start, count, dim)
                keys, dims = (place, place), (dim, mixer.kv_rank)
                attention.attend_to_tile(self, mixer, piece, mixer.heads, q, to, keys, (start, count), dims, 0, begun)
                self.arena.give(place)
        yield from self._combine(out, rows, mixer.heads, mixer.kv_rank)
        self.arena.give(*made.values(), queries)
        return latent_attention.project_output(self, mixer, out, rows)

    def _combine(self, out: int, rows: int, heads: int, width: int) -> Iterator[Meeting]:
        """The outputs of all ranks as one: the statistics of softmaxes go to all ranks, then the scaled outputs are added."""
        if self.prefill:
            return
        ranks, line = self.share.ranks, self.config.spm.bank_width_bytes
        each = ceil_div(2 * rows * heads * STATISTIC_BITS // 8, line) * line * 8 // STATISTIC_BITS  # begin at lines
        place = self.take(ranks * each, STATISTIC_BITS)
        self.set_phase("CONTEXT_COMBINE")
        yield GatheredRows("softmax all-gather", "groups", place, (each,) * ranks, STATISTIC_BITS, dict(self.meta))
        for op in ("max", "exp", "mul", "sum"):
            self._statistic(op, ranks, rows * heads, place, place if op == "mul" else None)
        self.split_vector("mul", width, rows * heads, out, out, out)
        self.arena.give(place)
        room = self.arena.take((ranks - 1) * chunk_bytes(self.act(rows * heads * width), ranks, line))
        yield PartialRows(out, room, rows * heads * width, dict(self.meta), "softmax all-reduce", "groups")
        self.arena.give(room)

    def _statistic(self, op: str, length: int, batch: int, place: int, second: int | None) -> None:
        """A vector operation on the statistics of all ranks."""
        sizes: dict[str, Any] = {"length": length, "batch": batch, "qbits_activation": STATISTIC_BITS}
        self.emit.ve(op, place, place, second, **sizes, **self.meta)
