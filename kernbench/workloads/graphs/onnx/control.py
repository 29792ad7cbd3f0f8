"""If, Loop and Scan written out: the nodes of the graphs inside them, in the graph that contains them.

A branch is chosen by its condition, and a loop is as many copies of its body as it has iterations. Where these depend on the
inputs, a bound takes their place: the branch with more work, the largest number of iterations, or the value that the user
states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.graphs.graph import Array
from kernbench.workloads.graphs.onnx.check import MAX_NODES, domain_of, graphs_in, name_of, nodes_in
from kernbench.workloads.graphs.onnx.condition import LARGEST_BOUND, Condition

if TYPE_CHECKING:
    import onnx

CONTROL_FLOW = ("If", "Loop", "Scan")
Shapes = Mapping[str, "tuple[int, ...] | None"]


def is_control_flow(node: onnx.NodeProto) -> bool:
    """Whether it has graphs inside that run by its condition or count."""
    return node.op_type in CONTROL_FLOW and not domain_of(node.domain)


def hoist_constants(model: onnx.ModelProto) -> None:
    """Moves the initializers of graphs inside nodes to the main graph, which every copy of a body reads them from."""
    graph = model.graph
    taken = {item.name for item in (*graph.initializer, *graph.input)}
    taken.update(name for node in nodes_in(graph) for name in node.output)
    for node in graph.node:
        for inner in graphs_in(node):
            _hoist(inner, graph, taken)


def _hoist(inner: onnx.GraphProto, graph: onnx.GraphProto, taken: set[str]) -> None:
    renamed: dict[str, str] = {}
    for item in inner.initializer:
        name, number = item.name, 1
        while name in taken:
            name, number = f"{item.name}.{number}", number + 1
        taken.add(name)
        made = graph.initializer.add()
        made.CopyFrom(item)
        made.name = name
        if name != item.name:
            renamed[item.name] = name
    del inner.initializer[:]
    if renamed:
        _rename_graph(inner, renamed)
    for node in inner.node:
        for nested in graphs_in(node):
            _hoist(nested, graph, taken)


@dataclass(slots=True)
class Bounds:
    """Facts and assumptions about nodes whose condition or count depends on the inputs.

    `stated`: by the user, by the name of a node: iterations or a branch. `sizes`: iterations that the shapes of a file state,
    by the name of a result of a Loop.
    """

    stated: Mapping[str, int | str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    assumed: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)  #: why a node was not written out, by name

    def iterations(self, node: onnx.NodeProto, name: str) -> int | None:
        """A bound for a Loop; None if there is none."""
        body = next(graphs_in(node))
        carried = len(body.input) - 2
        value = self.stated.get(name)
        if isinstance(value, int):
            self.used.add(name)
            return value
        return next((self.sizes[out] for out in node.output[carried:] if out in self.sizes), None)

    def branch(self, name: str) -> str | None:
        """The branch of an If that the user has chosen."""
        value = self.stated.get(name)
        if value not in ("then", "else"):
            return None
        self.used.add(name)
        return str(value)


def stated_sizes(model: onnx.ModelProto) -> dict[str, int]:
    """The numbers of iterations that the shapes of a file's results of Loops say."""
    wanted = {name for node in model.graph.node if node.op_type == "Loop" for name in node.output}
    found = {}
    for item in (*model.graph.value_info, *model.graph.output):
        dims = item.type.tensor_type.shape.dim
        if item.name in wanted and dims and dims[0].HasField("dim_value") and dims[0].dim_value >= 0:
            found[item.name] = int(dims[0].dim_value)
    return found


