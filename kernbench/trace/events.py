"""A record of a trace file: one class for each event type, made from the schema, and its JSON line.

Attributes are the fields of the schema; a missing field is None. Every record has the common fields: `t_cycle` always has a
value; the others are None if the line omits them, and then have the value of `TRACE_META.defaults`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from kernbench.trace import schema

MAX_INT = 2**63 - 1  # ids, cycles and bytes are signed 64-bit integers in the core
MAX_NUMBER = 10.0**60  # largest energy or reading: sums of larger numbers may be too large for a float

_CONFIG: dict[str, Any] = {"frozen": True, "gc": False, "omit_defaults": True, "kw_only": True}
_COUNT = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
_WHOLE = Annotated[int, msgspec.Meta(ge=-MAX_INT - 1, le=MAX_INT)]
_KINDS: dict[str, Any] = {
    "int": _COUNT,
    "text": str,
    "number": _WHOLE | Annotated[float, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)],
    "flag": bool,
    "label": _WHOLE | str,
    "ints": list[_COUNT],
    "texts": list[str],
    "object": dict[str, Any],
    "objects": list[dict[str, Any]],
}


class Record(msgspec.Struct, tag_field="event_type", **_CONFIG):
    """The common base of all records. Build one by keyword: `RECORDS["CMD_START"](t_cycle=0, cmd_id=3, unit="te0")`."""

    event: ClassVar[schema.Event]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The fields of the event; only the schema has them."""


def _fields(event: schema.Event, wanted: Iterable[str] | None, strict: bool) -> list[tuple[Any, ...]]:
    """`t_cycle`, the fields of the event, then the common fields that the event does not have; only those of `wanted`, if it
    is given.
    """
    own = {field.name for field in event.fields}
    first, *common = schema.COMMON_FIELDS
    chosen = [first, *event.fields, *(field for field in common if field.name not in own)]
    made: list[tuple[Any, ...]] = []
    for field in chosen:
        if wanted is not None and field.name not in wanted:
            continue
        kind = Literal[field.choices] if strict and field.choices else _KINDS[field.kind]
        required = field is first or (field.required and field in event.fields)
        made.append((field.name, kind) if required else (field.name, kind | None, None))
    return made


def _record(event: schema.Event, wanted: Iterable[str] | None = None, *, strict: bool = False) -> type[Any]:
    return msgspec.defstruct(
        event.name,
        _fields(event, wanted, strict),
        bases=(Record,),
        module=__name__,
        namespace={"event": event, "__doc__": event.doc},
        tag=event.name,
        forbid_unknown_fields=strict,
        **_CONFIG,
    )


RECORDS: dict[str, type[Any]] = {event.name: _record(event) for event in schema.EVENTS}  #: event type: its class


def union(types: Iterable[type[Any]]) -> Any:
    """The type of a line that is one of these records."""
    return reduce(or_, types)


@cache
def strict_types() -> Any:
    """The records as in files of exactly this version: without other fields, and with only the choices of the table."""
    return union(_record(event, strict=True) for event in schema.EVENTS)


def some_types(wanted: Mapping[str, Iterable[str]]) -> Any:
    """Records with only some fields, by event type; an event type that is not in `wanted` has none.

    Other fields are not decoded, so reading is several times as fast.
    """
    return union(_record(event, tuple(wanted.get(event.name, ()))) for event in schema.EVENTS)


ALL_TYPES = union(RECORDS.values())
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ALL_TYPES)


def encode(record: Record) -> bytes:
    """The line of a record, without the line feed: compact JSON, its keys in the schema's order, absent fields left out."""
    return _encoder.encode(record)


def decode(line: bytes | str) -> Record:
    """The record of a line. msgspec.DecodeError if this is not valid JSON, msgspec.ValidationError if it is not a record."""
    record: Record = _decoder.decode(line)
    return record
