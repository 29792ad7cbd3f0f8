"""JSON with exact decimals; duplicate keys, NaN, huge numbers and lone surrogates are refused.

The standard parser reads the text. Its hooks do not know positions, so errors are located by a second scan over the tokens; the
scan also finds the position of a path. A valid document is never scanned this way. A long text of integers and plain strings,
such as a program, is read by msgspec, which is several times as fast but has no hooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from functools import cache
from typing import Annotated, Any

import msgspec

from kernbench.common.units import MAX_DIGITS, parse_decimal
from kernbench.config.places import KEY, TWICE, Fault, TextPosition

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_PATH = 8  # steps of a path that a message shows
_CONSTANTS = ("NaN", "Infinity", "-Infinity")
_SHALLOW = 6  # levels of nesting that msgspec reads
_LONG = 1 << 12  # characters from which msgspec is tried first: most shorter texts are machines with decimals


class _Index(str):
    """A step of a path that is the index of a list item."""


class _Refused(Exception):
    """Raised inside the parser's hooks; the scan then finds the location."""


def parse(text: str, max_depth: int) -> Any:
    """The data of the text; Fault with the location of the first refused part."""
    if len(text) >= _LONG and max_depth >= _SHALLOW and "\\" not in text:
        data = _plain_data(text)
        if data is not None:
            return data
    try:
        data = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        comma = re.search(r",\s*$", text[: error.pos]) and text[error.pos : error.pos + 1] in ("}", "]")
        remedy = "remove the comma before the closing bracket" if comma else ""
        raise Fault((error.lineno, error.colno), f"this is not valid JSON: {error.msg}", remedy=remedy) from None
    except (_Refused, RecursionError):
        raise _first_fault(text, max_depth) from None
    if _deeper_than(data, max_depth) or (_ESCAPED_SURROGATE.search(text) and _has_surrogate(text)):
        raise _first_fault(text, max_depth)
    return data


def _plain_data(text: str) -> Any:
    """The data of a text without escapes, if it is valid, shallow and without decimals; None for any other text.

    Of duplicate keys, msgspec keeps the last. Data that lost a key have fewer colons than their text: without escapes, each
    colon of the text belongs to a key or is in a string, and the encoder writes both again.
    """
    try:
        data = _plain_decoder().decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return data if msgspec.json.encode(data).count(b":") == text.count(":") else None


@cache
def _plain_decoder() -> msgspec.json.Decoder[Any]:
    """A decoder of nested lists and mappings of integers below 2^63, strings and constants; each level doubles its types."""
    plain: Any = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str | bool | None
    nested: Any = plain
    for _ in range(_SHALLOW):
        nested = plain | list[nested] | dict[str, nested]
    return msgspec.json.Decoder(nested)


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
    if "\\" not in token:
        return False
    return any("\ud800" <= char <= "\udfff" for char in json.loads(token, strict=False))


def _place(text: str, offset: int) -> TextPosition:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _walk(
    text: str, skip: Callable[[tuple[str, ...], int], int | None]
) -> Iterator[tuple[tuple[str, ...], int, str, bool]]:
    """(path, offset, token, is a key) of keys and values in order.

    `skip` is called at each container and may return the end of the container, which is then not entered. The text may be
    anything: the walk ends where the text is no longer valid.
    """
    path: list[str] = []
    counts: list[int] = []  # per open container: items so far of a list, -1 for a mapping
    expect_key = False
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        token, offset, position = match[0], match.start(), match.end()
        if token in "}],":
            if not counts:
                return
            expect_key = token == "," and counts[-1] < 0
            if token != ",":
                counts.pop()
                path.pop()
            elif not expect_key:
                counts[-1] += 1
                path[-1] = _Index(counts[-1])
        elif token == ":":
            expect_key = False
        elif expect_key:
            path[-1] = _key_text(token)
            yield tuple(path), offset, token, True
        else:
            here = tuple(path)
            yield here, offset, token, False
            if token in "{[":
                end = skip(here, offset)
                if end is not None:
                    position = end
                    continue
                expect_key = token == "{"
                counts.append(-1 if expect_key else 0)
                path.append(_Index(0))


def _key_text(token: str) -> str:
    return str(json.loads(token, strict=False)) if "\\" in token else token.strip('"')


def places(text: str, wanted: Collection[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], TextPosition]]:
    """(path, place) of keys and values, without going into containers whose path is not `wanted`."""
    decoder = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len)  # values are skipped
    line, last, key = 1, 0, str(KEY)
    for path, offset, _, is_key in _walk(
        text, lambda path, start: None if path in wanted else decoder.raw_decode(text, start)[1]
    ):
        steps = (*path, key) if is_key else path
        if steps in wanted:
            line += text.count("\n", last, offset)  # counted from the previous position, so the text is scanned once
            last = offset
            yield steps, (line, offset - text.rfind("\n", 0, offset))


def _first_fault(text: str, max_depth: int) -> Fault:
    """The first part of a valid JSON text that is refused."""
    keys: dict[int, set[str]] = {}  # of the innermost open mapping at each depth

    def skip_sound(path: tuple[str, ...], start: int) -> int | None:
        try:
            data, end = _DECODER.raw_decode(text, start)
        except (_Refused, RecursionError, json.JSONDecodeError):
            return None
        deep = _deeper_than(data, max_depth - len(path))
        return None if deep or _ESCAPED_SURROGATE.search(text, start, end) else end

    for path, offset, token, is_key in _walk(text, skip_sound):
        depth = len(path)
        rule = None
        if token[0] == '"':
            rule = "the text contains half of a surrogate pair" if _lone_surrogate(token) else None
        if is_key and rule is None:
            if path[-1] in keys[depth]:
                rule = TWICE
            keys[depth].add(path[-1])
        elif token == "{":
            keys[depth + 1] = set()
        rule = rule or (None if is_key else _token_rule(token, depth, max_depth))
        if rule is not None:
            steps = tuple(int(step) if isinstance(step, _Index) else step for step in path[:MAX_PATH])
            return Fault(_place(text, offset), rule, steps)
    return Fault((1, 1), "it cannot be read")


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


_DECODER = json.JSONDecoder(
    object_pairs_hook=_mapping, parse_int=_integer, parse_float=_decimal, parse_constant=_no_constant
)