class Writer:
    """One pass over the main graph of a model."""

    def __init__(self, model: onnx.ModelProto, known: dict[str, Array], shapes: Shapes, bounds: Bounds, where: str) -> None:
        self.model, self.known, self.shapes, self.bounds, self.where = model, known, shapes, bounds, where
        self.opset = next((item.version for item in model.opset_import if not domain_of(item.domain)), 1)
        self.made: list[onnx.NodeProto] = []
        self._names: set[str] = set()

    def run(self, *, bounded: bool) -> bool:
        """Whether there was one. `bounded`: also nodes whose condition or count depends on the inputs."""
        graph = self.model.graph
        if not any(is_control_flow(node) for node in graph.node):
            return False
        self._names = {name for node in graph.node for name in (*node.output, node.name)}
        self.made, found = [], False
        for number, node in enumerate(graph.node):
            name = name_of(node, number)
            if not is_control_flow(node) or not self._write(node, name, bounded=bounded):
                self.made.append(node)
                continue
            found = True
            if len(self.made) + len(graph.node) - number > MAX_NODES:
                rule = f"with its iterations written out the graph has more than {MAX_NODES} nodes"
                raise InputError(
                    Problem(f"{self.where}: node {name} ({node.op_type})", rule, remedy="lower the bound of the loop")
                )
        if found:
            del graph.node[:]
            graph.node.extend(self.made)
        return found

    def _write(self, node: onnx.NodeProto, name: str, *, bounded: bool) -> bool:
        if node.op_type == "If":
            return self._if(node, name, bounded=bounded)
        if node.op_type == "Loop":
            return self._loop(node, name, bounded=bounded)
        return self._scan(node, name)

    def _if(self, node: onnx.NodeProto, name: str, *, bounded: bool) -> bool:
        branches = {item.name.removesuffix("_branch"): item.g for item in node.attribute}
        if len(branches) != 2:
            return False
        condition = self.known.get(node.input[0])
        if condition is not None:
            chosen = "then" if bool(np.asarray(condition).reshape(-1)[:1].any()) else "else"
        elif bounded:
            stated = self.bounds.branch(name)
            chosen = stated or max(("then", "else"), key=lambda key: self._work(branches[key]))
            why = "as --bound says" if stated else "which has at least as much work"
            self.bounds.assumed.append(f"{name} (If): the {chosen} branch, {why}")
        else:
            return False
        prefix = self._prefix(name)
        results = self._copy(branches[chosen], {}, prefix)
        for source, target in zip(results, node.output, strict=False):
            self._node("Identity", [source], target)
        return True

    def _work(self, graph: onnx.GraphProto) -> tuple[int, int]:
        """MACs and elements of the tensors that a branch makes, as far as their shapes are known."""
        shapes = dict(self.shapes)
        for item in graph.value_info:
            shapes[item.name] = tuple(dim.dim_value for dim in item.type.tensor_type.shape.dim)
        macs = elements = 0
        for node in graph.node:
            out = prod(shapes.get(node.output[0]) or ()) if node.output else 0
            elements += out
            if node.op_type in ("MatMul", "Gemm", "Conv") and len(node.input) > 1:
                first, second = shapes.get(node.input[0]) or (1,), shapes.get(node.input[1]) or (1,)
                macs += out * (prod(second[1:]) if node.op_type == "Conv" else first[-1])
            for inner in graphs_in(node):
                more = self._work(inner)
                macs, elements = macs + more[0], elements + more[1]
        return macs, elements

    def _loop(self, node: onnx.NodeProto, name: str, *, bounded: bool) -> bool:
        body = node.attribute[0].g
        count = self._count(node, body, name, bounded=bounded)
        if count is None:
            return False
        carried = len(body.input) - 2
        self._limit(node, name, body, count)
        prefix = self._prefix(name)
        state = list(node.input[2 : 2 + carried])
        condition = node.input[1] if len(node.input) > 1 and node.input[1] else self._constant(f"{prefix}true", np.array(True))
        stacked: list[list[str]] = [[] for _ in body.output[1 + carried :]]
        for number in range(count):
            step = f"{prefix}{number}/"
            at = self._constant(f"{step}iteration", np.array(number, np.int64))
            given = dict(zip((item.name for item in body.input), (at, condition, *state), strict=True))
            condition, *results = self._copy(body, given, step)
            state = results[:carried]
            for values, result in zip(stacked, results[carried:], strict=True):
                values.append(result)
        self._carried_out(state, node)
        for values, target in zip(stacked, node.output[carried:], strict=False):
            if target:
                self._stack(values, target, 0)
        return True

    def _count(self, node: onnx.NodeProto, body: onnx.GraphProto, name: str, *, bounded: bool) -> int | None:
        """Iterations of a Loop; None if they are not known and have no bound."""
        trips, first = self._given(node, 0), self._given(node, 1)
        most = max(int(trips), 0) if isinstance(trips, np.generic) else None
        if isinstance(first, np.generic) and not first:
            return 0
        if trips != "unknown" and first != "unknown":
            exact = Condition(self.model, body, self.known, node).iterations(most)
            if exact is not None:
                return exact
        if not bounded:
            return None
        limit = self.bounds.iterations(node, name)
        if limit is None and most is not None and most <= LARGEST_BOUND:
            limit = most
        if limit is None:
            self.bounds.reasons[name] = f"how often it runs depends on values; give --bound {name}=N"
            return None
        count = limit if most is None else min(limit, most)
        self.bounds.assumed.append(f"{name} (Loop): {count} iterations, which is its bound")
        return count

    def _given(self, node: onnx.NodeProto, index: int) -> Any:
        """An input of a Loop as a number, "unknown", or None if it is left out."""
        name = node.input[index] if index < len(node.input) else ""
        if not name:
            return None
        value = self.known.get(name)
        return "unknown" if value is None or value.size != 1 else value.reshape(-1)[0]

    def _limit(self, node: onnx.NodeProto, name: str, body: onnx.GraphProto, count: int) -> None:
        total = count * (len(body.node) + 1)
        if total > MAX_NODES:
            rule = f"its {count} iterations have {total} nodes, and a graph has at most {MAX_NODES}"
            raise InputError(Problem(f"{self.where}: node {name} ({node.op_type})", rule, remedy="export the model with fewer"))

    def _scan(self, node: onnx.NodeProto, name: str) -> bool:
        fields = {item.name: item for item in node.attribute}
        body, scanned = fields["body"].g, int(fields["num_scan_inputs"].i)
        if self.opset < 9:  # it has a batch dimension and an input of lengths there
            self.bounds.reasons[name] = "Scan of opset 8 is not written out; export the model with a later opset"
            return False
        carried = len(node.input) - scanned
        sources = list(node.input[carried:])
        shapes = [self._shape(source) for source in sources]
        if any(shape is None for shape in shapes) or not 0 < scanned <= len(node.input):
            return False

        def each(key: str, count: int) -> list[int]:
            return list(fields[key].ints) if key in fields else [0] * count

        axes = [axis % len(shape) for axis, shape in zip(each("scan_input_axes", scanned), shapes, strict=True) if shape]
        if len(axes) != scanned:
            return False
        count = shapes[0][axes[0]]  # type: ignore[index]
        self._limit(node, name, body, count)
        prefix, state = self._prefix(name), list(node.input[:carried])
        backwards, results = each("scan_input_directions", scanned), len(body.output) - carried
        stacked: list[list[str]] = [[] for _ in range(results)]
        for number in range(count):
            step = f"{prefix}{number}/"
            given = dict(zip((item.name for item in body.input), state, strict=False))
            for item, source, axis, back in zip(body.input[carried:], sources, axes, backwards, strict=True):
                at = self._constant(f"{step}{item.name}/index", np.array(count - 1 - number if back else number, np.int64))
                given[item.name] = f"{step}{item.name}"
                self._node("Gather", [source, at], given[item.name], axis=axis)
            made = self._copy(body, given, step)
            state = made[:carried]
            for values, result in zip(stacked, made[carried:], strict=True):
                values.append(result)
        self._carried_out(state, node)
        forms = zip(each("scan_output_axes", results), each("scan_output_directions", results), strict=True)
        outward = ((*one, *form) for *one, form in zip(stacked, node.output[carried:], forms, strict=False))
        for values, target, axis, back in outward:
            if target:
                self._stack(values[::-1] if back else values, target, axis)
        return True

    def _carried_out(self, state: Sequence[str], node: onnx.NodeProto) -> None:
        """The carried values after the last iteration are the first results of a node."""
        for source, target in zip(state, node.output, strict=False):
            if target:
                self._node("Identity", [source], target)

    def _shape(self, name: str) -> tuple[int, ...] | None:
        value = self.known.get(name)
        return self.shapes.get(name) if value is None else value.shape

    def _stack(self, values: Sequence[str], target: str, axis: int) -> None:
        """The results of all iterations, one behind the other along a new dimension."""
        if not values:
            self._constant(target, np.zeros((0,), np.float32))
            return
        parts = []
        for value in values:
            part = f"{value}/stacked/{target}"
            if self.opset >= 13:
                self._node("Unsqueeze", [value, self._constant(f"{part}/axis", np.array([axis], np.int64))], part)
            else:
                self._node("Unsqueeze", [value], part, axes=[axis])
            parts.append(part)
        self._node("Concat", parts, target, axis=axis)

    def _node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        from onnx import helper

        self.made.append(helper.make_node(operator, list(inputs), [output], f"{output}/{operator}", **attributes))

    def _constant(self, name: str, value: Array) -> str:
        from onnx import numpy_helper

        self.model.graph.initializer.append(numpy_helper.from_array(value, name))
        self.known[name] = value
        return name

    def _prefix(self, name: str) -> str:
        prefix, number = f"{name}/", 1
        while any(other.startswith(prefix) for other in self._names):
            prefix, number = f"{name}.{number}/", number + 1
        self._names.add(prefix)
        return prefix

    def _copy(self, body: onnx.GraphProto, given: Mapping[str, str], prefix: str) -> list[str]:
        """A copy of the nodes of a graph; the names of its results. `given`: its inputs."""
        names = {**{name: prefix + name for node in body.node for name in node.output if name}, **given}
        for number, node in enumerate(body.node):
            copy = type(node)()
            copy.CopyFrom(node)
            copy.name = prefix + name_of(node, number)
            _rename_node(copy, names)
            self.made.append(copy)
        return [names.get(item.name, item.name) for item in body.output]


def _rename_node(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for values in (node.input, node.output):
        for number, name in enumerate(values):
            values[number] = names.get(name, name)
    for inner in graphs_in(node):
        own = {item.name for item in (*inner.input, *inner.initializer)}
        own.update(name for each in inner.node for name in each.output)
        _rename_graph(inner, {name: new for name, new in names.items() if name not in own})


def _rename_graph(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        _rename_node(node, names)
    for item in graph.output:
        item.name = names.get(item.name, item.name)
