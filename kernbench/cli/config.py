"""`kbsim config`: what a machine's values are and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.options import Json, Overrides

if TYPE_CHECKING:
    from kernbench.config import MachineConfig

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

    found: MachineConfig = load_config(machine, overrides or [])
    values = [item for item in found.effective() if effective or item[2] != "default"]
    if as_json:
        listed = [{"path": path, "value": value, "origin": origin} for path, value, origin in values]
        output.show_json({**_name(found), "values": listed})
    else:
        output.show([value_table(found, values, effective)])
    return output.OK


@app.command()
def check(machine: Machine, overrides: Overrides = None, as_json: Json = False) -> int:
    """Say whether a machine is valid, and which values that were set have no effect on it."""
    from kernbench.cli.render_config import facts_line
    from kernbench.config import load_config
    from kernbench.config.effects import told_unused

    found: MachineConfig = load_config(machine, overrides or [])
    unused = told_unused(found)
    if as_json:
        output.show_json({"status": "valid", **_name(found), "warnings": [one.to_dict() for one in unused]})
    else:
        output.write(f"{found.source}: valid; {facts_line(found)}\n")
        for one in unused:
            output.note(f"warning: {one}")
    return output.OK


@app.command("list")
def list_presets(as_json: Json = False) -> int:
    """List the machines of the package."""
    from kernbench.cli.render_config import preset_table
    from kernbench.config import NpuConfig, SystemConfig, load_config, preset_names

    if as_json:
        output.show_json({"presets": preset_names()})
    else:
        kinds: dict[str, type[MachineConfig]] = {"Presets of one NPU": NpuConfig, "Presets of systems": SystemConfig}
        tables = {title: {name: load_config(name, kind=kind) for name in preset_names(kind)} for title, kind in kinds.items()}
        output.show([preset_table(title, presets) for title, presets in tables.items()])
    return output.OK


def _name(machine: MachineConfig) -> dict[str, Any]:
    plain = machine.to_dict()
    return {"machine": machine.source, "schema": plain["schema"], "digest": machine.digest()}
