"""Building blocks of the JSON Schemas (draft 2020-12) of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Shape = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
COUNT: Shape = {"type": "integer", "minimum": 0}
CYCLE: Shape = {"type": ["integer", "null"], "minimum": 0}
NUMBER: Shape = {"type": "number", "minimum": 0}
TEXT: Shape = {"type": "string"}
NO_TEXT: Shape = {"type": ["string", "null"]}


def closed(properties: Mapping[str, Shape], optional: Sequence[str] = (), **more: Any) -> Shape:
    """An object with these keys; other keys are not allowed, and the optional keys may be missing."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False, **more}


def list_of(items: Shape) -> Shape:
    """An array of items of this shape."""
    return {"type": "array", "items": items}


def map_of(values: Shape) -> Shape:
    """An object with any keys and values of this shape."""
    return {"type": "object", "additionalProperties": values}


def or_null(shape: Shape) -> Shape:
    """The shape, or null."""
    return {"anyOf": [shape, {"type": "null"}]}


def titled(title: str, shape: Shape) -> Shape:
    """A whole schema."""
    return {"$schema": DRAFT, "title": title, **shape}


def counted(number: int, noun: str) -> str:
    """A number with a noun: `1 job`, `1,240 jobs`, `2 entries`; the noun may have words before it: `1 more engine`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"
