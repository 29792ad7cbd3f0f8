"""The checks of an ONNX file before anything is computed from it: names, order, types, sizes, and attributes.

Operators are checked against their schemas of the file's opset, so that a lowering finds the inputs and attributes that it
reads, of the types that it expects. Values of attributes are checked where they are used, with the shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import ABSENT, MAX_PROBLEMS_SHOWN, InputError, Problem

if TYPE_CHECKING:
    import onnx

MAX_NODES = 100_000  #: most nodes of a graph, including those of local functions
MAX_DIMENSIONS = 32  #: most dimensions of a tensor
#: The ops with which shapes are computed. The time and memory of each op are proportional to its elements.
FOLDED = frozenset((
    "Abs", "Acos", "Add", "And", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "Constant",
    "ConstantOfShape", "Cos", "CumSum", "Div", "Equal", "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log",
    "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "Pad", "Pow", "Range", "Reciprocal", "ReduceL1",
    "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape",
    "Round", "ScatterElements", "ScatterND", "Shape", "Sigmoid", "Sign", "Sin", "Size", "Slice", "Split", "Sqrt", "Squeeze",
    "Sub", "Sum", "Tan", "Tanh", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
))  # fmt: skip
#: Operators that have no schema in `onnx`: least and most inputs, most outputs, and types of attributes.
_CONTRIBUTED = MappingProxyType({
    "FastGelu": (1, 2, 1, {}),
    "QuickGelu": (1, 1, 1, {"alpha": "FLOAT"}),
    "SimplifiedLayerNormalization": (2, 2, 1, {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"}),
})  # fmt: skip
_ATTENTION = {"num_heads": "INT", "scale": "FLOAT", "mask_filter_value": "FLOAT", "unidirectional": "INT"}
_GROUPED = {
    **_ATTENTION, "kv_num_heads": "INT", "do_rotary": "INT", "rotary_interleaved": "INT", "local_window_size": "INT",
    "smooth_softmax": "INT", "softcap": "FLOAT", "qk_output": "INT", "k_quant_type": "STRING", "v_quant_type": "STRING",
    "kv_cache_bit_width": "INT",
}  # fmt: skip
_OF_MICROSOFT = MappingProxyType({
    **_CONTRIBUTED,
    "BiasGelu": (2, 2, 1, {}),
    "Gelu": (1, 1, 1, {}),
    "GroupQueryAttention": (3, 14, 4, _GROUPED),
    "MultiHeadAttention": (1, 10, 4, _ATTENTION),
    "SkipLayerNormalization": (3, 5, 4, {"epsilon": "FLOAT"}),
    "SkipSimplifiedLayerNormalization": (3, 4, 4, {"epsilon": "FLOAT"}),
})  # fmt: skip


def domain_of(name: str) -> str:
    """The domain of operators as this package names it: ONNX's own is empty."""
    return "" if name == "ai.onnx" else name


