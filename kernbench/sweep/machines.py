"""Machines of a sweep: one base machine and many variants; each section is checked only once for each of its contents."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig, load_config
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.dram_files import NAMES, names_files
from kernbench.config.load import KINDS
from kernbench.config.machine import plain_value
from kernbench.config.overrides import apply_overrides, parse_overrides
from kernbench.config.places import value_at
from kernbench.config.section import Refused, ValidationError

MAX_KEPT = 4096  #: most cached sections of one name

Setting = tuple[str, Any]  #: a path and its value, in plain JSON types


class Machines:
    """Variants of one machine. `at` returns the machine that `load_config` would return, but reuses sections that it has
    checked before.

    `base`: the result of `to_dict()` of a machine. `allow_code`: as in `load_config`.
    """

    def __init__(self, label: str, base: Mapping[str, Any], allow_code: AllowCode = ()) -> None:
        self.label = label
        self.allowed_code = AllowedCode.of(allow_code)
        self.base = dict(base)
        self._base_names_files = names_files(self.base)
        if str(base.get("schema")) not in KINDS:
            raise InputError(Problem(label, f"it must be one of {', '.join(KINDS)}", "schema", base.get("schema")))
        self._kind = KINDS[str(base["schema"])]
        self._fields = {spec.alias or name: name for name, spec in self._kind.model_fields.items()}
        self._sections: dict[str, dict[str, tuple[Any, str]]] = {name: {} for name in self._fields}
        self._remember(load_config(self.base), dict.fromkeys(self._fields, ""))
        self._lock = threading.Lock()
        self._defaults: dict[str, Any] = self._kind().to_dict()

    def at(self, settings: Sequence[Setting]) -> tuple[MachineConfig, str]:
        """The machine with some values set, and its digest. InputError in the same cases as `load_config`. Threads may share
        the object."""
        with self._lock:
            return self._at(settings)

    def again(self, settings: Sequence[Setting]) -> MachineConfig:
        """A machine that `at` has made before, here or in another process: the rules between its sections hold, and are not
        checked again."""
        with self._lock:
            known = self._known(settings, _touched(settings))
            return self._at(settings)[0] if known is None else self._named(known)

    def _known(self, settings: Sequence[Setting], touched: Mapping[str, str]) -> MachineConfig | None:
        """The machine, if each of its sections has been checked before; the rules between its sections are not checked."""
        if not touched.keys() <= self._fields.keys() or "schema" in touched or self._names_files(settings):
            return None
        values = {}
        for name, field in self._fields.items():
            found = self._sections[name].get(touched.get(name, ""))
            if found is None:
                return None
            values[field] = found[0]
        return self._kind.model_construct(**values)

    def _at(self, settings: Sequence[Setting]) -> tuple[MachineConfig, str]:
        touched = _touched(settings)
        known = self._known(settings, touched)
        if known is None:
            return self._with_new_sections(settings, touched)
        try:
            known.check_whole()
        except Refused:
            return self._checked(settings)
        return self._named(known), self._digest(touched)

    def _with_new_sections(self, settings: Sequence[Setting], touched: Mapping[str, str]) -> tuple[MachineConfig, str]:
        """A machine with sections that have not been checked before, and its digest."""
        if not touched.keys() <= self._fields.keys() or "schema" in touched or self._names_files(settings):
            return self._checked(settings)
        known = {name: self._sections[name].get(touched.get(name, "")) for name in self._fields}
        changed = [setting for setting in settings if known[_top(setting[0])] is None]
        data = apply_overrides(self.base, parse_overrides(dict(changed)), self._default_at)
        given = {name: data.get(name) if found is None else found[0] for name, found in known.items()}
        try:
            config = self._kind.model_validate({name: value for name, value in given.items() if value is not None})
        except ValidationError:
            return self._checked(settings)
        self._remember(config, touched)
        return self._named(config), self._digest(touched)

    def _names_files(self, settings: Sequence[Setting]) -> bool:
        return self._base_names_files or any(path in NAMES for path, _ in settings)

    def _checked(self, settings: Sequence[Setting]) -> tuple[MachineConfig, str]:
        """The slow path, whose errors give every detail."""
        config: MachineConfig = load_config(self.base, dict(settings))
        return self._named(config), config.digest()

    def _named(self, config: MachineConfig) -> MachineConfig:
        config._source, config._allowed_code = self.label, self.allowed_code
        return config

    def _remember(self, config: MachineConfig, touched: Mapping[str, str]) -> None:
        for name, field in self._fields.items():
            kept, key = self._sections[name], touched.get(name, "")
            if key not in kept:
                if len(kept) >= MAX_KEPT:
                    del kept[next(key for key in kept if key)]  # the base stays in the cache
                value = getattr(config, field)
                plain = plain_value(value)
                kept[key] = value, "" if plain is None else json.dumps(plain, sort_keys=True, separators=(",", ":"))

    def _digest(self, touched: Mapping[str, str]) -> str:
        """The result of `MachineConfig.digest`, computed from the sections' texts."""
        texts = {name: self._sections[name][touched.get(name, "")][1] for name in self._fields}
        text = ",".join(f'"{name}":{texts[name]}' for name in sorted(texts) if texts[name])
        return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()

    def _default_at(self, path: tuple[Any, ...]) -> Any:
        return value_at(self._defaults, path)

    def value(self, path: str) -> Any:
        """The value of the base at a path. KeyError if it has none."""
        found: Any = self.base
        for step in path.replace("[", ".").replace("]", "").split("."):
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            elif isinstance(found, dict):
                found = found[step]
            else:
                raise KeyError(path)
        return found


def _top(path: str) -> str:
    """The section that a path begins with."""
    return path.partition(".")[0].partition("[")[0]


def _touched(settings: Sequence[Setting]) -> dict[str, str]:
    """The sections that settings change, each with its settings in order, as text: different values have different texts."""
    touched: dict[str, str] = {}
    for path, value in settings:
        top = _top(path)
        touched[top] = f"{touched.get(top, '')}{path}={value!r};"
    return touched
