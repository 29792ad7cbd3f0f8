"""Networks of a layer: a gated or plain MLP, and experts that a router chooses."""

from __future__ import annotations

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.workloads.blocks.emitter import LayerEmitter
from kernbench.workloads.models.parts import Experts, Mlp

_ACTIVATION = {"silu": "silu", "gelu": "gelu", "relu": "copy", "relu2": "mul"}  # vector operations that take as long


def feed_forward(layer: LayerEmitter, ffn: Mlp | Experts, normed: int, rows: int) -> int:
    """The output of the network, which the residual stream gets."""
    if isinstance(ffn, Mlp):
        return network(layer, ffn, "", rows, normed, 0, None)
    layer.set_phase("MLP_ROUTER")
    routes = layer.product("router", rows, normed)
    layer.add_bias(ffn.router_bias, routes, ffn.count, rows)
    layer.vector("softmax", ffn.count, rows, routes, routes)
    if ffn.shared is not None:
        total = network(layer, ffn.shared, "shared_", rows, normed, 0, None)
        if ffn.shared_gate:
            layer.arena.give(layer.product("shared_gate", rows, normed))
            layer.split_vector("mul", layer.hidden, rows, total, total, total)
    else:
        total = layer.take(rows * layer.hidden)
        layer.split_vector("copy", layer.hidden, rows, normed, total)
    first, count = layer.shape.local_experts or (0, ffn.count)
    wait = routes, layer.act(rows * ffn.count)
    for expert, some in enumerate(layer.routing.rows(ffn.count, ffn.top_k, rows)):
        if not first <= expert < first + count:
            continue
        if not some:
            load_unused(layer, ffn, expert - first)
            continue
        layer.set_phase("MLP_GATE_UP")
        gathered = layer.take(some * layer.hidden)
        gather(layer, normed, some, gathered, wait)
        found = network(layer, ffn.expert, "", some, gathered, expert - first, wait)
        layer.set_phase("MLP_DOWN")
        layer.split_vector("mul", layer.hidden, some, found, found, found)
        layer.split_vector("add", layer.hidden, some, total, total, found)
        layer.emit.join(total, layer.act(rows * layer.hidden), **layer.meta)  # any row may be one of this expert's
        layer.arena.give(gathered, found)
    layer.arena.give(routes)
    return total


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
        for name in (*(("w_gate",) if ffn.expert.gated else ()), "w_up", "w_down"):
            layer.arena.give(layer.product(name, 0, 0, copy))


def network(layer: LayerEmitter, mlp: Mlp, prefix: str, rows: int, source: int, copy: int, wait: tuple[int, int] | None) -> int:
    layer.set_phase("MLP_GATE_UP")
    if wait is not None and layer.shape.expert_vectors:
        each = ceil_div(bytes_of(layer.shape.expert_vectors, layer.shape.gain_bits), layer.align) * layer.align
        address = layer.memory.biases + copy * each
        layer.arena.give(layer.load("weight", layer.shape.gain_bits, address, layer.shape.expert_vectors))
    names = ("w_gate", "w_up") if mlp.gated else ("w_up",)
    places = [layer.product(prefix + name, rows, source, copy, wait) for name in names]
    for place in places:
        layer.add_bias(mlp.up_bias, place, mlp.width, rows)
    layer.set_phase("MLP_ACTIVATION")
    second = places[0] if mlp.activation == "relu2" else None
    layer.split_vector(_ACTIVATION[mlp.activation], mlp.width, rows, places[0], places[0], second)
    if mlp.gated:
        layer.split_vector("mul", mlp.width, rows, places[0], places[0], places[1])
    layer.set_phase("MLP_DOWN")
    found = layer.product(f"{prefix}w_down", rows, places[0], copy, wait)
    layer.add_bias(mlp.down_bias, found, layer.hidden, rows)
    layer.arena.give(*places)
    return found
