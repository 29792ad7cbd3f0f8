"""Overrides of single values of a machine: `dram.channels=4`, `te.f_w.4=2`, `kv_layouts[0].t_max=4096`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kernbench.common.errors import ABSENT, InputError, Problem, shown
from kernbench.config.document import MAX_DEPTH
from kernbench.config.places import Fault, PathLike, normal_path, step_text
from kernbench.config.remedies import value_meant
from kernbench.config.yaml_text import parse

_STEP = re.compile(r"\.?([A-Za-z0-9_]+)|\[([0-9]{1,6})\]")


class Override(msgspec.Struct, frozen=True):
    """One value set from outside the file."""

    where: str  #: its name in errors: `override dram.channels=4`
    path: PathLike
    value: Any

    def covers(self, path: PathLike) -> bool:
        """Whether this override set the value at `path`, or a value that contains it."""
        return normal_path(path)[: len(self.path)] == normal_path(self.path)


def parse_overrides(overrides: Mapping[str, Any] | Sequence[str]) -> list[Override]:
    """The overrides in order; texts are read as YAML values. InputError names the one that cannot be read."""
    if isinstance(overrides, str):
        overrides = [overrides]
    if isinstance(overrides, Mapping):
        return [
            _override(f"{path}={value if isinstance(value, str) else shown(value)}", path, value)
            for path, value in overrides.items()
        ]
    if not isinstance(overrides, Sequence) or not all(isinstance(text, str) for text in overrides):
        rule = 'they must be a list such as ["dram.channels=4"] or a mapping such as {"dram.channels": 4}'
        raise InputError(Problem("overrides", rule))
    parsed = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals:
            path, colon, value = text.partition(":")
            remedy = f"did you mean {path.strip()}={value.strip()}?" if colon else ""
            rule = "an override must have the form path=value, like dram.channels=4"
            raise InputError(Problem(f"override {text}", rule, remedy=remedy))
        parsed.append(_override(text, path.strip(), value))
    return parsed


def _override(text: str, path_text: str, value: Any) -> Override:
    where = f"override {text}"
    path: list[Any] = []
    end = 0
    while end < len(path_text):
        match = _STEP.match(path_text, end)
        if match is None:
            break
        path.append(match[1] if match[1] is not None else int(match[2]))
        end = match.end()
    if not path or end < len(path_text):
        raise InputError(
            Problem(
                where, f"{path_text or 'the part before ='} is not a path like dram.channels or kv_layouts[0].t_max"
            )
        )
    if isinstance(value, str):
        try:
            value = parse(value, MAX_DEPTH) if value.strip() else None
        except Fault as fault:
            remedy = value_meant(path_text, fault.rule, value, {}) or fault.remedy
            raise InputError(Problem(where, fault.rule, path_text, remedy=remedy)) from None
    return Override(where, tuple(path), value)


def apply_overrides(data: Any, overrides: Sequence[Override], default_at: Callable[[PathLike], Any]) -> Any:
    """`data` with the values of the overrides, applied in order; `data` itself is not changed.

    If an override sets a part of a list or table that the data leave at its default, the override starts from that default.
    Setting one factor of `te.f_w` therefore keeps the others.
    """
    for override in overrides:
        data = _set(data, (), override, default_at)
    return data


def _set(data: Any, path: PathLike, override: Override, default_at: Callable[[PathLike], Any]) -> Any:
    if len(path) == len(override.path):
        return override.value
    step = override.path[len(path)]
    if data is ABSENT or data is None:
        default = default_at(path)
        data = default if isinstance(default, list) or path[-1:] in _TABLES else {}
    if isinstance(data, Mapping):
        key = _key_like(data, step)
        changed = dict(data)
        changed[key] = _set(data.get(key, ABSENT), (*path, key), override, default_at)
        return changed
    if isinstance(data, (list, tuple)):
        index = int(step) if len(str(step)) < 7 and str(step).isdecimal() else -1
        if not 0 <= index < len(data):
            raise InputError(Problem(override.where, f"there is no item {step}: the list has {len(data)} items"))
        items = list(data)
        items[index] = _set(items[index], (*path, index), override, default_at)
        return items
    raise InputError(Problem(override.where, f"{step} cannot be set: what holds it is not a mapping"))


_TABLES = {("f_w",), ("f_a",), ("sfu",), ("mac_pj",)}


def _key_like(data: Mapping[Any, Any], step: Any) -> Any:
    """The key that `data` already has for this step (`8` for `"8"`), else the step as text."""
    for key in data:
        if step_text(key) == str(step):
            return key
    return str(step)
