"""Compiled programs: a `.kbp` file that a user makes, and the tables that a program carries with it."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import kernbench.common
from kernbench.cmdq.binary import Packed, Unreadable, pack, unpack
from kernbench.cmdq.lower import lower_program
from kernbench.cmdq.parse import load_program, parsed, program_of
from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
from kernbench.cmdq.program import Lowered, Program
from kernbench.cmdq.table_rules import broken_rule, differing
from kernbench.common.errors import InputError, InternalError, Problem
from kernbench.common.files import placed, read_bounded, write_whole
from kernbench.config import NpuConfig
from kernbench.config.document import PROGRAM_BYTES, Document, decoded, file_content
from kernbench.config.machine import MachineConfig
from kernbench.version import VERSION

SUFFIX = ".kbp"
REMEDY = "make it anew with `kbsim program compile`"


def lowered_on(program: Program, config: MachineConfig) -> None:
    """Let the program carry its tables for an NPU; InputError where it is not valid there. Systems have no such tables."""
    if isinstance(config, NpuConfig):
        program.lowered = Lowered(config.digest(), list(program.entries), lower_program(program, config))


def packed(program: Program) -> bytes:
    """The program and the tables that it carries in binary form; ValueError where its metadata have none."""
    lowered = program.lowered
    if lowered is None:
        return pack(program.name, program.entries, None, None)
    return pack(program.name, program.entries, lowered.machine, lowered.tables)


def unpacked(data: bytes, source: str, config: MachineConfig | None) -> tuple[Packed, Program]:
    """The program in binary form, with its tables where they are for this machine.

    Unreadable where they do not fit it, or are not those of the entries; InputError where the entries are not valid there.
    """
    found = unpack(data)
    program = Program(found.name, (), source)
    program.entries = found.entries
    if found.tables is not None and isinstance(config, NpuConfig) and found.machine == config.digest():
        different = differing(found.tables, _tables_of(program, config))
        if different is not None:
            broken = broken_rule(found.tables, len(found.entries), config)
            rule = f"are not those of its entries: {different}" if broken is None else f"do not fit the machine: {broken}"
            raise Unreadable(f"its tables {rule}")
        program.lowered = Lowered(found.machine, list(found.entries), found.tables)
    return found, program


def _tables_of(program: Program, config: NpuConfig) -> dict[str, Any]:
    """The tables that the entries of a file have on a machine."""
    try:
        return lower_program(program, config, regular=True)
    except (InputError, InternalError):  # what is wrong with them, reading says as it does of a text
        read = _as_if_read(program)
    if read.entries != program.entries:
        raise Unreadable("its entries are not as reading makes them")
    return lower_program(read, config)


def save_compiled(program: Program, config: MachineConfig, path: str | os.PathLike[str]) -> None:
    """Write a program and its tables for a machine to a `.kbp` file, whole or not at all.

    InputError where the program is not valid on the machine, the name ends otherwise, or the file cannot be written.
    """
    target = os.fspath(path)
    if Path(target).suffix.lower() != SUFFIX:
        raise InputError(Problem(target, f"its name must end in {SUFFIX}"))
    lowered_on(program, config)
    try:
        data = packed(program)
    except ValueError as error:
        raise InputError(Problem(program.source, f"it has no binary form: {error}", remedy="keep it as JSON")) from None
    write_whole(target, data)


def load_compiled(
    path: str | os.PathLike[str], config: MachineConfig | None = None, *, max_bytes: int = PROGRAM_BYTES
) -> Program:
    """The program in a `.kbp` file. On the machine it was compiled for, its tables are taken from there.

    For any other machine its entries are read as if they were JSON, with every check. InputError where the file cannot be
    read, is larger than `max_bytes`, is damaged, or is of another version.
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


SMALLEST = 1 << 16  # [B] smaller files are read as fast as what is kept of them
MOST_KEPT = 2 << 30  # [B] of all programs together; those that were used least recently go first


def folder() -> Path | None:
    """Where programs are kept; None where nothing is."""
    named = os.environ.get("KERNBENCH_CACHE", "")
    if named == "off":
        return None
    home = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kernbench"
    try:
        return home.expanduser() / "programs"
    except RuntimeError:  # there is no home
        return None


def load_cached(path: str, config: MachineConfig) -> Program:
    """The program of a `.json` or `.yaml` file, lowered for the machine where that is an NPU: kept from before, or read now.

    Either way it is the same program, and InputError says the same of it; what is refused is not kept.
    """
    home = folder()
    if home is None or not _large(path):
        return load_program(path)
    content, suffix = file_content(path, PROGRAM_BYTES)
    place = home / f"{_key(content, suffix, config)}{SUFFIX}"
    program = _kept(place, path, config)
    if program is not None:
        program.document = Document(path, None, decoded(path, content), suffix)
        return program
    program = parsed(path, content, suffix)
    lowered_on(program, config)
    _keep(place, program)
    return program


def _large(path: str) -> bool:
    try:
        return os.stat(path).st_size >= SMALLEST
    except (OSError, ValueError):  # whoever reads it says why it cannot be read
        return False


def _key(content: bytes, suffix: str, config: MachineConfig) -> str:
    digest = hashlib.sha256(content)
    machine = config.digest() if isinstance(config, NpuConfig) else "any"
    for part in (suffix, machine, VERSION, PROGRAM_VERSION, _sources()):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


@cache
def _sources() -> str:
    """Stands for the code that reads and lowers programs: another size or time of one of its files, another text."""
    root = Path(kernbench.common.__file__).parent.parent
    told = []
    for package in ("cmdq", "common", "config", "topology"):
        for path in sorted((root / package).glob("*.py")):
            status = path.stat()
            told.append(f"{package}/{path.name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _kept(place: Path, source: str, config: MachineConfig) -> Program | None:
    try:
        if not place.is_file():
            return None
        program = unpacked(read_bounded(place, PROGRAM_BYTES), source, config)[1]
        os.utime(place)
    except (OSError, Unreadable, InputError):
        return None
    return program if program.lowered is not None or not isinstance(config, NpuConfig) else None


def _keep(place: Path, program: Program) -> None:
    try:
        if place.exists() and not place.is_file():
            return
        data = packed(program)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with placed(place) as file:
            file.write(data)
        _make_room(place)
    except (OSError, ValueError):  # a full disk, a cache of somebody else, metadata without a binary form
        return


def _make_room(newest: Path) -> None:
    """Delete what was used least recently, down to MOST_KEPT bytes; never the newest."""
    found = []
    for path in newest.parent.glob(f"*{SUFFIX}"):
        status = path.stat()
        found.append((status.st_mtime_ns, path, status.st_size))
    left = sum(size for _, _, size in found)
    for _, path, size in sorted(found):
        if left <= MOST_KEPT:
            return
        if path != newest:
            path.unlink(missing_ok=True)
            left -= size
