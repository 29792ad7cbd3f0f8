"""The condition of a Loop, computed as far as it depends on nothing but constants and the number of the iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kernbench.workloads.graphs.graph import Array
from kernbench.workloads.graphs.onnx.check import FOLDED, MAX_NODES, domain_of, graphs_in

if TYPE_CHECKING:
    import onnx

LARGEST_BOUND = MAX_NODES  #: most iterations; each is at least one node
#: Whether a loop goes on is computed with values of at most so many elements, by operators without outputs of any size: three
#: inputs then give 2^24 elements at most.
_LARGEST_VALUE = 256
_GROWING = frozenset(("ConstantOfShape", "EyeLike", "Expand", "OneHot", "Pad", "Range", "Tile"))


class Condition:
    """Whether a Loop goes on, as far as it depends on nothing but constants and the number of the iteration."""

    def __init__(self, model: onnx.ModelProto, body: onnx.GraphProto, known: Mapping[str, Array], node: onnx.NodeProto) -> None:
        self.model, self.body, self.known, self.node = model, body, known, node
        self._made = {name: made for made in body.node for name in made.output if name}
        self._inputs = [item.name for item in body.input]

    def iterations(self, most: int | None) -> int | None:
        """How many there are, at most `most`; None if that depends on the inputs of the model, or is more than can be run."""
        needed = self._closed(self.body.output[0].name)
        if needed is None:
            return None
        nodes, carried = needed
        at, condition = self._inputs[:2]
        if not nodes:
            name = self.body.output[0].name
            if name == condition or (name in self.known and bool(self.known[name])):
                return most
            return None if name not in self.known else min(1, 1 if most is None else most)
        return self._run(nodes, carried, at, condition, most)

    def _closed(self, wanted: str) -> tuple[list[onnx.NodeProto], list[str]] | None:
        """The nodes that make a value, and the carried values among what they read; None if they read an input of the model."""
        found, carried, open_names, seen = set[int](), dict[str, None](), [wanted], set[str]()
        numbers = {id(node): number for number, node in enumerate(self.body.node)}
        while open_names:
            name = open_names.pop()
            if name in seen or not name:
                continue
            seen.add(name)
            if name in self._made:
                node = self._made[name]
                if any(True for _ in graphs_in(node)) or node.op_type.startswith("Random"):
                    return None
                found.add(numbers[id(node)])
                open_names.extend(node.input)
            elif name in self._inputs[2:]:
                index = self._inputs.index(name)
                if index >= len(self.node.input) or self.node.input[index] not in self.known:
                    return None
                carried[name] = None
                open_names.append(self.body.output[index - 1].name)
            elif name not in self._inputs and name not in self.known:
                return None
        return [self.body.node[number] for number in sorted(found)], list(carried)

    def _run(self, nodes: list[onnx.NodeProto], carried: list[str], at: str, condition: str, most: int | None) -> int | None:
        """Compute the condition of one iteration after another. None as in `iterations`."""
        if not all(_computable(node) for node in nodes):
            return None
        carries = {name: self.body.output[self._inputs.index(name) - 1].name for name in carried}
        state = {name: self.known[self.node.input[self._inputs.index(name)]] for name in carried}
        fixed = not carried and not any(name in (at, condition) for node in nodes for name in node.input)
        least = LARGEST_BOUND // len(nodes) + 1  # a body that is written out so often has too many nodes
        try:
            steps = [_Step(node, self.model) for node in nodes]
            for number in range(least if most is None else min(least, most)):
                made: dict[str, Array] = {at: np.array(number, np.int64), condition: np.array(True), **state}
                for step in steps:
                    given = {name: made[name] if name in made else self.known[name] for name in step.reads}
                    if any(value.size > _LARGEST_VALUE for value in given.values()):
                        return None
                    made.update(step.results(given))
                if not bool(made[self.body.output[0].name].reshape(-1)[0]):
                    return number + 1
                if fixed:
                    return most
                state = {name: made[out] if out in made else self.known[out] for name, out in carries.items()}
        except Exception:  # whatever is wrong with the nodes: the loop then needs a bound
            return None
        return most if most is not None and most <= LARGEST_BOUND else None


def _computable(node: onnx.NodeProto) -> bool:
    """Whether a node of a condition is computed: its outputs are no larger than its inputs, which are few."""
    steady = node.op_type in FOLDED - _GROWING and not domain_of(node.domain)
    return steady and (len(node.input) <= 3 or node.op_type == "Concat")


class _Step:
    """A node of a condition as a model of its own, which ONNX's reference evaluator computes."""

    def __init__(self, node: onnx.NodeProto, of: onnx.ModelProto) -> None:
        from onnx import TypeProto, helper
        from onnx.reference import ReferenceEvaluator

        self.reads = [name for name in dict.fromkeys(node.input) if name]
        self._writes = [name for name in node.output if name]
        feeds, results = ([helper.make_value_info(name, TypeProto()) for name in names] for names in (self.reads, self._writes))
        graph = helper.make_graph([node], "condition", feeds, results)
        self._evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=list(of.opset_import)))

    def results(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The values that the node writes, by name."""
        return dict(zip(self._writes, map(np.asarray, self._evaluator.run(None, dict(given))), strict=True))
