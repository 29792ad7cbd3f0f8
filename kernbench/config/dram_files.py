"""Devices and policies of DRAM controllers, by name: the files of `configs/dram` and `configs/dram_policies`.

`dram.device` and `dram.policy` of a machine (`cube.hbm.device` of a system) fill in `dram.controller`: first the device, then
the policy, then the values of the machine itself. A time of a device in nanoseconds is rounded up to whole DRAM clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec

from kernbench.common.package_files import package_folder
from kernbench.common.units import parse_rational, plain_number
from kernbench.config.document import MACHINE_BYTES, Document, read_document
from kernbench.config.dram_controller import DramController
from kernbench.config.fields import refuse
from kernbench.config.places import PathLike
from kernbench.config.section import Rule

DEVICES, POLICIES = "dram", "dram_policies"  #: folders of `configs`
SECTIONS: tuple[PathLike, ...] = (("dram",), ("cube", "hbm"))  #: location of the DRAM in a machine
#: Keys of a machine that name files.
NAMES = frozenset(".".join((*path, key)) for path in SECTIONS for key in ("device", "policy"))
ALLOCATION = "row_buffer_v2"


class DramFile(msgspec.Struct, frozen=True):
    """A device or a policy."""

    name: str
    about: str
    clock_ghz: Fraction | None  #: [GHz] clock of the DRAM; None for a policy
    peak_gb_per_s: Fraction | None  #: peak bandwidth of a channel; None for a policy
    controller: Mapping[str, Any]  #: keys of `dram.controller`, times in DRAM clocks
    where: Mapping[PathLike, str]  #: the location of a value by its path in the file: `ddr4_3200.yaml:15:10`


def device_names() -> list[str]:
    """Names that `dram.device` takes."""
    return _names(DEVICES)


def policy_names() -> list[str]:
    """Names that `dram.policy` takes."""
    return _names(POLICIES)


def named(folder: str) -> Rule:
    """The name of a file of DEVICES or POLICIES."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in _names(folder):
            raise refuse(f"it must be one of {', '.join(_names(folder))}")
        return value

    return Rule(check, lambda: {"type": "string", "enum": _names(folder)})


@cache
def _names(folder: str) -> list[str]:
    files = package_folder("kernbench.configs") / folder
    return sorted(file.name.removesuffix(".yaml") for file in files.iterdir() if file.name.endswith(".yaml"))


@cache
def read_dram_file(folder: str, name: str) -> DramFile:
    """A file of the package."""
    path = package_folder("kernbench.configs") / folder / f"{name}.yaml"
    found = read_document(path, MACHINE_BYTES)
    data = found.data
    clock, peak = data.get("clock_ghz"), data.get("peak_gb_per_s")
    ghz = None if clock is None else parse_rational(clock)
    keys = {key: _clocks(value, ghz) for key, value in data["controller"].items()}
    document = Document(path.name, data, found.text, found.suffix)
    places = document.find([("clock_ghz",), *(("controller", key) for key in keys)])
    where = {at: document.where(place) for at, place in places.items()}
    return DramFile(name, data["about"], ghz, None if peak is None else parse_rational(peak), keys, where)


def _clocks(value: Any, ghz: Fraction | None) -> Any:
    """A value of a controller; a time such as `13.75 ns` as whole DRAM clocks."""
    if not isinstance(value, str) or not value.endswith(" ns"):
        return value
    assert ghz is not None, "a policy has no times"
    time = parse_rational(value.removesuffix(" ns")) * ghz
    return -(-time.numerator // time.denominator)


def with_files(data: Any) -> tuple[Any, dict[PathLike, str]]:
    """Machine data with the values of the device and policy that they name, and the location of each of these values. Values
    that are not valid stay unchanged, because the schema refuses them later.
    """
    origins: dict[PathLike, str] = {}
    if not isinstance(data, Mapping) or data.get("allocation") != ALLOCATION:
        return data, origins
    for path in SECTIONS:
        data, found = _with_files_at(data, path)
        origins |= found
    return data, origins


def without_files(data: Any) -> Any:
    """Machine data such as `to_dict` makes, without the values that `with_files` fills in and without defaults beside them.

    So another device, policy or frequency fills in its own.
    """
    if not isinstance(data, Mapping) or data.get("allocation") != ALLOCATION:
        return data
    for path in SECTIONS:
        section = _section(data, path)
        if section is None or not (section.get("device") or section.get("policy")):
            continue
        filled: dict[str, Any] = {name: _plain(field.default) for name, field in DramController.model_fields.items()}
        for file in _files(section):
            clock = _clock(data.get("freq_ghz", 1), file.clock_ghz)
            filled |= {**file.controller, **({} if clock is None else {"clock": clock})}
        own = {key: value for key, value in (section.get("controller") or {}).items() if value != filled.get(key)}
        data = _set(data, (*path, "controller"), own)
    return data


def names_files(data: Mapping[str, Any]) -> bool:
    """Whether a machine names a device or policy: then its sections depend on each other."""
    found = (_section(data, path) or {} for path in SECTIONS)
    return any(section.get("device") or section.get("policy") for section in found)


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _section(data: Mapping[str, Any], path: PathLike) -> Mapping[str, Any] | None:
    """The DRAM at a path, if it is as it should be up to its controller."""
    section: Any = data
    for step in path:
        section = section.get(step) if isinstance(section, Mapping) else None
    there = isinstance(section, Mapping) and isinstance(section.get("controller") or {}, Mapping)
    return section if there else None


def _with_files_at(data: Mapping[str, Any], path: PathLike) -> tuple[Any, dict[PathLike, str]]:
    section = _section(data, path)
    if section is None:
        return data, {}
    given = dict(section.get("controller") or {})
    filled: dict[str, Any] = {}
    origins: dict[PathLike, str] = {}
    for file in _files(section):
        filled |= file.controller
        origins |= {(*path, "controller", key): file.where["controller", key] for key in file.controller if key not in given}
        clock = _clock(data.get("freq_ghz", 1), file.clock_ghz)
        if clock is not None and "clock" not in given:
            filled["clock"] = clock
            origins[(*path, "controller", "clock")] = file.where[("clock_ghz",)]
    if not filled:
        return data, {}
    return _set(data, (*path, "controller"), filled | given), origins


def _files(section: Mapping[str, Any]) -> Iterator[DramFile]:
    for key, folder in (("device", DEVICES), ("policy", POLICIES)):
        name = section.get(key)
        if isinstance(name, str) and name in _names(folder):
            yield read_dram_file(folder, name)


def _clock(freq_ghz: Any, clock_ghz: Fraction | None) -> Any:
    """[cycle] The length of a DRAM clock; None if there is no device, or if the frequency is not valid."""
    try:
        frequency: Fraction = parse_rational(freq_ghz)
    except ValueError:
        return None
    return plain_number(frequency / clock_ghz) if clock_ghz is not None and frequency > 0 else None


def _set(data: Mapping[str, Any], path: PathLike, value: Any) -> dict[str, Any]:
    """A copy of mappings with another value at a path; only the last step of the path may be missing."""
    first, *rest = path
    return {**data, first: _set(data[first], tuple(rest), value) if rest else value}