class Checks:
    """The problems of one file."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []

    def refuse(self, what: str, rule: str, field: str = "", value: Any = ABSENT, remedy: str = "") -> None:
        """One more. `what`: the node or tensor; empty for the file."""
        self.problems.append(Problem(f"{self.where}: {what}" if what else self.where, rule, field, value, remedy))

    def end(self) -> None:
        """InputError if there was a problem."""
        if self.problems:
            raise InputError(self.problems)

    @property
    def enough(self) -> bool:
        """More would not be shown."""
        return len(self.problems) > MAX_PROBLEMS_SHOWN


def check_functions(model: onnx.ModelProto, where: str) -> None:
    """InputError if local functions call each other in a circle, or make too large a graph when written out."""
    functions = {(domain_of(item.domain), item.name): item for item in model.functions}
    calls = {key: [call for call in _calls(item.node) if call in functions] for key, item in functions.items()}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        names = " -> ".join(str(name) for _, name in error.args[1])
        raise InputError(Problem(where, f"its functions call each other in a cycle: {names}")) from None
    sizes: dict[tuple[str, str], int] = {}
    for key in order:
        sizes[key] = sum(sizes.get(call, 1) for call in _calls(functions[key].node))
    count = sum(sizes.get(call, 1) for call in _calls(model.graph.node))
    if count > MAX_NODES:
        rule = f"it has {count} nodes with its functions written out, and a graph has at most {MAX_NODES}"
        raise InputError(Problem(where, rule))


def _calls(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    """Domain and operator of nodes, and of those of the graphs inside them."""
    for node in nodes:
        yield domain_of(node.domain), node.op_type
        for item in node.attribute:
            for graph in (*((item.g,) if item.HasField("g") else ()), *item.graphs):
                yield from _calls(graph.node)


def check_model(model: onnx.ModelProto, where: str) -> None:
    """InputError with all that is wrong, each with the node or tensor, the value and the rule."""
    checks = Checks(where)
    count = sum(1 for _ in nodes_in(model.graph))
    if count > MAX_NODES:
        raise InputError(Problem(where, f"it has {count} nodes, but a graph may have at most {MAX_NODES}"))
    opsets = _opsets(model, checks)
    checks.end()
    _tensors(model.graph, checks)
    _edges(model.graph, checks)
    for number, node in enumerate(model.graph.node):
        if checks.enough:
            break
        _node(node, number, opsets, checks)
    _bodies(model.graph, opsets, checks)
    checks.end()


def _opsets(model: onnx.ModelProto, checks: Checks) -> dict[str, int]:
    from onnx import defs

    found: dict[str, int] = {}
    for item in model.opset_import:
        domain = domain_of(item.domain)
        if found.get(domain, item.version) != item.version:
            checks.refuse("", f"it imports two opsets of {domain or 'ai.onnx'}: {found[domain]} and {item.version}")
        found[domain] = item.version
    newest = defs.onnx_opset_version()
    if "" not in found and any(not domain_of(node.domain) for node in model.graph.node):
        checks.refuse("", "it imports no opset of ai.onnx", "opset_import", remedy="export it with one")
    elif not 1 <= found.get("", 1) <= newest:
        rule = f"the installed onnx has the opsets 1 to {newest}"
        checks.refuse(
            "",
            rule,
            "opset_import of ai.onnx",
            found[""],
            "export the model with one of these versions, or install a newer onnx",
        )
    return found


def _tensors(graph: onnx.GraphProto, checks: Checks) -> None:
    """Names, types and sizes of inputs, outputs and initializers."""
    from onnx import TensorProto

    for kind, items in (("input", graph.input), ("output", graph.output), ("initializer", graph.initializer)):
        seen = set[str]()
        for item in items:
            if not item.name:
                checks.refuse("", f"it has an {kind} without a name")
            elif item.name in seen:
                checks.refuse("", f"two {kind}s have the name {item.name}")
            seen.add(item.name)
    for weight in graph.initializer:
        check_tensor(weight, f"initializer {weight.name}", checks)
    types = set(TensorProto.DataType.values())
    for value in graph.input:
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.elem_type not in types - {TensorProto.UNDEFINED}:
            checks.refuse(f"input {value.name}", "there is no such type of elements", "elem_type", kind.elem_type)
        _rank(f"input {value.name}", len(kind.shape.dim), checks)


def check_tensor(tensor: onnx.TensorProto, what: str, checks: Checks) -> None:
    """Type and dimensions of an initializer."""
    from onnx import TensorProto

    if tensor.data_type == TensorProto.UNDEFINED or tensor.data_type not in TensorProto.DataType.values():
        checks.refuse(what, "there is no such type of elements", "data_type", tensor.data_type)
    for dim in tensor.dims:
        if dim < 0:
            checks.refuse(what, "a dimension must be at least 0", "dims", dim)
            break
    _rank(what, len(tensor.dims), checks)


def _rank(what: str, rank: int, checks: Checks) -> None:
    if rank > MAX_DIMENSIONS:
        checks.refuse(what, f"it has {rank} dimensions, and a tensor has at most {MAX_DIMENSIONS}")


def _edges(graph: onnx.GraphProto, checks: Checks, outer: frozenset[str] = frozenset(), where: str = "") -> None:
    """Each tensor is made once, by a node before those that read it.

    `outer`: the values of the outer graph that a graph inside a node may read; `where`: that node.
    """
    sparse = {item.values.name for item in graph.sparse_initializer}
    known = {item.name for item in (*graph.input, *graph.initializer)} | sparse
    made = _makers(graph, checks, known, where)
    there = known | outer
    for number, node in enumerate(graph.node):
        name = where + name_of(node, number)
        for source in node.input:
            if source and source not in there:
                rule, remedy = "which is not an input, initializer or output of a node", ""
                if source in made:
                    rule = f"which the later node {made[source]} makes"
                    remedy = "sort the nodes, so that each follows those that it reads from"
                checks.refuse(f"node {name}", f"it reads {source}, {rule}", remedy=remedy)
            if checks.enough:
                return
        for inner in graphs_in(node):
            _edges(inner, checks, frozenset(there), f"{name}/")
        there.update(node.output)
    for item in graph.output:
        if item.name and item.name not in there:
            checks.refuse(f"output {where}{item.name}", "no node makes it")


def _makers(graph: onnx.GraphProto, checks: Checks, known: Collection[str], where: str) -> dict[str, str]:
    """The node that makes each tensor. A tensor that several nodes make, or that is `known`, is refused."""
    made: dict[str, str] = {}
    for number, node in enumerate(graph.node):
        name = where + name_of(node, number)
        for output in node.output:
            if output and (output in known or output in made):
                other = f"node {made[output]} makes too" if output in made else "is an input or an initializer"
                checks.refuse(f"node {name}", f"it makes {output}, which {other}")
            elif output:
                made[output] = name
    return made


def graphs_in(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs inside a node."""
    for item in node.attribute:
        if item.HasField("g"):
            yield item.g
        yield from item.graphs


