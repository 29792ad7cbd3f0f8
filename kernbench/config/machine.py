"""The common base of machine files: sections, plain values, and the origin of each value."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.common.units import plain_number
from kernbench.config.allowed_code import AllowedCode
from kernbench.config.origins import NOWHERE, Origins
from kernbench.config.rules import BrokenRule
from kernbench.config.section import Refused, Section


class MachineConfig(Section):
    """The base class of machines, `NpuConfig` and `SystemConfig`. `load_config` makes them; equal values make equal machines.

    >>> from kernbench.config import MachineConfig, load_config
    >>> isinstance(load_config("single_cube"), MachineConfig)
    True
    """

    # `load_config` sets these attributes on each machine.
    _source: str = "machine"
    _path: Path | None = None
    _origins: Origins = NOWHERE
    _allowed_code: AllowedCode = AllowedCode()

    def broken_rules(self) -> list[BrokenRule]:
        """The rules between keys that the values violate."""
        raise NotImplementedError

    def check_whole(self) -> None:
        broken = self.broken_rules()
        if broken:
            raise Refused("rules", "; ".join(b.rule for b in broken), {"broken": broken})

    @property
    def source(self) -> str:
        """The file or preset from which the machine was loaded, as named in errors."""
        return self._source

    @property
    def path(self) -> Path | None:
        """The user's file from which the machine was read; None for a preset and for a dict."""
        return self._path

    @property
    def allowed_code(self) -> AllowedCode:
        """The Python code that the machine's description may name, in addition to that of kernbench and of installed
        plug-ins."""
        return self._allowed_code

    def to_dict(self) -> dict[str, Any]:
        """Every value as plain JSON, without `younger` defaults. `load_config` reads the result as the same machine."""
        plain: dict[str, Any] = plain_value(self)
        return plain

    def digest(self) -> str:
        """The SHA-256 of `to_dict()` in hexadecimal form. Equal machines have the same digest."""
        import hashlib  # imported here, because a short run needs no digest

        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def effective(self) -> list[tuple[str, Any, str]]:
        """Every value with its path and origin: `("dram.channels", 8, "npu.yaml:12:13")`.

        The origin is `default`, a location in the file, `given` (from a dict) or `override`.
        """
        leaves = _leaves("", plain_value(self, whole=True))
        places = self._origins.places
        return [(path, value, places.get(path, "default")) for path, value in leaves]

    @property
    def chosen(self) -> bool:
        """Whether a user set any value, so that the machine differs from an unchanged preset."""
        return self.path is not None or self._origins.overridden

    def follows(self, path: str) -> bool:
        """Whether a value is a default or filled in by a file that the machine names, such as that of its DRAM device."""
        return path in self._origins.filled or self._origins.places.get(path, "default") == "default"

    def where(self, *paths: str) -> str:
        """The location in a message about values: the line or override of the first value that has one."""
        places, overrides = self._origins.places, self._origins.overrides
        for path in paths:
            if path in overrides:
                return overrides[path]
            if places.get(path, "given") != "given":
                return places[path]
        return self.source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineConfig) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.digest())


def plain_value(value: Any, *, whole: bool = False) -> Any:
    """A model's value as plain JSON: exact rationals as numbers or `p/q`, absent keys left out, keys as text.

    `whole`: whether `younger` fields with default values are included.
    """
    if isinstance(value, Section):
        fields = type(value).model_fields
        kept = {name: spec for name, spec in fields.items() if whole or not _is_silent(value, name)}
        items = {(spec.alias or name): plain_value(getattr(value, name), whole=whole) for name, spec in kept.items()}
        items |= {name: plain_value(item) for name, item in sorted(value.model_extra.items())}
        return {name: item for name, item in items.items() if item is not None}
    if isinstance(value, Fraction):
        return plain_number(value)
    if isinstance(value, dict):
        return {str(key): plain_value(value[key], whole=whole) for key in sorted(value)}
    if isinstance(value, (tuple, list)):
        return [plain_value(item, whole=whole) for item in value]
    return value


def _is_silent(section: Section, name: str) -> bool:
    return name in section.younger and getattr(section, name) == type(section).model_fields[name].default


def _leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    """The values below `value` that are not mappings, with their paths; lists of mappings are entered."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(f"{path}.{key}" if path else key, item)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [leaf for i, item in enumerate(value) for leaf in _leaves(f"{path}[{i}]", item)]
    return [(path, value)]
