"""The format of a store: its tables, and the allowed values of the columns of results. Values are checked because a file may be
damaged or made by another program.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.common import naming
from kernbench.common.units import cycles_to_ns, parse_rational, plain_number
from kernbench.sim_engine.op_log import OpRecord
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import bank_conflicts, bound_share, engine_uses

ENDED = ("done", "aborted", "deadlock")  #: a result of the model, which a second run would repeat
#: Reasons for a missing result: the input or its code was refused, a limit of the sweep was reached, a process died, or
#: kernbench has a bug.
FAILED = ("refused", "failed", "timeout", "memory", "crashed", "error")
LONGEST_ERROR = 2000  # most characters of a stored text
#: The numbers of a row: name and meaning.
METRICS: dict[str, str] = {
    "bound": "[cycle] the largest lower bound",
    "bound_by": "what that bound is of",
    "energy_pj": "[pJ] of the whole run",
    "area_mm2": "[mm2] of all scratchpads and tensor engines of the machine, by `area_table`",
    "dram_bytes": "[B] that all DRAM channels carried",
    "dma_busy": "busy share of the run, mean of the DMA engines",
    "te_busy": "of the tensor engines",
    "ve_busy": "of the vector engines",
    "bank_denials": "denied share of the requests to scratchpad banks",
    "tokens_per_s": "of a language model: tokens that went through it, a second",
    "ttft_ns": "[ns] of a language model under a runtime profile: the prompt",
    "tpot_ns": "[ns] of a language model under a runtime profile: a decode step, on average",
    "tflop_per_s": "[TFLOP/s] of a matrix product: two operations for each multiply-add, over the time",
    "requests_per_s": "of a serve target: the largest rate of requests under its latency targets",
    "requests_per_s_low": "the lower end of its interval of 95 %",
    "requests_per_s_high": "the upper end",
    "requests_per_s_per_usd_per_hour": "that rate for each $/hour that the machines cost",
    "requests_per_s_per_watt": "that rate for each W that they draw",
    "busbw": "[GB/s] of a collective: what each rank sends at least, over the time",
    "verified": "of a bench or collective with `verify`: whether its outputs are right",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one key."""

    key: str
    status: str  #: one of ENDED and FAILED
    cycles: int | None = None
    ns: int | float | str | None = None  #: exact, in the form of `plain_number`
    jobs: int | None = None  #: number of jobs whose times are in `jobs_hash`
    jobs_hash: str = ""  #: SHA-256 over the times of all jobs
    metrics: dict[str, Any] = {}
    error: str = ""
    seconds: float = 0.0  #: wall time of the run; not in any table

    @property
    def ended(self) -> bool:
        """Whether the run has a result of the model."""
        return self.status in ENDED


def failed_row(key: str, status: str, error: str, seconds: float = 0.0) -> Row:
    """The row of a run without a result."""
    return Row(key=key, status=status, error=error[:LONGEST_ERROR], seconds=seconds)


def measured(result: Result, freq_ghz: Fraction) -> dict[str, Any]:
    """The fields of a row that every kind of run has, except bounds."""
    uses = list(engine_uses(result))
    banks = bank_conflicts(result)
    metrics: dict[str, Any] = {
        "energy_pj": result.metrics["energy_pj"]["total"],
        "dram_bytes": sum(c["bytes"] for name, c in result.counters.items() if naming.counted(name) == "dram"),
        "bank_denials": banks.rate,
    }
    for kind in ("dma", "te", "ve"):
        shares = [use.utilisation for use in uses if use.kind == kind]
        if shares:
            metrics[f"{kind}_busy"] = math.fsum(shares) / len(shares)
    failure = "" if result.failure is None else str(result.failure["message"])
    return {
        "status": result.status,
        "cycles": result.cycles,
        "ns": plain_number(cycles_to_ns(result.cycles, freq_ghz)),
        "metrics": metrics,
        "error": failure[:LONGEST_ERROR],
    }


def with_bound(result: Result) -> dict[str, Any]:
    """The fields with the largest lower bound of a program's run."""
    bound = bound_share(result)
    return {"bound": bound.cycles, "bound_by": bound.name}


def ordered(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics in the order of METRICS."""
    return {name: metrics[name] for name in METRICS if name in metrics}


def hash_of_times(table: npt.NDArray[np.int64]) -> tuple[int, str]:
    """The number of entries, and the hash of their ids and times; `table`: of `Machine.time_table`."""
    return len(table), hashlib.sha256(table.astype("<i8", copy=False).tobytes()).hexdigest()


def hash_of_records(records: Iterable[OpRecord]) -> tuple[int, str]:
    """The number of records of an op log, and the hash of their components, ops and times."""
    digest = hashlib.sha256()
    count = 0
    for record in records:
        line = f"{record.op_id} {record.t_start!r} {record.t_end!r} {record.component_id} {record.op_name}\n"
        digest.update(line.encode())
        count += 1
    return count, digest.hexdigest()


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
LARGEST = 1e100  #: limit of a number, so that means can be computed
MAX_DEPTH = 16  #: deepest nesting of a value of an axis


class DamagedError(ValueError):
    """A value that a store must not have: its column, the value, and the rule."""

    def __init__(self, column: str, value: Any, rule: str) -> None:
        self.column, self.value, self.rule = column, value, rule
        super().__init__(f"{column}: {rule}")


def text_of(raw: bytes) -> str:
    """A text from SQLite; bytes that are not UTF-8 are kept, so that the error can name the column."""
    return raw.decode("utf-8", "surrogateescape")


def is_text(value: object) -> bool:
    """Whether the value is a text that was valid UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def wrong_tables(database: sqlite3.Connection) -> str:
    """The differences from the schema; empty if there are none."""
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
    """The columns of all tables, views, indexes and triggers, except those that SQLite makes itself."""
    listed = database.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'").fetchall()
    return {
        str(name): database.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,)).fetchall()
        if kind == "table"
        else kind
        for kind, name in listed
    }


def row_of(line: Sequence[Any]) -> Row:
    """A result from its columns, in the order of COLUMNS. DamagedError for values that a run cannot have."""
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
    """A JSON text as a type of msgspec. DamagedError for any other value."""
    _check(column, text, is_text(text), "it must be text")
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:  # ValueError: too many digits
        raise DamagedError(column, text, f"the text cannot be read: {error}") from None
    except RecursionError:
        raise DamagedError(column, text, "the text cannot be read: it is nested too deeply") from None


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
    """Whether the value may be a value of an axis: JSON types, numbers within limits, texts that were valid UTF-8."""
    if isinstance(value, dict):
        return depth < MAX_DEPTH and all(is_text(key) and is_plain(item, depth + 1) for key, item in value.items())
    if isinstance(value, list | tuple):
        return depth < MAX_DEPTH and all(is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, bool) or is_text(value) or _finite(value)
