"""A block with its bits and its share of a layer: the parts of the lowered layer, and its bytes in DRAM."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models.parts import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    LinearAttention,
    Mixer,
    Mlp,
    Norm,
    StateSpace,
    Weight,
)
from kernbench.workloads.models.precision import Scales


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """A layer of parts. Equal ones take equal time."""

    name: str  #: of the model
    block: Block
    hidden: int
    weight_bits: int
    activation_bits: int
    kv_bits: int
    gain_bits: int = 8
    matrix_bits: tuple[tuple[str, int], ...] = ()
    scales: Scales | None = None  #: beside the weights of matrices with as many bits as it says
    shards: int = 1
    local_experts: tuple[int, int] | None = None  #: (first, count) of the experts that this shard has; None: all
    sources: int = 0  #: [token] of a sequence that goes through the encoder; 0: the model has none
    encoder: bool = False  #: a layer of the encoder: every token attends to all of its sequence
    closing: Norm | None = None  #: of the encoder's last layer: the norm behind it

    @property
    def precision(self) -> str:
        """How entries name the number format: `W4A8KV4`."""
        return f"W{self.weight_bits}A{self.activation_bits}KV{self.kv_bits}"

    @property
    def softcap(self) -> bool:
        """Whether scores go through tanh."""
        return isinstance(self.block.mixer, Attention) and self.block.mixer.softcap

    @property
    def norm(self) -> str:
        """The vector operation of its norms."""
        return self.block.norm.kind

    @property
    def gain_bytes(self) -> int:
        """Bytes of the gains of one norm of the hidden width."""
        return bytes_of(max(1, self.block.norm.vectors(self.hidden)), self.gain_bits)

    def bits_of(self, weight: Weight) -> int:
        """Bits of a matrix: those of its own name, or those of all matrices."""
        return dict(self.matrix_bits).get(weight.name.removeprefix("shared_").removeprefix("cross_"), self.weight_bits)

    def stored(self, weight: Weight, rows: int) -> int:
        """[element] that a column of `rows` weights takes in memory: with its scales and zeros."""
        if self.scales is None or self.scales.weight_bits != self.bits_of(weight) or weight.name == "router":
            return rows
        return rows + self.scales.elements(rows)

    def matrix_bytes(self, weight: Weight) -> int:
        """Bytes of one copy of a matrix in memory, with its scales and zeros."""
        rows, cols, mixer = weight.rows, weight.cols, self.block.mixer
        if isinstance(mixer, LatentAttention) and weight.name == "wk_b":  # which is applied to queries, head by head
            rows, cols = mixer.nope_dim, mixer.heads * mixer.kv_rank
        return bytes_of(self.stored(weight, rows) * cols, self.bits_of(weight))

    def act(self, elements: int) -> int:
        """The bytes of a number of activations."""
        return bytes_of(elements, self.activation_bits)

    @property
    def vector_elements(self) -> int:
        """Gains, biases and small tensors, without the biases of experts, which come with their matrices."""
        closing = self.closing.vectors(self.hidden) if self.closing is not None else 0
        return self.block.vectors(self.hidden) + closing - self.expert_vectors * self.experts

    @property
    def experts(self) -> int:
        """How many experts the layer has in all."""
        return self.block.ffn.count if isinstance(self.block.ffn, Experts) else 0

    @property
    def expert_vectors(self) -> int:
        """The biases of one expert."""
        return self.block.ffn.expert.vectors(self.hidden) if isinstance(self.block.ffn, Experts) else 0

    @property
    def cached(self) -> tuple[tuple[str, int, int], ...]:
        """The entries that a token adds to the cache: (name, heads, elements of a head)."""
        mixer = self.block.mixer
        if isinstance(mixer, Attention):
            return ("k", mixer.kv_heads, mixer.head_dim), ("v", mixer.kv_heads, mixer.value_dim)
        return (("latent", 1, mixer.token_elements),) if isinstance(mixer, LatentAttention) else ()

    @property
    def crossed(self) -> tuple[tuple[str, int, int], ...]:
        """The entries that a token of the encoder adds to the cache of this layer, in the form of `cached`."""
        cross = self.block.cross
        if cross is None:
            return ()
        return ("cross_k", cross.kv_heads, cross.head_dim), ("cross_v", cross.kv_heads, cross.value_dim)

    @property
    def state_elements(self) -> int:
        """[element] that a sequence keeps from token to token beside a cache."""
        mixer = self.block.mixer
        return mixer.state_elements if isinstance(mixer, StateSpace | LinearAttention) else 0


def shard_of_parts(shape: BlockShape, shards: int, number: int, experts: bool, sharers: int = 1) -> BlockShape:
    """One of `shards` parts of a layer. `experts`: they are divided whole, not each by its width.

    `sharers`: replicas that share the experts; `number` counts the shards of all of them. If there are more PEs than heads, or
    than experts, equally many PEs share each of them: `Attention.holders`, and an equal part of the width of an expert. Key and
    value heads beyond their number are on several PEs. InputError if a part cannot be divided.
    """
    if shards * sharers == 1:
        return shape
    block = shape.block
    ffn, local = block.ffn, None
    if isinstance(ffn, Experts) and experts:
        holders = holders_of(ffn.count, shards) if sharers == 1 else 1
        if holders > 1:
            _even(shape, "experts * their width", ffn.count * ffn.expert.width, shards)
        each = _even(shape, "experts", ffn.count * holders, shards * sharers)
        local = (each * number // holders, each)
        shared = _mlp(shape, ffn.shared, shards) if ffn.shared else None
        ffn = replace(ffn, expert=_mlp(shape, ffn.expert, holders), shared=shared)
    elif isinstance(ffn, Experts):
        shared = _mlp(shape, ffn.shared, shards) if ffn.shared else None
        ffn = replace(ffn, expert=_mlp(shape, ffn.expert, shards), shared=shared)
    elif ffn is not None:
        ffn = _mlp(shape, ffn, shards)
    mixer = _mixer(shape, block.mixer, shards) if block.mixer is not None else None
    cross = _mixer(shape, block.cross, shards) if block.cross is not None else None
    assert cross is None or isinstance(cross, Attention)
    return replace(shape, block=replace(block, mixer=mixer, cross=cross, ffn=ffn), shards=shards, local_experts=local)


def _even(shape: BlockShape, name: str, count: int, shards: int) -> int:
    if count % shards:
        rule = f"it must divide {count} ({name} in the model)"
        most = max(n for n in range(1, min(shards, count) + 1) if count % n == 0)
        raise InputError(Problem(f"model {shape.name}", rule, "tp", shards, f"use --tp {most}"))
    return count // shards


def holders_of(count: int, shards: int) -> int:
    """How many of `shards` PEs share each of `count` heads or experts; 1 if each PE has some of them whole."""
    return shards // count if shards > count and shards % count == 0 else 1


def shares_heads(model: Model, shards: int) -> bool:
    """Whether several PEs share each head of a model. The planner of layers divides whole heads only."""
    return model.description is not None and holders_of(model.shape.heads, shards) > 1


def _mlp(shape: BlockShape, mlp: Mlp, shards: int) -> Mlp:
    return replace(mlp, width=_even(shape, "ffn", mlp.width, shards))


def kv_heads_of(shape_name: str, kv_heads: int, shards: int) -> int:
    """Key and value heads of a shard: a share of them, or one that several shards have."""
    if kv_heads % shards and shards % kv_heads:
        rule = f"a model is cut into {shards} parts, so one must divide the other, kv_heads = {kv_heads}"
        raise InputError(Problem(f"model {shape_name}", rule, "tp", shards))
    return max(1, kv_heads // shards)


def _mixer(shape: BlockShape, mixer: Mixer, shards: int) -> Mixer:
    if isinstance(mixer, Attention):
        holders = holders_of(mixer.heads, shards)
        if holders > 1:
            each = _even(shape, "heads * head_dim", mixer.width, shards)
            if each * shape.kv_bits % 8:
                rule = f"{holders} PEs share each head, and the {each} elements of a value that each has must be whole bytes"
                raise InputError(Problem(f"model {shape.name}", rule, "kv_bits", shape.kv_bits, f"use --tp {mixer.heads}"))
        heads = _even(shape, "heads", mixer.heads * holders, shards)
        return replace(mixer, heads=heads, kv_heads=kv_heads_of(shape.name, mixer.kv_heads, shards), holders=holders)
    if isinstance(mixer, LatentAttention):
        return replace(mixer, heads=_even(shape, "heads", mixer.heads, shards))
    if isinstance(mixer, LinearAttention):
        keys, values = (_even(shape, "linear heads", count, shards) for count in (mixer.key_heads, mixer.value_heads))
        return replace(mixer, key_heads=keys, value_heads=values)
    inner = _even(shape, "inner width", mixer.inner, shards)
    heads = _even(shape, "heads", mixer.heads, shards) if mixer.heads else 0
    return replace(mixer, inner=inner, heads=heads, groups=max(1, mixer.groups // shards) if mixer.groups else 0)
