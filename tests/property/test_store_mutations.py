"""Damaged stores of sweeps: every command reads or refuses one, soon, and loses no result that is whole."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mutation_runs import Tally, commands, kbsim, run_forked
from tests.sweep_samples import SPEC, write_spec

STRANGE: tuple[Any, ...] = (
    None, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 0.5, float("inf"), float("-inf"), 1e308, "", "x", "done", "nan", "NaN", "null",
    "{}", "[]", "[[]]", "[1, 2]", '"x"', "true", "1e999", "9" * 5000, "1/0", '{"bound": NaN}', '{"bound": "x"}',
    '{"energy_pj": 1e999}', '{"energy_pj": [1]}', '{"verified": 3}', '{"x": 1}', "[" * 3000, '{"a":' * 3000, b"", b"\xff\xfe",
    "\ud7ff\U0010ffff", "é" * 3000,
)  # fmt: skip
PIECES = (b"\0" * 64, b"\xff" * 64, b"SQLite format 3\0", b"\x7f\xff\xff\xff", b"\x80" * 9)
SQL = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} ADD COLUMN more",
    "DROP TABLE {table}; CREATE VIEW {table} AS SELECT 1 AS {column}",
    "DROP TABLE {table}; CREATE TABLE {table} ({column})",
    "CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM points; END",
    "DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
    "SELECT x AS {column} FROM c",
    "PRAGMA application_id = 7",
    "PRAGMA user_version = 99",
    "UPDATE meta SET value = 'kernbench/sweep-store/9'",
    "UPDATE meta SET value = CAST(x'ff' AS TEXT)",
    "INSERT INTO sweeps SELECT name || 'x', points_hash, about FROM sweeps",
    "UPDATE points SET number = number + 9223372036854775000",
)


def text_of(rng: random.Random, text: str) -> Any:
    """JSON that is cut, or has another value in it."""
    at = rng.randrange(len(text) + 1)
    kind = rng.choice(("cut", "piece", "byte"))
    if kind == "cut":
        return text[:at]
    if kind == "byte":
        return (text[:at].encode() + b"\xff" + text[at + 1 :].encode(),)
    end = min(len(text), at + rng.choice((1, 3, 10)))
    return text[:at] + rng.choice(("null", "-1", "1e999", '"x"', "[]", "{}", "9" * 400, "true", "")) + text[end:]


def values_in_place(rng: random.Random, database: sqlite3.Connection, table: str, column: str) -> None:
    """As much of it as the table's own rules allow."""
    lines = [old for (old,) in database.execute(f"SELECT {column} FROM {table}")]
    for old in rng.sample(lines, min(len(lines), rng.choice((1, 1, 3)))):
        new = text_of(rng, old) if isinstance(old, str) and rng.random() < 0.6 else rng.choice(STRANGE)
        cast = "CAST(? AS TEXT)" if isinstance(new, tuple) else "?"
        database.execute(
            f"UPDATE OR IGNORE {table} SET {column} = {cast} WHERE {column} IS ?",
            (*(new if isinstance(new, tuple) else (new,)), old),
        )


