"""Reading a document key by key: every problem is kept with its place, and reading goes on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kernbench.common.errors import ABSENT, InputError
from kernbench.common.units import parse_size
from kernbench.config.document import Document
from kernbench.config.places import KEY, PathLike


class Reader:
    """A document and what was found wrong in it. Getters answer None, or what is empty, where a value is absent or refused."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[tuple[PathLike, str, Any, str]] = []

    def refuse(self, path: PathLike, rule: str, value: Any = ABSENT, remedy: str = "") -> None:
        """Keep a problem."""
        self.found.append((path, rule, value, remedy))

    def check(self) -> None:
        """InputError where there is a problem so far."""
        if self.found:
            raise InputError(self.document.problems(self.found))

    def get(self, path: PathLike) -> Any:
        """The value at a path, or ABSENT."""
        value = self.document.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return ABSENT
        return value

    def keys(self, path: PathLike, allowed: Sequence[str]) -> Mapping[Any, Any]:
        """The mapping at a path; keys that are not allowed are problems."""
        given = self.mapping(path)
        for key in given:
            if key not in allowed:
                near = difflib.get_close_matches(str(key)[:40], allowed, n=1)
                rule = f"there is no such key; the keys here are {', '.join(allowed)}"
                self.refuse((*path, key, KEY), rule, remedy=f"did you mean {near[0]}?" if near else "")
        return given

    def mapping(self, path: PathLike) -> Mapping[Any, Any]:
        """The mapping at a path; empty where there is none."""
        value = self.get(path)
        if isinstance(value, Mapping):
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be a mapping", value)
        return {}

    def items(self, path: PathLike) -> Sequence[Any]:
        """The list at a path; empty where there is none."""
        value = self.get(path)
        if isinstance(value, (list, tuple)):
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be a list", value)
        return []

    def text(self, path: PathLike, default: str | None = None) -> str | None:
        """The text at a path, not empty."""
        value = self.get(path)
        if isinstance(value, str) and value:
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be text", value)
        return default

    def choice(self, path: PathLike, allowed: Sequence[str], default: str) -> str:
        """One of some texts."""
        value = self.get(path)
        if value is ABSENT:
            return default
        if value not in allowed:
            self.refuse(path, f"it must be one of {', '.join(allowed)}", value)
            return default
        return str(value)

    def flag(self, path: PathLike) -> bool:
        """A boolean; false where there is none."""
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
        """Bytes, at least one."""
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
