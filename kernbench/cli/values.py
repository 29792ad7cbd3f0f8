"""Values of options that several commands read alike: counts, sizes and element types."""

from __future__ import annotations

from collections.abc import Collection

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import type_meant
from kernbench.common.units import parse_size_text

MAX_BYTES = 1 << 40  #: largest size


def count_of(text: str | int) -> int:
    """A count on the command line, or its default: `128`, or `8k` and `1M` of 1024. ValueError for another text."""
    if isinstance(text, int):
        return text
    letter = text[-1:].lower()
    digits, times = (text[:-1], {"k": 1 << 10, "m": 1 << 20}[letter]) if letter in ("k", "m") else (text, 1)
    if not digits.removeprefix("-").isdigit() or not digits.isascii() or len(digits) > 18:
        raise ValueError("it must be a whole number, like 512 or 8k")
    return int(digits) * times


def size_of(command: str, option: str, text: str) -> int:
    """The bytes of `4KiB`, `4k`, `4K` or `4096`; InputError for another text."""
    rule = "it must be at least 1 byte and at most 1T"
    try:
        size = parse_size_text(text)
    except ValueError as error:
        size, rule = 0, str(error)
    if not 1 <= size <= MAX_BYTES:
        raise InputError(Problem(command, rule, option, text))
    return size


def dtype_of(command: str, text: str, types: Collection[str]) -> str:
    """One of the element types `types`. InputError for another one; the remedy gives the name in kernbench of a type that has
    another name elsewhere.
    """
    if text not in types:
        raise InputError(Problem(command, f"it must be one of {', '.join(types)}", "--dtype", text, type_meant(text, types)))
    return text
