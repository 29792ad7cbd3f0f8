"""Input files that are read up to a size limit, and output files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO, FileIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import file_meant

REMEDY = "choose another place"
#: what else helps, by the number of the error
_MORE_ROOM = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room within your quota",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
}
BUFFER = 1 << 20  # [B] passed to the operating system at once
#: [B] largest input of unknown size: a pipe, a device, a file of /proc. A file with a known size may be larger.
STREAM_BYTES = 128 << 20
SOURCE_BYTES = 64 << 20  # [B] largest Python file
WRITER_SECONDS = 5.0  # [s] time that a named pipe has to get a writer; once a pipe has a writer, reading waits without limit


def read_bounded(
    path: str | os.PathLike[str], limit: int, *, what: str = "the file", remedy: str = "", unread: str = ""
) -> bytes:
    """Read a file of at most `limit` bytes; for a pipe, a device and a file of unknown size the limit is at most STREAM_BYTES.

    InputError if the file is larger, cannot be read, or is a pipe without a writer. `what`: the name of the file in the error;
    `remedy`: the advice for a file that is too large; `unread`: the advice for a file that cannot be read.
    """
    source = os.fspath(path)
    try:
        with open(source, "rb", buffering=0, opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            stated = status.st_size if stat.S_ISREG(status.st_mode) else 0
            if stated > limit:
                raise InputError(_too_large(source, what, limit, remedy))
            first = _await_writer(source, what, file.fileno()) if stat.S_ISFIFO(status.st_mode) else b""
            os.set_blocking(file.fileno(), not stat.S_ISREG(status.st_mode))
            most = min(limit, max(stated, STREAM_BYTES))
            content = _up_to(file, first, stated, most)
    except (OSError, ValueError) as error:  # ValueError: the name contains NUL
        near = near_file(source) if isinstance(error, FileNotFoundError) else ""
        raise InputError(Problem(source, not_read(error, what), remedy=unread or near)) from None
    if content is None:
        stream = most < limit
        raise InputError(_too_large(source, what, most, "write it to a file first" if stream else remedy))
    return content


def text_lines(path: str | os.PathLike[str], longest: int) -> Iterator[str]:
    """Yield the lines of a UTF-8 file of any size, with their ends. A pipe or device is read whole, as by `read_bounded`.

    InputError if the file cannot be read, is not UTF-8 text, or has a line of `longest` characters or more.
    """
    source = os.fspath(path)
    try:
        if stat.S_ISREG(os.stat(source).st_mode):
            with open(source, encoding="utf-8-sig", newline="") as file:
                yield from _short_lines(source, file, longest)
        else:
            content = BytesIO(read_bounded(source, STREAM_BYTES))
            yield from _short_lines(source, TextIOWrapper(content, encoding="utf-8-sig", newline=""), longest)
    except UnicodeDecodeError:
        raise InputError(Problem(source, "it must be UTF-8 text")) from None
    except (OSError, ValueError) as error:  # ValueError: the name contains NUL
        near = near_file(source) if isinstance(error, FileNotFoundError) else ""
        raise InputError(Problem(source, not_read(error), remedy=near)) from None


def _short_lines(source: str, file: TextIO, longest: int) -> Iterator[str]:
    number = 0
    while line := file.readline(longest):
        number += 1
        if len(line) == longest:
            raise InputError(Problem(f"{source}:{number}", f"a line must have fewer than {longest} characters"))
        yield line


def not_read(error: Exception, what: str = "the file") -> str:
    """The rule of an error about a file that was not read. `what`: the name of the file in the error."""
    if isinstance(error, FileNotFoundError):
        return f"{what} does not exist"
    return f"{what} cannot be read: {getattr(error, 'strerror', None) or error}"


def no_file(path: str | os.PathLike[str]) -> str:
    """The rule of an error about a path for which `os.path.isfile` is false: nothing is there, something else is there, or a
    directory of the path cannot be searched.

    `Path.is_file` and `Path.exists` raise an exception in the last case.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "the file does not exist"
    except (OSError, ValueError) as error:  # ValueError: the name contains NUL
        return not_read(error)
    return "it is a directory" if stat.S_ISDIR(mode) else "it is not a file"


