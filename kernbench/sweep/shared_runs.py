"""Runs that the processes of a sweep have in common: what one of them has simulated, the others need not.

A file of a folder that the pool makes and removes. Its keys are digests of all that a run depends on, so equal keys have
equal values. It is only a saving: a process that cannot read or write the file simulates by itself.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import msgspec

FOLDER = "KERNBENCH_SHARED_RUNS"  #: the variable that tells a process the folder
BUSY_SECONDS = 1.0

T = TypeVar("T")


@contextmanager
def shared_runs() -> Iterator[dict[str, str]]:
    """A folder for the processes of a sweep: the variables that they need."""
    with TemporaryDirectory(prefix="kernbench-", ignore_cleanup_errors=True) as folder:
        yield {FOLDER: folder}


def shared(key: Hashable, kind: type[T], make: Callable[[], T]) -> T:
    """The value of a key, from another process if it has made it; made here otherwise. The `repr` of a key says all of it."""
    database = _database()
    if database is None:
        return make()
    digest = hashlib.sha256(repr(key).encode()).digest()
    with suppress(sqlite3.Error, msgspec.MsgspecError):
        found = database.execute("SELECT value FROM runs WHERE key = ?", (digest,)).fetchone()
        if found is not None:
            return msgspec.msgpack.decode(found[0], type=kind)
    made = make()
    with suppress(sqlite3.Error):
        database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?)", (digest, msgspec.msgpack.encode(made)))
    return made


def forget_folder() -> None:
    """Look at the variable again: a copy of a process has another folder than the process."""
    _database.cache_clear()


@cache
def _database() -> sqlite3.Connection | None:
    """The file of this process's sweep."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    with suppress(sqlite3.Error):
        path = Path(folder) / "runs.sqlite"
        found = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        found.execute("PRAGMA journal_mode = WAL")
        found.execute("PRAGMA synchronous = OFF")
        found.execute("CREATE TABLE IF NOT EXISTS runs (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        return found
    return None
