"""Lowers nodes of a graph to work, each by the rule of its operator; nodes without a rule are listed with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from kernbench.workloads.graphs.folding import fold_moves
from kernbench.workloads.graphs.graph import Array, Copy, Graph, Lowered, Node, Tensor, Vector, Window, Work
from kernbench.workloads.graphs.patterns import Patterns, find_patterns
from kernbench.workloads.graphs.stored import Layouts

Rule = Callable[["Lowering", Node], None]


class Grouping(Protocol):
    """Chooses how convolutions with many groups are multiplied."""

    def together(self, groups: int, k: int, n: int) -> int:
        """The number of groups of `[k, n]` that form one product."""

    def tiled(self, window: Window) -> tuple[tuple[int, int], int]:
        """Rows and columns of outputs, and channels, in one product of a convolution with a filter for each channel."""

    def dense(self, window: Window, filters: int) -> tuple[int, int]:
        """Rows and columns of outputs in one row of the product of a convolution whose filters read all channels."""


MAX_ENTRIES = 1 << 18  #: limit of the entries of a program: to write more takes half a gigabyte and half a minute
RULES: dict[str, Rule] = {}  #: the rule of each operator; the modules `ops_*` fill the table
_OF_MICROSOFT = frozenset((
    "BiasGelu", "FastGelu", "Gelu", "GroupQueryAttention", "MultiHeadAttention", "QuickGelu", "SimplifiedLayerNormalization",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
))  # fmt: skip
_WITH_GRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_DOMAINS: dict[str, frozenset[str] | None] = {"": None, "com.microsoft": _OF_MICROSOFT}


class CannotLower(Exception):
    """A node has no lowering; the text gives the reason."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule of these operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def rules() -> dict[str, Rule]:
    """All rules, by operator."""
    import kernbench.workloads.graphs.moves
    import kernbench.workloads.graphs.positions
    import kernbench.workloads.graphs.products
    import kernbench.workloads.graphs.recurrent
    import kernbench.workloads.graphs.sampling
    import kernbench.workloads.graphs.vectors  # noqa: F401  # they fill RULES

    return RULES


