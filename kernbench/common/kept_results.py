"""Results of runs that are kept on disk by content: a run that one process has simulated is not simulated by another one.

The results are rows of one SQLite file in the user's cache directory. Without a cache, the processes of a sweep still share
their results, through a file in a temporary folder. Keys are digests of all data on which a result depends. The cache is
optional: a process that cannot read or write the file computes all results itself.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec

from kernbench.common.parse_cache import cache_folder
from kernbench.version import VERSION

FOLDER = "KERNBENCH_SHARED_RUNS"  #: the environment variable with the folder of a sweep that has no cache
FILE = "results.sqlite"
MAX_KEPT = 256 << 20  # [B] of the file; the oldest results are removed first
LARGEST = 1 << 20  # [B] of a result
BUSY_SECONDS = 1.0

T = TypeVar("T")

_SCHEMA = "CREATE TABLE results (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)"
_TABLES = [(_SCHEMA,), (None,)]  # the table, and the index of its keys
_DIGEST = 16  # [B] of a key, and of the check in front of a value
_AT_ONCE = 10_000  # rows that are removed when the file is full
_MAX_OPERATIONS = 10_000_000  # most operations of SQLite for a statement; a damaged file could have loops
_SIZES = ("page_count", "freelist_count", "page_size")
_PACKAGES = ("kernbench", "kernbench.configs", "kernbench_core")
_SUFFIXES = (".py", ".so", ".json", ".yaml", ".toml")
_SETTINGS = ("KERNBENCH_WALK", "KERNBENCH_WITHOUT", "KERNBENCH_ISA")  # variables that select the code of a run


def kept_result(kind: str, key: Hashable, form: Any, make: Callable[[], T]) -> T:
    """The result of `make`, from disk or computed now. Exceptions of `make` are not kept.

    `kind`: the kind of the result; `form`: its type for msgspec. The `repr` of a key must describe the key completely.
    """
    folder = _folder()
    if folder is None:
        return make()
    identity = f"{build_digest()} {[os.environ.get(name, '') for name in _SETTINGS]} {kind} {key!r}"
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()[:_DIGEST]
    try:
        return msgspec.msgpack.decode(_content(digest, _read(folder, digest)), type=form)  # type: ignore[no-any-return]
    except (msgspec.MsgspecError, ValueError, RecursionError):  # missing or damaged
        pass
    made = make()
    with suppress(TypeError, ValueError, OverflowError):  # the result has no binary form
        content = msgspec.msgpack.encode(made)
        if len(content) <= LARGEST:
            _write(folder, digest, _check(digest, content) + content)
    return made


@contextmanager
def shared_results() -> Iterator[dict[str, str]]:
    """Let the processes of a sweep share results; yields the environment variables that these processes need. Without a cache,
    the processes use a temporary folder, and without such a folder they share nothing."""
    if cache_folder("results") is not None:
        yield {}
        return
    try:
        folder = TemporaryDirectory(prefix="kernbench-", ignore_cleanup_errors=True)
    except OSError:  # no folder for temporary files, or no room in one
        yield {}
        return
    with folder as name:
        yield {FOLDER: name}


@cache
def build_digest() -> str:
    """A digest of the installed kernbench: of its version, and of the place, size and times of each of its files.

    The time at which the system changed a file is included, because tools can set the time of the last modification.
    """
    parts = [f"{VERSION} {sys.version}"]
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in sorted(spec.submodule_search_locations or ()) if spec is not None else ():
            parts += sorted(_files(folder))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif entry.name.endswith(_SUFFIXES):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _folder() -> Path | None:
    shared = os.environ.get(FOLDER)
    return Path(shared) if shared else cache_folder("results")


def _check(digest: bytes, content: bytes) -> bytes:
    """The digest in front of a value, by which damaged values are detected."""
    return hashlib.sha256(digest + content).digest()[:_DIGEST]


def _content(digest: bytes, packed: Any) -> bytes:
    """The content of a value; ValueError if it is missing or damaged."""
    if not isinstance(packed, bytes) or packed[:_DIGEST] != _check(digest, packed[_DIGEST:]):
        raise ValueError("it is damaged")
    return packed[_DIGEST:]


class _File:
    """The open file of this process. A copy of the process opens the file again, because SQLite forbids to share it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._path: Path | None = None
        self._database: sqlite3.Connection | None = None
        os.register_at_fork(before=self._before_fork, after_in_parent=self.lock.release, after_in_child=self.lock.release)

    def opened(self, folder: Path) -> sqlite3.Connection | None:
        """The database of a folder; None if it cannot be opened."""
        path = folder / FILE
        if path != self._path:
            self.close()
            self._path = path
            with suppress(OSError, sqlite3.Error):
                self._database = _opened(path)
        return self._database

    def close(self) -> None:
        """Close the file. The next access opens it again."""
        if self._database is not None:
            self._database.close()
        self._path = self._database = None

    def close_after(self, error: sqlite3.Error) -> None:
        """Close the file, which somebody may have moved, and delete it if it is damaged."""
        path = self._path
        self.close()
        if path is not None and _damaged(error):
            with suppress(OSError):
                _remove(path)

    def _before_fork(self) -> None:
        self.lock.acquire()
        self.close()


_FILE = _File()


def _read(folder: Path, digest: bytes) -> Any:
    with _FILE.lock:
        database = _FILE.opened(folder)
        if database is None:
            return None
        try:
            found = database.execute("SELECT value FROM results WHERE key = ?", (digest,)).fetchone()
        except sqlite3.Error as error:
            _FILE.close_after(error)
            return None
    return found[0] if found is not None else None


def _write(folder: Path, digest: bytes, value: bytes) -> None:
    with _FILE.lock:
        database = _FILE.opened(folder)
        if database is None:
            return
        try:
            database.execute("INSERT OR REPLACE INTO results (key, value) VALUES (?, ?)", (digest, value))
            used, free, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in _SIZES)
            if (used - free) * size > MAX_KEPT:
                database.execute("DELETE FROM results WHERE number < (SELECT min(number) FROM results) + ?", (_AT_ONCE,))
        except sqlite3.Error as error:
            _FILE.close_after(error)


def _opened(path: Path) -> sqlite3.Connection | None:
    """The database of a file, which is made if it is missing, and made anew if it has other tables."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(2):
        if os.path.lexists(path) and not path.is_file():  # opening a pipe would wait for its other end
            return None
        database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST + (1 << 16))
            database.set_progress_handler(lambda: 1, _MAX_OPERATIONS)
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA synchronous = OFF")  # the checksum of a value detects damage by a power failure
            database.execute("PRAGMA journal_mode = TRUNCATE")  # several hosts may share the directory, which WAL forbids
            database.execute(_SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS", 1))
            if database.execute("SELECT sql FROM sqlite_schema ORDER BY rowid LIMIT 3").fetchall() == _TABLES:
                return database
        except sqlite3.Error as error:
            if not _damaged(error):
                database.close()
                raise
        database.close()
        _remove(path)
    return None


def _damaged(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _remove(path: Path) -> None:
    """Delete a file and the journal of its last change, which SQLite would otherwise apply to a new file."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
