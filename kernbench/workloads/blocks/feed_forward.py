"""Networks of a layer: a gated or plain MLP, and experts that a router chooses."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.workloads.blocks.emitter import LayerEmitter, Part
from kernbench.workloads.models.parts import Experts, Mlp

_ACTIVATION = {"silu": "silu", "gelu": "gelu", "relu": "copy", "relu2": "mul"}  # vector operations that take as long


def feed_forward(layer: LayerEmitter, ffn: Mlp | Experts, normed: int, rows: int) -> int:
    """The output of the network, which the residual stream gets."""
    if isinstance(ffn, Mlp):
        return network(layer, ffn, "", rows, normed, 0, None)
    routes, total, wait = _routed(layer, ffn, normed, rows)
    for copy, some in _local(layer, ffn, rows):
        if not some:
            load_unused(layer, ffn, copy)
            continue
        layer.set_phase("MLP_GATE_UP")
        gathered = layer.take(some * layer.hidden)
        gather(layer, normed, some, gathered, wait)
        found = network(layer, ffn.expert, "", some, gathered, copy, wait)
        _add_output(layer, layer.hidden, some, found, total, rows)
        layer.arena.give(gathered, found)
    layer.arena.give(routes)
    return total


def in_slices(
    layer: LayerEmitter, ffn: Mlp | Experts, normed: int, rows: int, widths: Sequence[int]
) -> Generator[tuple[int, int], None, int]:
    """The output of a network in slices of columns: the down projections of all experts follow their gate and up projections.

    Yields the place and the number of elements of each slice when it is complete, so that its sum over PEs runs beside the next
    slice; returns the place of all of them. `widths`: [element] columns of each slice.
    """
    if isinstance(ffn, Mlp):
        return (yield from _plain_in_slices(layer, ffn, normed, rows, widths))
    routes, total, wait = _routed(layer, ffn, normed, rows)
    made = []
    for copy, some in _local(layer, ffn, rows):
        if not some:
            layer.set_phase("MLP_GATE_UP")
            for name in _inner(ffn.expert):
                layer.arena.give(layer.product(name, 0, 0, copy))
            made.append((copy, 0, layer.take(0)))
            continue
        layer.set_phase("MLP_GATE_UP")
        gathered = layer.take(some * layer.hidden)
        gather(layer, normed, some, gathered, wait)
        place, *others = inner(layer, ffn.expert, "", some, gathered, copy, wait)
        layer.arena.give(gathered, *others)
        made.append((copy, some, place))
    first = 0
    for width in widths:
        at = total + layer.act(rows * first)
        for copy, some, place in made:
            layer.set_phase("MLP_DOWN")
            found = layer.columns("w_down", some, place, copy, wait, first, width)
            if some:
                layer.add_bias(ffn.expert.down_bias, found, width, some)
                _add_output(layer, width, some, found, at, rows)
            layer.arena.give(found)
        yield at, rows * width
        first += width
    layer.arena.give(routes, *(place for _, _, place in made))
    return total


def _plain_in_slices(
    layer: LayerEmitter, mlp: Mlp, normed: int, rows: int, widths: Sequence[int]
) -> Generator[tuple[int, int], None, int]:
    """The same without experts."""
    total = layer.take(rows * layer.hidden)
    place, *others = inner(layer, mlp, "", rows, normed, 0, None)
    first = 0
    for width in widths:
        at = total + layer.act(rows * first)
        layer.set_phase("MLP_DOWN")
        layer.columns("w_down", rows, place, 0, None, first, width, at)
        layer.add_bias(mlp.down_bias, at, width, rows)
        yield at, rows * width
        first += width
    layer.arena.give(place, *others)
    return total


def in_parts(layer: LayerEmitter, mlp: Mlp, normed: int, parts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The output of a network without experts in parts of the rows, each with products of its own; yields the place, the first
    row and the rows of each part. All parts use the same tiles of weights, which are loaded once.

    The tiles of the last matrix stay until the last part. The earlier products of a part with all tiles that fit begin when its
    input is there.
    """
    firsts = [sum(parts[:number]) for number in range(len(parts))]
    places = [(count, first, first) for count, first in zip(parts, firsts, strict=True)]
    place, *others = inner(layer, mlp, "", sum(parts), normed, 0, None, places)
    weight, base, _ = layer.memory.weights["w_down"]
    layer.set_phase("MLP_DOWN")
    (tiles,) = layer.tiles_that_stay((weight, base, weight.rows, weight.cols))
    before: list[int] = []
    for count, first, _ in places:
        layer.set_phase("MLP_DOWN")
        found = layer.take(count * weight.cols)
        source = place + layer.act(first * weight.rows)
        before = layer.multiply_loaded(weight, count, source, found, tiles, weight.rows, before)
        layer.add_bias(mlp.down_bias, found, layer.hidden, count)
        yield found, first, count
    layer.arena.give(place, *others)


