"""Stored entries of tables of steps, kept between runs; each file is named by the data on which its entries depend."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import make_folder, read_bounded, write_whole

_SCHEMA = "kernbench/step_table/1"
_BYTES = 64 << 20


class TableStore:
    """Entries by name. With a folder, entries of the same `content` are read from it, and `save` writes them back.

    `content`: all data on which the entries depend, as plain data. `cache`: the folder is the user's cache, so a damaged file
    is replaced, and a folder that cannot be read or written is not used; otherwise these are InputErrors.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, content: Any = None, *, cache: bool = False
    ) -> None:
        self._cache = cache
        self._entries: dict[str, float] = {}
        self._energies: dict[str, dict[str, float]] = {}
        self._new = False
        self.path: Path | None = None
        if folder is not None:
            digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
            self.path = Path(folder) / f"{digest[:32]}.json"
            self._entries, self._energies = self._kept(self.path)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> float | None:
        """[ns] of an entry."""
        return self._entries.get(name)

    def put(self, name: str, ns: float) -> None:
        """Add an entry."""
        self._entries[name] = ns
        self._new = True

    def energy_pj(self, name: str) -> dict[str, float] | None:
        """[pJ] of an entry by part of the machine."""
        return self._energies.get(name)

    def put_energy(self, name: str, pj: dict[str, float]) -> None:
        """Add the energy of an entry."""
        self._energies[name] = pj
        self._new = True

    def save(self) -> None:
        """Write the entries, including those that another run has written in the meantime. Raises InputError if the folder
        cannot be written, unless it is a cache."""
        if self.path is None or not self._new:
            return
        with suppress(InputError) if self._cache else nullcontext():
            self._write(self.path)
        self._new = False

    def _kept(self, path: Path) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """The times and energies of the file."""
        try:
            return _read(path)
        except InputError:
            if self._cache:
                return {}, {}
            raise

    def _write(self, path: Path) -> None:
        make_folder(path.parent)
        entries, energies = self._kept(path)
        entries |= self._entries
        energies |= self._energies
        plain: dict[str, Any] = {"schema": _SCHEMA, "ns": dict(sorted(entries.items()))}
        if energies:
            plain["pj"] = dict(sorted(energies.items()))
        text = json.dumps(plain, indent=0)
        write_whole(path, text.encode())


def _read(path: Path) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The times and energies of a file; empty if the file does not exist. InputError if it is damaged."""
    if not os.path.exists(path):
        return {}, {}
    try:
        plain = json.loads(read_bounded(os.fspath(path), _BYTES, remedy="remove it"))
        if plain["schema"] != _SCHEMA:
            raise ValueError
        found = {str(name): float(ns) for name, ns in plain["ns"].items()}
        energies = {
            str(name): {str(part): float(pj) for part, pj in parts.items()} for name, parts in plain.get("pj", {}).items()
        }
        if not all(0 < ns < 1e18 for ns in found.values()):
            raise ValueError
        if not all(0 <= pj < 1e24 for parts in energies.values() for pj in parts.values()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(Problem(str(path), f"it must be a table of the form {_SCHEMA}", remedy="remove the file")) from None
    return found, energies
