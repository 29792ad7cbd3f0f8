"""The binary form of a program: its entries, and the core's tables of them on one machine.

    KBPROG 1\\n
    SHA-256 of all that follows its line, in hex
    one line of JSON: versions, name, digest of the machine or null, the entries' classes, the tables' types and shapes
    the entries of each class as MessagePack, then the tables, little-endian and of the narrowest type that holds them

Data alone: reading it runs nothing. Entries come back with every field of its type and in its range, tables as int64 arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np

from kernbench.cmdq.entries import BarrierEntry, DmaEntry, Entry, HostEntry, KvEntry, PairEntry, TeEntry, VeEntry, entry_type
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
from kernbench.cmdq.read_entry import plain_debug
from kernbench.cmdq.table_rules import TABLES
from kernbench.version import VERSION

MAGIC = b"KBPROG 1\n"
SEAL = 64  # characters of a SHA-256
MAX_HEADER = 1 << 20  # [B]
CLASSES: tuple[type[Entry], ...] = (Entry, BarrierEntry, DmaEntry, PairEntry, HostEntry, KvEntry, TeEntry, VeEntry)
TYPES = ("<i1", "<i2", "<i4", "<i8")

Tables = dict[str, Any]
Size = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]  #: of what stands in a file
_DAMAGED = (msgspec.MsgspecError, ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError)


class Unreadable(Exception):
    """Why some bytes are not a program that this version reads; a rule, as errors have it."""


class Head(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The line of JSON."""

    kernbench: str
    program: str  #: version of the program's format
    name: str
    machine: str | None  #: digest of the machine that the tables are for
    entries: list[tuple[Size, Size, Size]]  #: per class: its place in CLASSES, how many, [B]
    tables: list[tuple[str, str, tuple[Size, ...]]]  #: name (`dma.route`), type, shape


@dataclass(frozen=True, slots=True)
class Packed:
    """What the bytes hold."""

    name: str
    entries: list[Entry]
    machine: str | None
    tables: Tables | None


def pack(name: str, entries: list[Entry], machine: str | None, tables: Tables | None) -> bytes:
    """The bytes of a program; the same program, the same bytes.

    ValueError where `meta` holds a number that MessagePack has no form for.
    """
    body: list[bytes] = []
    groups = []
    for number, kind in enumerate(CLASSES):
        group = [entry for entry in entries if type(entry) is kind]
        if group:
            try:
                body.append(msgspec.msgpack.encode(group))
            except OverflowError as error:
                raise ValueError("an integer of its metadata has more than 64 bits") from error
            groups.append((number, len(group), len(body[-1])))
    told = []
    for path, table in _flat(tables or {}):
        narrow = table.astype(_narrowest(table))
        body.append(narrow.tobytes())
        told.append((path, narrow.dtype.str if narrow.itemsize > 1 else "<i1", table.shape))
    head = Head(kernbench=VERSION, program=PROGRAM_VERSION, name=name, machine=machine, entries=groups, tables=told)
    sealed = b"".join((msgspec.json.encode(head), b"\n", *body))
    return MAGIC + hashlib.sha256(sealed).hexdigest().encode() + b"\n" + sealed


def unpack(data: bytes) -> Packed:
    """What `pack` packed; Unreadable where this is something else, is damaged, or is of another version."""
    if not data.startswith(MAGIC):
        raise Unreadable("it is no compiled program of version 1")
    begin = len(MAGIC) + SEAL + 1
    sealed = memoryview(data)[begin:]
    if data[len(MAGIC) : begin] != hashlib.sha256(sealed).hexdigest().encode() + b"\n":
        raise Unreadable("it is damaged: its checksum is another")
    end = data.find(b"\n", begin, begin + MAX_HEADER)
    try:
        head = msgspec.json.decode(data[begin : max(end, begin)], type=Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"its header is damaged: {error}") from None
    if (head.kernbench, head.program) != (VERSION, PROGRAM_VERSION):
        raise Unreadable(f"it was compiled by kernbench {head.kernbench[:40]}, and this is {VERSION}")
    body = memoryview(data)[end + 1 :]
    try:
        entries, at = _entries(head, body)
        tables = _tables(head, body[at:])
    except _DAMAGED as error:
        raise Unreadable(f"it holds no program: {str(error)[:200]}") from None
    return Packed(head.name, entries, head.machine, tables)


def _entries(head: Head, body: memoryview) -> tuple[list[Entry], int]:
    """The entries in file order, and where the tables begin."""
    count = sum(group[1] for group in head.entries)
    if not 0 <= count <= len(body):
        raise ValueError(f"{count} entries")
    entries: list[Any] = [None] * count
    at = 0
    for number, size, nbytes in head.entries:
        kind = CLASSES[number]
        group = bytes(body[at : at + nbytes])
        found = _decoder(number).decode(group)
        if len(found) != size or not {entry.opcode for entry in found} <= _opcodes(number):
            raise ValueError(f"other entries than {size} of {kind.__name__}")
        if msgspec.msgpack.encode(found) != group:
            raise ValueError(f"fields that {kind.__name__} does not have")
        for entry in found:
            if "debug" in entry.meta and entry.meta["debug"] != plain_debug(entry.meta["debug"]):
                raise ValueError("debug metadata that is not plain data")
            entries[entry.index] = entry
        at += nbytes
    if any(entry is None for entry in entries):
        raise ValueError("an entry is missing")
    return entries, at


@cache
def _decoder(number: int) -> msgspec.msgpack.Decoder[Any]:
    kind: Any = CLASSES[number]
    return msgspec.msgpack.Decoder(list[kind])


@cache
def _opcodes(number: int) -> frozenset[str]:
    return frozenset(name for name in OPCODES if entry_type(name) is CLASSES[number])


def _tables(head: Head, body: memoryview) -> Tables | None:
    out: Tables = {}
    at = 0
    strange = next((table for table in head.tables if table[1] not in TYPES), None)
    if strange is not None:
        raise ValueError(f"a table {strange[0]} of {strange[1]}")
    if head.tables and tuple(path for path, _, _ in head.tables) != TABLES:
        raise ValueError(f"other tables than {', '.join(TABLES)}")
    for path, kind, shape in head.tables:
        count = prod(shape)
        table = np.frombuffer(body, np.dtype(kind), count, at).astype(np.int64).reshape(shape)
        at += count * int(kind[2:])
        section, _, name = path.rpartition(".")
        (out.setdefault(section, {}) if section else out)[name] = table
    if at != len(body):
        raise ValueError(f"{len(body) - at} more bytes")
    return out if head.tables else None


def _flat(tables: Tables, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Tables with their paths, in a fixed order."""
    for name, table in sorted(tables.items()):
        if isinstance(table, dict):
            yield from _flat(table, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", table


def _narrowest(table: Any) -> str:
    if not table.size:
        return TYPES[0]
    low, high = int(table.min()), int(table.max())
    return next(kind for kind in TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
