"""A whole language model: its layers, the embedding before them, and the LM head after them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.parts import Description
from kernbench.workloads.models.precision import NOTHING_STATED, Precision, StatedBits


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only transformer as its `config.json` describes it; the bits are those of a `Precision`."""

    name: str
    layers: int
    shape: ModelShape  #: a layer without window, at the default bits
    vocab: int
    tied: bool = False  #: whether the LM head uses the weights of the embedding
    window: int = 0  #: [token] window of the layers that have one; 0 if no layer has one
    windowed: tuple[int, ...] = ()  #: the layers with a window
    final_softcap: bool = False  #: whether logits go through tanh
    positions: int = 0  #: [token] context length for which the model was made; 0 if unknown
    stated: StatedBits = NOTHING_STATED  #: the bits that the model's file states
    description: Description | None = None  #: the parts of the model; None if `shape` describes it completely
    planned: bool = True  #: whether `shape` describes a layer completely; otherwise layers are lowered part by part
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)  #: contents of its file that are not used

    def layer(self, index: int, precision: Precision) -> ModelShape:
        """Layer `index` with its window and bits. Equal layers take equal time."""
        shape = replace(self.shape, window=self.window) if index in self.windowed else self.shape
        return precision.applied(shape, index)

    @property
    def parameters(self) -> int:
        """The number of weights, gains and biases; a tied table counts once."""
        if self.description is not None:
            return self.description.parameters
        layer = self.shape
        count = sum(matrix.rows * matrix.cols * matrix.experts for matrix in layer.matrices)
        gains = self.shape.hidden * (2 if layer.norm == "layernorm" else 1)
        count += len(layer.norms) * gains + layer.bias_bytes * 8 // layer.gain_bits
        return self.layers * count + gains + self.vocab * layer.hidden * (1 if self.tied else 2)
