"""The kernels that a runtime launches on a chip in one step of a model, for the blocks of the decoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from kernbench.workloads.models.parts import Attention as AttentionPart
from kernbench.workloads.models.parts import (
    Block,
    Description,
    Experts,
    LatentAttention,
    LinearAttention,
    Mlp,
    Norm,
    StateSpace,
)
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences, Vector

SORTS = 2  #: kernels that sort tokens by expert: counts, and places (vLLM 036bb685, moe_align_block_size)


@dataclass(frozen=True, slots=True)
class Widths:
    """The widths of elements. Kernels expand weights of few bits to the width of the activations, which the multipliers have.
    """

    weights: float = 2.0  #: [B]
    cache: float = 2.0  #: [B] of keys and values
    activation_bits: int = 16


def without_kernels(description: Description) -> str:
    """The part of a model for which no kernels of chips are known; empty if there is none."""
    if description.encoder is not None:
        return "an encoder"
    for block in description.blocks:
        if isinstance(block.mixer, StateSpace):
            return "state spaces"
        if isinstance(block.mixer, LinearAttention):
            return "linear attention"
        if block.cross is not None:
            return "attention to an encoder"
    return ""


@dataclass(frozen=True, slots=True)
class StepKernels:
    """The kernels of a step on one of `tp` chips, which share each matrix.

    `parts`: the number of parts of each attention matrix, if each core of a chip has a part of its own. A part has whole heads.
    Heads that do not divide are padded, and KV heads that are fewer than the parts are replicated. Tokens choose their experts
    evenly.
    """

    hidden: int
    groups: tuple[Sequences, ...]
    widths: Widths = Widths()
    tp: int = 1
    parts: int = 0  #: 0 for one part a chip

    @property
    def tokens(self) -> int:
        """New tokens of the step."""
        return sum(one.count * one.new for one in self.groups)

    def blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[Operation, int]]:
        """The kernels of the blocks with how often each occurs, in the order of their first launch."""
        times: dict[Operation, int] = {}
        counted: dict[Block, int] = {}
        for block in blocks:
            counted[block] = counted.get(block, 0) + 1
        for block, count in counted.items():
            for op, each in self._block(block):
                times[op] = times.get(op, 0) + each * count
        yield from times.items()

    def ends(self, vocab: int, norm: Norm | None) -> Iterator[tuple[Operation, int]]:
        """The kernels before and after the blocks: the LM head, for the last token of each sequence. `norm`: the last one."""
        yield self._product(ceil(vocab / self.tp), self.hidden, sum(one.count for one in self.groups)), 1

    def _block(self, block: Block) -> Iterator[tuple[Operation, int]]:
        if block.norms:
            for op, times in self._norm(self.hidden, 4, block.norm.kind):
                yield op, times * block.norms
        mixer = block.mixer
        if mixer is not None:
            assert isinstance(mixer, AttentionPart | LatentAttention)  # others are refused before
            yield from self._attention(mixer) if isinstance(mixer, AttentionPart) else self._latent(mixer)
        if isinstance(block.ffn, Experts):
            yield from self._experts(block.ffn)
        elif block.ffn is not None:
            yield from self._mlp(block.ffn, self.tokens, 1)
        yield from self._residual(block)
        sums = 1 if block.parallel else (block.mixer is not None) + (block.ffn is not None)
        if self.tp > 1 and sums:
            yield Collective("all_reduce", self.tp, int(2 * self.tokens * self.hidden)), sums

    def _heads(self, whole: int) -> int:
        """The number of heads on a chip, at most the number of heads of the model."""
        parts = self.parts or self.tp
        return max(1, parts // self.tp) * ceil(whole / parts)

    def _attention(self, part: AttentionPart) -> Iterator[tuple[Operation, int]]:
        heads, kv_heads = self._heads(part.heads), self._heads(part.kv_heads)
        yield from self._inputs(heads * (2 if part.gated else 1) * part.head_dim, kv_heads * part.head_dim)
        if part.qk_norm:
            yield from self._norm(heads * part.head_dim, 2)
            yield from self._norm(kv_heads * part.head_dim, 2)
        if part.rope:
            yield from self._rotary(heads * part.head_dim, kv_heads * part.head_dim)
        yield from self._attend(part, heads, kv_heads)
        yield self._product(self.hidden, heads * part.head_dim), 1

    def _norm(self, across: int, moved: float, kind: str = "rmsnorm") -> Iterator[tuple[Operation, int]]:
        """A norm over `across` elements of each token, of which the kernel moves so many values for each element."""
        yield self._vector("layernorm", "norm", across, moved, 4), 1

    def _residual(self, block: Block) -> Iterator[tuple[Operation, int]]:
        """The sums of a block's inputs and outputs, which the kernels of norms compute."""
        yield from ()

    def _inputs(self, queries: int, keys: int) -> Iterator[tuple[Operation, int]]:
        """The product that makes queries, keys and values of so many elements."""
        yield self._product(queries + 2 * keys, self.hidden), 1

    def _rotary(self, queries: int, keys: int) -> Iterator[tuple[Operation, int]]:
        yield self._vector("rotary_emb", "elementwise", queries + keys, 2, 4), 1

    def _attend(self, part: AttentionPart, heads: int, kv_heads: int) -> Iterator[tuple[Operation, int]]:
        groups = self.groups
        if part.window or part.chunk:
            groups = tuple(piece for one in groups for piece in _seen(one, part.window, part.chunk))
        yield Attention(groups, heads, kv_heads, part.head_dim, self.widths.cache), 1

    def _latent(self, part: LatentAttention) -> Iterator[tuple[Operation, int]]:
        """Latent attention. In a step that only decodes, queries are projected to the latent vectors, which all heads share;
        otherwise keys and values of each head are expanded from the latent vectors.
        """
        heads, tokens, dim = self._heads(part.heads), self.tokens, part.nope_dim + part.rope_dim
        latent = part.kv_rank + part.rope_dim
        yield self._product(part.q_rank + latent if part.q_rank else heads * dim + latent, self.hidden), 1
        yield from self._norm(part.q_rank + part.kv_rank, 2)
        if part.q_rank:
            yield self._product(heads * dim, part.q_rank), 1
        yield from self._rotary(heads * part.rope_dim, part.rope_dim)
        if all(one.new == 1 for one in self.groups):
            yield self._product(part.kv_rank, part.nope_dim, tokens, heads), 1
            # scores over latent vectors and RoPE keys, sums over latent vectors: the mean depth of both products, with the
            # bytes of one vector for both
            depth = (latent + part.kv_rank) // 2
            yield Attention(self.groups, heads, 1, depth, self.widths.cache * latent / (2 * depth)), 1
            yield self._product(part.value_dim, part.kv_rank, tokens, heads), 1
        else:
            keys = sum(one.count * (one.new + one.cached) for one in self.groups)
            yield self._product(heads * (part.nope_dim + part.value_dim), part.kv_rank, keys), 1
            yield Attention(self.groups, heads, heads, (dim + part.value_dim) // 2, 2.0), 1
        yield self._product(self.hidden, heads * part.value_dim), 1

    def _experts(self, part: Experts) -> Iterator[tuple[Operation, int]]:
        """Short kernels choose the experts of each token, sort the tokens by expert, and sum up the results of a token."""
        yield self._product(part.count, self.hidden), 1
        yield self._vector("expert_choice", "other", part.count, 1, 5), 1
        yield self._vector("expert_sort", "other", part.top_k, 2, 1), SORTS
        yield from self._mlp(part.expert, self.tokens * part.top_k, self._used(part))
        yield self._vector("expert_sum", "elementwise", self.hidden, part.top_k + 1, part.top_k), 1
        if part.shared is not None:
            yield from self._mlp(part.shared, self.tokens, 1)

    def _used(self, part: Experts) -> int:
        """The number of experts that some token chooses."""
        return max(part.top_k, round(part.count * (1 - (1 - part.top_k / part.count) ** self.tokens)))

    def _mlp(self, part: Mlp, rows: int, copies: int) -> Iterator[tuple[Operation, int]]:
        """A network, or `copies` experts that together compute `rows` rows."""
        width, each = ceil(part.width / self.tp), ceil(rows / copies)
        yield self._product(width * (2 if part.gated else 1), self.hidden, each, copies), 1
        yield self._vector("act_fn", "elementwise", width, 3, 5, rows), 1
        yield self._product(self.hidden, width, each, copies), 1

    def _product(self, n: int, k: int, rows: int = 0, count: int = 1) -> Product:
        left, right, bits = self.widths.activation_bits / 8, self.widths.weights, self.widths.activation_bits
        return Product(rows or self.tokens, n, k, left, right, bits=bits, count=count)

    def _vector(self, name: str, kind: str, across: int, moved: float, flops: float, rows: int = 0) -> Vector:
        count = rows or self.tokens
        return Vector(name, kind, count, across, 2.0 * count * across * moved, flops * count * across)


def _seen(group: Sequences, window: int, chunk: int) -> Iterator[Sequences]:
    """Sequences with the same number of pairs of a query and a key, if a token sees a window, or the tokens of its chunk.

    New tokens become pieces that are no longer than the window or the chunk.
    """
    if not chunk and group.new + group.cached <= window:
        yield group
        return
    most = chunk or window
    inside = group.cached % chunk if chunk else 0
    first = min(group.new, most - inside)
    whole, rest = divmod(group.new - first, most)
    place = group.cached
    for count, new in ((1, first), (whole, most), (1, rest)):
        if count and new:
            before = place % chunk if chunk else _before(place, new, window)
            yield Sequences(group.count * count, new, before)
        place += count * new


def _before(place: int, new: int, window: int) -> int:
    """The cached tokens with which `new` tokens see as many keys as in a window, if the first of them has number `place`."""
    rising = min(max(window - place, 0), new)  # tokens that see all tokens before them
    pairs = rising * place + rising * (rising + 1) / 2 + (new - rising) * window
    return round((pairs - new * (new + 1) / 2) / new)
