"""All-reduce inside a layer: sends and vector operations in the command queue add the partial sums of shards.

The algorithms are those of `kernbench.ccl`. This module implements `direct` and `ring`; the other algorithms are the schedules
of `kernbench.ccl.patterns`. `auto` selects, for each size, the algorithm with the fewest cycles when it is simulated without
other work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kernbench.ccl.patterns import recursive_doubling, torus_all_reduce, tree_all_reduce
from kernbench.ccl.schedule import Message, Schedule
from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.program import Program
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.buffers import chunk_bytes
from kernbench.workloads.layer.projections import PartialRows
from kernbench.workloads.llm.shards import ShardLocation

Algorithm = Literal["direct", "ring", "torus", "tree", "recursive_doubling"]
ALGORITHMS: tuple[Algorithm, ...] = ("direct", "ring", "torus", "tree", "recursive_doubling")
Reduction = Literal["direct", "ring", "torus", "tree", "recursive_doubling", "auto", "none"]
SCHEDULES = {"torus": torus_all_reduce, "tree": tree_all_reduce, "recursive_doubling": recursive_doubling}
#: values for users; `none` adds no sums, to show the cost of the reductions
REDUCTIONS: tuple[Reduction, ...] = (*ALGORITHMS, "auto")


class Sharded(Protocol):
    """The parts of a shard's layer that a reduction needs."""

    @property
    def emit(self) -> Emitter:
        """The target for its jobs."""

    @property
    def config(self) -> NpuConfig:
        """The PE."""

    @property
    def act_bits(self) -> int:
        """[bit] of an element."""

    def vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None, **meta: Any) -> int:
        """A vector operation."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows without a layer."""

    emit: Emitter
    config: NpuConfig
    act_bits: int

    def vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None, **meta: Any) -> int:
        """A vector operation."""
        shape = {"length": length, "batch": batch, "qbits_activation": self.act_bits}
        return self.emit.ve(op, source, out, second, **shape, **meta)


Queue = dict[tuple[int, int, int], int]  #: the latest transfer of each step of reductions, by step, source and target


