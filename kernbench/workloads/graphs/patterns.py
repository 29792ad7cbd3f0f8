"""Groups of nodes that are one piece of work: norms and functions that are written as several nodes, nodes that weights
absorb, and transposes in between."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import prod

from kernbench.workloads.graphs.functions import Function, find_functions
from kernbench.workloads.graphs.graph import Graph, Node, number_of
from kernbench.workloads.graphs.layouts import kept_transposes
from kernbench.workloads.graphs.rolls import Roll, find_rolls
from kernbench.workloads.graphs.scales import find_scales

_LIKE_COPIES = frozenset(("Relu", "LeakyRelu", "Clip", "Neg", "Abs"))


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """`x / sqrt(mean(x * x) + eps) * gain`."""

    x: str
    gain: str  #: empty: without


@dataclass(slots=True)
class Patterns:
    """What was found. `parts`: the nodes that a fused node replaces, by number."""

    users: dict[str, list[int]]
    parts: dict[int, str] = field(default_factory=dict)
    swapped: dict[str, str] = field(default_factory=dict)  #: the transpose of a tensor's last two dimensions: the tensor
    norms: dict[str, RmsNorm] = field(default_factory=dict)  #: by the tensor that is made
    functions: dict[str, Function] = field(default_factory=dict)  #: by the tensor that is made
    rolls: dict[str, Roll] = field(default_factory=dict)  #: by the tensor that is made
    scaled: dict[str, tuple[str, str]] = field(default_factory=dict)  #: by the tensor that is made: x, the node with weights
    absorbed: dict[str, str] = field(default_factory=dict)  #: output of a product: that of the batch norm behind it
    copied: dict[str, str] = field(default_factory=dict)  #: output of an operator like Relu: the Conv whose copies make it
    kept: set[int] = field(default_factory=set)  #: numbers of transposes that move no byte

    def consumers(self, name: str) -> list[int]:
        """The numbers of the nodes that read a tensor."""
        return self.users.get(name, [])


def find_patterns(graph: Graph) -> Patterns:
    """All matches; a node belongs to at most one."""
    users: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(graph.nodes):
        for name in dict.fromkeys(node.inputs):
            if name:
                users[name].append(number)
    found = Patterns(dict(users))
    found.kept = kept_transposes(graph, users)
    for number, node in enumerate(graph.nodes):
        if node.domain:
            continue
        if node.op == "Transpose" and number not in found.kept:
            _transpose(graph, found, number, node)
        elif node.op == "BatchNormalization":
            _batch_norm(graph, found, number, node)
        elif node.op in ("Pow", "Mul"):
            _rms_norm(graph, found, number, node)
    find_functions(graph, found)
    find_scales(graph, found)
    find_rolls(graph, found)
    for number, node in enumerate(graph.nodes):
        if node.op in _LIKE_COPIES and not node.domain and number not in found.parts:
            _copied(graph, found, node)
    return found


def _transpose(graph: Graph, found: Patterns, number: int, node: Node) -> None:
    """A transpose of the last two dimensions that only products read as their second input: they read it the other way."""
    out, tensor = node.outputs[0], graph.tensors.get(node.inputs[0])
    if tensor is None or tensor.source == "weight" or out in graph.outputs or not found.consumers(out):
        return
    rank = len(tensor.shape)
    perm = list(node.attributes.get("perm", range(rank)[::-1]))
    readers = [graph.nodes[reader] for reader in found.consumers(out)]
    if rank < 2 or perm != [*range(rank - 2), rank - 1, rank - 2]:
        return
    if all(reader.op == "MatMul" and not reader.domain and reader.inputs[1] == out != reader.inputs[0] for reader in readers):
        found.swapped[out] = node.inputs[0]
        found.parts[number] = f"read the other way by {readers[0].name}"


def _batch_norm(graph: Graph, found: Patterns, number: int, node: Node) -> None:
    """A batch norm that alone reads a convolution's or a Gemm's output is part of its weights and bias."""
    maker = next((item for item in graph.nodes if node.inputs[0] in item.outputs), None)
    if maker is None or maker.domain or maker.op not in ("Conv", "Gemm") or not _only(graph, found, node.inputs[0]):
        return
    made, out = (graph.tensors.get(name) for name in (node.inputs[0], node.outputs[0]))
    if made is None or out is None or made.shape != out.shape or not _only_first(graph, found, node):
        return
    if node.attributes.get("training_mode", 0):
        return
    if maker.input(1) in graph.tensors and graph.tensors[maker.input(1)].source == "weight":
        found.absorbed[node.inputs[0]] = node.outputs[0]
        found.parts[number] = f"part of the weights of {maker.name}"


def _copied(graph: Graph, found: Patterns, node: Node) -> None:
    """A function that takes the time of a copy, before a convolution that copies windows.

    Nothing else reads its input or its result.
    """
    x, out = node.inputs[0], node.outputs[0]
    tensor = graph.tensors.get(x)
    if tensor is None or tensor.source == "weight" or not _only(graph, found, x) or not _only(graph, found, out):
        return
    reader = graph.nodes[found.consumers(out)[0]]
    filters = graph.tensors.get(reader.input(1))
    if reader.op != "Conv" or reader.domain or reader.inputs.count(out) != 1 or reader.inputs[0] != out or filters is None:
        return
    if prod(filters.shape[2:]) > 1 and len(filters.shape) < 5:
        found.copied[out] = reader.name


def _rms_norm(graph: Graph, found: Patterns, number: int, node: Node) -> None:
    """From the square on: mean, eps, root, division or product with the reciprocal, and the gain."""
    x = node.inputs[0]
    if not _squares(graph, node) or x not in graph.tensors or not graph.tensors[x].shape:
        return
    chain = [number]
    for wanted in (("ReduceMean",), ("Add",), ("Sqrt",)):
        follower = _follower(graph, found, chain[-1], wanted)
        if follower is None:
            return
        chain.append(follower)
    axes = _last_axis(graph, graph.nodes[chain[1]])
    follower = _follower(graph, found, chain[-1], ("Div", "Reciprocal"))
    if follower is None or not axes or not any(name in graph.known for name in graph.nodes[chain[2]].inputs):
        return
    chain.append(follower)
    if graph.nodes[follower].op == "Reciprocal":
        follower = _follower(graph, found, follower, ("Mul",))
        if follower is None or x not in graph.nodes[follower].inputs:
            return
        chain.append(follower)
    elif graph.nodes[follower].inputs[0] != x:
        return
    gain, scaled = "", _follower(graph, found, chain[-1], ("Mul",))
    if scaled is not None:
        others = [name for name in graph.nodes[scaled].inputs if name not in graph.nodes[chain[-1]].outputs]
        if len(others) == 1 and others[0] in graph.tensors and graph.tensors[others[0]].source == "weight":
            gain = others[0]
            chain.append(scaled)
    last = graph.nodes[chain[-1]]
    found.norms[last.outputs[0]] = RmsNorm(x, gain)
    found.parts.update(dict.fromkeys(chain[:-1], f"part of {last.name}"))


def _squares(graph: Graph, node: Node) -> bool:
    if node.op == "Mul":
        return node.inputs[0] == node.inputs[1]
    return number_of(graph.known.get(node.input(1))) == 2


def _last_axis(graph: Graph, node: Node) -> bool:
    """Whether a ReduceMean is over the last dimension."""
    tensor, axes = graph.tensors.get(node.inputs[0]), node.attributes.get("axes")
    if axes is None and node.input(1) in graph.known:
        axes = graph.known[node.input(1)].reshape(-1).tolist()
    return tensor is not None and axes is not None and list(axes) in ([-1], [len(tensor.shape) - 1])


def _only_first(graph: Graph, found: Patterns, node: Node) -> bool:
    """Whether further outputs are unused."""
    return not any(name and (name in graph.outputs or found.consumers(name)) for name in node.outputs[1:])


def _only(graph: Graph, found: Patterns, name: str) -> bool:
    """Whether exactly one node reads a tensor, and it is not an output of the graph."""
    return len(found.consumers(name)) == 1 and name not in graph.outputs


def _follower(graph: Graph, found: Patterns, number: int, operators: tuple[str, ...]) -> int | None:
    """The only reader of a node, if it is one of these operators."""
    out = graph.nodes[number].outputs[0]
    if not _only(graph, found, out):
        return None
    (reader,) = found.consumers(out)
    behind = graph.nodes[reader]
    return reader if behind.op in operators and not behind.domain and reader not in found.parts else None
