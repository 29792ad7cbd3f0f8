"""A language model described by its parts: mixers, feed-forward networks, norms, embeddings. Each part counts its weights.

A model is a list of blocks. A block is a mixer (attention, latent attention, a state space, or linear attention), optionally
attention to an encoder, and a feed-forward network, with norms around them. This module contains no names of models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Weight:
    """Matrices of one shape: `rows` inputs by `cols` outputs, `copies` of them."""

    name: str
    rows: int  #: [element]
    cols: int  #: [element]
    copies: int = 1

    @property
    def elements(self) -> int:
        """The weights of all copies."""
        return self.rows * self.cols * self.copies


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm of rows, and the vectors that it has for each element."""

    kind: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    gain: bool = True
    shift: bool = False

    def vectors(self, width: int) -> int:
        """Gains and shifts for rows of this width."""
        return width * (self.gain + self.shift)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention with a cache of keys and values of each key and value head."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0  #: [token] that a token attends to, including itself; 0 for all
    chunk: int = 0  #: [token] length of the chunks inside which tokens attend to each other; 0 for no chunks
    rope: bool = True
    q_bias: bool = False
    k_bias: bool = False
    v_bias: bool = False
    out_bias: bool = False
    qk_norm: Literal["", "shared", "heads"] = ""  #: gains for one head that all heads share, or for every head
    qk_shift: bool = False  #: whether that norm has shifts
    softcap: bool = False  #: whether scores go through tanh
    sinks: bool = False  #: whether a learned score of each head takes part in the softmax
    gated: bool = False  #: whether the output is multiplied by a gate, which is projected together with the queries
    buckets: int = 0  #: rows of a table of biases by distance, shared by all layers of a stack
    cross: bool = False  #: whether keys and values come from the encoder's output
    #: PEs that share a head: each has all queries and keys of the head, and computes an equal part of the width of its values
    holders: int = 1

    @property
    def width(self) -> int:
        """[element] width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def value_dim(self) -> int:
        """[element] the part of a value of a head that is here."""
        return self.head_dim // self.holders

    @property
    def out_width(self) -> int:
        """[element] width of the outputs of all query heads together, as far as they are here."""
        return self.heads * self.value_dim

    @property
    def value_width(self) -> int:
        """[element] width of all value heads together, as far as they are here."""
        return self.kv_heads * self.value_dim

    @property
    def query_width(self) -> int:
        """[element] width of the queries, and of the gate that is projected together with them."""
        return self.width + self.out_width * self.gated

    @property
    def kv_width(self) -> int:
        """[element] width of all key heads together."""
        return self.kv_heads * self.head_dim

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """The projections in the order of their use."""
        return (
            Weight("wq", hidden, self.query_width),
            Weight("wk", hidden, self.kv_width),
            Weight("wv", hidden, self.value_width),
            Weight("wo", self.out_width, hidden),
        )

    def vectors(self, hidden: int) -> int:
        """Biases, gains of the norms of queries and keys, and sinks."""
        biases = self.query_width * self.q_bias + self.kv_width * self.k_bias + self.value_width * self.v_bias
        norms = {"": 0, "shared": 2 * self.head_dim, "heads": self.width + self.kv_width}[self.qk_norm]
        return biases + hidden * self.out_bias + norms * (2 if self.qk_shift else 1) + self.heads * self.sinks

    @property
    def token_elements(self) -> int:
        """[element] of one token in the cache."""
        return self.kv_width + self.value_width


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: for each token, the cache has one latent vector and one key for RoPE, which all heads
    share."""

    heads: int
    kv_rank: int  #: [element] of the latent vector
    nope_dim: int  #: [element] of a head's query and key without RoPE
    rope_dim: int  #: [element] with RoPE: of each head's query, and of the key that all heads share
    value_dim: int  #: [element] of a head's value
    q_rank: int = 0  #: [element] of the latent vector of queries; 0 if queries are projected from the hidden state
    bias: bool = False  #: whether the projections to latent vectors and of the output have biases

    @property
    def token_elements(self) -> int:
        """[element] of one token in the cache."""
        return self.kv_rank + self.rope_dim

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """The projections in the order of their use; `wk_b` and `wv_b` expand a latent vector to keys and values."""
        width = self.heads * (self.nope_dim + self.rope_dim)
        queries = (Weight("wq_a", hidden, self.q_rank), Weight("wq_b", self.q_rank, width)) if self.q_rank else (
            Weight("wq", hidden, width),
        )
        return (
            *queries,
            Weight("wkv_a", hidden, self.token_elements),
            Weight("wk_b", self.kv_rank, self.heads * self.nope_dim),
            Weight("wv_b", self.kv_rank, self.heads * self.value_dim),
            Weight("wo", self.heads * self.value_dim, hidden),
        )

    def vectors(self, hidden: int) -> int:
        """Gains of the norms of both latent vectors, and biases."""
        biases = self.q_rank + self.token_elements + hidden if self.bias else 0
        return self.q_rank + self.kv_rank + biases


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpace:
    """A selective state space, Mamba 1 (`groups` = 0) or Mamba 2, with a short convolution before it."""

    inner: int  #: [element] inner width of a row
    state: int  #: [element] of the state of a channel
    conv: int  #: [token] length of the convolution
    conv_bias: bool = True
    bias: bool = False  #: whether the projections have biases
    groups: int = 0  #: number of groups of heads that share B and C, for Mamba 2
    heads: int = 0  #: for Mamba 2
    rank: int = 0  #: [element] width from which the time step is expanded, for Mamba 1
    inner_norms: bool = False  #: whether time step, B and C have norms, for Mamba 1

    @property
    def conv_width(self) -> int:
        """[element] channels of the convolution."""
        return self.inner + 2 * self.groups * self.state

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """The projections in the order of their use."""
        if self.groups:
            return (
                Weight("in_proj", hidden, self.inner + self.conv_width + self.heads),
                Weight("out_proj", self.inner, hidden),
            )
        return (
            Weight("in_proj", hidden, 2 * self.inner),
            Weight("x_proj", self.inner, self.rank + 2 * self.state),
            Weight("dt_proj", self.rank, self.inner),
            Weight("out_proj", self.inner, hidden),
        )

    def vectors(self, hidden: int) -> int:
        """The convolution, A, D, the biases of time steps, gains, and biases."""
        count = self.conv_width * (self.conv + self.conv_bias)
        if self.groups:
            count += 3 * self.heads + self.inner
            projected = self.inner + self.conv_width + self.heads
        else:
            count += self.inner * self.state + 2 * self.inner + (self.rank + 2 * self.state) * self.inner_norms
            projected = 2 * self.inner
        return count + (projected + hidden) * self.bias

    @property
    def state_elements(self) -> int:
        """[element] that a sequence keeps from token to token: the state and the convolution's last inputs."""
        return self.inner * self.state + self.conv_width * self.conv


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Attention with a state of key by value elements for each head instead of a cache: gated delta rule, or lightning
    attention."""

    kind: Literal["delta", "lightning"]
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int = 0  #: [token] length of the convolution of queries, keys and values; 0 for none

    @property
    def key_width(self) -> int:
        """[element] width of all key heads together."""
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        """[element] width of all value heads together."""
        return self.value_heads * self.value_dim

    @property
    def conv_width(self) -> int:
        """[element] channels of the convolution."""
        return 2 * self.key_width + self.value_width if self.conv else 0

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """The projections in the order of their use."""
        first = Weight("qkv", hidden, 2 * self.key_width + self.value_width)
        gate, out = Weight("gate", hidden, self.value_width), Weight("wo", self.value_width, hidden)
        if self.kind == "lightning":
            return first, gate, out
        return first, gate, Weight("decay", hidden, 2 * self.value_heads), out

    def vectors(self, hidden: int) -> int:
        """The convolution, decays, and gains of the norm before the output."""
        if self.kind == "lightning":
            return self.value_width
        return self.conv_width * self.conv + 2 * self.value_heads + self.value_dim

    @property
    def state_elements(self) -> int:
        """[element] that a sequence keeps from token to token."""
        return self.value_heads * self.key_dim * self.value_dim + self.conv_width * self.conv


Mixer = Attention | LatentAttention | StateSpace | LinearAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """A feed-forward network: activation(gate) * up, or activation(up); then down."""

    width: int
    gated: bool = True
    activation: str = "silu"
    up_bias: bool = False  #: whether gate and up have biases
    down_bias: bool = False

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """The matrices in the order of their use."""
        gate = (Weight("w_gate", hidden, self.width),) if self.gated else ()
        return (*gate, Weight("w_up", hidden, self.width), Weight("w_down", self.width, hidden))

    def vectors(self, hidden: int) -> int:
        """The biases."""
        return self.width * (2 if self.gated else 1) * self.up_bias + hidden * self.down_bias


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of `count` networks, of which each token uses `top_k`, and the networks that all tokens use."""

    count: int
    top_k: int
    expert: Mlp
    router_bias: bool = False
    shared: Mlp | None = None
    shared_gate: bool = False  #: whether the output of the shared network is multiplied by its own gate

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """The router, the experts and the shared network."""
        experts = tuple(Weight(w.name, w.rows, w.cols, self.count) for w in self.expert.weights(hidden))
        shared = tuple(Weight(f"shared_{w.name}", w.rows, w.cols) for w in self.shared.weights(hidden)) if self.shared else ()
        gate = (Weight("shared_gate", hidden, 1),) if self.shared_gate else ()
        return (Weight("router", hidden, self.count), *experts, *shared, *gate)

    def vectors(self, hidden: int) -> int:
        """The biases."""
        shared = self.shared.vectors(hidden) if self.shared else 0
        return self.count * (self.router_bias + self.expert.vectors(hidden)) + shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A layer. `norms`: the number of norms of the hidden width, each of kind `norm`."""

    mixer: Mixer | None
    ffn: Mlp | Experts | None
    norm: Norm = Norm()
    norms: int = 2
    parallel: bool = False  #: whether mixer and network read the same input, and their outputs are added
    cross: Attention | None = None  #: attention to the encoder's output, between mixer and network
    #: MTP: whether the block starts with norms and projections of the last layer's output and of a word's embedding
    predicts: bool = False

    @property
    def parts(self) -> tuple[Mixer | Mlp | Experts, ...]:
        """Mixer, attention to the encoder and network, if the block has them."""
        return tuple(part for part in (self.mixer, self.cross, self.ffn) if part is not None)

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        """All matrices in the order of their use."""
        found = tuple(weight for part in (self.mixer, self.ffn) if part is not None for weight in part.weights(hidden))
        if self.predicts:
            found = (Weight("word_proj", hidden, hidden), Weight("state_proj", hidden, hidden), *found)
        if self.cross is None:
            return found
        return (*found, *(replace(weight, name=f"cross_{weight.name}") for weight in self.cross.weights(hidden)))

    def vectors(self, hidden: int) -> int:
        """Gains, biases and other small tensors, in elements."""
        norms = self.norms + 2 * self.predicts
        return sum(part.vectors(hidden) for part in self.parts) + norms * self.norm.vectors(hidden)

    def parameters(self, hidden: int) -> int:
        """All weights of the layer."""
        return sum(weight.elements for weight in self.weights(hidden)) + self.vectors(hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution over time, followed by a bias and an activation."""

    inputs: int  #: [element] channels
    outputs: int  #: [element] channels
    taps: int
    stride: int

    @property
    def weight(self) -> Weight:
        """The filters of the convolution as a matrix."""
        return Weight("convolution", self.inputs * self.taps, self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A sequence of blocks with the parts before and after them: a decoder, or an encoder."""

    hidden: int
    blocks: tuple[Block, ...]
    positions: int = 0  #: rows of a learned table of positions
    embedding_norm: Norm | None = None
    final_norm: Norm | None = Norm()
    convolutions: tuple[Convolution, ...] = ()  #: before an encoder of audio
    buckets: int = 0  #: elements of the table of biases by distance

    @property
    def parameters(self) -> int:
        """All weights of the stack except the embedding of words."""
        counted: dict[Block, int] = {}
        total = self.positions * self.hidden + self.buckets
        total += sum(one.weight.elements + one.outputs for one in self.convolutions)
        total += sum(norm.vectors(self.hidden) for norm in (self.embedding_norm, self.final_norm) if norm is not None)
        for block in self.blocks:
            if block not in counted:
                counted[block] = block.parameters(self.hidden)
            total += counted[block]
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A language model: a decoder, optionally an encoder, the embedding of words, and the LM head."""

    decoder: Stack
    vocab: int
    tied: bool = False
    encoder: Stack | None = None
    head_bias: bool = False
    head_softcap: bool = False
    #: [element] of a row of the embedding if it differs from the hidden width; the row is then projected in and out
    word_dim: int = 0
    predicting: int = 0  #: blocks that predict further tokens (MTP); they are not part of `parameters`

    @property
    def hidden(self) -> int:
        """[element] of the residual stream of the decoder."""
        return self.decoder.hidden

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the decoder."""
        return self.decoder.blocks

    @property
    def parameters(self) -> int:
        """All weights; a tied table counts once."""
        width = self.word_dim or self.hidden
        total = self.decoder.parameters + (self.encoder.parameters if self.encoder else 0)
        total += self.vocab * width * (1 if self.tied else 2) + self.vocab * self.head_bias
        return total + (2 * width * self.hidden if self.word_dim else 0)

    @property
    def predicting_block(self) -> Block:
        """A block that predicts a further token: a block like the last one, after two norms and a projection of two rows."""
        return replace(self.blocks[-1], predicts=True)

    @property
    def predicting_parameters(self) -> int:
        """The weights of the blocks that predict further tokens, each with a norm before the LM head, which they share with the
        model."""
        if not self.predicting:
            return 0
        return self.predicting * (self.predicting_block.parameters(self.hidden) + self.blocks[-1].norm.vectors(self.hidden))

    def active_parameters(self) -> int:
        """The weights that one token uses; for a mixture, those of the experts to which the token goes."""
        return self.parameters - sum(_idle(block, self.hidden) for block in self.blocks)

    def caches(self) -> Iterator[tuple[Block, int, int]]:
        """For each block: cache elements of each token, and state elements of each sequence."""
        for block in self.blocks:
            mixer = block.mixer
            if isinstance(mixer, Attention | LatentAttention):
                yield block, mixer.token_elements, 0
            else:
                yield block, 0, mixer.state_elements if mixer is not None else 0


def _idle(block: Block, hidden: int) -> int:
    """The parameters of experts to which a token does not go."""
    ffn = block.ffn
    if not isinstance(ffn, Experts):
        return 0
    each = sum(weight.elements for weight in ffn.expert.weights(hidden)) + ffn.expert.vectors(hidden)
    return (ffn.count - ffn.top_k) * each
