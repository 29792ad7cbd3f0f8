"""PyTorch modules to graphs: exported with example inputs, decomposed to core ATen, and translated operator by operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.graphs.graph import INDEX_BITS, SMALL, Array, Graph, Node, Tensor
from kernbench.workloads.graphs.torch.aten import CannotTranslate, refusal_of, rule_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

OPSET = 24  #: the version of ONNX whose operators nodes have
_WHOLE = ("scaled_dot_product_attention",)  # kept, because it has a lowering of its own
_KINDS = {"bfloat16": "float32", "float16": "float32", "float64": "float32"}  # activations have one width


def import_torch(where: str = "kbsim torch") -> Any:
    """PyTorch. InputError if it is not installed."""
    try:
        import torch
    except ImportError:
        raise InputError(Problem(where, "PyTorch is not installed", remedy="pip install 'kernbench[torch]'")) from None
    return torch


def read_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    weight_bits: int = 8,
    activation_bits: int = 8,
) -> Graph:
    """The graph of a module for inputs of the shapes of `args` and `kwargs`. InputError if it cannot be exported."""
    exported = export_module(module, args, kwargs, name or type(module).__name__)
    return read_exported(
        exported, name=name or type(module).__name__, weight_bits=weight_bits, activation_bits=activation_bits
    )


def export_module(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, name: str = ""
) -> ExportedProgram:
    """A module in core ATen operators. InputError if it cannot be exported."""
    torch = import_torch()
    try:
        with torch.no_grad(), _without_fast_path(torch):
            exported: ExportedProgram = torch.export.export(module, tuple(args), dict(kwargs or {}), strict=False)
            return decomposed(exported)
    except Exception as error:  # whatever the module's own code raises, and what torch.export says of it
        line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if isinstance(error, KeyError):  # its text is the key alone
            line = f"PyTorch raised KeyError: {line}"
        raise InputError(Problem(name, f"torch.export cannot export the model: {line.strip()[:300]}")) from error


@contextmanager
def _without_fast_path(torch: Any) -> Iterator[None]:
    """PyTorch's own encoder layers show their operators."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def decomposed(exported: ExportedProgram) -> ExportedProgram:
    """In core ATen operators, and those that have a lowering of their own."""
    torch = import_torch()
    table = torch.export.default_decompositions()
    for operator in _WHOLE:
        table.pop(getattr(torch.ops.aten, operator).default, None)
    return exported.run_decompositions(table)


def read_exported(exported: ExportedProgram, *, name: str, weight_bits: int = 8, activation_bits: int = 8) -> Graph:
    """The graph of an exported program. InputError with a line for each operator that is not known."""
    return Translation(exported, name, weight_bits, activation_bits).run()


