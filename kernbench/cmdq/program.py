"""A command queue program in memory: its name and its entries."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kernbench.cmdq.build import ProgramBuilder
from kernbench.cmdq.entries import BarrierEntry, DmaEntry, Entry, KvEntry, TeEntry, VeEntry
from kernbench.cmdq.opcodes import OPCODES
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import write_whole
from kernbench.config.document import Document

if TYPE_CHECKING:
    from kernbench.cmdq.dependencies import Edges
    from kernbench.cmdq.plan import Plan

__all__ = ["BarrierEntry", "DmaEntry", "Entry", "KvEntry", "Program", "TeEntry", "VeEntry"]

VERSION = "1.0"
READ = "to read a program: load_program(FILE or mapping)"


class Lowered(msgspec.Struct, frozen=True):
    """The plan of a program on one machine."""

    machine: str  #: digest
    entries: list[Entry]  #: the entries from which it was made: a program may grow
    plan: Plan


class Sound(msgspec.Struct, frozen=True):
    """Ids, dependencies and END of these entries have no problem."""

    entries: list[Entry]  #: a program may grow
    edges: Edges


class Program(ProgramBuilder):
    """A command queue program: a name and a list of entries. `load_program` reads one; methods append entries and return their
    ids.

    `source`: its name in errors. Sizes and addresses are in bytes. A method raises InputError for a field that is not valid.

    >>> import kernbench as kb
    >>> program = kb.Program("gemm")
    >>> tile = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                        wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> len(program), kb.simulate(program, "npu_mobile").cycles
    (1, 34)
    """

    def __init__(self, name: str = "", entries: Iterable[Entry] = (), source: str = "program") -> None:
        if not isinstance(name, str):
            remedy = READ if isinstance(name, (Mapping, os.PathLike)) else ""
            rule = f"it must be a text, and it is of type {type(name).__name__}"
            raise InputError(Problem("Program: name", rule, remedy=remedy))
        if isinstance(entries, str) or not isinstance(entries, Iterable):
            raise InputError(Problem("Program: entries", f"they must be a list, and they are of type {type(entries).__name__}"))
        entries = list(entries)
        if wrong := next((type(one).__name__ for one in entries if not isinstance(one, Entry)), ""):
            rule = f"they must be of type Entry, and one is of type {wrong}"
            raise InputError(Problem("Program: entries", rule, remedy=READ))
        super().__init__(source)
        self.name = str.__str__(name)  # plain, also if it is of another type, such as numpy's
        self.document: Document | None = None  #: the file's text, so that later checks can name lines
        self.lowered: Lowered | None = None  #: its plan, if it is known
        self.entries += [
            entry if entry.index == i else msgspec.structs.replace(entry, index=i) for i, entry in enumerate(entries)
        ]
        self.sound: Sound | None = None  #: the reader's result about ids and dependencies

    @property
    def known_edges(self) -> Edges | None:
        """The result of `dependencies.edges_of`, if the reader found no problem and the program is unchanged since then."""
        return self.sound.edges if self.sound is not None and self.sound.entries == self.entries else None

    @property
    def metadata(self) -> dict[str, str]:
        """The program's `metadata` object."""
        return {"version": VERSION, "name": self.name} if self.name else {"version": VERSION}

    @property
    def nothing(self) -> str:
        """`no entries`, or `only NOP, BARRIER and END`; empty for a program with jobs."""
        if any(entry.engine != "control" for entry in self.entries):
            return ""
        return "only NOP, BARRIER and END" if self.entries else "no entries"

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Program({self.name!r}, {len(self.entries)} entries from {self.source})"

    def __eq__(self, other: object) -> bool:
        """Programs are equal if their names and entries are equal, whatever their source."""
        return isinstance(other, Program) and (self.name, self.entries) == (other.name, other.entries)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def to_dict(self) -> dict[str, Any]:
        """The program as plain JSON types (docs/model/formats.md). `load_program` makes an equal program of it."""
        return {"metadata": self.metadata, "cmdq": [entry_dict(entry) for entry in self.entries]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program as JSON or YAML, by the file extension. The file is written completely or not changed at all.

        InputError if the extension is another, or the file cannot be written.
        """
        target = Path(path)
        if target.suffix.lower() not in (".json", ".yaml", ".yml"):
            raise InputError(Problem(str(target), "the file name must end in .json, .yaml or .yml"))
        data = self.to_dict()
        text = _json(data) if target.suffix.lower() == ".json" else _yaml(data)
        write_whole(target, text.encode())


def entry_dict(entry: Entry) -> dict[str, Any]:
    """One entry as a file has it, its id written out; empty dependency lists and absent fields are left out."""
    raw: dict[str, Any] = {"opcode": entry.opcode, "id": entry.id}
    for field in OPCODES[entry.opcode].fields:
        if field.kind == "range":
            parts = {part.name: getattr(entry, part.name) for part in field.fields}
            raw[field.name] = {name: value for name, value in parts.items() if value is not None}
        else:
            value = getattr(entry, field.name)
            if value is not None:
                raw[field.name] = list(value) if isinstance(value, tuple) else value
    if entry.node is not None:
        raw["node"] = entry.node
    if entry.deps_before:
        raw["deps_before"] = list(entry.deps_before)
    if entry.deps_after:
        raw["deps_after"] = list(entry.deps_after)
    return {**raw, **entry.meta}


def _yaml(data: dict[str, Any]) -> str:
    import yaml  # imported here, because only writing YAML needs it

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=2**20)
    return text


def _json(data: dict[str, Any]) -> str:
    """JSON with one entry a line: readable, and a diff names the entries that changed."""
    lines = ",\n".join("  " + json.dumps(raw, ensure_ascii=False) for raw in data["cmdq"])
    metadata = json.dumps(data["metadata"], ensure_ascii=False)
    return f'{{"metadata": {metadata}, "cmdq": [\n{lines}\n]}}\n'
