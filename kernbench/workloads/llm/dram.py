"""Where a whole model is in DRAM: embedding, layers, LM head, KV caches, and the activations that all layers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import lcm

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import KvLayout, NpuConfig
from kernbench.workloads.layer.dram import LayerDram, Room
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.planner import LayerPlan

_UNLIMITED = 1 << 62  # [byte] of DRAM while it is found out how many are needed
Plans = Callable[[ModelShape], Iterable[LayerPlan]]


@dataclass(frozen=True, slots=True)
class Table:
    """A matrix in front of the layers or behind them, a row a word."""

    base: int
    bits: int


@dataclass
class LlmDram:
    """Bases of everything; layers begin at multiples of `step`, at which all channels take turns anew."""

    step: int
    embedding: Table
    head: Table
    final_gain: int
    logits: int
    layers: list[int]
    shared: int
    end: int  #: one past the last byte
    rows: int
    positions: int
    batch: int
    page_tokens: int = 0
    stream: tuple[int, int] = field(default=(0, 0))  #: the activations that layers read and write in turn

    def room(self, layer: int) -> Room:
        """The place of a layer."""
        own, swapped = self.layers[layer], layer % 2 == 1
        return Room(own, self.shared, self.step, self.rows, self.positions, self.batch, swapped, self.page_tokens)

    def input_of(self, layer: int) -> int:
        """Where layer `layer` finds its input, and the one before it leaves its output."""
        return self.stream[layer % 2]


def machine_with_layout(config: NpuConfig, model: Model, positions: int, page_tokens: int) -> tuple[NpuConfig, KvLayout | None]:
    """The machine, with a KV layout for the model where it has none that fits; and that layout."""
    dim, wanted = model.shape.head_dim, page_tokens or positions
    for layout in config.kv_layouts:
        if layout.head_dim == dim and (layout.t_max == wanted if page_tokens else layout.t_max >= wanted):
            return config, None
    t_max = page_tokens or ceil_div(positions, 64) * 64
    layout = KvLayout(t_max=t_max, head_dim=dim)
    more = config.model_copy(update={"kv_layouts": (*config.kv_layouts, layout)})
    return more, layout


def place_model(
    model: Model, precision: Precision, config: NpuConfig, plans: Plans, rows: int, room: Room, shapes: list[ModelShape]
) -> LlmDram:
    """Places layers of these shapes. `plans`: every plan that a layer runs with; `rows`: [token] of the largest step.

    Of `room` the size of caches counts. InputError where the DRAM is too small.
    """
    wide = config.model_copy(update={"dram": config.dram.model_copy(update={"capacity_bytes": _UNLIMITED})})
    turn = config.dram.channels * config.dram.interleave_bytes if config.dram.channels > 1 else 1
    step = lcm(config.dma.alignment_bytes, turn)
    sizes, shared = {}, 0
    for shape in dict.fromkeys(shapes):
        made = [LayerDram(shape, wide, plan, replace(room, step=step, rows=rows)) for plan in plans(shape)]
        sizes[shape] = max(dram.own_end for dram in made)
        shared = max(shared, *(dram.shared_end for dram in made))
        stream = made[0].activations["x"].base, made[0].activations["y"].base
    bits, head_bits = precision.role("embedding"), precision.role("embedding" if model.tied else "lm_head")
    at = _Places(step)
    hidden, vocab = model.shape.hidden, model.vocab
    embedding = Table(at.take(bytes_of(vocab * hidden, bits)), bits)
    head = embedding if model.tied else Table(at.take(bytes_of(vocab * hidden, head_bits)), head_bits)
    gain = at.take(shapes[-1].gain_bytes)
    bases = [at.take(sizes[shape]) for shape in shapes]
    logits = at.take(bytes_of(room.batch * vocab, shapes[-1].activation_bits))
    shared_base = at.take(shared)
    if at.end > config.dram.capacity_bytes:
        needs = f"{model.name} with {len(shapes)} layers, {room.batch} x {room.positions} tokens of KV cache and all else"
        rule = f"{needs} needs {at.end} bytes"
        remedy = "give the DRAM more capacity, or take fewer bits or fewer --layers"
        raise InputError(Problem(config.source, rule, "dram.capacity_bytes", config.dram.capacity_bytes, remedy))
    ends = (shared_base + stream[0], shared_base + stream[1])
    found = LlmDram(step, embedding, head, gain, logits, bases, shared_base, at.end, rows, room.positions, room.batch)
    found.page_tokens, found.stream = room.page_tokens, ends
    return found


class _Places:
    """Hands out addresses at multiples of a step."""

    def __init__(self, step: int) -> None:
        self._step = step
        self.end = 0

    def take(self, nbytes: int) -> int:
        """The address of so many bytes."""
        at = ceil_div(self.end, self._step) * self._step
        self.end = at + nbytes
        return at
