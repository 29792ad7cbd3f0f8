"""A CMDQ program in memory: its name and its entries, however they came about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernbench.cmdq.build import ProgramBuilder
from kernbench.cmdq.entries import BarrierEntry, DmaEntry, Entry, KvEntry, TeEntry, VeEntry

__all__ = ["BarrierEntry", "DmaEntry", "Entry", "KvEntry", "Program", "TeEntry", "VeEntry"]

VERSION = "1.0"


class Program(ProgramBuilder):
    """A command queue program. `load_program` reads one, and the methods of `ProgramBuilder` append to one.

    `name`: of the metadata, may be empty. `entries`: in file order. `source`: how errors name where it came from.
    """

    def __init__(self, name: str = "", entries: Iterable[Entry] = (), source: str = "program") -> None:
        super().__init__(source)
        self.name = name
        self.entries.extend(entries)

    @property
    def metadata(self) -> dict[str, str]:
        """The program's `metadata` object."""
        return {"version": VERSION, "name": self.name} if self.name else {"version": VERSION}

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Program({self.name!r}, {len(self.entries)} entries from {self.source})"

    def __eq__(self, other: object) -> bool:
        """Equal when name and entries are; where they came from does not count."""
        return isinstance(other, Program) and (self.name, self.entries) == (other.name, other.entries)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def to_dict(self) -> dict[str, Any]:
        """The program as FORMATS.md writes it, in plain JSON types; `load_program` reads it back as an equal one."""
        raise NotImplementedError
