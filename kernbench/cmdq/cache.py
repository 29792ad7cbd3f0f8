"""Programs that were read once are kept in binary form, by the content of their files and the machine.

In `$KERNBENCH_CACHE`, else `$XDG_CACHE_HOME/kernbench`, else `~/.cache/kernbench`; `KERNBENCH_CACHE=off` keeps nothing.
What is found there and is not as it should be is made anew; that nothing can be kept is no error.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import kernbench.common
from kernbench.cmdq.binary import Unreadable
from kernbench.cmdq.compiled import SUFFIX, lowered_on, packed, unpacked
from kernbench.cmdq.parse import load_program, parsed
from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError
from kernbench.common.files import placed, read_bounded
from kernbench.config import NpuConfig
from kernbench.config.document import PROGRAM_BYTES, Document, decoded, file_content
from kernbench.config.machine import MachineConfig
from kernbench.version import VERSION

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
