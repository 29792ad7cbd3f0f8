"""The DRAM layout of a whole model: embedding, layers, LM head, KV caches, and the activations that all layers share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import gcd, lcm
from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.common.units import ceil_div, near_size
from kernbench.config.kinds import beyond_dram, beyond_scratchpad
from kernbench.config.schema import KvLayout, NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import LayerDram, Room, Span
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.planner import LayerPlan
from kernbench.workloads.scratchpad import BufferSpec, DoesNotFit, Ring, ScratchpadPlan
from kernbench.workloads.transfers import tile_sizes

_UNLIMITED = 1 << 62  # [byte] capacity that is assumed while the needed bytes are counted
Plans = Callable[[ModelShape], Iterable[LayerPlan]]


@dataclass(frozen=True, slots=True)
class Table:
    """A matrix before or after the layers, with one row for each word."""

    base: int
    bits: int


@dataclass
class LlmDram:
    """Base addresses of all regions; layers begin at multiples of `step`, at which the interleaving starts again with the first
    channel."""

    step: int
    embedding: Table
    head: Table
    final_gain: int
    logits: int
    layers: list[int]
    shared: int
    end: int  #: the address after the last byte
    rows: int
    positions: int
    batch: int
    page_tokens: int = 0
    stream: tuple[int, int] = field(default=(0, 0))  #: the activations that layers read and write alternately

    def room(self, layer: int) -> Room:
        """The addresses of a layer."""
        own, swapped = self.layers[layer], layer % 2 == 1
        return Room(own, self.shared, self.step, self.rows, self.positions, self.batch, swapped, self.page_tokens)

    def input_of(self, layer: int) -> int:
        """The address from which layer `layer` reads its input, and to which the layer before it writes its output."""
        return self.stream[layer % 2]


def machine_with_layout(config: NpuConfig, model: Model, positions: int, page_tokens: int) -> tuple[NpuConfig, KvLayout | None]:
    """The machine, with a KV layout for the model if its own does not fit; and that layout."""
    dim, wanted = model.shape.head_dim, page_tokens or positions
    for layout in config.kv_layouts:
        if layout.head_dim == dim and (layout.t_max == wanted if page_tokens else layout.t_max >= wanted):
            return config, None
    t_max = page_tokens or ceil_div(positions, 64) * 64
    layout = KvLayout(t_max=t_max, head_dim=dim)
    more = config.model_copy(update={"kv_layouts": (*config.kv_layouts, layout)})
    return more, layout


class TooLarge(InputError):
    """The DRAM cannot hold the model, which needs `need` bytes."""

    def __init__(self, problem: Problem, need: int) -> None:
        super().__init__(problem)
        self.problem, self.need = problem, need


def place_model(
    model: Model, precision: Precision, config: NpuConfig, plans: Plans, rows: int, room: Room, shapes: list[ModelShape],
    words: tuple[bool, int],
) -> LlmDram:
    """Places layers of these shapes. `plans`: every plan that a layer runs with; `rows`: [token] of the largest step.

    Of `room`, only the sizes of the caches matter. `words`: whether the embedding is in this DRAM, and the number of words of
    its part of the LM head. InputError if the DRAM is too small.
    """  # fmt: skip
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
    embedding = Table(at.take(bytes_of(vocab * hidden, bits) if words[0] else 0), bits)
    own = not (model.tied and words[0])
    head = Table(at.take(bytes_of(words[1] * hidden, head_bits)), head_bits) if own else embedding
    gain = at.take(shapes[-1].gain_bytes)
    bases = [at.take(sizes[shape]) for shape in shapes]
    logits = at.take(bytes_of(room.batch * words[1], shapes[-1].activation_bits))
    shared_base = at.take(shared)
    if at.end > config.dram.capacity_bytes:
        cache = f"a KV cache for {counted(room.batch, 'sequence')} of {room.positions} tokens"
        needs = f"{model.name} with {len(shapes)} layers and {cache}"
        rule = f"{needs} needs {near_size(at.end)}"
        remedy = "give the DRAM more capacity, or take fewer bits or fewer --layers"
        raise TooLarge(beyond_dram(config, rule, remedy), at.end)
    ends = (shared_base + stream[0], shared_base + stream[1])
    found = LlmDram(step, embedding, head, gain, logits, bases, shared_base, at.end, rows, room.positions, room.batch)
    found.page_tokens, found.stream = room.page_tokens, ends
    return found


class _Places:
    """Allocates addresses at multiples of a step."""

    def __init__(self, step: int) -> None:
        self._step = step
        self.end = 0

    def take(self, nbytes: int) -> int:
        """Allocate this many bytes; returns the address."""
        at = ceil_div(self.end, self._step) * self._step
        self.end = at + nbytes
        return at


_STRIDE, _SEQUENCE_STRIDE = 7919, 104729  # primes: rows of the embedding that are not neighbours
_TILE_KIB = (256, 128, 64, 32, 16, 8, 4, 2)
_STRIP_BYTES = 4 << 10


@dataclass(frozen=True, slots=True)
class Ends:
    """Common inputs of embedding and LM head: the first or last layer for its bits, the addresses of the model, and the tokens
    of the step."""

    shape: ModelShape
    vocab: int
    softcap: bool
    config: NpuConfig
    dram: LlmDram
    tokens: int  #: new tokens of each sequence
    context: int
    batch: int
    own: Sequence[tuple[int, int]] | None = None  #: sequence and position of each row of the embedding; None: of all rows

    def act(self, elements: int) -> int:
        """The bytes of this number of activations."""
        return bytes_of(elements, self.shape.activation_bits)

    def rings(self, needs: list[BufferSpec]) -> dict[str, Ring] | None:
        """A ring for each requested size; None if they do not fit."""
        line = self.config.spm.bank_width_bytes
        try:
            places = ScratchpadPlan(needs, self.config.spm.size_bytes, line)
        except DoesNotFit:
            return None
        return {need.name: Ring(places[need.name], line) for need in needs}

    def refusal(self, what: str) -> InputError:
        """The error if not even the smallest tiles fit."""
        rule = f"the {what} of {self.shape.name} must fit the scratchpad"
        return InputError(beyond_scratchpad(self.config, rule))


def _embedding_buffers(ends: Ends) -> tuple[int, int, dict[str, Ring]]:
    """Rows that are copied together, the bytes for one of them, and the rings, for the most rows that fit."""
    alignment = ends.config.dma.alignment_bytes
    out_bytes = ends.act(ends.shape.hidden)
    widest = max(bytes_of(ends.shape.hidden, ends.dram.embedding.bits), out_bytes)  # the copy reads as many bytes as it writes
    room = ceil_div(widest, alignment) * alignment + alignment
    wide = ceil_div(out_bytes, alignment) * alignment
    for rows in (16, 8, 4, 2, 1):
        rings = ends.rings([BufferSpec("rows", 4 * rows * room, 0, 0), BufferSpec("out", 4 * rows * wide, 0, 0)])
        if rings is not None:
            return rows, room, rings
    raise ends.refusal("embedding")


def embedding_places(ends: Ends) -> Hashable:
    """All values that the program of the embedding derives from the size of the scratchpad."""
    rows, _, rings = _embedding_buffers(ends)
    return rows, tuple((name, ring.buffer) for name, ring in rings.items())


def emit_embedding(ends: Ends, emit: Emitter) -> None:
    """Copies each new token's row of the embedding to the input of the first layer, at the width of activations."""
    table, hidden, shape = ends.dram.embedding, ends.shape.hidden, ends.shape
    row_bytes = bytes_of(hidden, table.bits)
    rows, room, rings = _embedding_buffers(ends)
    total = ends.tokens * ends.batch if ends.own is None else len(ends.own)
    for first in range(0, total, rows):
        count = min(rows, total - first)
        out = rings["out"].take(count * ends.act(hidden))
        for row in range(first, first + count):
            sequence, t = divmod(row, ends.tokens)
            position = ends.context + t
            if ends.own is not None:
                sequence, position = ends.own[row]
            meta: dict[str, Any] = {"phase": "EMBEDDING", "token_idx": position}
            word = (position * _STRIDE + sequence * _SEQUENCE_STRIDE) % ends.vocab
            at = table.base + word * row_bytes
            slot = rings["rows"].take(room)
            emit.load("embedding", table.bits, Span(at, 1, hidden, row_bytes), slot, **meta)
            place = out + ends.act((row - first) * hidden)
            wanted = {"length": hidden, "batch": 1, "qbits_activation": shape.activation_bits}
            emit.ve("copy", slot, place, **wanted, **meta)
        elements = count * hidden
        span = Span(ends.dram.input_of(0) + ends.act(first * hidden), 1, elements, ends.act(elements))
        meta = {"phase": "EMBEDDING", "token_idx": ends.context + first % ends.tokens}
        emit.store("activation", shape.activation_bits, span, out, **meta)


