"""`kbsim bench`: which benches there are, and what one takes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json

app = typer.Typer(help="Benches: kernels with inputs, parameters and a reference.", no_args_is_help=True)


@app.command(name="list")
def list_(as_json: Json = False) -> int:
    """Print the benches of the package."""
    from kernbench.cli.render_bench import bench_table
    from kernbench.runtime_api.discovery import installed_benches

    found = list(installed_benches().values())
    if as_json:
        output.show_json({"benches": [{"name": one.name, "description": one.description} for one in found]})
    else:
        output.show([bench_table(found, output.console(sys.stdout).width)])
    return output.OK


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="BENCH", help="A bench's name, or a .py file.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Print a bench's description, its parameters and where it stands."""
    from kernbench.cli.render_bench import bench_details
    from kernbench.runtime_api.described import described
    from kernbench.runtime_api.discovery import load_bench

    found = load_bench(name)
    if as_json:
        output.show_json(described(found))
    else:
        output.show(bench_details(found, output.console(sys.stdout).width))
    return output.OK
