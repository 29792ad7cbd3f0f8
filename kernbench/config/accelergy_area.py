"""Reads Accelergy's area reference tables (`ART.yaml`), and computes the areas of a table of components from them.

An area of Accelergy is that of one instance. Ranges in the name of a component count the instances: `chip.pe[0..15].mac`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError
from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational, plain_number
from kernbench.config.accelergy import ROOT
from kernbench.config.document import MACHINE_BYTES, Document, read_document
from kernbench.config.energy_table import area_amounts
from kernbench.config.places import KEY, PathLike
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig

#: For each part of a machine that has an area: the figure of a table of components.
FIGURES = {"spm": "sram_mm2_per_mib", "te": "mac_mm2"}
MAX_UM2 = 10**12  #: limit of an area, 1 m2
MAX_INSTANCES = 10**9
_RANGE = re.compile(r"\[(\d+)\.\.(\d+)\]")
_FORM = "it must be an area reference table of Accelergy: {ART: {version: ..., tables: [{name: ..., area: ...}]}}"


@dataclass(frozen=True, slots=True)
class PartArea:
    """The area of a part of a machine, and the figure that follows from it."""

    part: str  #: a key of FIGURES
    mm2: Fraction
    figure: Fraction  #: [mm2] of a MiB, or of a MAC
    why: str  #: the components and their amount


def read_areas(
    path: str, machine: NpuConfig | SystemConfig, mapping: str | None = None, others: Collection[str] = ()
) -> list[PartArea]:
    """The areas of the parts of a machine by an ART; parts whose component the table lacks are left out.

    `mapping`: a file with `PART: {name: COMPONENT}` for other names; the areas of a list of components are added.
    `others`: keys of that file that belong to another table. InputError for a file that is not an ART, for a component that it
    lacks, and if it has no component of the machine.
    """
    document = read_document(path, MACHINE_BYTES)
    areas = _areas(document)
    if mapping is None:
        wanted = {part: [name] for part in FIGURES if (name := f"{ROOT}.{part}") in areas}
        if not wanted:
            rule = f"it has no component {' or '.join(f'{ROOT}.{part}' for part in FIGURES)}"
            raise InputError(document.problem(("ART", "tables"), rule, remedy="name the components of the file with --map"))
    else:
        wanted = _read_map(mapping, others)
    nbytes, macs = area_amounts(machine)
    amounts = {"spm": (Fraction(nbytes, 2**20), f"{nbytes:,} bytes"), "te": (macs, f"{float(macs):,.0f} MACs")}
    found = []
    for part, names in wanted.items():
        for name in names:
            if name not in areas:
                raise InputError(document.problem(("ART", "tables"), "there is no such component", name, meant(name, areas)))
        amount, how = amounts[part]
        mm2 = sum((areas[name] for name in names), Fraction(0))
        found.append(PartArea(part, mm2, mm2 / amount, f"{', '.join(names)}: {how}"))
    return found


def _areas(document: Document) -> dict[str, Fraction]:
    """[mm2] The area of all instances of each component."""
    top = document.data.get("ART")
    tables = top.get("tables") if isinstance(top, dict) else None
    if not isinstance(tables, list):
        raise InputError(document.problem(("ART",) if "ART" in document.data else (), _FORM))
    found: dict[str, Fraction] = {}
    for i, one in enumerate(tables):
        path = ("ART", "tables", i)
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or "area" not in one:
            raise InputError(document.problem(path, _FORM))
        name = one["name"]
        if name in found:
            raise InputError(document.problem((*path, "name"), "two components have this name", name))
        try:
            um2 = parse_rational(one["area"])
        except ValueError as error:
            raise InputError(document.problem((*path, "area"), str(error), one["area"])) from None
        if not 0 <= um2 <= MAX_UM2:
            raise InputError(document.problem((*path, "area"), f"an area must be from 0 to {MAX_UM2} um2", one["area"]))
        found[name] = um2 * _instances(document, (*path, "name"), name) / 10**6
    return found


def _instances(document: Document, path: PathLike, name: str) -> int:
    counts = []
    for first, last in _RANGE.findall(name):
        count = int(last) - int(first) + 1 if len(last) <= len(str(MAX_INSTANCES)) and len(first) <= len(last) else 0
        if count < 1:
            rule = f"a range of instances must rise, and must end below {MAX_INSTANCES}"
            raise InputError(document.problem(path, rule, name))
        counts.append(count)
    if (total := math.prod(counts)) > MAX_INSTANCES:
        raise InputError(document.problem(path, f"a component has at most {MAX_INSTANCES} instances", name))
    return total


def _read_map(path: str, others: Collection[str]) -> dict[str, list[str]]:
    """The components of each part; keys in `others` are skipped."""
    document = read_document(path, MACHINE_BYTES)
    found: dict[str, list[str]] = {}
    for key, value in document.data.items():
        if key in others:
            continue
        if key not in FIGURES:
            rule = f"keys for --art are the parts {', '.join(FIGURES)}"
            raise InputError(document.problem((key, KEY), rule, remedy=meant(str(key), FIGURES)))
        given = value["name"] if isinstance(value, dict) and value.keys() == {"name"} else None
        names: list[Any] = given if isinstance(given, list) else [given]
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(document.problem((key,), "it must be {name: COMPONENT} or {name: [COMPONENT, ...]}", value))
        for i, name in enumerate(names):
            if name in names[:i]:
                raise InputError(document.problem((key, "name", i), "this component is twice in the list", name))
        found[key] = names
    if not found:
        rule = f"it names no component for the parts {', '.join(FIGURES)} of --art"
        raise InputError(document.problem((), rule, remedy="add a line such as spm: {name: COMPONENT}"))
    return found


def area_yaml(found: list[PartArea], title: str) -> str:
    """The parts `sources` and `area` of a table of components, as YAML."""
    lines = [f"sources: {{art: {{title: {json.dumps(title)}, checked: false}}}}", "area:"]
    for one in found:
        figure = json.dumps(plain_number(one.figure))
        if "e" in figure:  # YAML 1.1 reads 1e-06 as text
            figure = json.dumps(str(one.figure))
        why = json.dumps(one.why)[1:-1]  # a name may have line feeds
        lines.append(f"  {FIGURES[one.part]}: {{value: {figure}, source: art}}  # {float(one.mm2):.3f} mm2 of {why}")
    return "\n".join([*lines, ""])


def area_json(found: list[PartArea]) -> Mapping[str, object]:
    """The same areas in the form of `--json`."""
    return {
        "area": [{"part": one.part, "mm2": float(one.mm2), "source": one.why} for one in found],
        "area_figures": {FIGURES[one.part]: plain_number(one.figure) for one in found},
    }
