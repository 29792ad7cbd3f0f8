"""Machines as `kbsim config` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.text import rational, table
from kernbench.config import NpuConfig, SystemConfig

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.config import MachineConfig

ORIGIN_STYLES = {"default": "dim", "override": "yellow"}


def value_table(machine: MachineConfig, values: Sequence[tuple[str, Any, str]], effective: bool) -> Table:
    """Values with their paths and origins."""
    note = "" if effective else "values left to their defaults: --effective"
    made = table(machine.source, [("path", "left"), ("value", "left"), ("from", "left")], note)
    for column in made.columns:
        column.no_wrap, column.overflow = False, "fold"
    for path, value, origin in values:
        text = value if isinstance(value, str) else json.dumps(value)
        made.add_row(path, text, Text(origin, ORIGIN_STYLES.get(origin, "")))
    return made


def machine_facts(machine: MachineConfig) -> dict[str, str]:
    """The numbers that tell machines of a kind apart; empty where there is no such part."""
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


def facts_line(machine: MachineConfig) -> str:
    """The same in a line."""
    return ", ".join(f"{name} {fact}" for name, fact in machine_facts(machine).items() if fact)


def preset_table(title: str, presets: Mapping[str, MachineConfig]) -> Table:
    """The presets of a kind, one a row."""
    facts = {name: machine_facts(machine) for name, machine in presets.items()}
    heads = next(iter(facts.values()), {})
    made = table(title, [("name", "left"), *((head, "left") for head in heads)])
    for name, row in facts.items():
        made.add_row(name, *row.values())
    return made