def emit_head(ends: Ends, emit: Emitter, layers: int) -> None:
    """The final norm of each sequence's last token, and its logits."""
    last = {sequence: (sequence + 1) * ends.tokens - 1 for sequence in range(ends.batch)}
    for _ in head_steps(ends, emit, layers, last):
        pass


def head_steps(ends: Ends, emit: Emitter, layers: int, held: Mapping[int, int]) -> Iterator[int]:
    """The steps of `emit_head`. `held`: the rows of the last tokens that this memory holds, one for each sequence. Yields at
    the point where all these rows must be in the scratchpad, before the norm.
    """
    shape, hidden, batch = ends.shape, ends.shape.hidden, ends.batch
    tile_cols, strip_tiles, rings = _head_buffers(ends)
    meta: dict[str, Any] = {"token_idx": ends.context + ends.tokens - 1}
    gain, normed = rings["gain"].take(shape.gain_bytes), rings["normed"].take(ends.act(batch * hidden))
    span = Span(ends.dram.final_gain, 1, shape.gain_bytes * 8 // shape.gain_bits, shape.gain_bytes)
    emit.load("weight", shape.gain_bits, span, gain, phase="NORM", **meta)
    for sequence, row in held.items():
        last = Span(ends.dram.input_of(layers) + ends.act(row * hidden), 1, hidden, ends.act(hidden))
        emit.load("activation", shape.activation_bits, last, normed + ends.act(sequence * hidden), phase="NORM", **meta)
    yield normed
    bits = shape.activation_bits
    job = emit.ve(shape.norm, normed, normed, length=hidden, batch=batch, qbits_activation=bits, phase="NORM", **meta)
    emit.after(job, gain, shape.gain_bytes)
    meta["phase"] = "LM_HEAD"
    step = strip_tiles * tile_cols
    for first in range(0, ends.vocab, step):
        cols = min(step, ends.vocab - first)
        out = rings["logits"].take(ends.act(batch * cols))
        for col in range(first, first + cols, tile_cols):
            width = min(tile_cols, first + cols - col)
            _head_tile(ends, emit, rings["weights"], col, width, normed, out + ends.act(batch * (col - first)), meta)
        if ends.softcap:
            emit.ve("tanh", out, out, length=cols, batch=batch, qbits_activation=shape.activation_bits, **meta)
        span = Span(ends.dram.logits + ends.act(batch * first), 1, batch * cols, ends.act(batch * cols))
        emit.store("activation", shape.activation_bits, span, out, **meta)


def _head_tile(
    ends: Ends, emit: Emitter, ring: Ring, col: int, width: int, normed: int, out: int, meta: dict[str, Any]
) -> None:
    table, hidden = ends.dram.head, ends.shape.hidden
    nbytes = bytes_of(hidden * width, table.bits)
    at = table.base + bytes_of(col * hidden, table.bits)
    slot = ring.take(ceil_div(nbytes, ends.config.dma.alignment_bytes) * ends.config.dma.alignment_bytes)
    emit.load("weight", table.bits, Span(at, 1, hidden * width, nbytes), slot, **meta)
    sizes = {"m": ends.batch, "n": width, "k": hidden}
    bits = {"qbits_weight": table.bits, "qbits_activation": ends.shape.activation_bits}
    emit.te("gemm", normed, slot, out, **sizes, **bits, **meta)


def _head_buffers(ends: Ends) -> tuple[int, int, dict[str, Ring]]:
    """Columns of a tile, tiles of a strip of logits, and the rings, for the largest tiles that fit."""
    shape, config = ends.shape, ends.config
    alignment = config.dma.alignment_bytes
    wanted = 2 * config.dma.engines + config.te.engines
    column = shape.hidden * ends.dram.head.bits
    unit = alignment * 8 // gcd(column, alignment * 8)  # the number of columns after which a column begins at a line
    fixed = [
        BufferSpec("gain", shape.gain_bytes + alignment, 0, 0),
        BufferSpec("normed", ends.act(ends.batch * shape.hidden) + 2 * alignment, 0, 0),
    ]
    sizes = tile_sizes(config, _TILE_KIB)
    for kib, (in_ring, strips, strip_bytes) in product(sizes, ((wanted, 2 * config.te.engines, _STRIP_BYTES), (2, 2, 1))):
        cols = (kib << 13) // column // unit * unit
        if not cols:
            continue
        tiles = max(1, ceil_div(strip_bytes, ends.act(ends.batch * cols)))
        tile = ceil_div(bytes_of(cols * shape.hidden, ends.dram.head.bits), alignment) * alignment
        strip = ends.act(ends.batch * cols * tiles) + 2 * alignment
        weights = BufferSpec("weights", in_ring * (tile + config.spm.bank_width_bytes), 0, 0)
        rings = ends.rings([weights, *fixed, BufferSpec("logits", strips * strip, 0, 0)])
        if rings is not None:
            return cols, tiles, rings
    raise ends.refusal("LM head")


def head_places(ends: Ends) -> Hashable:
    """All values that the program of the LM head derives from the size of the scratchpad and the speed of the DRAM."""
    cols, tiles, rings = _head_buffers(ends)
    return cols, tiles, tuple((name, ring.buffer) for name, ring in rings.items())
