"""`kbsim whatif`: what a program would take if a resource never limited it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.machines import load_machine
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, Config, Json, Overrides, Target

ALL = "noc,banks,dram,te,ve,dma"


def whatif(
    target: Target,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    free: Annotated[str, typer.Option("--free", metavar="NAMES", help="What to free, one at a time and then together.")] = ALL,
    as_json: Json = False,
) -> int:
    """Run a program again with one resource unlimited at a time, and say how many cycles that saves."""
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.target import load_target
    from kernbench.sim_engine.whatif import what_if

    machine = load_machine(config, overrides, allow_code=allow_code or ())
    program = load_target(target, machine)
    names = [name.strip() for name in free.split(",")]
    with progress_bar(not as_json) as progress:
        found = what_if(program, machine, names, progress)
    if as_json:
        from kernbench.cli.render_whatif import what_if_dict

        output.show_json(what_if_dict(found))
    else:
        from kernbench.cli.render_whatif import what_if_table

        output.show(what_if_table(found, machine, output.console(sys.stdout).width))
    return output.ENDINGS[found.result.status]
