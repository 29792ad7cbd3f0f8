"""Functions of the vector engine that a model writes as several elementwise nodes, such as `x * sigmoid(x)`.

A group of nodes computes a function if it has a single input that is not a constant, and gives the values of the function at
sample points. The order of the nodes and of their inputs does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

from kernbench.workloads.graphs.graph import Array, Graph, number_of

if TYPE_CHECKING:
    from kernbench.workloads.graphs.patterns import Patterns

_MAX_NODES = 9  # most nodes of a group
_TOLERANCE = 1e-5  # constants of 32 bits
_SAMPLES: Array = np.linspace(-6.0, 6.0, 49)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_ERF = np.vectorize(erf, otypes=[float])
_OPERATORS: dict[str, Callable[..., Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Neg": np.negative,
    "Exp": np.exp, "Reciprocal": np.reciprocal, "Sigmoid": _sigmoid, "Tanh": np.tanh, "Erf": _ERF,
}  # fmt: skip
#: An op of the vector engine, and its function.
_FUNCTIONS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("silu", lambda x: x * _sigmoid(x)),
    ("silu", lambda x: x * _sigmoid(1.702 * x)),
    ("gelu", lambda x: x * (1 + _ERF(x / sqrt(2))) / 2),
    ("gelu", lambda x: x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2),
)


@dataclass(frozen=True, slots=True)
class Function:
    """`op` of the vector engine, of the tensor `x`."""

    op: str
    x: str


def find_functions(graph: Graph, found: Patterns) -> None:
    """Adds the functions that nodes of a graph compute together to `found`; the last node of a group makes the result."""
    makers = {name: number for number, node in enumerate(graph.nodes) for name in node.outputs if name}
    for number, node in enumerate(graph.nodes):
        if node.op in ("Mul", "Div") and number not in found.parts:
            _Group(graph, found, makers, number).match()


class _Group:
    """Nodes that end with one node, grown towards their inputs until the nodes compute a function."""

    def __init__(self, graph: Graph, found: Patterns, makers: dict[str, int], last: int) -> None:
        self.graph, self.found, self.makers, self.last = graph, found, makers, last
        self.members = {last}

    def match(self) -> None:
        """Records the function, if there is one."""
        if not self._elementwise(self.last):
            return
        while True:
            inputs = self._inputs()
            if len(inputs) == 1 and len(self.members) > 1 and (op := self._function(inputs[0])):
                last = self.graph.nodes[self.last]
                self.found.functions[last.outputs[0]] = Function(op, inputs[0])
                others = sorted(self.members - {self.last})
                self.found.parts.update(dict.fromkeys(others, f"part of {last.name}"))
                return
            grown = max((self.makers[name] for name in inputs if self._inside(name)), default=None)
            if grown is None or len(self.members) >= _MAX_NODES:
                return
            self.members.add(grown)

    def _inputs(self) -> list[str]:
        """The tensors that are neither constants nor made by members, in the order of the nodes."""
        made = {name for number in self.members for name in self.graph.nodes[number].outputs}
        read = [name for number in sorted(self.members) for name in self.graph.nodes[number].inputs]
        return [name for name in dict.fromkeys(read) if name not in made and number_of(self.graph.known.get(name)) is None]

    def _inside(self, name: str) -> bool:
        """Whether a tensor is made by a node that can be a member, and only members read the tensor."""
        number = self.makers.get(name)
        if number is None or number in self.found.parts or name in self.graph.outputs or not self._elementwise(number):
            return False
        return all(reader in self.members for reader in self.found.consumers(name))

    def _elementwise(self, number: int) -> bool:
        """Whether a node has a known operator, and each of its inputs is a constant or has the shape of the result."""
        node, tensors = self.graph.nodes[number], self.graph.tensors
        if node.domain or node.op not in _OPERATORS or len(node.outputs) != 1 or node.outputs[0] not in tensors:
            return False
        shape = tensors[node.outputs[0]].shape

        def fits(name: str) -> bool:
            return number_of(self.graph.known.get(name)) is not None or (name in tensors and tensors[name].shape == shape)

        return all(map(fits, node.inputs))

    def _function(self, x: str) -> str:
        """The op whose values the members compute at the sample points; empty if there is none."""
        values = self._values(x)
        for op, function in _FUNCTIONS:
            if np.allclose(values, function(_SAMPLES), rtol=_TOLERANCE, atol=_TOLERANCE):
                return op
        return ""

    def _values(self, x: str) -> Array:
        values: dict[str, Array] = {x: _SAMPLES}
        with np.errstate(all="ignore"):
            for number in sorted(self.members):
                node = self.graph.nodes[number]
                operands = [self._operand(name, values) for name in node.inputs]
                values[node.outputs[0]] = np.asarray(_OPERATORS[node.op](*operands))
        return values[self.graph.nodes[self.last].outputs[0]]

    def _operand(self, name: str, values: Mapping[str, Array]) -> Array:
        return values[name] if name in values else np.asarray(number_of(self.graph.known[name]))
