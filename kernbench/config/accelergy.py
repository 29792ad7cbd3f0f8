"""Conversion between the `energy` section of a machine and the files of Accelergy.

The module writes `architecture.yaml` (components with classes and attributes) and `ERT.yaml` (energy of each action in pJ).
With a table of components it also writes `ART.yaml` (areas), and with a run `action_counts.yaml`. It reads an ERT, by default
with the names that it writes, or with other names and a map. `accelergy_area` reads an ART.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any

import yaml

from kernbench.common.errors import InputError
from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational, plain_number
from kernbench.config.document import MACHINE_BYTES, Document, read_document

VERSION = 0.4  #: the version of Accelergy's formats
ROOT = "machine"
#: For each key of the `energy` section: the component, its class, and the actions of one unit. Accelergy's libraries use these
#: names.
COMPONENTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "dram_pj_per_byte": ("dram", "DRAM", ("read", "write")),
    "noc_pj_per_byte_hop": ("noc", "wire", ("transfer",)),
    "spm_pj_per_byte": ("spm", "SRAM", ("read", "write")),
    "mac_pj": ("te", "mac", ("compute",)),
    "ve_op_pj": ("ve", "vector", ("compute",)),
    "static_mw": ("static", "static", ("leak",)),
}
OLDER = {"dram": "byte", "noc": "byte", "spm": "byte", "te": "mac", "ve": "op"}  #: actions that earlier versions wrote


def architecture(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """`architecture.yaml`; `attributes`: by component."""
    local = [
        {"name": name, "class": kind, "attributes": dict(attributes.get(name, {}))} for name, kind, _ in COMPONENTS.values()
    ]
    top = {"name": ROOT, "attributes": {"technology": "unknown"}, "local": local, "subtree": []}
    return _text({"architecture": {"version": VERSION, "subtree": [top]}})


def reference_table(section: Any, freq_ghz: Fraction) -> str:
    """`ERT.yaml` of an `energy` section: [pJ] of a byte, MAC, operation, and of a cycle for static power."""
    tables = []
    for key, (name, _, names) in COMPONENTS.items():
        if key == "mac_pj":
            actions = [_action(names[0], pj, {"qbits": bits}) for bits, pj in sorted(section.mac_pj.items())]
        else:
            value = getattr(section, key) / freq_ghz if key == "static_mw" else getattr(section, key)
            actions = [_action(action, value, {}) for action in names]
        tables.append({"name": f"{ROOT}.{name}", "actions": actions})
    return _text({"ERT": {"version": VERSION, "tables": tables}})


def area_table(areas: Mapping[str, Fraction]) -> str:
    """`ART.yaml` of areas [mm2] by component; Accelergy's unit is um2."""
    tables = [{"name": f"{ROOT}.{name}", "area": float(area * 10**6)} for name, area in areas.items()]
    return _text({"ART": {"version": VERSION, "tables": tables}})


def _action(name: str, pj: Fraction, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "energy": float(pj)}


def action_counts(counts: Iterable[tuple[str, str, int | None, int]]) -> str:
    """`action_counts.yaml` of (part, `read` or `write` or another action, bits of the weights or None, count)."""
    actions = {part: names for part, (_, _, names) in zip(_PARTS, COMPONENTS.values(), strict=True)}
    names = {part: name for part, (name, _, _) in zip(_PARTS, COMPONENTS.values(), strict=True)}
    by_part: dict[str, list[dict[str, Any]]] = {}
    for part, action, bits, count in counts:
        arguments = {} if bits is None else {"qbits": bits}
        name = action if action in actions[part] else actions[part][0]
        by_part.setdefault(part, []).append({"name": name, "arguments": arguments, "counts": count})
    local = [{"name": f"{ROOT}.{names[part]}", "action_counts": rows} for part, rows in by_part.items()]
    return _text({"action_counts": {"version": VERSION, "local": local}})


_PARTS = ("dram", "noc", "spm", "mac", "ve", "static")  #: the components of a result, in the order of COMPONENTS


def _text(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=False))


