"""Compiled programs (`.kbp`): JSON, MessagePack and binary tables, sealed by a checksum that is made again after a change."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from tests.property.fuzz.bases import System, npu_systems
from tests.property.fuzz.case import Case
from tests.property.fuzz.formats.machine_files import LIMIT, ON
from tests.property.fuzz.harness import Limits, run_case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed
from tests.property.fuzz.values import WORDS
from tests.property.fuzz.words import words_changed

MAGIC = b"KBPROG 4\n"
TYPES = ("<i1", "<i2", "<i4", "<i8")


@dataclass(slots=True)
class Parts:
    """A compiled program, taken apart."""

    head: dict[str, Any]
    entries: list[bytes]  #: MessagePack, by class
    tables: list[Any]  #: numpy arrays, in the order of the header

    def packed(self) -> bytes:
        """The file: the header says the sizes, types and shapes that are there now."""
        groups = [
            [number, count, len(data)] for (number, count, _), data in zip(self.head["entries"], self.entries, strict=True)
        ]
        told, body = [], []
        for (path, _, _), table in zip(self.head["tables"], self.tables, strict=True):
            kind = _narrowest(table)
            body.append(table.astype(kind).tobytes())
            told.append([path, kind, list(table.shape)])
        return sealed(as_json({**self.head, "entries": groups, "tables": told}), b"".join([*self.entries, *body]))


def _narrowest(table: Any) -> str:
    if not table.size:
        return TYPES[0]
    low, high = int(table.min()), int(table.max())
    return next(kind for kind in TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def sealed(head: bytes, body: bytes) -> bytes:
    """A file of a header and what follows it, with their checksum."""
    data = head + b"\n" + body
    return MAGIC + hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def taken_apart(data: bytes) -> Parts:
    """The parts of a sound file."""
    rest = data[len(MAGIC) + 65 :]
    line, _, body = rest.partition(b"\n")
    head = json.loads(line)
    at, entries, tables = 0, [], []
    for _, _, size in head["entries"]:
        entries.append(body[at : at + size])
        at += size
    for _, kind, shape in head["tables"]:
        count = int(np.prod(shape))
        tables.append(np.frombuffer(body, kind, count, at).astype(np.int64).reshape(shape))
        at += tables[-1].size * int(kind[2:])
    return Parts(head, entries, tables)


class CompiledFormat:
    """Compiled programs, on the machine that they are for and on another."""

    name = "kbp"

    def __init__(self, number: int, count: int) -> None:
        self.bases: list[tuple[System, bytes]] = []
        for machine, program in npu_systems(count, number):
            files = {"m.yaml": as_yaml(machine), "p.json": as_json(program)}
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "run"
                ended = run_case(Case(("program", "compile", "p.json", *ON, "--out", "p.kbp"), files), place, Limits())
                assert ended.code == 0, ended
                self.bases.append(((machine, program), (place / "p.kbp").read_bytes()))

    def sound(self) -> list[Case]:
        """Every file as it is, sealed here, and run."""
        return [
            Case(("run", "p.kbp", *ON), {"m.yaml": as_yaml(machine), "p.kbp": taken_apart(data).packed()})
            for (machine, _), data in self.bases
        ]

    def mutated(self, rng: Random) -> Case:
        """A file with other tables, entries or header, as a rule with the checksum of these."""
        (machine, _), data = rng.choice(self.bases)
        files = {"m.yaml": as_yaml(machine), "p.kbp": changed_file(rng, data)}
        other = ("--config", "npu_mobile", *LIMIT)
        arguments = rng.choice(
            (
                ("run", "p.kbp", *ON),
                *[("run", "p.kbp", *ON, "--quiet")] * 10,
                *[("run", "p.kbp", *ON, "--no-skip", "--quiet")] * 3,
                ("run", "p.kbp", *ON, "--trace", "t.jsonl", "--trace-level", "full"),
                ("run", "p.kbp", *other),
                ("program", "show", "p.kbp", *ON),
                ("program", "check", "p.kbp", *ON),
                ("step", "p.kbp", *ON, "--cycles", "100"),
                ("whatif", "p.kbp", *ON),
            )
        )
        return Case(arguments, files)

    def readers(self) -> list[tuple[Case, str]]:
        """`run`, and `program check`."""
        (machine, _), data = self.bases[0]
        files = {"m.yaml": as_yaml(machine), "p.kbp": data}
        return [(Case(("run", "p.kbp", *ON), files), "p.kbp"), (Case(("program", "check", "p.kbp"), files), "p.kbp")]


def changed_file(rng: Random, data: bytes) -> bytes:
    """One change: mostly of numbers of tables."""
    parts = taken_apart(data)
    way = rng.randrange(100)
    if way < 55:
        _change_tables(rng, parts)
        return parts.packed()
    if way < 65:
        _change_shapes(rng, parts)
        return parts.packed()
    if way < 80:
        i = rng.randrange(len(parts.entries))
        made = changed(rng, msgspec.msgpack.decode(parts.entries[i]))
        try:
            parts.entries[i] = msgspec.msgpack.encode(made)
        except (OverflowError, UnicodeEncodeError):
            parts.entries[i] = bytes_changed(rng, parts.entries[i])
        if isinstance(made, list) and rng.random() < 0.7:
            parts.head["entries"][i][1] = len(made)
        return parts.packed()
    head = data[len(MAGIC) + 65 :].partition(b"\n")[0]
    body = data[len(MAGIC) + 65 + len(head) + 1 :]
    if way < 90:
        return sealed(as_json(changed(rng, json.loads(head))), body)
    if way < 95:
        return sealed(head, words_changed(rng, body) if rng.random() < 0.7 else bytes_changed(rng, body))
    return bytes_changed(rng, data)


def _change_tables(rng: Random, parts: Parts) -> None:
    """Other numbers in one to five places: edges, from elsewhere in the table, from another table, of the neighbour."""
    filled = [i for i, table in enumerate(parts.tables) if table.size]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        i = rng.choice(filled)
        parts.tables[i] = parts.tables[i].copy()
        flat = parts.tables[i].reshape(-1)
        at = rng.randrange(flat.size)
        way = rng.randrange(8)
        if way < 3:
            flat[at] = rng.choice(WORDS)
        elif way == 3:
            value = int(flat[at]) + rng.choice((1, -1, 2, 8, -8))
            flat[at] = value if -(2**63) <= value < 2**63 else 0
        elif way == 4:
            flat[at] = flat[rng.randrange(flat.size)]
        elif way == 5:
            other = parts.tables[rng.choice(filled)].reshape(-1)
            flat[at] = other[rng.randrange(other.size)]
        elif way == 6:
            near = (at + 1) % flat.size
            flat[at], flat[near] = int(flat[near]), int(flat[at])
        else:
            flat[:] = rng.choice(WORDS)


def _change_shapes(rng: Random, parts: Parts) -> None:
    """A table longer, shorter, of another shape, missing, twice, or under another's name."""
    i = rng.randrange(len(parts.tables))
    table, told = parts.tables[i], parts.head["tables"]
    way = rng.randrange(7)
    if way == 0:
        parts.tables[i] = table[: rng.randint(0, len(table))] if table.ndim else table
    elif way == 1:
        parts.tables[i] = np.concatenate([table, table]) if table.ndim else table
    elif way == 2:
        parts.tables[i] = table.reshape(rng.choice(((1, -1), (-1, 1), (-1,), (1, 1, -1)))) if table.size else table[None]
    elif way == 3:
        parts.tables.pop(i)
        told.pop(i)
    elif way == 4:
        parts.tables.append(table)
        told.append(list(told[i]))
    elif way == 5:
        told[i] = [told[rng.randrange(len(told))][0], *told[i][1:]]
    else:
        j = rng.randrange(len(told))
        parts.tables[i], parts.tables[j] = parts.tables[j], parts.tables[i]
