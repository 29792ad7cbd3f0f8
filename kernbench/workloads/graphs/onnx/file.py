"""Reading of ONNX files: all shapes are inferred, and everything that does not depend on inputs is computed.

Weights are not read: their shapes and bits decide. Small constants are, because shapes depend on them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import not_read, read_bounded
from kernbench.config.file_kinds import check_file
from kernbench.workloads.graphs.graph import INDEX_BITS, Graph, Node, Tensor
from kernbench.workloads.graphs.lowering import rules
from kernbench.workloads.graphs.onnx.check import FOLDED, check_functions, check_model, domain_of, name_of, nodes_in
from kernbench.workloads.graphs.onnx.control import CONTROL_FLOW, Bounds, hoist_constants, stated_sizes
from kernbench.workloads.graphs.onnx.shapes import first_line, infer, shape_of, why_unknown
from kernbench.workloads.graphs.onnx.values import read_constants

if TYPE_CHECKING:
    import onnx

LARGEST = 1 << 31  # [byte] of a file: protobuf has no larger ones
WIDEST = 16  # [byte] of an element: complex128


def read_onnx(
    path: str | os.PathLike[str],
    dims: Mapping[str, int],
    weight_bits: int,
    activation_bits: int,
    bounds: Mapping[str, int | str] | None = None,
) -> Graph:
    """The main graph of a file. `dims`: the sizes of its dynamic dimensions by name.

    `bounds`: by the name of a node, the iterations of a Loop or the branch of an If (`then`, `else`) that depends on the
    inputs. Integers are kept as 32 bits, truth values as `activation_bits`. InputError if `onnx` is not installed, the file
    is no model, or a dimension of an input has no size.
    """
    model = _load(Path(path))
    check_model(model, str(path))
    hoist_constants(model)
    read_constants(model, Path(path))
    held = Bounds(bounds or {}, stated_sizes(model))
    _set_dims(model, dims, str(path))
    model = _with_operators_written_out(model)
    known = infer(model, str(path), held)
    for name in held.stated:
        if name not in held.used:
            rule = "it has no If or Loop of that name whose condition or number of iterations depends on the inputs"
            raise InputError(Problem(str(path), rule, "--bound", name))
    graph = model.graph
    opsets = {domain_of(item.domain): item.version for item in model.opset_import}
    nodes = tuple(_node(node, number, opsets) for number, node in enumerate(graph.node))
    outputs = tuple(item.name for item in graph.output)
    tensors = _tensors(graph, weight_bits, activation_bits)
    unknown = why_unknown(model)
    unknown |= {number: held.reasons[node.name] for number, node in enumerate(nodes) if node.name in held.reasons}
    return Graph(Path(path).stem, nodes, tensors, known, outputs, unknown, tuple(held.assumed))


def _load(path: Path) -> onnx.ModelProto:
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(Problem("kbsim onnx", "onnx is not installed", remedy="pip install 'kernbench[onnx]'")) from None
    try:
        if not path.is_file():
            rule = "it is not a file" if path.exists() else "the file does not exist"
            raise InputError(Problem(str(path), rule))
        size = path.stat().st_size
        if size >= LARGEST:
            remedy = "save it with its weights in a file beside it"
            raise InputError(
                Problem(str(path), f"it has {size} bytes, but a model must have less than {LARGEST}", remedy=remedy)
            )
        model = onnx.load_model_from_string(read_bounded(path, LARGEST))
    except OSError as error:
        raise InputError(Problem(str(path), not_read(error))) from None
    except DecodeError:
        check_file(str(path), "graph")
        remedy = "export one, for example with torch.onnx.export"
        raise InputError(Problem(str(path), "it is not an ONNX model", remedy=remedy)) from None
    if not model.graph.node:
        raise InputError(Problem(str(path), "it is not an ONNX model: its graph has no nodes"))
    return _with_functions_written_out(model, str(path)) if model.functions else model


def _with_operators_written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Operators without a rule that ONNX itself defines by others, as those others."""
    from onnx import defs
    from onnx.inliner import inline_selected_functions

    opsets = {domain_of(item.domain): item.version for item in model.opset_import}
    wanted = set[tuple[str, str]]()
    for node in nodes_in(model.graph):
        domain = domain_of(node.domain)
        mine = not domain and (node.op_type in rules() or node.op_type in FOLDED or node.op_type in CONTROL_FLOW)
        if mine or domain.startswith("com.") or not defs.has(node.op_type, domain):
            continue
        try:
            schema: Any = defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
        except defs.SchemaError:
            continue
        if schema.has_function or schema.has_context_dependent_function:
            wanted.add((node.domain, node.op_type))
    if not wanted:
        return model
    try:
        return inline_selected_functions(model, sorted(wanted), inline_schema_functions=True)
    except (RuntimeError, ValueError, TypeError):  # of types that are not known: the operators are listed as not lowered
        return model