def read_reference_table(
    path: str, freq_ghz: Fraction, mapping: str | None = None, others: Collection[str] = ()
) -> dict[str, Any]:
    """The `energy` section of an ERT; keys whose component the table lacks are left out.

    `mapping`: a file with `KEY: {name: COMPONENT, action: ACTION, bytes: N}` for other names; one action covers N bytes.
    `others`: keys of that file that belong to another table.
    InputError for a file that is not an ERT, and for a component or action that the file lacks.
    """
    document = read_document(path, MACHINE_BYTES)
    tables = _tables(document)
    wanted = _default_map() if mapping is None else _read_map(mapping, others)
    found: dict[str, Any] = {}
    for key, (component, actions, nbytes, given) in wanted.items():
        rows = tables.get(component)
        if rows is None:
            if given:
                raise InputError(
                    document.problem(("ERT", "tables"), "there is no such component", component, meant(component, tables))
                )
            continue
        prices = [row for row in rows if row["name"] in actions]
        if not prices:
            names = {str(row["name"]) for row in rows}
            rule = f"{component} has no such action; it has {', '.join(sorted(names))}"
            raise InputError(document.problem(("ERT", "tables"), rule, actions[0], meant(actions[0], names)))
        if key == "mac_pj" and "qbits" in (prices[0].get("arguments") or {}):
            of_bits = [row for row in prices if "qbits" in (row.get("arguments") or {})]
            found[key] = {row["arguments"]["qbits"]: plain_number(_energy(document, row)) for row in of_bits}
        else:
            value = max(_energy(document, row) for row in prices) / nbytes  # if there are several arguments, the most expensive
            value = value * freq_ghz if key == "static_mw" else value
            found[key] = {8: plain_number(value)} if key == "mac_pj" else plain_number(value)
    return found


def _tables(document: Document) -> dict[str, list[dict[str, Any]]]:
    top = document.data.get("ERT")
    tables = top.get("tables") if isinstance(top, dict) else None
    rule = "it must be an energy reference table of Accelergy: {ERT: {version: ..., tables: [{name, actions: [...]}]}}"
    if not isinstance(tables, list):
        raise InputError(document.problem((), rule))
    for i, one in enumerate(tables):
        actions = one.get("actions") if isinstance(one, dict) else None
        if not isinstance(actions, list) or not all(isinstance(a, dict) and {"name", "energy"} <= a.keys() for a in actions):
            raise InputError(document.problem(("ERT", "tables", i), rule))
        for k, action in enumerate(actions):
            arguments = action.get("arguments") or {}
            path = ("ERT", "tables", i, "actions", k, "arguments")
            if not isinstance(arguments, dict):
                raise InputError(document.problem(path, "it must be {NAME: VALUE, ...}", arguments))
            if type(arguments.get("qbits", 8)) is not int:
                raise InputError(document.problem((*path, "qbits"), "it must be an integer", arguments["qbits"]))
    return {str(one["name"]): one["actions"] for one in tables}


def _energy(document: Document, row: Mapping[str, Any]) -> Fraction:
    try:
        value = parse_rational(row["energy"])
    except ValueError as error:
        raise InputError(document.problem(("ERT", "tables"), str(error), row["energy"])) from None
    if value < 0:
        raise InputError(document.problem(("ERT", "tables"), "an energy must be at least 0", row["energy"]))
    return value


def _default_map() -> dict[str, tuple[str, tuple[str, ...], int, bool]]:
    older = {name: (action,) for name, action in OLDER.items()}
    return {
        key: (f"{ROOT}.{name}", (*actions, *older.get(name, ())), 1, False) for key, (name, _, actions) in COMPONENTS.items()
    }


def _read_map(path: str, others: Collection[str]) -> dict[str, tuple[str, tuple[str, ...], int, bool]]:
    document = read_document(path, MACHINE_BYTES)
    found: dict[str, tuple[str, tuple[str, ...], int, bool]] = {}
    for key, value in document.data.items():
        if key in others:
            continue
        if key not in COMPONENTS:
            rule = f"keys are those of the energy section: {', '.join(COMPONENTS)}"
            raise InputError(document.problem((key,), rule, remedy=meant(str(key), COMPONENTS)))
        fits = isinstance(value, dict) and {"name", "action"} <= value.keys() <= {"name", "action", "bytes"}
        nbytes = value.get("bytes", 1) if isinstance(value, dict) else 0
        if not fits or type(nbytes) is not int or nbytes < 1:
            raise InputError(document.problem((key,), "it must be {name: COMPONENT, action: ACTION, bytes: N}", value))
        found[key] = (str(value["name"]), (str(value["action"]),), nbytes, True)
    return found