class _Sends:
    """Transfers of a reduction. With a queue, each goes behind that of the same step and target of the reduction before."""

    def __init__(self, layers: Sequence[Sharded], queue: Queue | None, meta: dict[str, Any]) -> None:
        self._layers, self._queue, self._meta = layers, queue, meta
        self._before = {} if queue is None else dict(queue)

    def send(self, step: int, source: int, target: int, places: tuple[int, int], nbytes: int) -> None:
        """Append a transfer from shard `source` to shard `target`, between these places in their scratchpads."""
        owner, bits = self._layers[source], self._layers[0].act_bits
        job = owner.emit.send(self._layers[target].emit, *places, nbytes * 8 // bits, bits, **self._meta)
        if self._queue is not None:
            key = step, source, target
            if key in self._before:
                owner.emit.behind([self._before[key]])
            self._queue[key] = job


def all_reduce(
    layers: Sequence[Sharded], parts: Sequence[PartialRows], algorithm: Reduction = "direct", queue: Queue | None = None
) -> None:
    """Adds the partial sums of all shards; afterwards every shard has the sum in the place of its partial sum.

    `queue`: the transfers of an earlier reduction, behind which those of this one go, step by step.
    """
    first, count = parts[0], len(layers)
    if algorithm == "none":
        return
    total = bytes_of(first.elements, layers[0].act_bits)
    chunk = chunk_bytes(total, count, layers[0].config.spm.bank_width_bytes)
    meta = {**first.meta, "phase": "ALL_REDUCE"}
    sends = _Sends(layers, queue, meta)
    sizes = [max(0, min(chunk, total - i * chunk)) for i in range(count)]
    if algorithm == "direct":
        _direct(layers, parts, chunk, sizes, sends, meta)
    elif algorithm == "ring":
        _ring(layers, parts, chunk, sizes, sends, meta)
    else:
        _scheduled(layers, parts, SCHEDULES[algorithm](count, False), total, (count - 1) * chunk, sends, meta)


def reduction_program(
    config: NpuConfig, places: Sequence[ShardLocation], elements: int, bits: int, algorithm: Reduction, common: dict[str, Any]
) -> Program:
    """A reduction without a layer; its rows lie at the beginning of each scratchpad."""
    program = Program(f"all-reduce ({algorithm}) of {elements} elements on {len(places)} PEs")
    emits = [Emitter("", config, common, program, place.node, place.dram_base) for place in places]
    line = config.spm.bank_width_bytes
    room = ceil_div(bytes_of(elements, bits), line) * line
    rows = PartialRows(0, room, elements, {})
    all_reduce([Rows(emit, config, bits) for emit in emits], [rows] * len(places), algorithm)
    program.end(**common)
    return program


def _scheduled(
    layers: Sequence[Sharded], parts: Sequence[PartialRows], schedule: Schedule, total: int, room: int, sends: _Sends,
    meta: dict[str, Any],
) -> None:  # fmt: skip
    """The messages of a schedule. Data to be added arrive in a buffer of their target, which the messages of a step share."""
    bits, line = layers[0].act_bits, layers[0].config.spm.bank_width_bytes
    size = ceil_div(ceil_div(total, schedule.positions), line) * line
    for number, step in enumerate(schedule.direct_steps):
        arriving: dict[int, int] = {}
        slots = []
        for one in step:
            slots.append(arriving.get(one.target, 0))
            arriving[one.target] = slots[-1] + one.adds
        most = room // max(1, *arriving.values()) // line * line
        moves = [list(_pieces(one, size, total, most)) for one in step]
        for k in range(max((len(pieces) for pieces in moves), default=0)):
            now = [(one, slot, pieces[k]) for one, slot, pieces in zip(step, slots, moves, strict=True) if k < len(pieces)]
            for one, slot, (at, nbytes) in now:
                source, target = parts[one.source], parts[one.target]
                to = target.room + slot * most if one.adds else target.place + at
                sends.send(number, one.source, one.target, (source.place + at, to), nbytes)
            for one, slot, (at, nbytes) in now:
                if one.adds:
                    part = parts[one.target]
                    mine, other = part.place + at, part.room + slot * most
                    layers[one.target].vector("add", nbytes * 8 // bits, 1, mine, mine, other, **meta)


def _pieces(one: Message, size: int, total: int, most: int) -> Iterator[tuple[int, int]]:
    """The pieces of a message: their offsets in the rows, and their sizes in bytes."""
    for position in one.sent:
        end = min(total, (position + 1) * size)
        for at in range(position * size, end, most):
            yield at, min(most, end - at)


def _direct(
    layers: Sequence[Sharded], parts: Sequence[PartialRows], chunk: int, sizes: Sequence[int], sends: _Sends,
    meta: dict[str, Any],
) -> None:  # fmt: skip
    """Each shard sends every other shard that shard's chunk of its partial sums, adds up its own chunk, and sends the sum to
    all."""
    count, bits = len(layers), layers[0].act_bits
    for i in range(count):
        for turn in range(1, count):  # starts with the neighbour, so that not all send to the same shard at the same time
            j = (i + turn) % count
            if sizes[j]:
                slot = parts[j].room + (turn - 1) * chunk
                own = parts[i].place + j * chunk
                sends.send(0, i, j, (own, slot), sizes[j])
    for i, owner in enumerate(layers):
        arrived = [parts[i].room + turn * chunk for turn in range(count - 1)]
        for place, other in additions(parts[i].place + i * chunk, arrived, pairs=parts[i].pairs):
            if sizes[i]:
                owner.vector("add", sizes[i] * 8 // bits, 1, place, place, other, **meta)
    for i in range(count):
        for turn in range(1, count):
            j = (i + turn) % count
            if sizes[i]:
                own, its = parts[i].place + i * chunk, parts[j].place + i * chunk
                sends.send(1, i, j, (own, its), sizes[i])


def additions(own: int, arrived: Sequence[int], *, pairs: bool) -> Iterator[tuple[int, int]]:
    """The additions by which a chunk and those that arrived become their sum, in the place of the first: one by one, or in
    pairs, then in pairs of these sums, and so on."""
    if not pairs:
        yield from ((own, one) for one in arrived)
        return
    left = [own, *arrived]
    while len(left) > 1:
        kept = ceil_div(len(left), 2)
        yield from zip(left, left[kept:], strict=False)
        left = left[:kept]


def _ring(
    layers: Sequence[Sharded], parts: Sequence[PartialRows], chunk: int, sizes: Sequence[int], sends: _Sends,
    meta: dict[str, Any],
) -> None:  # fmt: skip
    """Each shard sends only to the next one: each chunk goes around the ring once while it is summed, and the sum goes around
    again."""
    count, bits = len(layers), layers[0].act_bits
    for turn in range(2 * (count - 1)):
        adds = turn < count - 1
        for i in range(count):
            j, c = (i + 1) % count, (i - turn + (0 if adds else count)) % count
            if sizes[c]:
                target = parts[j].room + turn * chunk if adds else parts[j].place + c * chunk
                sends.send(turn, i, j, (parts[i].place + c * chunk, target), sizes[c])
        for j, owner in enumerate(layers if adds else ()):
            c = (j - 1 - turn) % count
            if sizes[c]:
                mine = parts[j].place + c * chunk
                owner.vector("add", sizes[c] * 8 // bits, 1, mine, mine, parts[j].room + turn * chunk, **meta)
