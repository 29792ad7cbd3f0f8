"""Cached programs, lowered for their machine: compiled files in the user's cache."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import kernbench.common
from kernbench.cmdq.parse import load_program, parsed
from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError
from kernbench.common.files import placed, read_bounded
from kernbench.common.parse_cache import cache_folder
from kernbench.config.document import PROGRAM_BYTES, Document, decoded, file_content
from kernbench.config.machine import MachineConfig
from kernbench.version import VERSION

SUFFIX = ".kbp"
SMALLEST = 1 << 16  # [B] smaller files are read as fast as a cached program
MOST_KEPT = 2 << 30  # [B] of the whole cache; the least recently used programs are removed first


def load_cached(path: str, config: MachineConfig) -> Program:
    """The program of a `.json` or `.yaml` file, lowered for the machine, from the cache or read now.

    With and without the cache, the program and the errors are the same; a refused program is not cached.
    """
    home = cache_folder("programs")
    if home is None or not _large(path):
        return load_program(path)
    from kernbench.cmdq import compiled  # imported here, because a small file does not need it

    content, suffix = file_content(path, PROGRAM_BYTES)
    place = home / f"{_key(content, suffix, config)}{SUFFIX}"
    program = _kept(place, path, config)
    if program is not None:
        program.document = Document(path, None, decoded(path, content), suffix)
        return program
    program = parsed(path, content, suffix)
    compiled.lowered_on(program, config)
    _keep(place, program)
    return program


def _large(path: str) -> bool:
    try:
        return os.stat(path).st_size >= SMALLEST
    except (OSError, ValueError):  # the reader reports the error
        return False


def _key(content: bytes, suffix: str, config: MachineConfig) -> str:
    import hashlib

    digest = hashlib.sha256(content)
    for part in (suffix, config.digest(), VERSION, PROGRAM_VERSION, _sources()):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


@cache
def _sources() -> str:
    """A key of the code that reads and lowers programs; it changes with the size or time of its files."""
    import hashlib

    root = Path(kernbench.common.__file__).parent.parent
    told = []
    for package in ("cmdq", "common", "components", "config", "policy", "topology"):
        for path in sorted((root / package).rglob("*.py")):
            status = path.stat()
            told.append(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _kept(place: Path, source: str, config: MachineConfig) -> Program | None:
    from kernbench.cmdq import compiled

    try:
        if not place.is_file():
            return None
        program = compiled.unpacked(read_bounded(place, PROGRAM_BYTES), source, config)[1]
        os.utime(place)
    except (OSError, compiled.Unreadable, InputError):
        return None
    return program if program.lowered is not None else None


def _keep(place: Path, program: Program) -> None:
    from kernbench.cmdq import compiled

    try:
        if place.exists() and not place.is_file():
            return
        data = compiled.packed(program)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with placed(place) as file:
            file.write(data)
        _make_room(place)
    except (OSError, ValueError):  # a full disk, a cache of another user, or metadata without a binary form
        return


def _make_room(newest: Path) -> None:
    """Delete the least recently used files, down to MOST_KEPT bytes; the newest file is never deleted."""
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
