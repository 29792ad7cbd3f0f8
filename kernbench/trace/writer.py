"""Writes the text of a trace to a file. At any time, the file is a valid prefix of the trace."""

from __future__ import annotations

import gzip
import os
import stat
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from importlib import import_module
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import check_writable, target_of, write_remedy

if TYPE_CHECKING:
    from queue import SimpleQueue

CHUNK = 1 << 20  # [B] of text packed at once
UNWRITTEN = 3  #: units that the thread has not written yet, at most


class Packer(Protocol):
    """Converts text into the bytes of the file, one piece at a time."""

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
    """The zstd module of the standard library (from 3.14 on) or its backport; InputError if there is neither."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    raise InputError(Problem("trace", "this Python has no zstd", remedy="pip install backports.zstd, or name a .jsonl.gz"))


PACKERS: dict[str, type[Any]] = {".gz": _Gzip, ".zst": _Zstd}


class _Thread:
    """A thread that writes units one after the other, up to an error. RuntimeError if the system allows no more threads.

    Its queues are C code: an interrupt of the main thread leaves no lock of them taken, and the end never waits for room.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        from queue import SimpleQueue  # imported here, because most traces are smaller than a unit

        self._write = write
        self._units: SimpleQueue[bytes | None] = SimpleQueue()  # up to None
        self._room: SimpleQueue[None] = SimpleQueue()  # one item for each unit that may be put
        for _ in range(UNWRITTEN):
            self._room.put(None)
        self.error: BaseException | None = None  #: what `write` raised
        self._thread = threading.Thread(target=self._run, name="trace file", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (unit := self._units.get()) is not None:
            try:
                if self.error is None:
                    self._write(unit)
            except BaseException as error:  # the caller of `write`, `flush` or `close` gets it
                self.error = error
            self._room.put(None)

    def put(self, unit: bytes) -> None:
        """Wait for room, and let the thread write a unit."""
        self._room.get()
        self._units.put(unit)

    def end(self) -> None:
        """Wait until all units are written. An interrupt may end this: a later call waits again."""
        self._units.put(None)
        self._thread.join()


class TraceFile:
    """A trace being written: `.jsonl`, `.jsonl.gz` or `.jsonl.zst`, by its name.

    Text goes out in whole units (gzip members, zstd frames), so a crash or Ctrl-C leaves a file that reads up to the last one.
    A thread packs and writes full units while the run goes on. InputError if the file cannot be written, from this or a later
    call. If the disk is full, the file keeps its complete lines, or is removed if it has none.
    """

    def __init__(self, path: str | os.PathLike[str], *, go_on_at: int | None = None) -> None:
        """`go_on_at`: [B] of the file that stay; the rest of it, written after that point, is taken off.

        Without it, the file is opened at the first write, so a run that is refused leaves an existing file unchanged.
        """
        self.path = Path(path)
        self._packer: Packer = PACKERS.get(self.path.suffix, _Plain)()
        self._held: list[bytes] = []
        self._size = 0
        self._there = go_on_at or 0  # [B] size of the complete units in the file; unknown for a pipe
        self._part = 0  # [B] of the unit that goes out now
        self._file: FileIO | None = None
        self._thread: _Thread | None = None
        self.given_up = False  #: it could not be written to its end
        if self.path.suffix.lower() in (".html", ".htm"):
            rule = "a trace is lines of JSON, and a file name with this ending is for pages"
            raise InputError(Problem(str(path), rule, remedy="name the trace run.jsonl; to write a page: --report FILE"))
        check_writable(path)
        if go_on_at is None:
            return
        try:
            self._file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
            if os.fstat(self._file.fileno()).st_size < go_on_at:
                self._file.close()
                raise InputError(Problem(str(path), f"it has fewer than the {go_on_at} bytes that the checkpoint saw"))
            self._file.truncate(go_on_at)
            self._file.seek(go_on_at)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError, left: str = "") -> InputError:
        remedy = left + write_remedy(error, "choose another place, or a smaller level")
        return InputError(Problem(str(self.path), f"the trace cannot be written: {error.strerror}", remedy=remedy))

    def _given_up(self, error: OSError, unit: bytes) -> InputError:
        """The refusal of a trace of which `unit` did not go out whole: the file ends with a whole line, or is taken away."""
        self._held, self._size = [], 0
        file, self._file = self._file, None
        self.given_up = True
        if file is None:
            return self._refused(error)
        with closing(file):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return self._refused(error)
            whole = unit.rfind(b"\n", 0, self._part) + 1 if type(self._packer) is _Plain else 0
            self._there += whole
            try:
                if self._there:
                    file.truncate(self._there)
                    return self._refused(error, f"its first {self._there:,} bytes are a valid trace that breaks off; ")
                file.truncate(0)
                target_of(self.path).unlink()
            except OSError as worse:
                return self._refused(
                    error, f"the file may end with an incomplete line, which cannot be removed: {worse.strerror}; "
                )
        return self._refused(error, "not one line was written whole, and the file is removed; ")

    def write(self, text: bytes) -> None:
        """Add whole lines."""
        self._held.append(text)
        self._size += len(text)
        if self._size >= CHUNK:
            if self._thread is None or self._thread.error is not None:
                self._end_thread()
                try:
                    self._thread = _Thread(self._write_unit)
                except RuntimeError:  # the run does not end for this
                    self.flush()
                    return
            self._thread.put(b"".join(self._held))
            self._held, self._size = [], 0

    def _end_thread(self) -> None:
        """Wait until the thread has written its units, and raise the error that it met: later text has no place in the file."""
        if self._thread is None:
            return
        self._thread.end()
        error, self._thread = self._thread.error, None
        if error is not None:
            self.leave_off()
            self.given_up = True
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
            raise error

    def _write_unit(self, unit: bytes) -> None:
        """A unit goes to the file."""
        packed = self._packer.pack(unit) if unit else b""
        self._part = 0
        try:
            if self._file is None:
                self._file = open(self.path, "wb", buffering=0)  # noqa: SIM115
            while self._part < len(packed):
                self._part += self._file.write(memoryview(packed)[self._part :]) or 0
        except OSError as error:
            raise self._given_up(error, packed) from None
        self._there += len(packed)

    def flush(self) -> int:
        """Everything so far goes to the file; its size [B]."""
        self._end_thread()
        self._write_unit(b"".join(self._held))
        self._held, self._size = [], 0
        return self._there

    def leave_off(self) -> None:
        """Text after the last complete unit is dropped, so the file is a prefix of the trace."""
        self._held, self._size = [], 0

    def close(self) -> None:
        """Write the last unit."""
        self._end_thread()
        if self.given_up or (self._file is not None and self._file.closed):
            return
        self.flush()
        assert self._file is not None
        try:
            self._file.close()
        except OSError as error:
            raise self._refused(error) from None

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if not (isinstance(error, InputError) and self._file is None and self._thread is None):
            self.close()
