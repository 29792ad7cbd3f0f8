"""Compiled programs: `.kbp` files that users make, and the tables that belong to a program.

The file has the entries of a program, and the core's tables of these entries on one machine:

    KBPROG 4\n
    SHA-256 of all that follows its line, in hex
    one line of JSON: versions, name, digest of the machine or null, the entries' classes, the tables' types and shapes
    the entries of each class as MessagePack, then the tables, little-endian and of the narrowest type that holds them

The file is pure data: reading it runs no code. Reading restores entries with every field of its type and in its range, and
tables as int64 arrays.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from kernbench.cmdq.entries import BarrierEntry, DmaEntry, Entry, HostEntry, KvEntry, PairEntry, TeEntry, VeEntry, entry_type
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.parse import program_of
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
from kernbench.cmdq.program import Lowered, Program
from kernbench.cmdq.read_entry import plain_debug
from kernbench.cmdq.table_rules import TABLES, broken_rule, differing
from kernbench.common.errors import InputError, InternalError, Problem
from kernbench.common.files import read_bounded, write_whole
from kernbench.config.document import PROGRAM_BYTES
from kernbench.config.machine import MachineConfig
from kernbench.version import VERSION

MAGIC = b"KBPROG 4\n"
SEAL = 64  # characters of a SHA-256
MAX_HEADER = 1 << 20  # [B]
CLASSES: tuple[type[Entry], ...] = (Entry, BarrierEntry, DmaEntry, PairEntry, HostEntry, KvEntry, TeEntry, VeEntry)
TYPES = ("<i1", "<i2", "<i4", "<i8")

Tables = dict[str, Any]
Size = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]  #: limits of the content of a file
_DAMAGED = (msgspec.MsgspecError, ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError)


class Unreadable(Exception):
    """Why bytes are not a program that this version can read; the text is a rule, as errors use it."""


class Head(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The line of JSON."""

    kernbench: str
    program: str  #: version of the program's format
    name: str
    machine: str | None  #: digest of the machine that the tables are for
    entries: list[tuple[Size, Size, Size]]  #: by class: position in CLASSES, count, [B]
    tables: list[tuple[str, str, tuple[Size, ...]]]  #: name (`dma.route`), type, shape


@dataclass(frozen=True, slots=True)
class Packed:
    """The content of the bytes."""

    name: str
    entries: list[Entry]
    machine: str | None
    tables: Tables | None


def pack(name: str, entries: list[Entry], machine: str | None, tables: Tables | None) -> bytes:
    """The bytes of a program; equal programs give equal bytes.

    ValueError if `meta` has a number that MessagePack cannot represent.
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
    """The inverse of `pack`. Unreadable for other or damaged bytes, and for bytes of another version."""
    if not data.startswith(MAGIC):
        raise Unreadable("it is not a compiled program of version 4")
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
    """The entries in file order, and the offset of the tables."""
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


SUFFIX = ".kbp"
REMEDY = "make it again with `kbsim program compile`"


def lowered_on(program: Program, config: MachineConfig) -> None:
    """Store the plan for a machine in the program; InputError if the program is not valid on the machine."""
    program.lowered = Lowered(config.digest(), list(program.entries), plan_program(program, config))  # type: ignore[arg-type]


def packed(program: Program) -> bytes:
    """The program and its stored tables in binary form; ValueError if its metadata have no binary form."""
    lowered = program.lowered
    if lowered is None:
        return pack(program.name, program.entries, None, None)
    return pack(program.name, program.entries, lowered.machine, lowered.plan.program)


def unpacked(data: bytes, source: str, config: MachineConfig | None) -> tuple[Packed, Program]:
    """The program in binary form, with its tables if they are for this machine.

    Unreadable if the tables do not fit the machine or the entries; InputError if the entries are not valid on the machine.
    """
    found = unpack(data)
    program = Program(found.name, (), source)
    program.entries = found.entries
    if found.tables is not None and config is not None and found.machine == config.digest():
        plan = _plan_of(program, config)
        different = differing(found.tables, plan.program)
        if different is not None:
            broken = broken_rule(found.tables, len(found.entries), plan)
            rule = f"are not those of its entries: {different}" if broken is None else f"do not fit the machine: {broken}"
            raise Unreadable(f"its tables {rule}")
        program.lowered = Lowered(found.machine, list(found.entries), plan)
    return found, program


def _plan_of(program: Program, config: Any) -> Plan:
    """The plan of a file's entries on a machine."""
    try:
        return plan_program(program, config, regular=True)
    except (InputError, InternalError):  # their problems are reported as for a text file
        read = _as_if_read(program)
    if read.entries != program.entries:
        raise Unreadable("its entries are not as reading makes them")
    return plan_program(read, config)


def save_compiled(program: Program, config: MachineConfig, path: str | os.PathLike[str]) -> None:
    """Write a program and its tables for a machine to a `.kbp` file; the file is written completely or not at all.

    InputError if the program is not valid on the machine, the name has another ending, or the file cannot be written.
    """
    target = os.fspath(path)
    if Path(target).suffix.lower() != SUFFIX:
        raise InputError(Problem(target, f"the file name must end in {SUFFIX}"))
    lowered_on(program, config)
    try:
        data = packed(program)
    except ValueError as error:
        raise InputError(
            Problem(program.source, f"it has no binary form: {error}", remedy="keep the program as JSON")
        ) from None
    write_whole(target, data)


def load_compiled(
    path: str | os.PathLike[str], config: MachineConfig | None = None, *, max_bytes: int = PROGRAM_BYTES
) -> Program:
    """The program in a `.kbp` file. On the machine for which it was compiled, the tables of the file are used.

    For any other machine, its entries are read as if they were JSON, with every check. InputError if the file cannot be read,
    is larger than `max_bytes`, is damaged, or has another version.
    """
    source = os.fspath(path)
    data = read_bounded(source, max_bytes, remedy="raise max_bytes to read it")
    try:
        _, program = unpacked(data, source, config)
    except Unreadable as error:
        raise InputError(Problem(source, str(error), remedy=REMEDY)) from None
    return program if program.lowered is not None else _as_if_read(program)


def _as_if_read(program: Program) -> Program:
    return program_of(program.to_dict(), program.source)
