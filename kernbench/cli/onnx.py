"""`kbsim onnx`: a graph of an ONNX file on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli.graph import ActivationBits, Emit, LiveMap, Options, Partial, Trace, Verify, WeightBits, time_graph
from kernbench.cli.options import Config, Json, Overrides, Quiet, Walk, max_cycles_of
from kernbench.cli.target import load_machine
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.config import MachineConfig
    from kernbench.workloads.graphs.verify import Verification

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.", show_default=False)]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=N", help="The size of a dynamic dimension. May be repeated.", show_default=False),
]
GivenBounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bound", metavar="NODE=N", help="Number of iterations of a Loop node, or branch of an If node (then or else). May "
            "be repeated.",
        show_default=False,
    ),
]  # fmt: skip
_LARGEST = 1 << 32  # largest dimension


def onnx(
    model: ModelFile,
    config: Config = "npu_server",
    overrides: Overrides = None,
    dim: Dims = None,
    bound: GivenBounds = None,
    w: WeightBits = 8,
    a: ActivationBits = 8,
    partial: Partial = False,
    emit: Emit = None,
    trace: Trace = None,
    live_map: LiveMap = None,
    verify: Verify = False,
    walk: Walk = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Lower an ONNX model to a command queue, run the command queue, and report how long each node takes."""
    from kernbench.workloads.graphs.onnx.file import read_onnx

    options = Options(w, a, partial, emit, trace, live_map, verify, as_json, quiet)
    options.check("kbsim onnx")
    machine = load_machine(config, overrides, quiet=quiet)
    sizes, bounds = _sizes(dim or []), _bounds(bound or [])
    limit = max_cycles_of(overrides or (), machine)
    return time_graph(
        lambda: read_onnx(model, sizes, w, a, bounds),
        machine,
        limit,
        options,
        lambda: _verify(model, sizes, bounds, machine, options),
    )


def _verify(
    model: Path, sizes: dict[str, int], bounds: dict[str, int | str], machine: MachineConfig, options: Options
) -> Verification:
    from kernbench.workloads.graphs.onnx.reference import verify_file

    return verify_file(model, sizes, machine, w=options.w, a=options.a, bounds=bounds)


def _sizes(given: list[str]) -> dict[str, int]:
    """The sizes of dimensions by name."""
    found = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if not name or not (value.isascii() and value.isdigit() and len(value) < 11 and 1 <= int(value) <= _LARGEST):
            rule = f"it must be NAME=N, N a whole number from 1 to {_LARGEST}"
            raise InputError(Problem("kbsim onnx", rule, "--dim", text))
        found[name] = int(value)
    return found


def _bounds(given: list[str]) -> dict[str, int | str]:
    """Iterations and branches by the name of a node."""
    from kernbench.workloads.graphs.onnx.condition import LARGEST_BOUND

    found: dict[str, int | str] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        whole = value.isascii() and value.isdigit() and len(value) < 11 and int(value) <= LARGEST_BOUND
        if not name or not (whole or value in ("then", "else")):
            rule = f"it must be NODE=N, N a whole number from 0 to {LARGEST_BOUND}, or NODE=then or NODE=else"
            raise InputError(Problem("kbsim onnx", rule, "--bound", text))
        found[name] = int(value) if whole else value
    return found
