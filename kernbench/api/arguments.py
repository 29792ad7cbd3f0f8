"""Checks of the types of arguments of the public functions, so that a wrong type is an error with a remedy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kernbench.common.errors import InputError, Problem


def check_kind(name: str, value: Any, kinds: type | tuple[type, ...], words: str, remedy: str = "") -> None:
    """Raise InputError if an argument is of none of these types. `words`: what it must be, such as `a name or a file`."""
    if not isinstance(value, kinds):
        raise InputError(Problem(name, f"it must be {words}, and it is of type {type(value).__name__}", remedy=remedy))


def check_path(name: str, value: Any, words: str) -> None:
    """Raise InputError if an argument is neither a text nor a path."""
    check_kind(name, value, (str, os.PathLike), words)


def check_list(name: str, value: Any, words: str) -> None:
    """Raise InputError if an argument is not a list; one text is not a list of its characters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        remedy = f"give [{value!r}]" if isinstance(value, (str, int)) else ""
        raise InputError(Problem(name, f"it must be {words}, and it is of type {type(value).__name__}", remedy=remedy))


def check_mapping(name: str, value: Any, words: str) -> None:
    """Raise InputError if an argument is neither None nor a mapping."""
    check_kind(name, value, (Mapping, type(None)), words)


def check_count(where: str, name: str, value: Any) -> None:
    """Raise InputError if an argument is neither None nor an integer of at least 1."""
    if value is not None and (type(value) is not int or value < 1):
        raise InputError(Problem(where, "it must be an integer of at least 1", name, value))
