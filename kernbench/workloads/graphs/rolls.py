"""Slices of one tensor that are concatenated again, as in a roll: one copy that reads the rows in their new order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernbench.workloads.graphs.graph import Graph, Node
from kernbench.workloads.graphs.scales import range_of

if TYPE_CHECKING:
    from kernbench.workloads.graphs.patterns import Patterns


@dataclass(frozen=True, slots=True)
class Roll:
    """The elements `numbers` of the tensor `x` along the dimension `axis`."""

    x: str
    axis: int
    numbers: tuple[int, ...]


def find_rolls(graph: Graph, found: Patterns) -> None:
    """Adds the concatenations of slices of one tensor to `found`; nothing else may read these slices."""
    makers = {name: number for number, node in enumerate(graph.nodes) if node.op == "Slice" for name in node.outputs}
    for node in graph.nodes:
        if node.op == "Concat" and not node.domain and all(name in makers for name in node.inputs):
            slices = dict.fromkeys(makers[name] for name in node.inputs)
            roll = _roll(graph, found, node, [graph.nodes[number] for number in slices])
            if roll is not None and len(slices) == len(node.inputs):
                found.rolls[node.outputs[0]] = roll
                found.parts.update(dict.fromkeys(slices, f"part of {node.name}"))


def _roll(graph: Graph, found: Patterns, node: Node, slices: list[Node]) -> Roll | None:
    x = slices[0].inputs[0]
    tensor = graph.tensors.get(x)
    if tensor is None or tensor.source == "weight" or node.outputs[0] not in graph.tensors:
        return None
    axis, numbers = int(node.attributes.get("axis", 0)) % len(tensor.shape), list[int]()
    for one in slices:
        name = one.outputs[0]
        part = range_of(graph, one) if one.inputs[0] == x and not one.domain else None
        if part is None or part[0] != axis or len(found.consumers(name)) != 1 or name in graph.outputs:
            return None
        numbers += range(part[1], part[2])
    return Roll(x, axis, tuple(numbers)) if numbers else None