def value(rng: random.Random, database: sqlite3.Connection) -> None:
    """Another value in some column of some rows; now and then the columns have no rules any more."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = rng.choice([*tables, "results", "results", "points"])
    columns = [line[1] for line in database.execute(f"PRAGMA table_info({table})")]
    column = rng.choice(columns)
    if rng.random() < 0.8:
        values_in_place(rng, database, table, column)
        return
    database.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
    database.execute(f"DROP TABLE {table}")
    database.execute(f"ALTER TABLE loose RENAME TO {table}")
    lines = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    for number, old in rng.sample(lines, min(len(lines), rng.choice((1, 1, 3)))):
        new = text_of(rng, old) if isinstance(old, str) and rng.random() < 0.6 else rng.choice(STRANGE)
        if isinstance(new, tuple):
            database.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", (new[0], number))
        else:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, number))
    if rng.random() < 0.2:
        database.execute(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 2")


def schema(rng: random.Random, database: sqlite3.Connection) -> None:
    """Another schema."""
    table = rng.choice(("meta", "results", "sweeps", "points", "reasons"))
    columns = [line[1] for line in database.execute(f"PRAGMA table_info({table})")]
    database.executescript(rng.choice(SQL).format(table=table, column=rng.choice(columns)))


def content(rng: random.Random, path: Path) -> None:
    """Bytes of the file."""
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 4, 30))):
        at = rng.randrange(len(data) + 1) if rng.random() < 0.7 else rng.randrange(100)
        kind = rng.choice(("flip", "piece", "cut", "page"))
        if kind == "flip" and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == "piece":
            piece = rng.choice(PIECES)
            data[at : at + len(piece)] = piece
        elif kind == "page":
            page = at // 4096 * 4096
            other = rng.randrange(max(1, len(data) // 4096)) * 4096
            data[page : page + 4096] = data[other : other + 4096]
        elif rng.random() < 0.3:
            del data[at:]
    path.write_bytes(bytes(data))


def beside(rng: random.Random, path: Path) -> None:
    """Files that SQLite looks for beside a store."""
    suffix = rng.choice(("-wal", "-shm", "-journal"))
    head = rng.choice((b"", bytes.fromhex("377f0682002de218000010000000000000000000"), bytes.fromhex("d9d505f920a163d7")))
    place = Path(f"{path}{suffix}")
    kind = rng.random()
    if kind < 0.1:
        place.mkdir()
    elif kind < 0.2:
        place.symlink_to("/dev/zero")
    else:
        place.write_bytes(head + rng.randbytes(rng.choice((0, 10, 5000))))


def special(rng: random.Random, path: Path) -> None:
    """No file at all."""
    path.unlink()
    kind = rng.choice(("zero", "full", "null", "pipe", "folder", "round", "empty", "none", "text"))
    if kind in ("zero", "full", "null"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "round":
        path.symlink_to(path.name)
    elif kind != "none":
        path.write_bytes(b"" if kind == "empty" else b"key,status\n" * 400)


def damage(rng: random.Random, path: Path) -> None:
    """One to three changes of a store."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        change: Callable[..., None] = rng.choice((value, value, value, value, schema, content, content, beside))
        if change in (content, beside):
            with contextlib.suppress(OSError):
                change(rng, path)
            continue
        with (
            contextlib.suppress(sqlite3.Error, IndexError),
            contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database,
        ):
            database.execute("PRAGMA journal_mode = DELETE")
            change(rng, database)
    if rng.random() < 0.05:
        special(rng, path)


def prepare(folder: Path) -> None:
    """A spec, its store with all results, and a copy."""
    write_spec(folder, SPEC.replace("count: 3", "count: 2"))
    call = commands([("sweep", "run", "s.yaml", "--threads", "1"), ("sweep", "report", "s.sqlite", "--why", "1")])
    ended = run_forked(call, folder)
    assert ended.code == 0, ended.said
    (folder / "sound").write_bytes((folder / "s.sqlite").read_bytes())


def write_case(seed: str, folder: Path) -> list[tuple[str, ...]]:
    """The damaged store that belongs to a seed, as `bad`, and the commands that use it."""
    rng = random.Random(seed)
    for path in folder.iterdir():
        if path.name.startswith(("bad", "into", "page", "t.")):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    bad = folder / "bad"
    bad.write_bytes((folder / "sound").read_bytes())
    (folder / "into").write_bytes((folder / "sound").read_bytes())
    damage(rng, bad)
    report = ("sweep", "report", "bad", *rng.choice((("--json",), ("--html", "page.html", "--csv", "t.csv"), ("--why", "2"))))
    run = (
        "sweep",
        "run",
        "s.yaml",
        "--store",
        "bad",
        "--threads",
        "1",
        *rng.choice(((), ("--retry", "failed"), ("--dry-run",))),
    )
    uses = [
        report,
        ("sweep", "compare", "sound", "bad"),
        ("sweep", "compare", "bad", "sound", "--json"),
        ("sweep", "merge", "into", "bad"),
        ("sweep", "merge", "bad", "sound"),
        run,
    ]
    return rng.sample(uses[:4], 2) + rng.sample(uses[4:], 2) + [report]


def search(seed: int, count: int, folder: Path) -> Tally:
    """So many damaged stores."""
    import kernbench.cli.sweep.report
    import kernbench.sweep.report.page
    import kernbench.sweep.runner  # noqa: F401

    prepare(folder)
    kbsim("sweep", "report", "none")
    found = Tally(seed)
    gc.freeze()
    for number in range(count):
        case = f"{seed}.{number}"
        found.add(case, run_forked(commands(write_case(case, folder)), folder))
    return found


def test_damaged_stores(tmp_path: Path) -> None:
    search(24, 25, tmp_path).check()


@pytest.mark.nightly
def test_damaged_stores_for_long(tmp_path: Path) -> None:
    seed = int(os.environ.get("KB_SEED") or random.SystemRandom().randrange(1 << 32))
    search(seed, 1000, tmp_path).check()
