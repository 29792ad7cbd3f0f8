"""Chakra execution traces: the nodes of each rank, as written by MLCommons Chakra, ASTRA-sim and PyTorch's converters.

A trace has a file for each rank, `PREFIX.RANK.et`. A file is a sequence of messages in the wire format of protocol buffers,
and the length of each message precedes it. The first message is `GlobalMetadata`; a `Node` follows for each node. The reader
uses only the fields on which times depend.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded

#: Node types of the format, by number.
TYPES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)  # fmt: skip
#: Kinds of collectives of the format, by number: ours. The ninth, REDUCE_SCATTER_BLOCK, has blocks of equal length, as ours.
COLLECTIVE_NAMES = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter", "reduce_scatter",
    "barrier",
)  # fmt: skip
MAX_BYTES = 256 << 20  # most bytes of a file
MAX_NODES = 1 << 20  # most nodes of a file
MAX_RANKS = 4096
#: What to do about control dependencies that cannot hold.
CALLERS = "PyTorch's converter writes the caller of a node there, which ends after it: --no-control leaves these out"

Value = int | bool | str | tuple[bool, ...]


@dataclass(frozen=True)
class Node:
    """One node of a rank."""

    number: int  #: its `id`
    type: str
    name: str = ""
    control: tuple[int, ...] = ()  #: numbers of the nodes that end before it begins
    data: tuple[int, ...] = ()
    micros: int = 0  #: its own duration
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """The nodes of a rank in the order of the file."""

    source: str
    nodes: tuple[Node, ...]

    def error(self, node: Node, name: str, rule: str, value: object = None, remedy: str = "") -> InputError:
        """Return an error that names the node and its field."""
        where = f"{self.source}: node {node.number}" + (f" ({node.name})" if node.name else "")
        if value is None:
            return InputError(Problem(where, rule, name, remedy=remedy))
        return InputError(Problem(where, rule, name, value, remedy))

    def natural(self, node: Node, name: str, most: int, usual: int | None = None) -> int:
        """Return an attribute that is an integer from 0 to `most`. Without the attribute, return `usual`, or raise InputError.
        """
        value = node.attributes.get(name, usual)
        if value is None:
            raise self.error(node, name, f"a {node.type} must have it")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise self.error(node, name, f"it must be a whole number from 0 to {most:,}", value)
        return value


def read_chakra(place: str | os.PathLike[str], control: bool = True) -> list[Trace]:
    """Read the traces of all ranks.

    Parameters
    ----------
    place
        A directory, or the prefix of the file names.
    control
        Whether control dependencies are read.

    Raises
    ------
    InputError
        If a trace is not valid. The message names the node, the field and the rule.
    """
    return [_read(path, control) for path in _files(Path(place))]


def _files(place: Path) -> list[Path]:
    """Return the files `PREFIX.0.et`, `PREFIX.1.et` and so on."""
    folder, prefix = (place, None) if os.path.isdir(place) else (place.parent, place.name)
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.glob("*.et")) if os.path.isdir(folder) else ():
        named = re.fullmatch(r"(.*)\.(0|[1-9][0-9]{0,8})\.et", path.name)
        if named is not None and prefix in (None, named[1]):
            found.setdefault(named[1], {})[int(named[2])] = path
    if not found:
        rule = "there are no files PREFIX.RANK.et" if prefix is None else f"there are no files {prefix}.RANK.et"
        remedy = "give a directory, or the prefix of the files, which is the part before .0.et"
        if place.suffix == ".json" or (os.path.isdir(place) and any(place.glob("*.json"))):
            remedy = "traces in JSON are not read: convert them with chakra_converter PyTorch (PREFIX.RANK.et)"
        if one := re.fullmatch(r"(.+)\.[0-9]+\.et", place.name):
            remedy = f"give the prefix of all ranks: {place.with_name(one[1])}"
        raise InputError(Problem(os.fspath(place), rule, remedy=remedy))
    if len(found) > 1:
        rule = f"it has traces of several prefixes: {', '.join(found)}"
        raise InputError(Problem(os.fspath(place), rule, remedy="give one of these prefixes with its directory"))
    (files,) = found.values()
    missing = next((rank for rank in range(len(files)) if rank not in files), None)
    if missing is not None:
        rule = f"ranks must be 0 to {len(files) - 1}, and rank {missing} has no file"
        raise InputError(Problem(os.fspath(place), rule))
    if len(files) > MAX_RANKS:
        raise InputError(Problem(os.fspath(place), f"it has {len(files):,} ranks, and at most {MAX_RANKS:,} are taken"))
    return [files[rank] for rank in range(len(files))]


def _read(path: Path, control: bool) -> Trace:
    source = os.fspath(path)
    wire = _Wire(source, read_bounded(path, MAX_BYTES))
    if wire.at < wire.end:
        for _ in wire.message("GlobalMetadata").fields():
            pass  # its version and attributes change no time
    nodes: list[Node] = []
    seen: set[int] = set()
    while wire.at < wire.end:
        node = _node(wire.message(f"message {len(nodes) + 1} (Node)"))
        if not control:
            node = replace(node, control=())
        if node.number in seen:
            raise Trace(source, ()).error(node, "id", "another node has it", node.number)
        if len(nodes) == MAX_NODES:
            raise InputError(Problem(source, f"it has more than {MAX_NODES:,} nodes"))
        seen.add(node.number)
        nodes.append(node)
    made = Trace(source, tuple(nodes))
    for node in nodes:
        for name, numbers in (("data_deps", node.data), ("ctrl_deps", node.control)):
            missing = next((one for one in numbers if one not in seen), None)
            if missing is not None:
                remedy = CALLERS if name == "ctrl_deps" else ""
                raise made.error(node, name, "the file has no node of this id", missing, remedy)
    return made


def _node(wire: _Wire) -> Node:
    number, kind, micros, name = 0, 0, 0, ""
    deps: dict[int, list[int]] = {4: [], 5: []}
    attributes: dict[str, Value] = {}
    for key, value in wire.fields():
        if key in deps:
            deps[key] += wire.numbers(value)
        elif key == 10:
            attribute, found = _attribute(wire.inner(key, value))
            if found is not None:
                attributes[attribute] = found
        elif key == 2:
            name = wire.text(key, value)
        elif key in (1, 3, 7):
            plain = wire.number(key, value)
            number, kind, micros = (
                plain if key == 1 else number, plain if key == 3 else kind, plain if key == 7 else micros
            )  # fmt: skip
    where = f"{wire.source}: node {number}" + (f" ({name})" if name else "")
    if not 1 <= kind < len(TYPES):
        rule = f"it must be one of 1 to {len(TYPES) - 1} ({', '.join(TYPES[1:])})"
        raise InputError(Problem(where, rule, "type", kind))
    return Node(number, TYPES[kind], name, tuple(deps[4]), tuple(deps[5]), micros, attributes)


def _attribute(wire: _Wire) -> tuple[str, Value | None]:
    """Return the name and value of an attribute: a number, a text or a list of truth values. Return None for other types."""
    name = ""
    found: Value | None = None
    for key, value in wire.fields():
        if key == 1:
            name = wire.text(key, value)
        elif key in (7, 9):
            plain = wire.number(key, value)
            found = plain - (1 << 64) if plain >> 63 else plain
        elif key in (11, 13):
            found = wire.number(key, value)
        elif key in (15, 17):
            plain = wire.number(key, value)
            found = (plain >> 1) ^ -(plain & 1)
        elif key in (19, 21, 23, 25):
            if not isinstance(value, bytes):
                raise wire.error(f"field {key} must have a fixed length")
            found = int.from_bytes(value, "little", signed=key > 21)
        elif key == 27:
            found = bool(wire.number(key, value))
        elif key == 28:
            inner = wire.inner(key, value)
            found = tuple(bool(one) for _, values in inner.fields() for one in inner.numbers(values))
        elif key == 29:
            found = wire.text(key, value)
    return name, found


class _Wire:
    """A message in the wire format: fields with a number and a value, in any order."""

    def __init__(self, source: str, data: bytes, at: int = 0, end: int | None = None, what: str = "the file") -> None:
        self.source, self.data, self.at, self.what = source, data, at, what
        self.end = len(data) if end is None else end

    def error(self, rule: str) -> InputError:
        """Return an error that names the message and the byte of the file."""
        return InputError(Problem(f"{self.source}: {self.what}", f"{rule} (byte {self.at:,})"))

    def varint(self) -> int:
        """Read an integer of at most 64 bits, with seven bits in each byte."""
        found = 0
        for shift in range(0, 70, 7):
            if self.at >= self.end:
                raise self.error("the file ends in the middle of a number")
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                if found >> 64:
                    break
                return found
        raise self.error("a number has more than 64 bits")

    def message(self, what: str) -> _Wire:
        """Read the message that begins here with its length."""
        length = self.varint()
        if length > self.end - self.at:
            raise self.error(f"{what} has a length of {length:,} bytes, and {self.end - self.at:,} are left")
        self.at += length
        return _Wire(self.source, self.data, self.at - length, self.at, what)

    def fields(self) -> Iterator[tuple[int, int | bytes | _Wire]]:
        """Yield the number and value of each field."""
        while self.at < self.end:
            key = self.varint()
            number, kind = key >> 3, key & 7
            if kind == 0:
                yield number, self.varint()
            elif kind == 2:
                yield number, self.message(f"{self.what}, field {number}")
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                if size > self.end - self.at:
                    raise self.error("the file ends in the middle of a number")
                self.at += size
                yield number, self.data[self.at - size : self.at]
            else:
                raise self.error(f"field {number} has the wire type {kind}, which messages do not have")

    def number(self, key: int, value: int | bytes | _Wire) -> int:
        if not isinstance(value, int):
            raise self.error(f"field {key} must be a number")
        return value

    def inner(self, key: int, value: int | bytes | _Wire) -> _Wire:
        if not isinstance(value, _Wire):
            raise self.error(f"field {key} must be a message")
        return value

    def text(self, key: int, value: int | bytes | _Wire) -> str:
        inner = self.inner(key, value)
        return inner.data[inner.at : inner.end].decode(errors="replace")

    def numbers(self, value: int | bytes | _Wire) -> list[int]:
        """Return a repeated number: a single number, or several packed in one field."""
        if isinstance(value, int):
            return [value]
        found, inner = [], self.inner(0, value)
        while inner.at < inner.end:
            found.append(inner.varint())
        return found


def write_chakra(nodes: Sequence[Node]) -> bytes:
    """Return the bytes of the file of a rank."""
    parts = [_field(1, "0.0.4")]
    return b"".join(_delimited(one) for one in (*parts, *(_node_bytes(node) for node in nodes)))


def _node_bytes(node: Node) -> bytes:
    parts = [_field(1, node.number), _field(2, node.name), _field(3, TYPES.index(node.type))]
    for key, numbers in ((4, node.control), (5, node.data)):
        if numbers:
            parts.append(_field(key, b"".join(_varint(one) for one in numbers)))
    parts.append(_field(7, node.micros))
    for name, value in node.attributes.items():
        key = 27 if isinstance(value, bool) else 9 if isinstance(value, int) else 29 if isinstance(value, str) else 28
        plain = _field(1, bytes(value)) if isinstance(value, tuple) else value
        parts.append(_field(10, _field(1, name) + _field(key, plain, always=True)))
    return b"".join(parts)


def _field(key: int, value: int | str | bytes, always: bool = False) -> bytes:
    """Return the bytes of a field. A field with the default value has no bytes, as in the format."""
    if not value and not always:
        return b""
    if isinstance(value, int):
        return _varint(key << 3) + _varint(value)
    return _varint(key << 3 | 2) + _delimited(value.encode() if isinstance(value, str) else value)


def _delimited(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))
