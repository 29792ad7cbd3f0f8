"""A whole language model: its layers, the embedding before them, and the LM head after them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.parts import Description
from kernbench.workloads.models.precision import NOTHING_STATED, Precision, StatedBits


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only transformer as its `config.json` describes it; bits are those of a `Precision`."""

    name: str
    layers: int
    shape: ModelShape  #: a layer without window, at the default bits
    vocab: int
    tied: bool = False  #: the LM head's weights are those of the embedding
    window: int = 0  #: [token] of the layers that have one; 0: none has
    windowed: tuple[int, ...] = ()  #: the layers that have it
    final_softcap: bool = False  #: logits go through tanh
    positions: int = 0  #: [token] that it was made for; 0: not said
    stated: StatedBits = NOTHING_STATED  #: bits that its file states
    description: Description | None = None  #: its parts; None: `shape` says it all
    planned: bool = True  #: `shape` says all of a layer; else layers are lowered part by part
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)  #: what of its file is not used

    def layer(self, index: int, precision: Precision) -> ModelShape:
        """Layer `index` with its window and bits. Equal layers take equal time."""
        shape = replace(self.shape, window=self.window) if index in self.windowed else self.shape
        return precision.applied(shape, index)

    @property
    def parameters(self) -> int:
        """Weights, gains and biases, a tied table once."""
        if self.description is not None:
            return self.description.parameters
        layer = self.shape
        count = sum(matrix.rows * matrix.cols * matrix.experts for matrix in layer.matrices)
        gains = self.shape.hidden * (2 if layer.norm == "layernorm" else 1)
        count += len(layer.norms) * gains + layer.bias_bytes * 8 // layer.gain_bits
        return self.layers * count + gains + self.vocab * layer.hidden * (1 if self.tied else 2)
