"""Merges stores: stores of shards, of other sweeps, or of other computers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import target_of
from kernbench.sweep.store import PUT, Store
from kernbench.sweep.store.sweeps import check_sweeps, sweep_names
from kernbench.sweep.store.tables import COLUMNS, ENDED, is_text

#: Columns in which two complete results of one key must agree; a difference means that a run is not deterministic.
SAME = ("status", "cycles", "ns", "jobs", "jobs_hash")


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    stores: int
    results: int  #: number of results in the store
    new: int  #: number of these results that are new
    sweeps: tuple[str, ...]


def merge_into(target: Path, sources: Sequence[Path]) -> Merged:
    """Copy every result and sweep of the sources into the store at `target`, which is created if it does not exist.

    InputError if a source is damaged, two results of one key differ, or two sweeps of one name have different points. Results
    that were merged before an error are kept, and a repeated merge continues.
    """
    if target_of(target) in [target_of(source) for source in sources]:
        raise InputError(Problem("kbsim sweep merge", "a store cannot be merged into itself", "STORE", str(target)))
    for source in sources:
        Store.read(source).close()  # before the merge, check that all sources are stores
    with Store.write(target) as store:
        before = store.count()
        for source in sources:
            with Store.read(source) as other:
                other.check(whole=True)
                other.check_rows()
                check_sweeps(other)
                _check(store, other)
                _take(store, other)
        return Merged(len(sources), store.count(), store.count() - before, tuple(sweep_names(store)))


def _check(store: Store, other: Store) -> None:
    """Refuse rows that contradict the rows of this store."""
    with store.reading() as mine, other.reading() as theirs:
        for name, digest in theirs.execute("SELECT name, points_hash FROM sweeps"):
            found = mine.execute("SELECT points_hash FROM sweeps WHERE name = ?", (name,)).fetchone()
            if found is not None and found[0] != digest:
                rule = f"its sweep {name} has other points than that of {store.path}"
                remedy = "give the specs different names, or run all shards of the same spec and version"
                raise InputError(Problem(str(other.path), rule, remedy=remedy))
        keys = [key for (key,) in theirs.execute("SELECT key FROM results")]
        store.statuses(keys)  # finds damaged results
        for line in theirs.execute(f"SELECT key, {', '.join(SAME)} FROM results"):
            if line[0] in store.damaged:
                continue  # a valid result replaces it
            found = mine.execute(f"SELECT {', '.join(SAME)} FROM results WHERE key = ?", (line[0],)).fetchone()
            if found is None or found[0] not in ENDED or line[1] not in ENDED or found == line[1:]:
                continue
            name, ours, its = next(item for item in zip(SAME, found, line[1:], strict=True) if item[1] != item[2])
            rule = f"the result {line[0][:16]} has {name} = {its} in it, and {ours} in {store.path}"
            remedy = "one of the two was made by changed code of the same version: run these points again"
            raise InputError(Problem(str(other.path), rule, remedy=remedy))


def _take(store: Store, other: Store) -> None:
    """Copy results, sweeps and reasons, in one transaction. InputError if a text of the other store is not valid UTF-8."""
    try:
        _copy(store, other)
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        rule = f"a text in its tables is not UTF-8: {error.object[:40]!r}"
        raise InputError(Problem(str(other.path), rule, remedy="leave this store out")) from None


def _copy(store: Store, other: Store) -> None:
    with other.reading() as theirs, store.writing() as mine:
        keys = [(key,) for (key,) in theirs.execute("SELECT key FROM results") if key in store.damaged]
        mine.executemany("DELETE FROM results WHERE key = ?", keys)
        mine.executemany(PUT, theirs.execute(f"SELECT {COLUMNS} FROM results"))
        mine.executemany("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", theirs.execute("SELECT * FROM sweeps"))
        points = theirs.execute("SELECT * FROM points WHERE sweep IN (SELECT name FROM sweeps)")
        mine.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?)", points)
        reasons = [line for line in theirs.execute("SELECT * FROM reasons") if all(map(is_text, line))]
        mine.executemany("INSERT OR IGNORE INTO reasons VALUES (?, ?)", reasons)
