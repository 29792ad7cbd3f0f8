"""`kbsim config`: what a machine's values are and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.options import Json, Overrides

if TYPE_CHECKING:
    from kernbench.config import NpuConfig

app = typer.Typer(help="Look at machines: their values, and where each comes from.", no_args_is_help=True)

Machine = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A preset's name, or a .yaml or .json file.", show_default=False)
]


@app.command()
def show(
    machine: Machine,
    effective: Annotated[
        bool, typer.Option("--effective", help="Every value, those left to their defaults too.")
    ] = False,
    overrides: Overrides = None,
    as_json: Json = False,
) -> int:
    """Show a machine's values and where each comes from: a line of a file, --set, or the default."""
    from kernbench.cli.render_config import value_table
    from kernbench.config import load_config

    npu = load_config(machine, overrides or [])
    values = [item for item in npu.effective() if effective or item[2] != "default"]
    if as_json:
        listed = [{"path": path, "value": value, "origin": origin} for path, value, origin in values]
        output.show_json({**_name(npu), "values": listed})
    else:
        output.show([value_table(npu, values, effective)])
    return output.OK


@app.command()
def check(machine: Machine, overrides: Overrides = None, as_json: Json = False) -> int:
    """Say whether a machine is valid."""
    from kernbench.cli.render_config import facts_line
    from kernbench.config import load_config

    npu = load_config(machine, overrides or [])
    if as_json:
        output.show_json({"status": "valid", **_name(npu)})
    else:
        output.write(f"{npu.source}: valid; {facts_line(npu)}\n")
    return output.OK


@app.command("list")
def list_presets(as_json: Json = False) -> int:
    """List the machines of the package."""
    from kernbench.cli.render_config import preset_table
    from kernbench.config import load_config, preset_names

    presets = {name: load_config(name) for name in preset_names()}
    if as_json:
        output.show_json({"presets": list(presets)})
    else:
        output.show([preset_table(presets)])
    return output.OK


def _name(npu: NpuConfig) -> dict[str, Any]:
    return {"machine": npu.source, "schema": npu.schema_name, "digest": npu.digest()}
