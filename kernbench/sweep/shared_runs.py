"""Runs that the processes of a sweep share: a run that one process has simulated is not simulated by the others.

The runs are in a file of a folder that the pool creates and removes. The keys are digests of everything that a run depends on,
so equal keys have equal values. Sharing is optional: a process that cannot read or write the file simulates all its runs.
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

FOLDER = "KERNBENCH_SHARED_RUNS"  #: the environment variable with the path of the folder
BUSY_SECONDS = 1.0

T = TypeVar("T")


@contextmanager
def shared_runs() -> Iterator[dict[str, str]]:
    """Create a folder for the processes of a sweep; yields the environment variables that these processes need."""
    with TemporaryDirectory(prefix="kernbench-", ignore_cleanup_errors=True) as folder:
        yield {FOLDER: folder}


def shared(key: Hashable, kind: type[T], make: Callable[[], T]) -> T:
    """The value of a key; taken from another process if that process has computed it, and computed here otherwise. The `repr`
    of a key must describe the key completely."""
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
    """Read the environment variable again, because a copy of a process uses another folder."""
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
