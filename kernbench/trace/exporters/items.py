"""What a timeline is made of: tracks, and slices, instants and counter points on them. Times are cycles, ends exclusive."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from kernbench.trace.events import Record

NAME_CHARS = 200  #: of a name, the rest is cut off
TEXT_CHARS = 4_000  #: of a text among the arguments
_CUT = "..."


class Track(NamedTuple):
    """A line of the picture, or a heading over some."""

    number: int  #: from 1 on, in the order of their making
    name: str
    kind: Literal["group", "lane", "counter"]
    parent: int  #: the track that it stands under; 0 where it stands by itself
    top: int  #: the highest of those above it, itself where it stands by itself
    rank: int  #: among those under the same parent


class Slice(NamedTuple):
    """Something that lasts."""

    track: int
    name: str
    category: str
    start: int  #: [cycle]
    end: int  #: [cycle]
    args: dict[str, Any]
    leaving: tuple[int, ...] = ()  #: flows that begin here
    arriving: tuple[int, ...] = ()  #: flows that end here


class Instant(NamedTuple):
    """Something that happens."""

    track: int
    name: str
    category: str
    at: int  #: [cycle]
    args: dict[str, Any]


class Point(NamedTuple):
    """A counter's value from here on."""

    track: int
    at: int  #: [cycle]
    value: int | float


Item = Track | Slice | Instant | Point


def plain(text: str, most: int = NAME_CHARS) -> str:
    """A text that does no harm: one line, printable, not long; what is not printable is written as `\\u001b`."""
    if len(text) > most:
        text = text[: most - len(_CUT)] + _CUT
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def arguments(record: Record, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields that a record has, as numbers, truth values and texts."""
    names = record.__struct_fields__
    values = ((name, getattr(record, name)) for name in names if name != "t_cycle" and name not in without)
    return {name: _argument(value) for name, value in values if value is not None}


def _argument(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return plain(", ".join(map(str, value)), TEXT_CHARS)
    if isinstance(value, str):
        return plain(value, TEXT_CHARS)
    return plain(json_text(value), TEXT_CHARS)


def json_text(value: Any) -> str:
    """A value as JSON text, compact."""
    return msgspec.json.encode(value).decode()