def _routed(layer: LayerEmitter, ffn: Experts, normed: int, rows: int) -> tuple[int, int, tuple[int, int]]:
    """The places of the router's output and of the sum of experts, which begins with the network that all tokens use, and the
    bytes that say which rows an expert gets."""
    layer.set_phase("MLP_ROUTER")
    parts = layer.parts_of(rows)
    routes = layer.product("router", rows, normed, parts=parts)
    for count, _, first in parts or ((rows, 0, 0),):
        place = routes + layer.act(first * ffn.count)
        layer.add_bias(ffn.router_bias, place, ffn.count, count)
        layer.vector("softmax", ffn.count, count, place, place)
    if ffn.shared is not None:
        total = network(layer, ffn.shared, "shared_", rows, normed, 0, None, parts)
        if ffn.shared_gate:
            layer.arena.give(layer.product("shared_gate", rows, normed))
            layer.split_vector("mul", layer.hidden, rows, total, total, total)
    else:
        total = layer.take(rows * layer.hidden)
        layer.split_vector("copy", layer.hidden, rows, normed, total)
    return routes, total, (routes, layer.act(rows * ffn.count))


def _local(layer: LayerEmitter, ffn: Experts, rows: int) -> Iterator[tuple[int, int]]:
    """The experts of this PE: the number of each among them, and how many rows chose it."""
    first, count = layer.shape.local_experts or (0, ffn.count)
    for expert, some in enumerate(layer.routing.rows(ffn.count, ffn.top_k, rows)):
        if first <= expert < first + count:
            yield expert - first, some


def _add_output(layer: LayerEmitter, width: int, some: int, found: int, total: int, rows: int) -> None:
    """Adds columns of an expert's output, times its weights, to the sum of experts."""
    layer.set_phase("MLP_DOWN")
    layer.split_vector("mul", width, some, found, found, found)
    layer.split_vector("add", width, some, total, total, found)
    layer.emit.join(total, layer.act(rows * width), **layer.meta)  # any row may be one of this expert's


def gather(layer: LayerEmitter, source: int, rows: int, place: int, wait: tuple[int, int]) -> None:
    """Copies the rows that chose an expert side by side. Which rows these are is known when the router has written `wait`."""
    step = ceil_div(rows, layer.config.ve.engines)
    for row in range(0, rows, step):
        at = layer.act(row * layer.hidden)
        layer.emit.after(layer.vector("copy", layer.hidden, min(step, rows - row), source + at, place + at), *wait)


def load_unused(layer: LayerEmitter, ffn: Experts, copy: int) -> None:
    """Loads the matrices of an expert without rows: a load ahead of the router cannot depend on the router's choice."""
    if layer.prefetches:
        layer.set_phase("MLP_GATE_UP")
        for name in (*_inner(ffn.expert), "w_down"):
            layer.arena.give(layer.product(name, 0, 0, copy))


def _inner(mlp: Mlp) -> tuple[str, ...]:
    """The matrices before the activation."""
    return ("w_gate", "w_up") if mlp.gated else ("w_up",)


