"""What may stand in a store: its tables, and the values of a result's columns. Files can be damaged, or made by anybody."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kernbench.common.units import parse_rational
from kernbench.sweep.store.row import ENDED, FAILED, METRICS, Row

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE results (
  key TEXT PRIMARY KEY, status TEXT NOT NULL, cycles INTEGER, ns TEXT, jobs INTEGER, jobs_hash TEXT NOT NULL,
  metrics TEXT NOT NULL, error TEXT NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE sweeps (name TEXT PRIMARY KEY, points_hash TEXT NOT NULL, about TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (
  sweep TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, target TEXT NOT NULL, machine TEXT NOT NULL,
  task TEXT NOT NULL, PRIMARY KEY (sweep, number)) WITHOUT ROWID;
CREATE TABLE reasons (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
"""
COLUMNS = "key, status, cycles, ns, jobs, jobs_hash, metrics, error, seconds"
LARGEST = 1e100  #: of a number; with larger ones no mean could be made
MOST_DEPTH = 16  #: of a value of an axis


class DamagedError(ValueError):
    """A value that no store has: which column, what is there, and the rule."""

    def __init__(self, column: str, value: Any, rule: str) -> None:
        self.column, self.value, self.rule = column, value, rule
        super().__init__(f"{column}: {rule}")


def text_of(raw: bytes) -> str:
    """A text as SQLite hands it out; what is no UTF-8 is kept, so that it can be refused by name."""
    return raw.decode("utf-8", "surrogateescape")


def is_text(value: object) -> bool:
    """Whether it is a text, and was UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def wrong_tables(database: sqlite3.Connection) -> str:
    """What of the schema is not as it is written; empty where all of it is."""
    wanted = sqlite3.connect(":memory:")
    try:
        wanted.executescript(TABLES)
        there = _schema(database)
        for name, columns in _schema(wanted).items():
            if name not in there:
                return f"it has no table {name}"
            if there.pop(name) != columns:
                return f"its table {name} has other columns"
        return f"it has {next(iter(there))} beside the tables of a store" if there else ""
    finally:
        wanted.close()


def _schema(database: sqlite3.Connection) -> dict[str, Any]:
    """Columns of all tables, views, indexes and triggers, but for what SQLite makes itself."""
    listed = database.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'").fetchall()
    return {
        str(name): database.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,)).fetchall()
        if kind == "table"
        else kind
        for kind, name in listed
    }


def row_of(line: Sequence[Any]) -> Row:
    """A result from its columns, in the order of COLUMNS. DamagedError for what no run has."""
    key, status, cycles, ns, jobs, jobs_hash, metrics, error, seconds = line
    _check("key", key, is_text(key) and bool(key), "it must be text")
    _check("status", status, status in ENDED or status in FAILED, f"it must be one of {', '.join((*ENDED, *FAILED))}")
    for column, value in (("cycles", cycles), ("jobs", jobs)):
        least = status == "done" and column == "cycles"
        _check(column, value, (value is None and not least) or _counted(value), "it must be a whole number of at least 0")
    time = None if ns is None else _decoded("ns", ns)
    _check("ns", ns, _is_time(time) if time is not None else status != "done", "it must be a number of at least 0")
    for column, value in (("jobs_hash", jobs_hash), ("error", error)):
        _check(column, value, is_text(value), "it must be text")
    _check("seconds", seconds, _finite(seconds) and seconds >= 0, "it must be a number of at least 0")
    return Row(
        key=key, status=status, cycles=cycles, ns=time, jobs=jobs, jobs_hash=jobs_hash, metrics=_metrics(metrics), error=error,
        seconds=seconds,
    )  # fmt: skip


def _metrics(text: Any) -> dict[str, Any]:
    found = _decoded("metrics", text)
    _check("metrics", text, isinstance(found, dict), "it must be a mapping")
    for name, value in found.items():
        kinds: dict[str, Callable[[Any], bool]] = {"bound_by": is_text, "verified": lambda value: isinstance(value, bool)}
        sound = name in METRICS and kinds.get(name, _finite)(value)
        _check(f"metrics.{name}", value, sound, "no run has such a value")
    return dict(found)


def _check(column: str, value: Any, sound: bool, rule: str) -> None:
    if not sound:
        raise DamagedError(column, value, rule)


def _decoded(column: str, text: Any) -> Any:
    _check(column, text, is_text(text), "it must be text")
    return decoded(column, text, Any)


def decoded(column: str, text: Any, kind: Any) -> Any:
    """A JSON text as a type of msgspec. DamagedError where it is none."""
    _check(column, text, is_text(text), "it must be text")
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:  # ValueError: of too many digits
        raise DamagedError(column, text, f"it cannot be read: {error}") from None
    except RecursionError:
        raise DamagedError(column, text, "it cannot be read: it is nested too deeply") from None


def _counted(value: Any) -> bool:
    return type(value) is int and value >= 0


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST and math.isfinite(value)


def _is_time(value: Any) -> bool:
    try:
        return 0 <= parse_rational(value) <= LARGEST
    except ValueError:
        return False


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether it may be a value of an axis: what JSON has, numbers of any use, texts that were UTF-8."""
    if isinstance(value, dict):
        return depth < MOST_DEPTH and all(is_text(key) and is_plain(item, depth + 1) for key, item in value.items())
    if isinstance(value, list | tuple):
        return depth < MOST_DEPTH and all(is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, bool) or is_text(value) or _finite(value)
