"""JSON with exact decimals, without duplicate keys, NaN, huge numbers or lone surrogates.

The standard parser reads the text; what it cannot place (its hooks know no position) is looked for again by a plain
walk over tokens, which also answers where a path stands. A sound document is never walked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from kernbench.common.units import MAX_DIGITS, parse_decimal
from kernbench.config.places import KEY, Fault, Place

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_PATH = 8  # steps of a path that a message shows
_CONSTANTS = ("NaN", "Infinity", "-Infinity")


class _Refused(Exception):
    """Raised inside the parser's hooks; the walk then finds the place."""


def parse(text: str, max_depth: int) -> Any:
    """The text's data; Fault with the place of the first thing refused."""
    try:
        data = json.loads(
            text, object_pairs_hook=_mapping, parse_int=_integer, parse_float=_decimal, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        raise Fault((error.lineno, error.colno), f"it is not JSON: {error.msg}") from None
    except (_Refused, RecursionError):
        raise _first_fault(text, max_depth) from None
    if _deeper_than(data, max_depth) or (_ESCAPED_SURROGATE.search(text) and _has_surrogate(text)):
        raise _first_fault(text, max_depth)
    return data


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _Refused
    return mapping


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused
    return int(digits)


def _decimal(digits: str) -> Fraction:
    try:
        return parse_decimal(digits)
    except ValueError:
        raise _Refused from None


def _no_constant(name: str) -> Any:
    raise _Refused


def _deeper_than(data: Any, limit: int) -> bool:
    """Whether containers nest deeper than `limit`; level by level, because the nesting may be deep."""
    level = _containers([data])
    for _ in range(limit):
        level = _containers(item for holder in level for item in (holder.values() if type(holder) is dict else holder))
    return bool(level)


def _containers(items: Iterable[Any]) -> list[Any]:
    return [item for item in items if type(item) is dict or type(item) is list]


def _has_surrogate(text: str) -> bool:
    return any(_lone_surrogate(match[0]) for match in _TOKEN.finditer(text) if match[0][0] == '"')


def _lone_surrogate(token: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in json.loads(token, strict=False))


def _place(text: str, offset: int) -> Place:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _walk(text: str) -> Iterator[tuple[list[Any], int, str, bool]]:
    """(path, offset, token, is a key) of every key and value in order; the path is live: copy it to keep it.

    The text may be any: after the end of sense the walk ends.
    """
    path: list[Any] = []
    holders: list[str] = []  # "{" or "[" per open container; its current step is path[depth]
    expect_key = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "}]":
            if not holders:
                return
            holders.pop()
            path.pop()
            expect_key = False
        elif token == ",":
            if not holders:
                return
            if holders[-1] == "[":
                path[-1] += 1
            else:
                expect_key = True
        elif token == ":":
            expect_key = False
        elif expect_key:
            path[-1] = json.loads(token, strict=False) if token[0] == '"' else token
            yield path, match.start(), token, True
        else:
            yield path, match.start(), token, False
            if token in "{[":
                holders.append(token)
                path.append(0)
                expect_key = token == "{"


def places(text: str) -> Iterator[tuple[tuple[str, ...], Place]]:
    """(path, place) of every key and value."""
    line, start, key = 1, 0, str(KEY)
    for path, offset, _, is_key in _walk(text):
        newlines = text.count("\n", start, offset)  # counted from the last place: one pass over the text
        line, start = line + newlines, offset
        steps = tuple(map(str, path))
        yield (*steps, key) if is_key else steps, (line, offset - text.rfind("\n", 0, offset))


def _first_fault(text: str, max_depth: int) -> Fault:
    seen: list[tuple[int, set[str]]] = []  # (depth, keys) of the open mappings
    for path, offset, token, is_key in _walk(text):
        depth = len(path)
        rule = _string_rule(token) if token[0] == '"' else None if is_key else _token_rule(token, depth, max_depth)
        if rule is not None:
            return Fault(_place(text, offset), rule, tuple(path[:MAX_PATH]))
        if is_key:
            while seen and seen[-1][0] > depth:
                seen.pop()
            if path[-1] in seen[-1][1]:
                return Fault(_place(text, offset), "the key stands twice in one mapping", tuple(path))
            seen[-1][1].add(path[-1])
        elif token == "{":
            while seen and seen[-1][0] > depth:
                seen.pop()
            seen.append((depth + 1, set()))
    return Fault((1, 1), "it cannot be read")


def _string_rule(token: str) -> str | None:
    return "the text holds half of a surrogate pair" if _lone_surrogate(token) else None


def _token_rule(token: str, depth: int, max_depth: int) -> str | None:
    if token in "{[":
        return f"it is nested deeper than {max_depth} levels" if depth >= max_depth else None
    if token in _CONSTANTS:
        return f"{token} is not a number that is read"
    if token[0] in "-0123456789":
        try:
            parse_decimal(token)
        except ValueError:
            return f"a number must have at most {MAX_DIGITS} digits and powers of ten"
    return None
