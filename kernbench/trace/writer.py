"""Writes the text of a trace to a file, so that what is there is always a valid beginning of the trace."""

from __future__ import annotations

import gzip
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, cast

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import check_writable

CHUNK = 1 << 20  # [B] of text packed at once


class Packer(Protocol):
    """Turns text into what stands in the file, a piece at a time."""

    def pack(self, text: bytes) -> bytes:
        """A whole unit of packed data: a reader can unpack all units that are complete."""
        ...


class _Plain:
    def pack(self, text: bytes) -> bytes:
        return text


class _Gzip:
    def pack(self, text: bytes) -> bytes:
        return gzip.compress(text, compresslevel=1, mtime=0)


class _Zstd:
    def __init__(self) -> None:
        self._zstd = zstd_module()

    def pack(self, text: bytes) -> bytes:
        return cast(bytes, self._zstd.compress(text, 3))


def zstd_module() -> Any:
    """The zstd module of the standard library (from 3.14 on) or its backport; InputError where there is neither."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    raise InputError(Problem("trace", "zstd needs a package that is not installed", remedy="pip install 'kernbench[zstd]'"))


PACKERS: dict[str, type[Any]] = {".gz": _Gzip, ".zst": _Zstd}


class TraceFile:
    """A trace being written: `.jsonl`, `.jsonl.gz` or `.jsonl.zst`, by its name.

    Text goes out in whole units (gzip members, zstd frames), so a crash, Ctrl-C or a full disk leaves a file that reads up to
    the last one. Raises InputError where the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, go_on_at: int | None = None) -> None:
        """`go_on_at`: [B] of the file that stay; the rest of it, written after that point, is taken off.

        Without it the file is opened when there is something to write, so a run that is refused leaves what was there.
        """
        self.path = Path(path)
        self._packer: Packer = PACKERS.get(self.path.suffix, _Plain)()
        self._held: list[bytes] = []
        self._size = 0
        self._there = go_on_at or 0  # [B] of the file; a pipe cannot tell
        self._file: IO[bytes] | None = None
        check_writable(path)
        if go_on_at is None:
            return
        try:
            self._file = open(self.path, "r+b")  # noqa: SIM115
            if os.fstat(self._file.fileno()).st_size < go_on_at:
                self._file.close()
                raise InputError(Problem(str(path), f"it has fewer than the {go_on_at} bytes that the checkpoint saw"))
            self._file.truncate(go_on_at)
            self._file.seek(go_on_at)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> InputError:
        remedy = "what was written before is a valid trace; choose another place, or a smaller level"
        return InputError(Problem(str(self.path), f"the trace cannot be written: {error.strerror}", remedy=remedy))

    def write(self, text: bytes) -> None:
        """Add whole lines."""
        self._held.append(text)
        self._size += len(text)
        if self._size >= CHUNK:
            self.flush()

    def flush(self) -> int:
        """Everything so far goes to the file; its size [B]."""
        try:
            if self._file is None:
                self._file = open(self.path, "wb")  # noqa: SIM115
            if self._size:
                packed = self._packer.pack(b"".join(self._held))
                self._file.write(packed)
                self._held, self._size = [], 0
                self._there += len(packed)
            self._file.flush()
            return self._there
        except OSError as error:
            self._held, self._size = [], 0
            raise self._refused(error) from None

    def leave_off(self) -> None:
        """What was added since the last unit is let go: the file is a beginning of the trace."""
        self._held, self._size = [], 0

    def close(self) -> None:
        """The last unit goes out."""
        try:
            if self._file is None or not self._file.closed:
                self.flush()
                assert self._file is not None
                self._file.close()
        except OSError as error:
            raise self._refused(error) from None
        finally:
            with suppress(OSError):  # it tries once more to write what has been said to be lost
                if self._file is not None:
                    self._file.close()

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if not (isinstance(error, InputError) and self._file is None):
            self.close()