def network(
    layer: LayerEmitter, mlp: Mlp, prefix: str, rows: int, source: int, copy: int, wait: tuple[int, int] | None,
    parts: Sequence[Part] = (),
) -> int:  # fmt: skip
    """The output of a network, in a new buffer. `parts`: these have jobs of their own."""
    places = inner(layer, mlp, prefix, rows, source, copy, wait, parts)
    layer.set_phase("MLP_DOWN")
    found = layer.product(f"{prefix}w_down", rows, places[0], copy, wait, parts=parts)
    layer.add_bias(mlp.down_bias, found, layer.hidden, rows)
    layer.arena.give(*places)
    return found


def inner(
    layer: LayerEmitter, mlp: Mlp, prefix: str, rows: int, source: int, copy: int, wait: tuple[int, int] | None,
    parts: Sequence[Part] = (),
) -> list[int]:  # fmt: skip
    """The buffers of the products before the activation; the first one has the input of the down projection. `parts`: these
    have jobs of their own."""
    layer.set_phase("MLP_GATE_UP")
    if wait is not None and layer.shape.expert_vectors:
        each = ceil_div(bytes_of(layer.shape.expert_vectors, layer.shape.gain_bits), layer.align) * layer.align
        address = layer.memory.biases + copy * each
        layer.arena.give(layer.load("weight", layer.shape.gain_bits, address, layer.shape.expert_vectors))
    places = [layer.product(prefix + name, rows, source, copy, wait, parts=parts) for name in _inner(mlp)]
    for count, _, first in parts or ((rows, 0, 0),):
        _activate(layer, mlp, [place + layer.act(first * mlp.width) for place in places], count)
    return places


def _activate(layer: LayerEmitter, mlp: Mlp, places: list[int], rows: int) -> None:
    """Biases, activation and gate of rows."""
    layer.set_phase("MLP_GATE_UP")
    for place in places:
        layer.add_bias(mlp.up_bias, place, mlp.width, rows)
    layer.set_phase("MLP_ACTIVATION")
    second = places[0] if mlp.activation == "relu2" else None
    layer.split_vector(_ACTIVATION[mlp.activation], mlp.width, rows, places[0], places[0], second)
    if mlp.gated:
        layer.split_vector("mul", mlp.width, rows, places[0], places[0], places[1])


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows behind the router."""

    normed: int  #: their norm, which experts process
    total: int  #: the sum of experts
    routes: int  #: the output of the router
    wait: tuple[int, int]  #: the bytes that say which rows an expert gets
    rows: int
    counts: tuple[int, ...]  #: of the experts of this PE: how many of these rows chose each


def routed(layer: LayerEmitter, ffn: Experts, normed: int, rows: int) -> RoutedRows:
    """The router on some rows."""
    routes, total, wait = _routed(layer, ffn, normed, rows)
    return RoutedRows(normed, total, routes, wait, rows, tuple(some for _, some in _local(layer, ffn, rows)))


def on_experts(layer: LayerEmitter, ffn: Experts, numbers: Iterable[int], groups: Sequence[RoutedRows]) -> None:
    """Some experts of this PE on one or several groups of rows, whose matrices are loaded once for all groups."""
    for copy in numbers:
        counts = [group.counts[copy] for group in groups]
        some = sum(counts)
        if not some:
            load_unused(layer, ffn, copy)
            continue
        layer.set_phase("MLP_GATE_UP")
        gathered = layer.take(some * layer.hidden)
        places = [gathered + layer.act(sum(counts[:number]) * layer.hidden) for number in range(len(groups))]
        for group, count, place in zip(groups, counts, places, strict=True):
            if count:
                gather(layer, group.normed, count, place, group.wait)
        found = network(layer, ffn.expert, "", some, gathered, copy, groups[-1].wait)
        for group, count, place in zip(groups, counts, places, strict=True):
            if count:
                _add_output(layer, layer.hidden, count, found + place - gathered, group.total, group.rows)
        layer.arena.give(gathered, found)
