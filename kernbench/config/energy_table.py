"""Tables of the energy of components (`configs/energy`), and the `energy` section that follows from a table for a machine.

A table has figures by kind of component: MACs by type, vector functions, SRAM by size and width, DRAM by kind of device, links,
static power and area. Each figure names its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.package_files import package_folder
from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational, plain_number
from kernbench.config.document import MACHINE_BYTES, Document, read_document
from kernbench.config.rules import Path
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig

SCHEMA = "kernbench/energy-table/1"
FOLDER = "energy"  #: a folder of `configs`
_KEYS = {
    "schema", "about", "technology_nm", "sources", "mac", "vector", "sram", "dram", "link", "static_mw_per_mm2", "area",
}  # fmt: skip
_GROUPS = ("mac", "vector", "dram", "link", "area")  #: keys of mappings from names to figures
_FIGURES = ("pj", "pj_per_byte", "value")
_NEEDED = ("schema", "sources", "mac", "sram", "dram")
_TYPES = {4: "int4", 8: "int8", 16: "fp16", 32: "fp32"}  #: types of a MAC, by the bits of its weights
SPM_PLACES = 6  #: decimals of a price that contains a square root
_DIES = ("lpddr", "gddr", "hbm", "ddr")  #: kinds of DRAM: the first words of device names


@dataclass(frozen=True, slots=True)
class Price:
    """A figure of a table for a machine, and its source."""

    key: str  #: of the `energy` section
    value: Fraction
    why: str  #: the derivation from the table, with the source


def table_names() -> list[str]:
    """Names that `--table` accepts in addition to files."""
    return sorted(path.stem for path in (package_folder("kernbench.configs") / FOLDER).glob("*.yaml"))


class EnergyTable:
    """A table, checked."""

    def __init__(self, document: Document, name: str) -> None:
        self.document, self.name, self.data = document, name, document.data
        problems = [document.problem((key,), f"keys are {', '.join(sorted(_KEYS))}") for key in self.data if key not in _KEYS]
        problems += [document.problem((), f"there is no {key}") for key in _NEEDED if key not in self.data]
        if self.data.get("schema", SCHEMA) != SCHEMA:
            problems.append(document.problem(("schema",), f"it must be {SCHEMA}", self.data["schema"]))
        problems = problems or list(self._wrong())
        if problems:
            raise InputError(problems)

    def _wrong(self) -> Iterator[Problem]:
        """Everything that does not have the form of a table. Each figure must name a source of the table."""
        sources = self.data["sources"]
        if not isinstance(sources, Mapping) or not all(isinstance(about, Mapping) for about in sources.values()):
            yield self.document.problem(("sources",), "it must be {NAME: {title: ..., checked: true or false}, ...}", sources)
            return
        for key in _GROUPS:
            group = self.data.get(key, {})
            if not isinstance(group, Mapping):
                yield self.document.problem((key,), "it must be {NAME: {pj: ..., source: ...}, ...}", group)
                continue
            for name, figure in group.items():
                yield from self._wrong_figure((key, name), figure)
        if "static_mw_per_mm2" in self.data:
            yield from self._wrong_figure(("static_mw_per_mm2",), self.data["static_mw_per_mm2"])
        rows = self.data["sram"]
        if not isinstance(rows, list) or not rows:
            yield self.document.problem(("sram",), "it must be a list of {size_bytes, width_bits, pj, source}", rows)
            return
        for i, row in enumerate(rows):
            yield from self._wrong_figure(("sram", i), row)
            for key in ("size_bytes", "width_bits"):
                given = row.get(key) if isinstance(row, Mapping) else None
                if isinstance(row, Mapping) and (type(given) is not int or given < 1):
                    yield self.document.problem(("sram", i, key), "it must be an integer of at least 1", given)

    def _wrong_figure(self, path: Path, figure: Any) -> Iterator[Problem]:
        sources = self.data["sources"]
        if not isinstance(figure, Mapping) or sum(key in figure for key in _FIGURES) != 1:
            yield self.document.problem(path, f"it must have one of {', '.join(_FIGURES)}, and a source", figure)
        elif not isinstance(figure.get("source"), str) or figure["source"] not in sources:
            rule = f"a figure must name one of the table's sources: {', '.join(map(str, sources))}"
            yield self.document.problem((*path, "source"), rule, figure.get("source", ""))

    def figure(self, *path: Any) -> tuple[Fraction, str]:
        """A figure and its source. InputError if the table does not have the figure, or if the figure is not a number of at
        least 0."""
        value: Any = self.data
        for k, step in enumerate(path):
            if not isinstance(value, Mapping) or step not in value:
                have = ", ".join(map(str, value)) if isinstance(value, Mapping) else "none"
                rule = f"the table {self.name} has no {path[-1]} there; it has {have}"
                raise InputError(self.document.problem(path[:k], rule, remedy="add the figure with its source"))
            value = value[step]
        name = next(key for key in _FIGURES if key in value)
        return self._number((*path, name), value[name]), self._source(value)

    def _number(self, path: tuple[Any, ...], given: Any) -> Fraction:
        try:
            number = parse_rational(given)
        except ValueError as error:
            raise InputError(self.document.problem(path, str(error), given)) from None
        if number < 0:
            raise InputError(self.document.problem(path, "it must be at least 0", given))
        return number

    def _source(self, value: Mapping[str, Any]) -> str:
        about = self.data["sources"][value["source"]]
        checked = "" if about.get("checked") or value["source"] == "assumed" else ", not checked"
        return f"{value['source']}{checked}"

    def sram_per_byte(self, size_bytes: int) -> tuple[Fraction, str]:
        """[pJ/byte] The energy of an access to a SRAM of this size: between two sizes, interpolated by the square root of the
        size, which is proportional to the length of the lines; outside the table, the energy of the nearest size."""
        rows = sorted(
            (int(row["size_bytes"]), self._number(("sram", i, "pj"), row["pj"]) * 8 / int(row["width_bits"]), self._source(row))
            for i, row in enumerate(self.data["sram"])
        )
        below = [row for row in rows if row[0] <= size_bytes] or rows[:1]
        above = [row for row in rows if row[0] >= size_bytes] or rows[-1:]
        (low, at_low, source), (high, at_high, _) = below[-1], above[0]
        if low == high or at_low == at_high:
            return at_low, f"{source}: SRAM of {low:,} bytes"
        if size_bytes < low or size_bytes > high:  # outside the table: the nearest size
            return at_low, f"{source}: SRAM of {low:,} bytes"
        part = (math.sqrt(size_bytes) - math.sqrt(low)) / (math.sqrt(high) - math.sqrt(low))
        value = float(at_low) + part * float(at_high - at_low)
        return Fraction(f"{value:.{SPM_PLACES}f}"), f"{source}: between SRAMs of {low:,} and {high:,} bytes"


def read_table(name: str) -> EnergyTable:
    """A table by its name or its file. InputError if the table does not exist or is not valid."""
    if is_table_file(name):
        return EnergyTable(read_document(name, MACHINE_BYTES), name)
    if name not in table_names():
        rule = f"there is no such table; tables are {', '.join(table_names())}, or a .yaml file"
        raise InputError(Problem("kbsim config energy", rule, "--table", name, meant(name, table_names())))
    return EnergyTable(read_document(package_folder("kernbench.configs") / FOLDER / f"{name}.yaml", MACHINE_BYTES), name)


def is_table_file(name: str) -> bool:
    """Whether it is the file of a table instead of a name."""
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


def dram_kind(machine: NpuConfig | SystemConfig) -> str | None:
    """The kind of DRAM that a machine names by its device; None if it names none."""
    device = machine.memory.device or ""
    return next((kind for kind in _DIES if device.startswith(kind)), None)


def prices(table: EnergyTable, machine: NpuConfig | SystemConfig, dram: str | None = None) -> list[Price]:
    """The `energy` section that follows from a table for a machine. `dram`: the kind of DRAM; None means that of its device.

    InputError if the machine does not name its kind of DRAM, and if the table lacks a figure.
    """
    kind = dram or dram_kind(machine)
    if kind is None:
        rule = "the machine names no DRAM device"
        raise InputError(
            Problem("kbsim config energy", rule, remedy=f"choose the kind of DRAM: --dram {', '.join(table.data['dram'])}")
        )
    found: list[Price] = []

    def add(key: str, figure: tuple[Fraction, str], what: str) -> None:
        found.append(Price(key, figure[0], f"{figure[1]}{': ' if what else ''}{what}"))

    add("dram_pj_per_byte", table.figure("dram", kind), f"DRAM {kind}")
    add("noc_pj_per_byte_hop", table.figure("link", "mesh"), "link of a mesh")
    spm = machine.pe.spm
    add("spm_pj_per_byte", table.sram_per_byte(spm.bank_size_bytes), f"a bank of {spm.bank_size_bytes:,} bytes")
    for bits, name in _TYPES.items():
        if name in table.data["mac"]:
            add(f"mac_pj.{bits}", table.figure("mac", name), f"MAC {name}")
    add("ve_op_pj", table.figure("vector", "add"), "sum of a lane")
    area = areas(table, machine)
    power, source = table.figure("static_mw_per_mm2")
    total = sum(one.value for one in area)
    found.append(Price("static_mw", Fraction(f"{float(power * total):.3f}"), f"{source}: {float(power):g} mW/mm2 of the area"))
    return found


def areas(table: EnergyTable, machine: NpuConfig | SystemConfig) -> list[Price]:
    """[mm2] The area of scratchpads and tensor engines of a whole machine."""
    nbytes, macs = area_amounts(machine)
    sram, sram_source = table.figure("area", "sram_mm2_per_mib")
    mac, mac_source = table.figure("area", "mac_mm2")
    return [
        Price("spm", sram * Fraction(nbytes, 2**20), f"{sram_source}: {nbytes:,} bytes"),
        Price("te", mac * macs, f"{mac_source}: {float(macs):,.0f} MACs"),
    ]


def area_amounts(machine: NpuConfig | SystemConfig) -> tuple[int, Fraction]:
    """The amounts that the area of a whole machine depends on: [B] of all scratchpads, and the MACs of all tensor engines."""
    part, pes = machine.pe, machine.pes
    nbytes = pes * part.spm.num_banks * part.spm.bank_size_bytes
    return nbytes, Fraction(pes * part.te.engines) * part.te.macs_per_cycle


def section_yaml(found: list[Price], title: str) -> str:
    """The `energy` section as YAML, each value with its source in a comment."""
    lines = [f"energy:  # {title}"]
    mac = [price for price in found if price.key.startswith("mac_pj.")]
    for price in found:
        value = plain_number(price.value)
        if price.key.startswith("mac_pj."):
            if price is mac[0]:
                lines.append("  mac_pj:")
            lines.append(f"    {price.key.removeprefix('mac_pj.')}: {value}  # {price.why}")
        else:
            lines.append(f"  {price.key}: {value}  # {price.why}")
    return "\n".join([*lines, ""])
