"""Paths into a document, locations in its text, and the fault that a reader reports."""

from __future__ import annotations

from typing import Any, Final

from kernbench.common.errors import ABSENT, shown


class _Key:
    """The type of `KEY`."""

    def __repr__(self) -> str:
        return "KEY"

    def __str__(self) -> str:
        return "\0key"  # no document has this key, because both formats refuse a bare NUL


KEY: Final = _Key()  #: last step of a path that means the key itself and not its value

#: The message with which both readers refuse a key.
TWICE: Final = "the key occurs twice at the same level; write the key once, with all its values below it"
PathLike = tuple[Any, ...]  #: steps from the top level: keys and list indices
TextPosition = tuple[int, int]  #: (line, column), both from 1


def value_at(data: Any, path: PathLike) -> Any:
    """The value at a path of a document, or ABSENT."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return data


def normal_path(path: PathLike) -> tuple[str, ...]:
    """A path with its steps as text, so that the keys `8` and `"8"` are equal."""
    return tuple(step_text(step) for step in path)


def step_text(step: Any) -> str:
    """A step as text; data that did not come from text may have keys of any type."""
    return shown(step) if isinstance(step, int) else str(step)


class Fault(Exception):
    """An error of a reader, and its location. `document.py` turns it into an InputError that names the file."""

    def __init__(self, place: TextPosition, rule: str, path: PathLike = (), value: Any = ABSENT, remedy: str = "") -> None:
        super().__init__(rule)
        self.place = place
        self.rule = rule
        self.path = path
        self.value = value
        self.remedy = remedy