def nodes_in(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of graphs inside nodes too."""
    for node in graph.node:
        yield node
        for inner in graphs_in(node):
            yield from nodes_in(inner)


def _bodies(graph: onnx.GraphProto, opsets: dict[str, int], checks: Checks, where: str = "") -> None:
    """The graphs inside nodes: their initializers, their nodes, and the rules for loops and branches."""
    for number, node in enumerate(graph.node):
        name = where + name_of(node, number)
        for inner in graphs_in(node):
            for weight in inner.initializer:
                check_tensor(weight, f"initializer {name}/{weight.name}", checks)
            for place, each in enumerate(inner.node):
                if checks.enough:
                    return
                _node(each, place, opsets, checks, f"{name}/")
            _interface(node, name, inner, opsets.get("", 1), checks)
            _bodies(inner, opsets, checks, f"{name}/")


def _interface(node: onnx.NodeProto, name: str, inner: onnx.GraphProto, opset: int, checks: Checks) -> None:
    """The numbers of inputs and outputs of a graph inside a node."""
    what, given, results = f"node {name} ({node.op_type})", len(node.input), len(node.output)
    if domain_of(node.domain):
        return
    if node.op_type == "If":
        wanted_inputs, least = 0, results
    elif node.op_type == "Loop":
        wanted_inputs, least = max(given, 2), results + 1
    elif node.op_type == "Scan" and opset >= 9:  # before, it has an input of lengths: it is refused where it is written out
        wanted_inputs, least = given, results
    else:
        return
    if len(inner.input) != wanted_inputs:
        checks.refuse(what, f"the graph inside it must have {wanted_inputs} inputs", "inputs", len(inner.input))
    if len(inner.output) != least and not (node.op_type != "If" and len(inner.output) > least):
        checks.refuse(what, f"the graph inside it must have {least} outputs", "outputs", len(inner.output))


def name_of(node: onnx.NodeProto, number: int) -> str:
    """The name of a node, or the name of its operator if the node has no name."""
    return node.name or f"{node.op_type}_{number}"


def _node(node: onnx.NodeProto, number: int, opsets: dict[str, int], checks: Checks, where: str = "") -> None:
    """Inputs, outputs and attributes of a node, by its operator's schema."""
    from onnx import AttributeProto, defs

    what, domain = f"node {where}{name_of(node, number)} ({node.op_type})", domain_of(node.domain)
    if not node.op_type:
        checks.refuse(what, "it has no operator", "op_type")
        return
    seen = set[str]()
    for item in node.attribute:
        if item.name in seen:
            checks.refuse(what, "it is given twice", f"attribute {item.name}")
        elif item.ref_attr_name:
            checks.refuse(what, "only nodes inside functions may refer to attributes of other nodes", f"attribute {item.name}")
        elif item.type == AttributeProto.UNDEFINED:
            checks.refuse(what, "it has no type", f"attribute {item.name}")
        seen.add(item.name)
    contributed = _OF_MICROSOFT if domain == "com.microsoft" else {} if domain else _CONTRIBUTED
    if node.op_type in contributed:
        least, most, results, types = contributed[node.op_type]
        _counted(what, "inputs", node.input, least, most, 1, checks)
        _counted(what, "outputs", node.output, 1, results, 1, checks)
        if "num_heads" in types and "num_heads" not in (item.name for item in node.attribute):
            checks.refuse(what, "it is missing", "attribute num_heads")
        _attributes(what, node, types, (), checks)
    elif not domain:
        try:
            schema = defs.get_schema(node.op_type, opsets[""], "")
        except defs.SchemaError:
            if defs.has(node.op_type):
                rule = f"opset {opsets['']} of ai.onnx has no such operator"
                checks.refuse(what, rule, remedy="export it with another opset")
            return  # no operator of any opset: it is listed as one without a lowering
        optional = defs.OpSchema.FormalParameterOption.Optional
        needed = next((i for i, item in enumerate(schema.inputs) if item.option == optional), schema.min_input)
        _counted(what, "inputs", node.input, schema.min_input, schema.max_input, needed, checks)
        _counted(what, "outputs", node.output, schema.min_output, schema.max_output, 1 if schema.min_output else 0, checks)
        types = {name: str(item.type).rpartition(".")[2] for name, item in schema.attributes.items()}
        required = [name for name, item in schema.attributes.items() if item.required]
        _attributes(what, node, types, required, checks)


def _counted(what: str, kind: str, names: Sequence[str], least: int, most: int, needed: int, checks: Checks) -> None:
    """Check the number of names, and that the required ones are given."""
    if not least <= len(names) <= most:
        count = f"{least}" if least == most else f"{least} or more" if most > 1000 else f"{least} to {most}"
        checks.refuse(what, f"it has {count} of them", f"number of {kind}", len(names))
        return
    for i, name in enumerate(names[:needed]):
        if not name:
            checks.refuse(what, "it must not be left out", f"{kind}[{i}]")


def _attributes(what: str, node: onnx.NodeProto, types: dict[str, str], required: Sequence[str], checks: Checks) -> None:
    from onnx import AttributeProto

    given = {item.name: item for item in node.attribute}
    for name, item in given.items():
        kind = AttributeProto.AttributeType.Name(item.type)
        if name not in types:
            known = ", ".join(sorted(types)) or "none"
            checks.refuse(what, f"it has no such attribute; it has {known}", f"attribute {name}", remedy="remove it")
        elif kind != types[name]:
            checks.refuse(what, f"it must be of type {types[name]}", f"type of attribute {name}", kind)
    for name in required:
        if name not in given:
            checks.refuse(what, "it is missing", f"attribute {name}")
