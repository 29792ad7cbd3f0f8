"""`kbsim config`: the values of a machine and their origins."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.config_energy import energy
from kernbench.cli.config_init import init
from kernbench.cli.config_keys import keys
from kernbench.cli.options import Json, Overrides, Quiet
from kernbench.cli.text import WAIT, rational, table

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.config import MachineConfig, SystemConfig


app = Section("Write, check and show machines: the keys, the values, and where each value comes from.")
app.command()(init)
app.command()(keys)
app.command()(energy)

Machine = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE", help="A name that kbsim config list prints, or a .yaml or .json file.", show_default=False
    ),
]


@app.command()
def show(
    machine: Machine,
    effective: Annotated[bool, typer.Option("--effective", help="Show every value, including defaults.")] = False,
    overrides: Overrides = None,
    as_json: Json = False,
) -> int:
    """Show the values of a machine, and where each value comes from: a line of a file, --set, or the default."""
    from kernbench.config import load_config

    found: MachineConfig = load_config(machine, overrides or [])
    values = [item for item in found.effective() if effective or item[2] != "default"]
    if as_json:
        listed = [{"path": path, "value": value, "origin": origin} for path, value, origin in values]
        output.show_json({**_name(found), "values": listed})
    else:
        output.show([value_table(found, values, effective, output.console(sys.stdout).width)])
    return output.OK


@app.command()
def check(machine: Machine, overrides: Overrides = None, as_json: Json = False, quiet: Quiet = False) -> int:
    """Check whether a machine is valid, and list the values that have no effect."""
    from kernbench.config import load_config
    from kernbench.config.effects import unused_settings

    found: MachineConfig = load_config(machine, overrides or [])
    unused = unused_settings(found)
    if as_json:
        output.show_json({"status": "valid", **_name(found), "warnings": [one.to_dict() for one in unused]})
    elif not quiet:
        output.show(fact_lines(found, output.console(sys.stdout).width))
        for one in unused:
            output.note(f"warning: {one}")
    return output.OK


@app.command("list")
def list_machines(as_json: Json = False) -> int:
    """List the machines that come with kernbench: presets, real chips, and boards of several chips."""
    from kernbench.config import NpuConfig, SystemConfig, board_names, chip_names, load_config, preset_names

    if as_json:
        output.show_json({"presets": preset_names(), "chips": chip_names(), "boards": board_names()})
        return output.OK
    tables = {
        "Presets of one NPU": preset_names(NpuConfig),
        "Presets of systems": preset_names(SystemConfig),
        "Real chips": chip_names(),
        "Boards of real chips": board_names(),
    }
    output.show([machine_table(title, {name: load_config(name) for name in names}) for title, names in tables.items()])
    return output.OK


def _name(machine: MachineConfig) -> dict[str, Any]:
    plain = machine.to_dict()
    return {"machine": machine.source, "schema": plain["schema"], "digest": machine.digest()}


ORIGIN_STYLES = {"default": "dim", "override": WAIT}
VALUE = 19  # characters of a value that stay on one line, as `kernbench/system/1`


def value_table(machine: MachineConfig, values: Sequence[tuple[str, Any, str]], effective: bool, width: int) -> Table:
    """Values with their paths and origins."""
    note = "" if effective else "values left to their defaults: --effective"
    made = table(machine.source, [("path", "left"), ("value", "left"), ("from", "left")], note)
    made.columns[1].no_wrap, made.columns[1].overflow = False, "fold"  # keys and origins stay whole
    longest = sum(max(map(len, texts), default=0) for texts in ([path for path, *_ in values], [value[2] for value in values]))
    narrow = longest + VALUE + 4 > width
    for path, value, origin in values:
        text = value if isinstance(value, str) else json.dumps(value)
        shown = origin.removeprefix(machine.source) if narrow else origin  # the title names the file
        made.add_row(path, text, widgets.Text(shown, ORIGIN_STYLES.get(origin, "")))
    return made


def machine_facts(machine: MachineConfig) -> dict[str, str]:
    """The numbers that distinguish machines of one kind; empty if the machine has no such component."""
    from kernbench.config import NpuConfig, SystemConfig

    if isinstance(machine, SystemConfig):
        return _system_facts(machine)
    assert isinstance(machine, NpuConfig)
    size = machine.spm.size_bytes
    return {
        "clock": f"{float(machine.freq_ghz):g} GHz",
        "DRAM": f"{machine.dram.channels} x {rational(machine.dram.capacity * machine.freq_ghz)} GB/s",
        "TE": f"{machine.te.engines} x {rational(machine.te.rate(8, 8))} MAC",
        "VE": f"{machine.ve.engines} x {machine.ve.lanes} lanes",
        "SPM": f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 2**10:g} KiB",
        "mesh": "" if machine.noc is None else f"{machine.noc.rows} x {machine.noc.cols}",
    }


def _system_facts(system: SystemConfig) -> dict[str, str]:
    hbm, package, te = system.cube.hbm, system.system, system.pe.te
    cubes, bandwidth = package.sips * system.cubes, hbm.channels * hbm.capacity * system.freq_ghz
    return {
        "clock": f"{float(system.freq_ghz):g} GHz",
        "SIPs": f"{package.sips} ({package.kind})" if package.sips > 1 else "1",
        "cubes": f"{cubes}",
        "PEs": f"{system.pes:,}",
        "HBM": f"{cubes} x {rational(bandwidth)} GB/s",
        "TE": f"{system.pes * te.engines:,} x {rational(te.rate(8, 8))} MAC",
    }


def fact_lines(machine: MachineConfig, width: int) -> list[str]:
    """The machine and its facts, in lines of at most `width` columns, unless a single fact is longer. No fact is broken."""
    lines = [f"{machine.source}: valid;"]
    facts = [f"{name} {fact}" for name, fact in machine_facts(machine).items() if fact]
    for i, fact in enumerate(facts):
        fact += "," * (i < len(facts) - 1)
        if len(lines[-1]) + 1 + len(fact) > width:
            lines.append(fact)
        else:
            lines[-1] += f" {fact}"
    return lines


ONE = "1 x "  # before the rate of one engine or channel


def machine_table(title: str, machines: Mapping[str, MachineConfig]) -> Table:
    """The machines of a kind, one a row. Columns with equal values are left out."""
    facts = {name: machine_facts(machine) for name, machine in machines.items()}
    columns = {head: [row[head] for row in facts.values()] for head in next(iter(facts.values()), {})}
    if columns.get("cubes") == columns.get("PEs"):
        columns.pop("cubes", None)
    columns = {head: cells for head, cells in columns.items() if any(cells)}
    for head, cells in columns.items():
        if all(cell.startswith(ONE) for cell in cells):
            columns[head] = [cell.removeprefix(ONE) for cell in cells]
    made = table(title, [("name", "left"), *((head, "left") for head in columns)])
    for name, row in zip(facts, zip(*columns.values(), strict=True), strict=True):
        made.add_row(name, *row)
    return made