class Lowering:
    """The lowering of one graph: rules read their inputs from it and write their outputs to it."""

    def __init__(self, graph: Graph, activation_bits: int, grouping: Grouping | None) -> None:
        self.graph = graph
        self.grouping = grouping
        self.activation_bits = activation_bits
        self.result = Lowered(graph, dict(graph.tensors))
        self.patterns: Patterns = find_patterns(graph)
        self.layouts = Layouts(graph, self.result.tensors, self.patterns.kept)
        self._number = 0
        self._temporaries = 0

    def run(self) -> Lowered:
        """Lower all nodes."""
        rules()
        for number, node in enumerate(self.graph.nodes):
            self._number, before = number, len(self.result.jobs)
            self.layouts.look_at(number, node)
            try:
                self._lower(node)
            except CannotLower as reason:
                del self.result.jobs[before:]
                self.result.missing[number] = str(reason)
        fold_moves(self.result)
        return self.result

    def _lower(self, node: Node) -> None:
        part = self.patterns.parts.get(self._number)
        if part is not None:
            self.note(part)
            return
        tensors = self.result.tensors
        inputs = [name for name in node.inputs if name]
        if inputs and all(name in tensors and tensors[name].source == "weight" for name in inputs):
            self._beforehand(node)
            return
        allowed = _DOMAINS.get(node.domain, frozenset())
        if not node.domain and node.op in _WITH_GRAPHS:
            raise CannotLower(self.graph.unknown.get(self._number) or "the graph inside this node is not expanded")
        if node.op not in RULES or (allowed is not None and node.op not in allowed):
            where = f" of {node.domain}" if node.domain else ""
            known = self.graph.unknown.get(self._number, "") if node.domain == "torch" else ""
            raise CannotLower(known or f"there is no lowering of {node.op}{where}")
        for name in (*inputs, *(name for name in node.outputs if name)):
            if name not in tensors:
                reason = self.graph.unknown.get(self._number, "")
                raise CannotLower(f"the shape of {name} is not known{reason and ': '}{reason}")
        if not self._without_elements(node):
            RULES[node.op](self, node)

    def _without_elements(self, node: Node) -> bool:
        """Whether a node makes only tensors without elements, or computes its result from such a tensor; such a node needs no
        work."""
        tensors = self.result.tensors
        outputs = [name for name in node.outputs if name]
        empty = [name for name in node.inputs if name and not tensors[name].elements]
        if outputs and all(not tensors[name].elements for name in outputs):
            self.note("no elements")
            return True
        if not empty:
            return False
        left = tuple(name for name in node.inputs if name not in empty)
        if node.op == "Concat" and left:
            RULES[node.op](self, replace(node, inputs=left))
            return True
        if node.inputs[0] in empty:
            for name in outputs:
                self.ready(name)
            return True
        return False

    def _beforehand(self, node: Node) -> None:
        """Results that depend only on weights are computed once, before any run."""
        tensors = self.result.tensors
        bits = tensors[node.inputs[0]].bits
        for name in node.outputs:
            if name in tensors:
                tensors[name] = replace(tensors[name], source="weight", bits=bits)
        self.note("computed beforehand")

    def ready(self, name: str) -> None:
        """The values of an output do not depend on the inputs of the graph, and are known before the run."""
        self.result.tensors[name] = replace(self.result.tensors[name], source="weight")
        self.note("computed beforehand")

    def tensor(self, name: str) -> Tensor:
        """A tensor by name."""
        return self.result.tensors[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape."""
        return self.tensor(name).shape

    def out(self, node: Node) -> Tensor:
        """The first output; raises CannotLower if other outputs are used too."""
        self.only(node, 1)
        return self.tensor(node.outputs[0])

    def only(self, node: Node, count: int) -> None:
        """Raises CannotLower if more than the first `count` outputs are used."""
        for name in node.outputs[count:]:
            if name and (name in self.graph.outputs or self.patterns.consumers(name)):
                raise CannotLower(f"its output {name} is not computed")

    def operand(self, name: str) -> str:
        """A tensor as vector engines read it: constants have the width of activations."""
        return self._constant(name, "operand", self.activation_bits) if self.tensor(name).source == "weight" else name

    def _constant(self, name: str, what: str, bits: int) -> str:
        """A constant at another width; it is converted before the run."""
        own = f"{name} ({what})"
        self.result.tensors.setdefault(own, replace(self.tensor(name), name=own, bits=bits))
        return own

    def temporary(self, *shape: int, like: str = "") -> str:
        """A new tensor of activations; `like`: a tensor whose element width the new one gets."""
        self._temporaries += 1
        name = f"{self.graph.nodes[self._number].name}:{self._temporaries}"
        self.result.tensors[name] = Tensor(name, shape, self.tensor(like).bits if like else self.activation_bits)
        return name

    def add(self, work: Work) -> None:
        """Add a piece of work of this node. A vector engine streams two inputs of one width: an input of another width is
        converted first."""
        if isinstance(work, Vector) and work.b:
            a, b, out = (self.tensor(name) for name in (work.a, work.b, work.out))
            if a.bits != b.bits and a.bits != out.bits:
                work = replace(work, a=self._converted(a, b))
            elif a.bits != b.bits:
                work = replace(work, b=self._converted(b, a))
        self.result.jobs.append((self._number, work))

    def _converted(self, tensor: Tensor, like: Tensor) -> str:
        """A copy of a tensor whose elements have the width of another tensor."""
        if tensor.source == "weight":
            return self._constant(tensor.name, f"of {like.bits} bits", like.bits)
        name = self.temporary(*tensor.shape, like=like.name)
        self.result.jobs.append((self._number, Copy((tensor.name,), name)))
        return name

    def view(self, out: str, of: str, note: str = "the same bytes") -> None:
        """`out` shares the bytes of another tensor."""
        self.result.views[out] = of
        self.note(note)

    def note(self, text: str) -> None:
        """Set the note of a node without work."""
        self.result.notes[self._number] = text

    @property
    def keeps_bytes(self) -> bool:
        """Whether this node is a transpose that moves no byte."""
        return self._number in self.patterns.kept

    def value(self, name: str, what: str) -> Array:
        """The value of an input that must be known. CannotLower if it is not known."""
        if name not in self.graph.known:
            raise CannotLower(f"its {what} must be constant, but depend on the inputs")
        return self.graph.known[name]

    def integers(self, node: Node, attribute: str, index: int) -> tuple[int, ...] | None:
        """Integers that older opsets have as an attribute and newer ones as an input; None if the node has neither."""
        if attribute in node.attributes:
            found = node.attributes[attribute]
            return tuple(found) if isinstance(found, list | tuple) else (int(found),)
        if not node.input(index):
            return None
        value = self.value(node.input(index), attribute)
        if value.dtype.kind not in "iu":
            raise CannotLower(f"its {attribute} must be integers, but have the type {value.dtype}")
        return tuple(int(item) for item in value.reshape(-1))

    def axis(self, node: Node, default: int, rank: int) -> int:
        """The dimension that a node's `axis` names, from 0 on."""
        return self.dimension("axis", int(node.attributes.get("axis", default)), rank)

    def dimension(self, what: str, number: int, rank: int) -> int:
        """A dimension counted from 0. CannotLower if there is no operand with this number."""
        if not -rank <= number < rank:
            rule = f"it must be from {-rank} to {rank - 1}" if rank else "its input has no dimensions"
            raise CannotLower(f"{what} = {number}, but {rule}")
        return number % rank

    def ranks(self, name: str, *allowed: int) -> tuple[int, ...]:
        """The shape of a tensor with this number of dimensions. CannotLower for any other value."""
        shape = self.shape(name)
        if len(shape) not in allowed:
            ranks = " or ".join(str(rank) for rank in allowed)
            raise CannotLower(f"{name} has {len(shape)} dimensions, and must have {ranks}")
        return shape

    def limited(self, what: str, count: int) -> int:
        """Checks a number of pieces of work. Raises CannotLower if the number is above the limit of a program."""
        if count > MAX_ENTRIES:
            raise CannotLower(f"it has {count} {what}, and a program has at most {MAX_ENTRIES} entries")
        return count


def lower_graph(graph: Graph, activation_bits: int, grouping: Grouping | None = None) -> Lowered:
    """A graph as work. `grouping`: the groups of a convolution that form one product; by default, each group is a product."""
    return Lowering(graph, activation_bits, grouping).run()


def missing_lines(lowered: Lowered) -> Iterator[tuple[str, str]]:
    """`(node, reason)` of each node that cannot be lowered."""
    for number, reason in lowered.missing.items():
        node = lowered.graph.nodes[number]
        yield f"{node.name} ({node.op})", reason
