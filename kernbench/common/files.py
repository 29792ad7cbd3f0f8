"""Output files that are there whole or as they were before."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kernbench.common.errors import InputError, Problem

REMEDY = "choose another place"


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that neither a crash nor a full disk costs what stood there.

    The data goes to a new file beside it that then takes its name; a link is followed, and a pipe or device is written
    to as it is. Raises InputError where that cannot be done.
    """
    target = Path(path).resolve()
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(_refusal(path, getattr(error, "strerror", None) or str(error))) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse, before the work, a place where `write_whole` would fail after it; InputError says why."""
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise InputError(_refusal(path, "it is a directory"))
        if not target.parent.is_dir():
            raise InputError(_refusal(path, f"there is no directory {target.parent}"))
    except (OSError, ValueError) as error:
        raise InputError(_refusal(path, str(error))) from None
    place = target if target.exists() and not target.is_file() else target.parent
    if not os.access(place, os.W_OK):
        raise InputError(_refusal(path, f"there is no permission to write {place}"))


def _refusal(path: str | os.PathLike[str], reason: str) -> Problem:
    return Problem(os.fspath(path), f"it cannot be written: {reason}", remedy=REMEDY)


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
