"""Rules of recurrent operators: the inputs of all steps in one product, then step by step the product with the state."""

from __future__ import annotations

from kernbench.workloads.graphs.graph import Copy, Node, Product, Vector
from kernbench.workloads.graphs.lowering import CannotLower, Lowering, rule

#: Gates, and the vector functions of a step on these gates, in sequence.
_GATES: dict[str, tuple[int, tuple[str, ...]]] = {
    "RNN": (1, ("tanh",)),
    "GRU": (3, ("sigmoid", "sigmoid", "mul", "tanh", "mul", "add")),
    "LSTM": (4, ("sigmoid", "sigmoid", "sigmoid", "tanh", "mul", "mul", "add", "tanh", "mul")),
}


@rule(*_GATES)
def recurrent(at: Lowering, node: Node) -> None:
    """Lower a recurrent operator. With two directions, the second follows the first. Each step reads the weights of the state
    again."""
    gates, functions = _GATES[node.op]
    x, weights, state_weights = at.operand(node.inputs[0]), node.inputs[1], node.inputs[2]
    shape = at.ranks(x, 3)
    batch_first = bool(node.attributes.get("layout", 0))
    steps, batch = (shape[1], shape[0]) if batch_first else shape[:2]
    directions, width, depth = at.ranks(weights, 3)
    hidden = at.ranks(state_weights, 3)[2]
    if width != gates * hidden or depth != shape[2]:
        raise CannotLower(f"its weights {directions} x {width} x {depth} do not fit inputs of {shape[2]} elements")
    at.limited("steps", steps * directions)
    if batch_first:
        turned = at.temporary(steps, batch, depth)
        at.add(Copy((x,), turned))
        x = turned
    states = at.temporary(directions, steps, batch, hidden)
    made, last = [], ""
    for direction in range(directions):
        inputs = at.temporary(steps * batch, width)
        at.add(Product(x, weights, inputs, steps * batch, width, depth, ((0, direction, 0),), swapped=True))
        if node.input(3):
            biased = at.temporary(steps * batch, width)
            at.add(Vector("add", inputs, biased, width, steps * batch, params=(at.operand(node.input(3)),)))
            inputs = biased
        last = at.operand(node.input(5)) if node.input(5) else ""
        for _ in range(steps):
            total = at.temporary(batch, width)
            if last:
                at.add(Product(last, state_weights, total, batch, width, hidden, ((0, direction, 0),), swapped=True))
            else:
                at.add(Copy((inputs,), total))
            gated = at.temporary(batch, width)
            at.add(Vector("add", total, gated, width, batch, params=(inputs,)))
            place = gated
            for function in functions:
                target = at.temporary(batch, hidden)
                at.add(Vector(function, place, target, hidden, batch))
                place = target
            last = place
            made.append(place)
    at.add(Copy(tuple(made), states))
    for number, name in enumerate(node.outputs):
        if name and (name in at.graph.outputs or at.patterns.consumers(name)):
            at.add(Copy((states if number == 0 else last,), name))