def _with_functions_written_out(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    from onnx.inliner import inline_local_functions

    check_functions(model, where)
    try:
        return inline_local_functions(model)
    except (RuntimeError, ValueError, TypeError) as error:  # what the checks of its C++ become
        raise InputError(Problem(where, f"the functions of the model cannot be expanded: {first_line(error)}")) from None


def _set_dims(model: onnx.ModelProto, dims: Mapping[str, int], where: str) -> None:
    """Gives the dynamic dimensions of the inputs their sizes."""
    stored = {item.name for item in model.graph.initializer}
    used, open_dims = set[str](), dict[str, str]()
    for item in model.graph.input:
        if item.name in stored:
            continue
        for number, dim in enumerate(item.type.tensor_type.shape.dim):
            called = dim.dim_param or f"{item.name}.{number}"
            if called in dims:
                used.add(called)
                dim.dim_value = dims[called]
            elif dim.dim_param or not dim.HasField("dim_value") or dim.dim_value < 0:
                open_dims.setdefault(called, item.name)
    if open_dims:
        wanted = " ".join(f"--dim {name}=N" for name in open_dims)
        rule = f"its dynamic dimensions {', '.join(open_dims)} have no size"
        raise InputError(Problem(where, rule, remedy=f"give {wanted}"))
    for name in dims:
        if name not in used:
            raise InputError(Problem(where, "it has no dynamic dimension of that name", "--dim", name))
    del model.graph.value_info[:]  # they may hold shapes for other sizes
    for item in model.graph.output:
        item.type.tensor_type.ClearField("shape")


def _node(node: onnx.NodeProto, number: int, opsets: Mapping[str, int]) -> Node:
    from onnx import AttributeProto, helper

    attributes: dict[str, Any] = {}
    for item in node.attribute:
        if item.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            continue  # of a node that is not written out: it is refused by its name
        value = helper.get_attribute_value(item)
        attributes[item.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    domain = domain_of(node.domain)
    name, opset = name_of(node, number), opsets.get(domain, 0)
    return Node(name, node.op_type, tuple(node.input), tuple(node.output), attributes, domain, opset)


def _tensors(graph: onnx.GraphProto, weight_bits: int, activation_bits: int) -> dict[str, Tensor]:
    """All tensors of known shape and type."""
    from onnx import TensorProto

    integers = {TensorProto.INT64, TensorProto.INT32, TensorProto.UINT64, TensorProto.UINT32}
    found = {}
    for source, items in (("work", (*graph.value_info, *graph.output)), ("input", graph.input)):
        for item in items:
            shape = shape_of(item)
            if shape is not None:
                bits = INDEX_BITS if item.type.tensor_type.elem_type in integers else activation_bits
                found[item.name] = Tensor(item.name, shape, bits, source)  # type: ignore[arg-type]
    for weight in graph.initializer:
        bits = INDEX_BITS if weight.data_type in integers else weight_bits
        found[weight.name] = Tensor(weight.name, tuple(weight.dims), bits, "weight")
    return found
