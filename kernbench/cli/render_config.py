"""Machines as `kbsim config` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.text import rational, scaled, table

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.config import NpuConfig

FACTS = ("clock", "DRAM", "TE", "VE", "scratchpad", "mesh")
ORIGIN_STYLES = {"default": "dim", "override": "yellow"}


def value_table(npu: NpuConfig, values: Sequence[tuple[str, Any, str]], effective: bool) -> Table:
    """Values with their paths and origins."""
    note = "" if effective else "values left to their defaults: --effective"
    made = table(npu.source, [("path", "left"), ("value", "left"), ("from", "left")], note)
    made.columns[1].no_wrap = False
    made.columns[1].overflow = "fold"
    for path, value, origin in values:
        text = value if isinstance(value, str) else json.dumps(value)
        made.add_row(path, text, Text(origin, ORIGIN_STYLES.get(origin, "")))
    return made


def machine_facts(npu: NpuConfig) -> list[str]:
    """The numbers that tell machines apart, in the order of FACTS; empty where there is no such part."""
    peak = float(npu.dram.channels * npu.dram.capacity * npu.freq_ghz)
    size = npu.spm.size_bytes
    return [
        f"{float(npu.freq_ghz):g} GHz",
        f"{npu.dram.channels} x {rational(npu.dram.capacity)} B/cycle = {scaled(peak, ('GB/s', 'TB/s'))}",
        f"{npu.te.engines} x {rational(npu.te.macs_per_cycle)} MAC",
        f"{npu.ve.engines} x {npu.ve.lanes} lanes",
        f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 2**10:g} KiB",
        "" if npu.noc is None else f"{npu.noc.rows} x {npu.noc.cols} mesh",
    ]


def preset_table(presets: Mapping[str, NpuConfig]) -> Table:
    """The presets, one a row."""
    made = table("Presets", [("name", "left"), *((fact, "left") for fact in FACTS)])
    for name, npu in presets.items():
        made.add_row(name, *machine_facts(npu))
    return made
