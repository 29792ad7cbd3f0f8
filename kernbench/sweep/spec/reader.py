"""Reads typed values from a spec, and records each problem with its location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kernbench.common.errors import ABSENT, InputError
from kernbench.common.spelling import meant
from kernbench.common.units import parse_size
from kernbench.config.document import Document
from kernbench.config.places import KEY, PathLike, value_at

#: Names of keys in specs of other tools, and the keys here.
_SYNONYMS = {
    **dict.fromkeys(("objective", "objectives", "optimize", "pareto", "minimize", "metrics"), "goals"),
    **dict.fromkeys(("parameters", "params", "space", "search_space", "variables", "grid", "sweep", "vary"), "axes"),
    **dict.fromkeys(("config", "configs", "machines", "chip"), "machine"),
    **dict.fromkeys(("target", "program", "programs", "bench", "workload", "workloads", "model"), "targets"),
    **dict.fromkeys(("constraint", "subject_to"), "constraints"),
    **dict.fromkeys(("overrides", "fixed"), "set"),
    **dict.fromkeys(("n_trials", "num_trials", "samples"), "trials"),
}


class Reader:
    """A document, and the problems that were found in it. Getters return None or an empty value if a value is absent or
    refused."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[tuple[PathLike, str, Any, str]] = []

    def refuse(self, path: PathLike, rule: str, value: Any = ABSENT, remedy: str = "") -> None:
        """Record a problem."""
        self.found.append((path, rule, value, remedy))

    def check(self) -> None:
        """InputError if a problem was recorded."""
        if self.found:
            raise InputError(self.document.problems(self.found))

    def get(self, path: PathLike) -> Any:
        """The value at a path, or ABSENT."""
        return value_at(self.document.data, path)

    def keys(self, path: PathLike, allowed: Sequence[str]) -> Mapping[Any, Any]:
        """The mapping at a path; keys that are not allowed are problems."""
        given = self.mapping(path)
        for key in given:
            if key not in allowed:
                other = _SYNONYMS.get(key.lower(), "") if isinstance(key, str) else ""
                near = f"did you mean {other}?" if other in allowed else meant(key, allowed)
                rule = "there is no such key" + ("" if near else f"; the keys at this level are {', '.join(allowed)}")
                self.refuse((*path, key, KEY), rule, remedy=near)
        return given

    def mapping(self, path: PathLike) -> Mapping[Any, Any]:
        """The mapping at a path, or an empty one."""
        value = self.get(path)
        if isinstance(value, Mapping):
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be a mapping", value)
        return {}

    def items(self, path: PathLike) -> Sequence[Any]:
        """The list at a path, or an empty one."""
        value = self.get(path)
        if isinstance(value, (list, tuple)):
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be a list", value)
        return []

    def text(self, path: PathLike, default: str | None = None) -> str | None:
        """The text at a path, which must not be empty."""
        value = self.get(path)
        if isinstance(value, str) and value:
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be text", value)
        return default

    def choice(self, path: PathLike, allowed: Sequence[str], default: str) -> str:
        """One of the allowed texts."""
        value = self.get(path)
        if value is ABSENT:
            return default
        if value not in allowed:
            self.refuse(path, f"it must be one of {', '.join(allowed)}", value)
            return default
        return str(value)

    def flag(self, path: PathLike) -> bool:
        """A boolean; false if it is absent."""
        value = self.get(path)
        if value is not ABSENT and not isinstance(value, bool):
            self.refuse(path, "it must be true or false", value)
        return value is True

    def integer(self, path: PathLike, low: int, high: int | None = None) -> int | None:
        """An integer within bounds."""
        value = self.get(path)
        if value is ABSENT:
            return None
        if type(value) is not int or value < low or (high is not None and value > high):
            self.refuse(path, f"it must be an integer of at least {low}" + ("" if high is None else f", at most {high}"), value)
            return None
        return value

    def seconds(self, path: PathLike) -> float | None:
        """A time above 0."""
        value = self.get(path)
        if value is ABSENT:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, Fraction, float)) or value <= 0:
            self.refuse(path, "it must be a number of seconds above 0", value)
            return None
        return float(value)

    def size(self, path: PathLike) -> int | None:
        """A size in bytes, at least 1."""
        value = self.get(path)
        if value is ABSENT:
            return None
        try:
            nbytes = parse_size(value)
            if nbytes < 1:
                raise ValueError("it must be at least 1 byte")
        except ValueError as error:
            self.refuse(path, str(error), value)
            return None
        return nbytes
