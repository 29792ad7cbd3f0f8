"""`kbsim torch`: a PyTorch model on a machine."""

from __future__ import annotations

from typing import Annotated

import typer

from kernbench.cli.graph import ActivationBits, Emit, LiveMap, Options, Partial, Trace, Verify, WeightBits, time_graph
from kernbench.cli.options import Config, Json, Overrides, Quiet, Walk, max_cycles_of
from kernbench.cli.target import load_machine

Factory = Annotated[
    str,
    typer.Argument(
        metavar="FILE:FACTORY",
        help="A Python file and a function in it that returns a model and its example inputs.",
        show_default=False,
    ),
]


def torch(
    factory: Factory,
    config: Config = "npu_server",
    overrides: Overrides = None,
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
    """Lower a PyTorch model to a command queue, run the command queue, and report how long each node takes."""
    from kernbench.workloads.graphs.torch.check import verify_module
    from kernbench.workloads.graphs.torch.factory import load_factory
    from kernbench.workloads.graphs.torch.program import read_module

    options = Options(w, a, partial, emit, trace, live_map, verify, as_json, quiet)
    options.check("kbsim torch")
    machine = load_machine(config, overrides, quiet=quiet)
    made = load_factory(factory)
    return time_graph(
        lambda: read_module(made.model, made.args, made.kwargs, name=made.name, weight_bits=w, activation_bits=a),
        machine,
        max_cycles_of(overrides or (), machine),
        options,
        lambda: verify_module(made.model, made.args, made.kwargs, machine, made.name, w=w, a=a),
    )
