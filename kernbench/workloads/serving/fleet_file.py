"""Fleets of different engines as a file: groups of engines, each with its machine and its own options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError
from kernbench.common.json_shapes import Shape, closed, list_of, titled
from kernbench.common.spelling import meant
from kernbench.config import load_config
from kernbench.config.document import KEY, Document, read_document
from kernbench.workloads.serving.deployment import Group
from kernbench.workloads.serving.fleet import ROLES
from kernbench.workloads.serving.scenario import Scenario

SCHEMA = "kernbench/fleet/1"
_BYTES = 1 << 20
_LIMIT = 4096  #: limit of the engines of a group


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of a group: its JSON Schema, and the check of its value."""

    shape: Shape
    right: Callable[[Any], bool]
    rule: str


def _count(least: int, most: int = 1 << 40) -> _Key:
    shape: Shape = {"type": "integer", "minimum": least, "maximum": most}
    return _Key(shape, lambda one: type(one) is int and least <= one <= most, f"it must be an integer from {least} to {most}")


def _text(*names: str) -> _Key:
    shape: Shape = {"enum": list(names)} if names else {"type": "string"}
    rule = f"it must be one of {', '.join(names)}" if names else "it must be text"
    return _Key(shape, lambda one: isinstance(one, str) and (not names or one in names), rule)


_SHARE = _Key(
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, lambda one: type(one) in (int, Fraction) and 0 < one <= 1,
    "it must be more than 0 and at most 1",
)  # fmt: skip
_SETS = _Key({"type": "object"}, lambda one: isinstance(one, dict), "it must be keys with values, as dram.channels: 8")

_YES = _Key({"type": "boolean"}, lambda one: isinstance(one, bool), "it must be true or false")

#: Keys of a group. Keys that a group does not have are those of the command.
GROUP: dict[str, _Key] = {
    "config": _text(), "count": _count(1, _LIMIT), "role": _text(*ROLES), "set": _SETS,
    "tp": _count(1, _LIMIT), "pp": _count(1, _LIMIT), "dp": _count(1, _LIMIT), "ep": _YES, "w": _count(1, 64),
    "a": _count(1, 64),
    "runtime": _text(), "max_num_seqs": _count(1), "max_num_batched_tokens": _count(1),
    "num_gpu_blocks": _count(2), "max_model_len": _count(2), "gpu_memory_utilization": _SHARE, "host_link_gb_s": _count(1),
}  # fmt: skip
_ENGINE = ("max_num_seqs", "max_num_batched_tokens")


def fleet_json_schema() -> Shape:
    """JSON Schema (draft 2020-12) of a file of `kbsim serve --fleet`."""
    group = closed({name: key.shape for name, key in GROUP.items()}, optional=[name for name in GROUP if name != "config"])
    return titled(
        "kernbench fleet",
        closed({"schema": {"const": SCHEMA}, "groups": {**list_of(group), "minItems": 1}}, optional=("schema",)),
    )


def load_fleet(path: Path, base: Scenario, allow_code: Sequence[str] = ()) -> tuple[Group, ...]:
    """The groups of a file; missing values are those of `base`. InputError says where the file is wrong."""
    document = read_document(path, _BYTES)
    plain = document.data
    for name, value in plain.items():
        if name not in ("schema", "groups"):
            rule = "there is no such key; there are schema and groups"
            raise InputError(document.problem((name, KEY), rule, value, meant(str(name), ("schema", "groups"))))
    if plain.get("schema", SCHEMA) != SCHEMA:
        raise InputError(document.problem(("schema",), f"it must be {SCHEMA}", plain["schema"]))
    groups = plain.get("groups")
    if not isinstance(groups, list) or not groups:
        raise InputError(document.problem(("groups",), "it must be a list of at least one group", groups))
    return tuple(_group(document, place, one, base, allow_code) for place, one in enumerate(groups))


def _group(document: Document, place: int, plain: Any, base: Scenario, allow_code: Sequence[str]) -> Group:
    at = ("groups", place)
    if not isinstance(plain, dict) or "config" not in plain:
        raise InputError(document.problem(at, "a group must have a machine", plain, "write config: npu_server"))
    for name, value in plain.items():
        if name not in GROUP:
            rule = f"there is no such key; there are {', '.join(GROUP)}"
            raise InputError(document.problem((*at, name, KEY), rule, value, meant(str(name), GROUP)))
        if not GROUP[name].right(value):
            raise InputError(document.problem((*at, name), GROUP[name].rule, value))
    machine = load_config(plain["config"], plain.get("set", {}), allow_code=tuple(allow_code))
    given: dict[str, Any] = {name: plain[name] for name in GROUP if name in plain}
    for name in ("config", "count", "role", "set"):
        given.pop(name, None)
    engine = base.engine | {name: given.pop(name) for name in _ENGINE if name in given}
    for name in ("gpu_memory_utilization", "host_link_gb_s"):
        if name in given:
            given[name] = float(given[name])
    scenario = replace(base, machine=machine, engine=engine, **given)
    return Group(scenario, plain.get("count", 1), plain.get("role", "both"))
