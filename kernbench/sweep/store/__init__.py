"""The store of results: one SQLite file with one writer. When `add` returns, the results are on the disk."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.spelling import file_meant
from kernbench.config.file_kinds import check_file
from kernbench.sweep.store.tables import COLUMNS, ENDED, TABLES, DamagedError, Row, is_text, row_of, text_of, wrong_tables

FORMAT = "kernbench/sweep-store/1"
APPLICATION = 0x6B627377  # "kbsw", in the file's header
BUSY_SECONDS = 20.0  # [s] the longest wait for a reader that locks the file
MAX_STORES = 5  # stores that the error of a missing store lists
CHUNK = 500  # keys in one query
#: A completed result is final: neither a failure nor a second run replaces it.
PUT = f"""INSERT INTO results ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
  (status, cycles, ns, jobs, jobs_hash, metrics, error, seconds) = (excluded.status, excluded.cycles, excluded.ns,
  excluded.jobs, excluded.jobs_hash, excluded.metrics, excluded.error, excluded.seconds)
  WHERE results.status NOT IN ({", ".join(repr(status) for status in ENDED)})"""


class Store:
    """An open store. `Store.write` opens it as the only writer, `Store.read` opens it for reading beside a writer."""

    def __init__(self, path: Path, database: sqlite3.Connection, lock: int | None = None) -> None:
        self.path = path
        self.database = database
        self._lock = lock
        #: by key: results that were found damaged; the next result for the key replaces the damaged one
        self.damaged: dict[str, Problem] = {}
        database.text_factory = text_of

    @classmethod
    def write(cls, path: str | os.PathLike[str]) -> Store:
        """The store at a path; it is created if it does not exist.

        InputError if the file cannot be written, is not a store, is damaged, or is open in another writer.
        """
        place = Path(path)
        lock = _locked(place)
        try:
            with _sqlite_errors(place):
                database = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None)
                store = cls(place, database, lock)
                _check_header(place, database, may_be_new=True)
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                store._prepare()
                store.check()
        except BaseException:
            os.close(lock)
            raise
        return store

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Store:
        """An existing store for reading, which may be in a folder without write permission."""
        place = Path(path)
        try:
            there = place.is_file()
        except (OSError, ValueError) as error:  # ValueError: the name contains a NUL
            raise InputError(_unwritable(place, str(error))) from None
        if not there:
            near = file_meant(str(place), (place.suffix,) if place.suffix else ())
            stores = [] if near else sorted(str(one) for one in place.parent.glob("*.sqlite"))[:MAX_STORES]
            remedy = f"the stores here are {', '.join(stores)}" if stores else "to make a store, use kbsim sweep run"
            remedy = f"did you mean {near}?" if near else remedy
            raise InputError(Problem(str(place), "there is no such store", remedy=remedy))
        check_file(str(place), "store")
        writable = os.access(place.parent, os.W_OK) and os.access(place, os.W_OK)
        log = Path(f"{place}-wal")  # left by a writer that is running or was killed
        left = log.exists() and log.stat().st_size > 0
        # Where it may write it does so, though no data: it reads behind a writer's back, and leaves no files behind.
        way = "rw" if writable else "ro" if left else "ro&immutable=1"
        with _sqlite_errors(place):
            try:
                return cls._opened(place, way)
            except sqlite3.OperationalError as error:
                if not writable or _kind(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                    raise
            # The disk has no room for the file by which readers and a writer agree.
            if left:
                return cls._opened(place, way, alone=True)
            for name in (log, Path(f"{place}-shm")):  # of the failed attempt
                name.unlink(missing_ok=True)
            return cls._opened(place, "ro&immutable=1")

    @classmethod
    def _opened(cls, place: Path, way: str, *, alone: bool = False) -> Store:
        """A store for reading. `alone`: without another reader or a writer, so that no shared memory is needed."""
        database = sqlite3.connect(
            f"{place.resolve().as_uri()}?mode={way}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
        try:
            store = cls(place, database)
            if alone:
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA query_only = ON")
            _check_header(place, database, may_be_new=False)
        except BaseException:
            database.close()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Rows that were added are stored even if closing fails."""
        try:
            self.database.close()
        finally:
            if self._lock is not None:
                os.close(self._lock)  # after SQLite's: closing it ends every lock of this process on the file
                self._lock = None

    def _prepare(self) -> None:
        if self.database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return
        with self.writing():
            self.database.execute(f"PRAGMA application_id = {APPLICATION}")
            for statement in TABLES.split(";")[:-1]:
                self.database.execute(statement)
            self.database.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))

    def check(self, *, whole: bool = False) -> None:
        """InputError if the file is damaged; `whole` also checks indexes."""
        with _sqlite_errors(self.path):
            found = self.database.execute(f"PRAGMA {'integrity' if whole else 'quick'}_check(3)").fetchall()
        if found != [("ok",)]:
            raise InputError(_damaged(self.path, str(found[0][0])))

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database for queries; errors of SQLite become InputError."""
        with _sqlite_errors(self.path):
            yield self.database

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which is atomic; errors of the disk become InputError."""
        with _sqlite_errors(self.path):
            try:
                self.database.execute("BEGIN IMMEDIATE")
                yield self.database
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise

    def add(self, rows: Iterable[Row]) -> None:
        """Add results. When this function returns, the results are on the disk. A completed result is never replaced.

        Only this function replaces damaged rows.
        """
        rows = list(rows)
        with self.writing():
            again = [(row.key,) for row in rows if row.key in self.damaged]
            self.database.executemany("DELETE FROM results WHERE key = ?", again)
            self.database.executemany(PUT, [_flat(row) for row in rows])
        for row in rows:
            self.damaged.pop(row.key, None)

    def rows(self, keys: Sequence[str]) -> dict[str, Row]:
        """The results of some keys, as far as they exist. InputError that names the damaged results."""
        found = {row.key: row for row in self._sound(keys)}
        if damaged := [self.damaged[key] for key in keys if key in self.damaged]:
            raise InputError(damaged)
        return found

    def sound_rows(self, keys: Sequence[str]) -> dict[str, Row]:
        """The results of some keys, without the damaged ones, which are added to `damaged`."""
        return {row.key: row for row in self._sound(keys)}

    def statuses(self, keys: Sequence[str]) -> dict[str, str]:
        """The statuses of the runs of some keys, without the damaged ones, which are added to `damaged`."""
        return {row.key: row.status for row in self._sound(keys)}

    def _sound(self, keys: Sequence[str]) -> Iterator[Row]:
        with _sqlite_errors(self.path):
            for i in range(0, len(keys), CHUNK):
                some = keys[i : i + CHUNK]
                asked = f"SELECT {COLUMNS} FROM results WHERE key IN ({','.join('?' * len(some))})"
                for line in self.database.execute(asked, some):
                    try:
                        yield row_of(line)
                    except DamagedError as error:
                        self.damaged[line[0]] = self._damaged_row(line[0], error)

    def _damaged_row(self, key: Any, error: DamagedError) -> Problem:
        called = key[:16] if isinstance(key, str) else shown(key)
        remedy = "kbsim sweep run computes it again"
        return Problem(f"{self.path}: result {called}", error.rule, error.column, error.value, remedy)

    def check_rows(self) -> None:
        """InputError that names all damaged results."""
        damaged = []
        with _sqlite_errors(self.path):
            for line in self.database.execute(f"SELECT {COLUMNS} FROM results"):
                try:
                    row_of(line)
                except DamagedError as error:
                    damaged.append(self._damaged_row(line[0], error))
        if damaged:
            raise InputError(damaged)

    def count(self) -> int:
        """The number of results."""
        with _sqlite_errors(self.path):
            return int(self.database.execute("SELECT count(*) FROM results").fetchone()[0])

    def reasons(self, keys: Sequence[str]) -> dict[str, str]:
        """The stored sentences of `why`."""
        with _sqlite_errors(self.path):
            lines = self.database.execute(f"SELECT key, text FROM reasons WHERE key IN ({','.join('?' * len(keys))})", keys)
            return {key: text for key, text in lines if is_text(text)}  # a damaged sentence is computed again

    def add_reasons(self, reasons: dict[str, str]) -> None:
        """Store sentences of `why`."""
        with self.writing():
            self.database.executemany("INSERT OR REPLACE INTO reasons VALUES (?, ?)", list(reasons.items()))


