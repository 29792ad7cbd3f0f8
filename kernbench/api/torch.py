"""PyTorch models on simulated machines: `export` and `time`, and a backend of `torch.compile` that also times each part of a
model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernbench.api.targets import DEFAULT_MACHINE, Config, Overrides, machine_of
from kernbench.common.errors import InputError, Problem
from kernbench.workloads.graphs.graph import Graph
from kernbench.workloads.graphs.run import GraphProgram, GraphRun
from kernbench.workloads.graphs.torch.program import import_torch, read_module

if TYPE_CHECKING:
    import torch

_OPTIONS = {"machine": DEFAULT_MACHINE, "set": (), "w": 8, "a": 8}
_timed: list[Timed] = []


@dataclass(slots=True)
class Timed:
    """A part of a model that `torch.compile` gave to the backend: the shapes of its inputs, and its run."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    run: GraphRun
    calls: int = 0

    @property
    def cycles(self) -> int:
        """The number of cycles of one call."""
        return self.run.cycles


def export(
    model: torch.nn.Module, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, w: int = 8, a: int = 8
) -> Graph:
    """Export the graph of a model for inputs with the shapes of `args` and `kwargs`, by `torch.export`.

    `w`, `a`: the bits of weights and of all other tensors, as in `kbsim torch`. InputError if the model cannot be exported.
    """
    return read_module(model, args, kwargs, weight_bits=w, activation_bits=a)


def time(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    machine: Config = DEFAULT_MACHINE,
    set: Overrides = (),
    w: int = 8,
    a: int = 8,
) -> GraphRun:
    """Export a model, and run its graph on a machine. InputError lists operators that cannot be lowered."""
    return GraphProgram(export(model, args, kwargs, w=w, a=a), machine_of(machine, set), a).run()


def timings() -> list[Timed]:
    """Everything that the backend has timed in this process, in order. Clear the list to start again."""
    return _timed


def _register() -> None:
    """Register the backend for `torch.compile`, also if the package's entry point is not installed."""
    try:
        import_torch("kernbench.torch")
    except InputError as missing:  # Python and its tools expect an ImportError here
        raise ImportError(str(missing)) from None
    from torch._dynamo.backends import registry

    if "kernbench" not in registry.list_backends(exclude_tags=()):
        registry.register_backend(backend, name="kernbench")


def backend(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """The backend `kernbench` of `torch.compile`: PyTorch computes the results, and each new set of input shapes is timed once.

    `options`: `machine`, `set`, `w` and `a`, as in `time`. `timings` lists the results.
    """
    chosen = {**_OPTIONS, **(options or {})}
    if unknown := chosen.keys() - _OPTIONS.keys():
        name = min(unknown)
        raise InputError(Problem("torch.compile", f"its options are {', '.join(_OPTIONS)}", f"options[{name!r}]", chosen[name]))
    config = machine_of(chosen["machine"], chosen["set"])
    found: dict[tuple[Any, ...], Timed] = {}

    def compiled(*args: Any) -> Any:
        key = tuple(tuple(arg.shape) if hasattr(arg, "shape") else arg for arg in args)
        if key not in found:
            found[key] = _time_part(module, args, config, chosen["w"], chosen["a"])
            _timed.append(found[key])
        found[key].calls += 1
        return module(*args)

    return compiled


def _time_part(module: torch.fx.GraphModule, args: Sequence[Any], config: Any, w: int, a: int) -> Timed:
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    held, given = _holder(module, inputs, args), [arg for name, arg in zip(inputs, args, strict=True) if not _kept(name, arg)]
    name = f"part {len(_timed)}"
    graph = read_module(held, given, name=name, weight_bits=w, activation_bits=a)
    shapes = tuple(tuple(arg.shape) for arg in given if hasattr(arg, "shape"))
    return Timed(name, shapes, GraphProgram(graph, config, a).run())


def _kept(name: str, value: Any) -> bool:
    """Whether an input is a parameter or a buffer of the model, or a number; such an input is not an argument of the exported
    module."""
    torch = import_torch()
    return isinstance(value, torch.nn.Parameter) or "_buffers_" in name or not isinstance(value, torch.Tensor)


def _holder(module: torch.fx.GraphModule, inputs: Sequence[str], args: Sequence[Any]) -> torch.nn.Module:
    """A module that calls the part and owns the parameters of the model, which the part itself takes as inputs."""
    torch = import_torch()

    class Holder(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.part = [module]  # in a list, so that the parameters of the part are not parameters of this module
            self.fixed: dict[int, Any] = {}
            for number, (name, value) in enumerate(zip(inputs, args, strict=True)):
                if _kept(name, value):
                    if isinstance(value, torch.nn.Parameter):
                        self.register_parameter(f"w{number}", value)
                    elif isinstance(value, torch.Tensor):
                        self.register_buffer(f"w{number}", value)
                    else:
                        self.fixed[number] = value

        def forward(self, *given: Any) -> Any:
            left, values = iter(given), []
            for number, (name, value) in enumerate(zip(inputs, args, strict=True)):
                if not _kept(name, value):
                    values.append(next(left))
                else:
                    values.append(self.fixed[number] if number in self.fixed else getattr(self, f"w{number}"))
            return self.part[0](*values)

    return Holder()


_register()
