"""`kbsim ccl torchrun`: a script of torch.distributed on a simulated machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.ccl.group import MachineOption, chosen_group
from kernbench.cli.options import Overrides

Script = Annotated[
    Path, typer.Argument(metavar="SCRIPT", help="The script. Each rank runs the whole script.", show_default=False)
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="ARGUMENTS", help="The arguments of the script.", show_default=False)
]
PerNode = Annotated[
    int, typer.Option("--nproc-per-node", "--nproc_per_node", min=1, metavar="N", help="Number of ranks on each node.")
]
Nodes = Annotated[int, typer.Option("--nnodes", min=1, metavar="N", help="Number of nodes.")]


def torchrun(
    script: Script,
    arguments: Arguments = None,
    nproc_per_node: PerNode = 1,
    nnodes: Nodes = 1,
    config: MachineOption = None,
    overrides: Overrides = None,
) -> int:
    """Run a script that `torchrun` starts: its ranks use collectives of a simulated machine.

    In the script, change the imports of `torch.distributed` to `from kernbench.ccl import dist`. Each rank has its numbers in
    the environment variables RANK, LOCAL_RANK and WORLD_SIZE, as under `torchrun`.
    """
    from kernbench.ccl.dist import run_script
    from kernbench.sim_engine.engine import KernelFailed

    ranks = nproc_per_node * nnodes
    machine, _ = chosen_group("kbsim ccl torchrun", [], config, overrides or [], (), ranks, None, None)
    try:
        engine = run_script(script, arguments or (), nproc_per_node=nproc_per_node, nnodes=nnodes, machine=machine)
    except KernelFailed as error:
        output.note(error.traceback.rstrip("\n"))
        raise
    sys.stdout.flush()
    cycles = engine.machine.cycle
    time = cycles / (float(machine.freq_ghz) * 1e3)
    output.show([widgets.Text(f"# {ranks} ranks on {machine.source}: {cycles:,} cycles ({time:,.2f} us)")])
    return output.OK
