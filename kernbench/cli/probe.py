"""`kbsim probe`: what a system's links give, pattern by pattern."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.machines import load_machine
from kernbench.cli.options import AllowCode, Json, Overrides, Quiet

DEFAULT_SYSTEM = "single_cube"


def probe(
    config: Annotated[str, typer.Argument(metavar="[SYSTEM]", help="A preset's name or a file.")] = DEFAULT_SYSTEM,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="Bytes of each transfer, as 4KiB,1MiB or 4K,1M.")
    ] = "4KiB,16KiB,64KiB,256KiB,1MiB",
    only: Annotated[str, typer.Option("--only", metavar="LIST", help="Patterns to run, with commas.", show_default="all")] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure host copies, loads near and far, sends, and all PEs at once."""
    from kernbench.config import SystemConfig
    from kernbench.sim_engine.probe import probe as run_probe
    from kernbench.sim_engine.probe import probe_names, probe_sizes

    system = load_machine(config, overrides, quiet=quiet, kind=SystemConfig, allow_code=allow_code or ())
    rows = list(run_probe(system, probe_sizes(sizes), probe_names(system, only)))
    if as_json:
        import json

        output.write(json.dumps({"machine": system.source, "rows": [row.to_dict() for row in rows]}) + "\n")
    elif not quiet:
        from kernbench.cli.render_probe import probe_table

        output.show(probe_table(rows, system.source, output.console(sys.stdout).width))
    return 0
