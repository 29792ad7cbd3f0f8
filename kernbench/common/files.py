"""Input files that are read up to a limit, and output files that are there whole or as they were before."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import file_meant

REMEDY = "choose another place"
BUFFER = 1 << 20  # [B] handed to the operating system at once
#: [B] of what tells no size: a pipe, a device, a file of /proc. A file of the size that it tells may have more.
STREAM_BYTES = 128 << 20
SOURCE_BYTES = 64 << 20  # of a Python file
WRITER_SECONDS = 5.0  # a named pipe is given so long to get a writer; one that has a writer is waited for


def read_bounded(
    path: str | os.PathLike[str], limit: int, *, what: str = "the file", remedy: str = "", unread: str = ""
) -> bytes:
    """The content of a file of at most `limit` bytes; of a pipe, a device and a file without a size at most STREAM_BYTES.

    InputError if it is larger, cannot be read, or is a pipe without a writer. `what`: how the error names the file;
    `remedy`: what to do about a file that is larger; `unread`: about one that cannot be read.
    """
    source = os.fspath(path)
    try:
        with open(source, "rb", buffering=0, opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            told = status.st_size if stat.S_ISREG(status.st_mode) else 0
            if told > limit:
                raise InputError(_too_large(source, what, limit, remedy))
            first = _await_writer(source, what, file.fileno()) if stat.S_ISFIFO(status.st_mode) else b""
            os.set_blocking(file.fileno(), not stat.S_ISREG(status.st_mode))
            most = min(limit, max(told, STREAM_BYTES))
            content = _up_to(file, first, told, most)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        near = near_file(source) if isinstance(error, FileNotFoundError) else ""
        raise InputError(Problem(source, f"{what} cannot be read: {reason}", remedy=unread or near)) from None
    if content is None:
        stream = most < limit
        raise InputError(_too_large(source, what, most, "write it to a file first" if stream else remedy))
    return content


def near_file(path: str) -> str:
    """`did you mean tiles.json?` for a file that is not there, where one of nearly this name is; else empty."""
    near = file_meant(path)
    return f"did you mean {near}?" if near else ""


def _open_at_once(path: str, flags: int) -> int:
    """A named pipe that has no writer is opened too."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _await_writer(source: str, what: str, handle: int) -> bytes:
    """The bytes that were read to find out whether a pipe has a writer."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    if poll.poll(WRITER_SECONDS * 1000):  # there is something to read, or a writer was there and left
        return b""
    try:
        first = os.read(handle, 1)
    except BlockingIOError:  # of a writer that has not written yet
        return b""
    if not first:
        raise InputError(Problem(source, f"{what} is a pipe without a writer", remedy="start what writes to it first"))
    return first


def _up_to(file: FileIO, first: bytes, told: int, most: int) -> bytes | None:
    """`first` and the rest of a file; None if it has more than `most` bytes."""
    pieces = [first] if first else []
    size = len(first)
    while size <= most:
        piece = file.read(min(told + 1 if told and not pieces else BUFFER, most + 1 - size))
        if piece is None:
            raise OSError(0, "nothing comes from it")
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    return None


def _too_large(source: str, what: str, limit: int, remedy: str) -> Problem:
    return Problem(source, f"{what} is larger than the limit of {limit} bytes", remedy=remedy)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file. If the process crashes or the disk is full, the earlier content of the file is kept.

    The data goes to a new file beside it that then takes its name; a link is followed, and a pipe or device is written
    to as it is. Raises InputError if that cannot be done.
    """
    try:
        with placed(target_of(path)) as file:
            file.write(data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(_refusal(path, getattr(error, "strerror", None) or str(error))) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse, before the work, a place where `write_whole` would fail after it; InputError says why."""
    if os.fspath(path) == "-":
        raise InputError(Problem("-", "it cannot be written: it is not a file name", remedy="give /dev/stdout for stdout"))
    target = target_of(path)
    try:
        if target.is_dir():
            raise InputError(_refusal(path, "it is a directory"))
        if not target.parent.is_dir():
            raise InputError(_refusal(path, f"there is no directory {target.parent}"))
    except OSError as error:
        raise InputError(_refusal(path, str(error))) from None
    place = target if target.exists() and not target.is_file() else target.parent
    if not os.access(place, os.W_OK):
        raise InputError(_refusal(path, f"you have no permission to write {place}"))


def check_apart(written: Iterable[str | os.PathLike[str] | None], read: Iterable[str | os.PathLike[str] | None]) -> None:
    """Refuse to write over what the command reads, or writes under another option. `read` may have names that are no files."""
    taken = {target_of(path): "the command reads it" for path in read if path is not None and os.path.isfile(path)}
    for path in written:
        if path is None or (Path(path).exists() and not Path(path).is_file()):  # a pipe or device is written directly
            continue
        target = target_of(path)
        if target in taken:
            raise InputError(_refusal(path, taken[target]))
        taken[target] = "two options name it"


def target_of(path: str | os.PathLike[str]) -> Path:
    """The target of a path, links resolved; a pipe or device keeps its name, because the target of /dev/stdout may have none.
    """
    given = Path(path)
    try:
        return given if given.exists() and not given.is_file() and not given.is_dir() else given.resolve()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(_refusal(path, str(error))) from None
    except RuntimeError:
        raise InputError(_refusal(path, "its links form a cycle")) from None


def _refusal(path: str | os.PathLike[str], reason: str) -> Problem:
    return Problem(os.fspath(path), f"it cannot be written: {reason}", remedy=REMEDY)


@contextmanager
def placed(target: Path) -> Iterator[BinaryIO]:
    """A context to write a file piece by piece: a new file beside `target`, renamed when it is complete.

    A pipe or device is written to as it is. Raises OSError if that cannot be done.
    """
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb", buffering=BUFFER) as device:
            yield device
        return
    import tempfile  # inside: it imports much, and a run without a file needs none of it

    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb", buffering=BUFFER) as file:
            yield file
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
