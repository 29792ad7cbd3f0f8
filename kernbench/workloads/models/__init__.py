"""Models as numbers: the sizes of a decoder layer's weights, activations and KV cache."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import msgspec

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.errors import InputError, Problem

_COUNTS = (
    "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "weight_bits", "activation_bits", "kv_bits", "gain_bits",
)  # fmt: skip


class Matrix(msgspec.Struct, frozen=True):
    """A weight matrix: `rows` inputs by `cols` outputs."""

    name: str
    rows: int  #: [element] dimension k of its products
    cols: int  #: [element] dimension n of its products
    bits: int  #: per weight
    experts: int = 1  #: number of such matrices in a layer

    @property
    def nbytes(self) -> int:
        """The bytes of all its weights, each counted once; for experts, of one expert."""
        return bytes_of(self.rows * self.cols, self.bits)


class HeadBits(msgspec.Struct, frozen=True):
    """Bits of one key and value head that differ from those of the layer."""

    kv_head: int
    weights: int | None = None  #: of its wq, wk and wv
    kv: int | None = None  #: of its K and V


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A layer of a decoder-only transformer.

    Raises InputError if the numbers are not a valid layer.
    """

    name: str  #: `model_name` of every entry
    layers: int
    hidden: int  #: [element] width of the residual stream
    heads: int  #: query heads
    kv_heads: int  #: key and value heads; each is used by heads / kv_heads query heads
    head_dim: int  #: [element] width of a head
    ffn: int  #: [element] width inside the feed-forward network, or inside one expert of a mixture
    weight_bits: int = 4
    activation_bits: int = 8
    kv_bits: int = 4
    gain_bits: int = 8  #: per gain of a norm, and per bias
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"  #: a layernorm has a shift in addition to each gain
    activation: Literal["silu", "gelu"] = "silu"
    gated: bool = True  #: True: activation(gate) * up; False: activation(up)
    rope: bool = True
    post_norms: bool = False  #: norms also after the output and the down projection, before the residual addition
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    softcap: bool = False  #: whether scores go through tanh
    window: int = 0  #: [token] that a token attends to, including itself; 0 for all
    experts: int = 0  #: number of experts of a mixture; 0 for one feed-forward network without a router
    experts_per_token: int = 0
    shards: int = 1  #: number of equal parts of the layer, of which this is one; the projected outputs of all parts are added
    matrix_bits: tuple[tuple[str, int], ...] = ()  #: bits of single matrices instead of weight_bits
    head_bits: tuple[HeadBits, ...] = ()

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name in _COUNTS and (type(value) is not int or value < 1):
                raise InputError(Problem(f"model {self.name}", "it must be a positive integer", spec.name, value))
        if self.heads % self.kv_heads:
            rule = f"it must divide heads = {self.heads}"
            raise InputError(Problem(f"model {self.name}", rule, "kv_heads", self.kv_heads))
        for bits in {self.kv_bits, *(head.kv for head in self.head_bits if head.kv is not None)}:
            if self.head_dim * bits % 8:
                rule = f"a token of head_dim = {self.head_dim} must be whole bytes"
                raise InputError(Problem(f"model {self.name}", rule, "kv_bits", bits))
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            rule = f"it must be from 1 to experts = {self.experts}"
            raise InputError(Problem(f"model {self.name}", rule, "experts_per_token", self.experts_per_token))

    @property
    def whole_rows(self) -> bool:
        """Whether the rows of a projection must be complete before they are added: for a norm, or for a reduction."""
        return self.post_norms or self.shards > 1

    @property
    def group(self) -> int:
        """Query heads that share one key and value head."""
        return self.heads // self.kv_heads

    @property
    def attention_width(self) -> int:
        """[element] width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """[element] width of all key heads together."""
        return self.kv_heads * self.head_dim

    @property
    def kv_token_bytes(self) -> int:
        """Bytes of K for one token and one head, as engines read them, for the widest head; V has the same number."""
        return bytes_of(self.head_dim, unpacked_bits(max(self.kv_widths)))

    @property
    def _own_kv(self) -> set[int]:
        """The key and value heads that have their own bits."""
        return {special.kv_head for special in self.head_bits if special.kv is not None and special.kv_head < self.kv_heads}

    @property
    def kv_widths(self) -> set[int]:
        """Bits of elements of K and V: those of all key and value heads, each once."""
        own = self._own_kv
        return {self.kv_bits_of(head) for head in own} | ({self.kv_bits} if len(own) < self.kv_heads else set())

    def kv_bits_of(self, head: int) -> int:
        """Bits of an element of K and V of a key and value head."""
        found = [special.kv for special in self.head_bits if special.kv_head == head and special.kv is not None]
        return found[0] if found else self.kv_bits

    @property
    def kv_token_total(self) -> int:
        """Bytes of one token in the K cache, over all heads; the V cache has the same number."""
        own = self._own_kv
        special = sum(bytes_of(self.head_dim, self.kv_bits_of(head)) for head in own)
        return special + (self.kv_heads - len(own)) * bytes_of(self.head_dim, self.kv_bits)

    def bits_of(self, matrix: str) -> int:
        """Bits of a weight of a matrix, except for heads that have their own bits."""
        return dict(self.matrix_bits).get(matrix, self.weight_bits)

    def slice_bits(self, matrix: str, head: int) -> int:
        """Bits of a weight of the columns of one head of `wq`, `wk` or `wv`."""
        kv_head = head // self.group if matrix == "wq" else head
        found = [special.weights for special in self.head_bits if special.kv_head == kv_head and special.weights is not None]
        return found[0] if found else self.bits_of(matrix)

    @property
    def gain_bytes(self) -> int:
        """The bytes of the gains of one norm, and of its shifts if it has any."""
        return bytes_of(self.hidden * (2 if self.norm == "layernorm" else 1), self.gain_bits)

    @property
    def norms(self) -> tuple[str, ...]:
        """The gains of a layer's norms by name."""
        names = ("gain_attention", "gain_mlp")
        return (*names, "gain_post_attention", "gain_post_mlp") if self.post_norms else names

    @property
    def bias_bytes(self) -> int:
        """Bytes of a layer's biases."""
        count = self.attention_width + 2 * self.kv_width if self.qkv_bias else 0
        count += self.hidden if self.out_bias else 0
        count += (self.ffn * (2 if self.gated else 1) + self.hidden) if self.mlp_bias else 0
        return bytes_of(count, self.gain_bits)

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The weight matrices of a layer in the order of their use; a matrix that experts have is listed once."""
        shapes: list[tuple[str, int, int]] = [
            ("wq", self.hidden, self.attention_width),
            ("wk", self.hidden, self.kv_width),
            ("wv", self.hidden, self.kv_width),
            ("wo", self.attention_width, self.hidden),
        ]
        if self.experts:
            shapes.append(("router", self.hidden, self.experts))
        if self.gated:
            shapes.append(("w_gate", self.hidden, self.ffn))
        shapes += [("w_up", self.hidden, self.ffn), ("w_down", self.ffn, self.hidden)]
        several = {"w_gate": self.experts, "w_up": self.experts, "w_down": self.experts}
        return tuple(Matrix(n, rows, cols, self.bits_of(n), several.get(n, 1) or 1) for n, rows, cols in shapes)

    @property
    def precision(self) -> str:
        """The number format in entries: `W4A8KV4`."""
        return f"W{self.weight_bits}A{self.activation_bits}KV{self.kv_bits}"


#: Llama 2 with 7 billion parameters. The shape is that of the published `config.json` (hidden_size, intermediate_size,
#: num_attention_heads, num_key_value_heads, num_hidden_layers) and of Touvron et al., "Llama 2: Open Foundation and
#: Fine-Tuned Chat Models", arXiv:2307.09288 (4096 wide, 32 layers, 32 heads). The bit widths (W4A8, KV4, gains of
#: 8 bits) are a choice of this project, not of the paper.
LLAMA_2_7B = ModelShape(name="llama2_7b", layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11008)