def near_file(path: str) -> str:
    """`did you mean tiles.json?` for a missing file if a file with a similar name exists; otherwise empty."""
    near = file_meant(path)
    return f"did you mean {near}?" if near else ""


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, also a named pipe that has no writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _await_writer(source: str, what: str, handle: int) -> bytes:
    """Wait until a pipe has a writer, and return the bytes that were read while testing this."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    if poll.poll(WRITER_SECONDS * 1000):  # the pipe has data, or a writer has opened and closed it
        return b""
    try:
        first = os.read(handle, 1)
    except BlockingIOError:  # a writer exists but has not written yet
        return b""
    if not first:
        raise InputError(Problem(source, f"{what} is a pipe without a writer", remedy="start what writes to it first"))
    return first


def _up_to(file: FileIO, first: bytes, stated: int, most: int) -> bytes | None:
    """`first` and the rest of a file; None if they have more than `most` bytes."""
    pieces = [first] if first else []
    size = len(first)
    while size <= most:
        piece = file.read(min(stated + 1 if stated and not pieces else BUFFER, most + 1 - size))
        if piece is None:
            raise OSError(0, "nothing comes from it")
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    return None


def _too_large(source: str, what: str, limit: int, remedy: str) -> Problem:
    return Problem(source, f"{what} is larger than the limit of {limit} bytes", remedy=remedy)


def write_whole(path: str | os.PathLike[str], data: bytes, *, program: bool = False) -> None:
    """Write a file. If the process crashes or the disk is full, the earlier content of the file is kept.

    The data goes to a new file beside the target, and the new file then replaces the target. A symbolic link is followed; a
    pipe or device is written directly. `program`: whoever may read the file may also execute it. InputError if the file cannot
    be written.
    """
    try:
        with placed(target_of(path), program=program) as file:
            file.write(data)
    except (OSError, ValueError) as error:  # ValueError: the name contains NUL
        raise not_written(path, error) from None


def make_folder(path: str | os.PathLike[str], option: str = "") -> None:
    """Make a directory and those above it, unless they exist. InputError if that fails. `option`: the option that names it."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"the directory cannot be created: {reason}"
        raise InputError(Problem(os.fspath(path), rule, option, remedy=REMEDY)) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError before the work if `write_whole` would fail after it."""
    if os.fspath(path) == "-":
        raise InputError(Problem("-", "it cannot be written: it is not a file name", remedy="give /dev/stdout for stdout"))
    target = target_of(path)
    try:
        if target.is_dir():
            raise InputError(_refusal(path, "it is a directory"))
        if not target.parent.is_dir():
            raise InputError(_refusal(path, f"there is no directory {target.parent}"))
    except OSError as error:
        raise not_written(path, error) from None
    place = target if target.exists() and not target.is_file() else target.parent
    if not os.access(place, os.W_OK):
        raise InputError(_refusal(path, f"you have no permission to write {place}"))


def check_apart(written: Iterable[str | os.PathLike[str] | None], read: Iterable[str | os.PathLike[str] | None]) -> None:
    """Raise InputError if an output file is also an input file of the command, or the output file of another option. `read` may
    include names that are not files."""
    taken = {target_of(path): "the command reads it" for path in read if path is not None and os.path.isfile(path)}
    for path in written:
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):  # a pipe or device is written directly
            continue
        target = target_of(path)
        if target in taken:
            raise InputError(_refusal(path, taken[target]))
        taken[target] = "two options name it"


def target_of(path: str | os.PathLike[str]) -> Path:
    """The target of a path after symbolic links are resolved; a pipe or device keeps its name, because the target of
    /dev/stdout may have no name.
    """
    given = Path(path)
    try:
        return given if given.exists() and not given.is_file() and not given.is_dir() else given.resolve()
    except (OSError, ValueError) as error:  # ValueError: the name contains NUL
        raise not_written(path, error) from None
    except RuntimeError:
        raise InputError(_refusal(path, "its links form a cycle")) from None


def not_written(path: str | os.PathLike[str], error: Exception) -> InputError:
    """The error about an output file that could not be written."""
    return InputError(_refusal(path, getattr(error, "strerror", None) or str(error), write_remedy(error)))


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the disk is full, or because of a quota or a limit of file sizes."""
    return isinstance(error, OSError) and error.errno in _MORE_ROOM


def write_remedy(error: BaseException, other: str = REMEDY) -> str:
    """What to do after a failed write: make more room if that helps, or do `other`."""
    room = _MORE_ROOM.get(error.errno, "") if isinstance(error, OSError) and error.errno else ""
    return (", " if ", or " in other else ", or ").join(part for part in (room, other) if part)


def _refusal(path: str | os.PathLike[str], reason: str, remedy: str = REMEDY) -> Problem:
    return Problem(os.fspath(path), f"it cannot be written: {reason}", remedy=remedy)


class NoRoomError(InputError):
    """There is no room for temporary files."""


def no_room(what: str, error: BaseException | None, folder: str = "") -> NoRoomError:
    """The error about a temporary file, or a folder of temporary files, that cannot be written. `what`: what is written there;
    `folder`: the default is that of the system."""
    import tempfile  # imported here, as in `placed`

    rule = f"there is no room for {what}: {getattr(error, 'strerror', None) or error}"
    remedy = "let the environment variable TMPDIR name a folder with more room"
    return NoRoomError(Problem(folder or tempfile.tempdir or "temporary files", rule, remedy=remedy))


@contextmanager
def temporary_folder(what: str) -> Iterator[Path]:
    """A folder for files that are needed only until the context ends. `what`: what is written there, for the error.

    NoRoomError if there is no folder for temporary files, or if it becomes full.
    """
    from tempfile import TemporaryDirectory  # imported here, as in `placed`

    try:
        folder = TemporaryDirectory(prefix="kernbench-", ignore_cleanup_errors=True)
    except OSError as error:
        raise no_room(what, error) from None
    with folder as name:
        try:
            yield Path(name)
        except InputError as error:
            if not error.problems[0].where.startswith(name):
                raise
            raise no_room(what, error.__context__ or error, os.path.dirname(name)) from None


@contextmanager
def placed(target: Path, *, program: bool = False) -> Iterator[BinaryIO]:
    """A context for writing a file piece by piece: a new file beside `target`, which is renamed when it is complete.

    A pipe or device is written directly. `program`: as in `write_whole`. OSError if the file cannot be written.
    """
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb", buffering=BUFFER) as device:
            yield device
        return
    import tempfile  # imported here: the module is large, and a run without files does not need it

    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb", buffering=BUFFER) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        allowed = 0o777 if program else 0o666
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else allowed & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