def _flat(row: Row) -> tuple[Any, ...]:
    ns = None if row.ns is None else json.dumps(row.ns)
    metrics = json.dumps(row.metrics)
    return row.key, row.status, row.cycles, ns, row.jobs, row.jobs_hash, metrics, row.error, row.seconds


def _locked(place: Path) -> int:
    """A lock on the file, which is released when the process ends for any reason."""
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL
        raise InputError(_unwritable(place, getattr(error, "strerror", None) or str(error))) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(_unwritable(place, "it is a pipe or a device"))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        remedy = "wait for it, or take --store"
        raise InputError(Problem(str(place), "another run is writing to this store", remedy=remedy)) from None
    return handle


def _kind(error: sqlite3.Error) -> int:
    """The primary code of an error of SQLite; 0 if Python raised the error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _sqlite_errors(place: Path) -> Iterator[None]:
    """Errors of SQLite in the words of kernbench."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text, kind = str(error), _kind(error)
        again = "and run the command again: stored results are kept"
        if kind == sqlite3.SQLITE_FULL:
            rule = "it cannot be written: the disk is full"
            raise InputError(Problem(str(place), rule, remedy=f"make room {again}")) from None
        if kind == sqlite3.SQLITE_IOERR:  # SQLite does not say which
            rule = f"it cannot be written: {text}, such as a quota or a limit of file sizes"
            remedy = f"make room within your quota, or raise the limit of file sizes (ulimit -f), {again}"
            raise InputError(Problem(str(place), rule, remedy=remedy)) from None
        if "malformed" in text:
            raise InputError(_damaged(place, text)) from None
        raise InputError(_unwritable(place, text)) from None
    except sqlite3.DatabaseError as error:
        raise InputError(_damaged(place, str(error))) from None
    except UnicodeDecodeError:  # of SQLite's own message, which quotes a damaged schema
        raise InputError(_damaged(place, "its schema is not UTF-8")) from None


def _unwritable(place: Path, why: str) -> Problem:
    return Problem(str(place), f"it cannot be opened or written: {why}", remedy="choose another place with --store")


def _damaged(place: Path, why: str) -> Problem:
    remedy = "keep it aside and run the sweep into a new store; sqlite3's .recover may save its rows"
    return Problem(str(place), f"it is not a sound store of sweeps: {why}", remedy=remedy)


def _check_header(place: Path, database: sqlite3.Connection, *, may_be_new: bool) -> None:
    """Refuse a database of another program, and a store of another format."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    if not tables and may_be_new:
        return
    if "meta" not in tables or "results" not in tables:
        raise InputError(Problem(str(place), "it is a database, but not a store of sweeps", remedy="name another file"))
    form = database.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
    if form is None or form[0] != FORMAT:
        value = None if form is None else form[0]
        raise InputError(Problem(str(place), f"this version reads {FORMAT}", "format", value, "use the version that wrote it"))
    if wrong := wrong_tables(database):
        raise InputError(_damaged(place, wrong))
