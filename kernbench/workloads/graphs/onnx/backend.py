"""ONNX's backend interface, so that its own tests run on the simulator: `prepare` plans a model, `run` computes and times it.

Values come from `onnx.reference`; the time of the last run is in `Representation.timed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep
from onnx.reference import ReferenceEvaluator

from kernbench.common.errors import InputError
from kernbench.config.load import load_config
from kernbench.workloads.graphs.graph import Array
from kernbench.workloads.graphs.onnx.file import read_onnx
from kernbench.workloads.graphs.run import GraphProgram, GraphRun

if TYPE_CHECKING:
    import onnx

MACHINE = "npu_server"
_SMALL = 64  # [element] of an integer input that is a constant of a case


def with_constants(model: onnx.ModelProto, inputs: Sequence[Any]) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A copy of a model in which small integer inputs and the scales of a Resize are initializers; the sizes of inputs."""
    made = type(model)()
    made.CopyFrom(model)
    stored = {item.name for item in made.graph.initializer}
    given = [item for item in made.graph.input if item.name not in stored]
    dims: dict[str, int] = {}
    resizes = {name for node in made.graph.node if node.op_type in ("Resize", "Upsample") for name in node.input[1:]}
    for item, value in zip(given, inputs, strict=False):
        if not isinstance(value, np.ndarray | np.generic):
            continue
        values = np.asarray(value)
        whole = values.dtype in (np.int64, np.int32) and values.size <= _SMALL
        if whole or (item.name in resizes and 0 < values.size <= _SMALL):
            made.graph.initializer.append(numpy_helper.from_array(values, item.name))
            continue
        for number, dim in enumerate(item.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and number < values.ndim:
                dims[dim.dim_param or f"{item.name}.{number}"] = values.shape[number]
    return made, dims


class Representation(BackendRep):
    """A model that can be run. `timed`: the last run on the machine."""

    def __init__(self, model: onnx.ModelProto, machine: str = MACHINE) -> None:
        self.model, self.machine = model, machine
        self.timed: GraphRun | None = None

    def plan(self, inputs: Sequence[Any]) -> GraphProgram:
        """The program for inputs of these shapes. InputError where it cannot be lowered."""
        model, dims = with_constants(self.model, inputs)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            return GraphProgram(read_onnx(path, dims, 8, 8), load_config(self.machine), 8)

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_: Any) -> tuple[Array, ...]:
        """The outputs of the reference; the program of these inputs has run."""
        stored = {item.name for item in self.model.graph.initializer}
        names = [item.name for item in self.model.graph.input if item.name not in stored]
        feeds = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=False))
        self.timed = self.plan([feeds.get(name) for name in names]).run()
        return tuple(ReferenceEvaluator(self.model).run(None, feeds))


class KernbenchBackend(Backend):
    """For `onnx.backend.test.BackendTest(KernbenchBackend, __name__)`."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Representation:
        """A model on the machine of the option `machine`."""
        super().prepare(model, device)
        return Representation(model, options.get("machine", MACHINE))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The machine is one of its own; tests ask for the CPU."""
        return device == "CPU"


def outcome_of(model: onnx.ModelProto, inputs: Sequence[Any]) -> str:
    """The outcome of a case: `runs`, `no work`, or the reason of the refusal."""
    try:
        made = Representation(model).plan(inputs)
    except InputError as error:
        return str(error).partition("\n")[0]
    run = made.run()
    return "runs" if run.cycles else "no work"
