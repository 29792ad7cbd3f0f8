"""Machines as `kbsim config` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.text import rational, table

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.config import NpuConfig

ORIGIN_STYLES = {"default": "dim", "override": "yellow"}


def value_table(npu: NpuConfig, values: Sequence[tuple[str, Any, str]], effective: bool) -> Table:
    """Values with their paths and origins."""
    note = "" if effective else "values left to their defaults: --effective"
    made = table(npu.source, [("path", "left"), ("value", "left"), ("from", "left")], note)
    for column in made.columns:
        column.no_wrap, column.overflow = False, "fold"
    for path, value, origin in values:
        text = value if isinstance(value, str) else json.dumps(value)
        made.add_row(path, text, Text(origin, ORIGIN_STYLES.get(origin, "")))
    return made


def machine_facts(npu: NpuConfig) -> dict[str, str]:
    """The numbers that tell machines apart; empty where there is no such part."""
    size = npu.spm.size_bytes
    return {
        "clock": f"{float(npu.freq_ghz):g} GHz",
        "DRAM": f"{npu.dram.channels} x {rational(npu.dram.capacity * npu.freq_ghz)} GB/s",
        "TE": f"{npu.te.engines} x {rational(npu.te.macs_per_cycle)} MAC",
        "VE": f"{npu.ve.engines} x {npu.ve.lanes} lanes",
        "SPM": f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 2**10:g} KiB",
        "mesh": "" if npu.noc is None else f"{npu.noc.rows} x {npu.noc.cols}",
    }


def facts_line(npu: NpuConfig) -> str:
    """The same in a line."""
    return ", ".join(f"{name} {fact}" for name, fact in machine_facts(npu).items() if fact)


def preset_table(presets: Mapping[str, NpuConfig]) -> Table:
    """The presets, one a row."""
    facts = {name: machine_facts(npu) for name, npu in presets.items()}
    heads = next(iter(facts.values()), {})
    made = table("Presets", [("name", "left"), *((head, "left") for head in heads)])
    for name, row in facts.items():
        made.add_row(name, *row.values())
    return made