class Translation:
    """The translation of one program."""

    def __init__(self, exported: ExportedProgram, name: str, weight_bits: int, activation_bits: int) -> None:
        self.exported, self.name = exported, name
        self.weight_bits, self.activation_bits = weight_bits, activation_bits
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}
        self.known: dict[str, Array] = {}
        self.unknown: dict[int, str] = {}
        self._kinds: dict[str, str] = {}
        self._names: dict[Any, str] = {}
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._place = ""
        self._temporaries = 0

    def run(self) -> Graph:
        """All nodes."""
        outputs: list[str] = []
        for node in self.exported.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                outputs = self._outputs(node)
        return Graph(self.name, tuple(self.nodes), self.tensors, self.known, tuple(outputs), self.unknown)

    def _placeholder(self, node: Any) -> None:
        signature, value = self.exported.graph_signature, node.meta.get("val")
        if not hasattr(value, "shape"):
            return  # a number that the export has fixed
        target, stored = None, None
        for targets in (signature.inputs_to_parameters, signature.inputs_to_buffers):
            if node.name in targets:
                target = targets[node.name]
                stored = self.exported.state_dict.get(target, self.exported.constants.get(target))
        if node.name in signature.inputs_to_lifted_tensor_constants:
            target = signature.inputs_to_lifted_tensor_constants[node.name]
            stored = self.exported.constants.get(target)
        own = str(target or node.name)
        self._names[node] = own
        self._declare(own, value, "weight" if target else "input")
        if stored is not None and stored.numel() <= SMALL and not stored.is_meta and type(stored).__name__ != "FakeTensor":
            self.known[own] = stored.detach().cpu().to(value.dtype).float().numpy() if _real(value) else stored.cpu().numpy()

    def _outputs(self, node: Any) -> list[str]:
        wanted = set(self.exported.graph_signature.user_outputs)
        found = [arg for arg in node.args[0] if hasattr(arg, "name") and arg.name in wanted and arg in self._names]
        return list(dict.fromkeys(self._names[arg] for arg in found))

    def _declare(self, name: str, value: Any, source: str = "work") -> None:
        """A tensor of the program. CannotTranslate if its size depends on values."""
        if not all(isinstance(size, int) or size.node.has_hint() for size in value.shape):
            raise CannotTranslate("the size of its result depends on values")
        dtype = str(value.dtype).removeprefix("torch.")
        kind = _KINDS.get(dtype, dtype)
        self._add_tensor(name, tuple(int(size) for size in value.shape), kind, source)

    def _add_tensor(self, name: str, shape: tuple[int, ...], kind: str, source: str = "work") -> None:
        self._kinds[name] = kind
        bits = INDEX_BITS if kind.startswith(("int", "uint")) and kind not in ("int8", "uint8") else self.activation_bits
        if source == "weight" and bits == self.activation_bits:
            bits = self.weight_bits
        self.tensors[name] = Tensor(name, shape, bits, source)  # type: ignore[arg-type]

    def _call(self, node: Any) -> None:
        operator, value = str(node.target), node.meta.get("val")
        if getattr(node.target, "__name__", "") == "getitem":
            self._names[node] = self._names.get((node.args[0], node.args[1]), "")
            return
        if value is None or isinstance(value, (int, float, bool)) or type(value).__name__ in ("SymInt", "SymFloat", "SymBool"):
            if node.users and value is None:
                self._refuse(node, operator, "it has no result")
            return
        self._place, self._temporaries = _place_of(node), 0
        first = len(self.nodes)
        try:
            out = self._results(node, value)
            if not operator.startswith("aten."):
                raise CannotTranslate(refusal_of(operator) or "it is not an operator of ATen")
            reason = refusal_of(operator)
            found = rule_of(operator)
            if reason or found is None:
                raise CannotTranslate(reason or "it is not an operator of core ATen")
            if any(not size for name in out if name for size in self.tensors[name].shape):
                self._empty(out)
                return
            found(self, self._arguments(node), out)
        except CannotTranslate as refused:
            del self.nodes[first:]
            self._refuse(node, operator, str(refused))

    def _empty(self, out: Sequence[str]) -> None:
        """A tensor without elements needs no load."""
        for name in out:
            if name:
                self._add_tensor(name, self.tensors[name].shape, self._kinds[name], "weight")

    def _results(self, node: Any, value: Any) -> list[str]:
        """The names of its outputs; those that nothing reads have none."""
        if hasattr(value, "shape"):
            self._declare(node.name, value)
            self._names[node] = node.name
            return [node.name]
        read = {user.args[1] for user in node.users if getattr(user.target, "__name__", "") == "getitem"}
        names = []
        for number, each in enumerate(value):
            name = f"{node.name}.{number}" if number in read and hasattr(each, "shape") else ""
            if name:
                self._declare(name, each)
                self._names[node, number] = name
            names.append(name)
        return names

    def _refuse(self, node: Any, operator: str, reason: str) -> None:
        """A node that the lowering lists with the reason."""
        inputs = tuple(self._names[each] for each in node.all_input_nodes if self._names.get(each))
        outputs = tuple(name for key, name in self._names.items() if key is node or (isinstance(key, tuple) and key[0] is node))
        self.unknown[len(self.nodes)] = reason
        self.nodes.append(Node(self._place or node.name, operator, inputs, outputs, {}, "torch", OPSET))

    def _arguments(self, node: Any) -> dict[str, Any]:
        schema = node.target._schema.arguments
        given = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
        given.update({argument.name: value for argument, value in zip(schema, node.args, strict=False)})
        given.update(node.kwargs)
        tensors = {argument.name for argument in schema if str(argument.type) == "Tensor"}
        return {name: self._argument(value, name in tensors) for name, value in given.items()}

    def _argument(self, value: Any, tensor: bool = False) -> Any:
        """An argument as rules take it; `tensor`: a number is a tensor of one element."""
        if hasattr(value, "all_input_nodes"):  # a node of the program
            if value in self._names:
                if not self._names[value]:
                    raise CannotTranslate("it reads a result that was not computed")
                return self._names[value]
            if hasattr(value.meta.get("val"), "shape"):
                raise CannotTranslate("it reads a result that is not known")
            value = value.meta["val"]
        if isinstance(value, (list, tuple)):
            return [self._argument(each) for each in value]
        value = _number(value)
        if tensor and isinstance(value, (int, float)):
            return self.constant(value, "float32" if isinstance(value, float) else "int64")
        return value

    # what rules call

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.tensors[name].shape

    def kind(self, name: str) -> str:
        """The numpy name of a tensor's elements."""
        return self._kinds[name]

    def value(self, name: str) -> Array | None:
        """The values of a tensor, where they are known."""
        return self.known.get(name)

    def constant(self, value: Any, kind: str = "int64") -> str:
        """A tensor of known values."""
        made = np.asarray(value, np.dtype(kind))
        key = made.tobytes() if made.size <= SMALL else repr(len(self._constants)).encode(), kind, made.shape
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = name
            self._add_tensor(name, made.shape, kind, "weight")
            self.known[name] = made
        return self._constants[key]

    def node(
        self,
        op: str,
        *inputs: str,
        out: str | Sequence[str] = "",
        shape: Sequence[int] | None = None,
        kind: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """A node; its first output. Of an output without a name: `shape`, by default that of all inputs together."""
        outputs = [out] if isinstance(out, str) else list(out)
        if not outputs[0] and not any(outputs):
            self._temporaries += 1
            outputs[0] = f"{self._place}.{len(self.nodes)}.{self._temporaries}"
            shapes = [self.tensors[name].shape for name in inputs if name]
            size = tuple(np.broadcast_shapes(*shapes)) if shape is None else tuple(int(each) for each in shape)
            self._add_tensor(outputs[0], size, kind or self._kinds[inputs[0]])
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        self.nodes.append(Node(self._place, op, tuple(inputs), tuple(outputs), attributes, domain, OPSET))
        return outputs[0]


def _real(value: Any) -> bool:
    return bool(value.dtype.is_floating_point)


def _number(value: Any) -> Any:
    """A number that the export has fixed; other values as they are."""
    return int(value) if type(value).__name__ == "SymInt" else value


def _place_of(node: Any) -> str:
    """The module that a node comes from, and its name in the program."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    return f"{path}/{node.name}" if path else str(node.name)
