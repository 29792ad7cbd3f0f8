"""Models as numbers: what a decoder layer's weights, activations and KV cache measure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix: `rows` inputs by `cols` outputs."""

    name: str
    rows: int  #: [element] k of its products
    cols: int  #: [element] n of its products
    bits: int  #: per weight

    @property
    def nbytes(self) -> int:
        """Bytes of all its weights, each once."""
        return bytes_of(self.rows * self.cols, self.bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer with RMSNorm, RoPE and a SwiGLU feed-forward network; no biases.

    Raises InputError where the numbers do not make one.
    """

    name: str  #: `model_name` of every entry
    layers: int
    hidden: int  #: [element] width of the residual stream
    heads: int  #: query heads
    kv_heads: int  #: key and value heads, each for heads / kv_heads query heads
    head_dim: int  #: [element] width of a head
    ffn: int  #: [element] width inside the feed-forward network
    weight_bits: int = 4
    activation_bits: int = 8
    kv_bits: int = 4
    gain_bits: int = 8  #: per gain of an RMSNorm

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name != "name" and (type(value) is not int or value < 1):
                raise InputError(Problem(f"model {self.name}", "it must be a positive integer", spec.name, value))
        if self.heads % self.kv_heads:
            rule = f"it must divide heads = {self.heads}"
            raise InputError(Problem(f"model {self.name}", rule, "kv_heads", self.kv_heads))
        if self.head_dim * self.kv_bits % 8:
            rule = f"a token of head_dim = {self.head_dim} must be whole bytes"
            raise InputError(Problem(f"model {self.name}", rule, "kv_bits", self.kv_bits))

    @property
    def group(self) -> int:
        """Query heads that share one key and value head."""
        return self.heads // self.kv_heads

    @property
    def attention_width(self) -> int:
        """[element] all query heads side by side."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """[element] all key heads side by side."""
        return self.kv_heads * self.head_dim

    @property
    def kv_token_bytes(self) -> int:
        """Bytes of one token of one head in the K cache; as many in the V cache."""
        return bytes_of(self.head_dim, self.kv_bits)

    @property
    def gain_bytes(self) -> int:
        """Bytes of one RMSNorm's gains; a layer has two."""
        return bytes_of(self.hidden, self.gain_bits)

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """One layer's weight matrices in the order of their use."""
        shapes = (
            ("wq", self.hidden, self.attention_width),
            ("wk", self.hidden, self.kv_width),
            ("wv", self.hidden, self.kv_width),
            ("wo", self.attention_width, self.hidden),
            ("w_gate", self.hidden, self.ffn),
            ("w_up", self.hidden, self.ffn),
            ("w_down", self.ffn, self.hidden),
        )
        return tuple(Matrix(name, rows, cols, self.weight_bits) for name, rows, cols in shapes)

    @property
    def precision(self) -> str:
        """How entries name the number format: `W4A8KV4`."""
        return f"W{self.weight_bits}A{self.activation_bits}KV{self.kv_bits}"


#: Llama 2 with 7 billion parameters. The shape is that of the published `config.json` (hidden_size, intermediate_size,
#: num_attention_heads, num_key_value_heads, num_hidden_layers) and of Touvron et al., "Llama 2: Open Foundation and
#: Fine-Tuned Chat Models", arXiv:2307.09288 (4096 wide, 32 layers, 32 heads). The bit widths (W4A8, KV4, gains of
#: 8 bits) are a choice of this project, not of the paper.
LLAMA_2_7B = ModelShape(name="llama2_7b", layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11008)
