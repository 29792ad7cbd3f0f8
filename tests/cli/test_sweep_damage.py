"""Damaged stores: what cannot be read is refused by name, or computed again, and no result that is whole is lost."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim
from tests.sweep_samples import write_spec

RUN = ("sweep", "run", "s.yaml", "--threads", "1")


@pytest.fixture(autouse=True)
def store(kbsim: Kbsim, tmp_path: Path) -> None:
    """Six points with their results, and the table that belongs to them."""
    write_spec(tmp_path)
    assert kbsim(*RUN, "-q").code == 0
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "sound.csv").code == 0
    Path("sound").write_bytes(Path("s.sqlite").read_bytes())


def change(statement: str, *values: object, path: str = "s.sqlite") -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement, values)


def first_key(path: str = "s.sqlite") -> str:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return str(database.execute("SELECT key FROM results ORDER BY key").fetchone()[0])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("status = 'ended'", 'status = "ended", but it must be one of done, aborted, deadlock, refused, failed, timeout, '),
        ("status = x'00ff'", "status = "),
        ("cycles = 'many'", 'cycles = "many", but it must be a whole number of at least 0'),
        ("cycles = -1", "cycles = -1, but it must be a whole number of at least 0"),
        ("cycles = NULL", "cycles = null, but it must be a whole number of at least 0"),
        ("cycles = 1.5", "cycles = 1.5, but it must be a whole number of at least 0"),
        ("jobs = 'x'", 'jobs = "x", but it must be a whole number of at least 0'),
        ("jobs_hash = x'ff'", "jobs_hash = "),
        ("ns = 'nan'", 'ns = "nan", but the text cannot be read: '),
        ("ns = NULL", "ns = null, but it must be a number of at least 0"),
        ("ns = '\"1/0\"'", 'ns = ""1/0"", but it must be a number of at least 0'),
        ("ns = '-3'", 'ns = "-3", but it must be a number of at least 0'),
        ("metrics = ''", 'metrics = "", but the text cannot be read: '),
        ("metrics = '[1]'", 'metrics = "[1]", but it must be a mapping'),
        ("metrics = '{\"energy_pj\": 1e200}'", "metrics.energy_pj = 1e+200, but no run has such a value"),
        ("metrics = '{\"speed\": 1}'", "metrics.speed = 1, but no run has such a value"),
        ("metrics = CAST(x'7bff7d' AS TEXT)", "metrics = "),
        ("error = CAST(x'ff' AS TEXT)", 'error = "\\udcff", but it must be text'),
        ("seconds = 9e999", "seconds = inf, but it must be a number of at least 0"),
        ("seconds = 'long'", 'seconds = "long", but it must be a number of at least 0'),
    ],
)
def test_a_damaged_result(value: str, message: str, kbsim: Kbsim) -> None:
    """Tables name it; a run computes it again, and all others stay."""
    key = first_key()
    change(f"UPDATE results SET {value} WHERE key = ?", key)
    said = kbsim("sweep", "report", "s.sqlite")
    assert (said.code, said.out) == (2, "") and said.err.startswith(f"error: s.sqlite: result {key[:16]}: {message}")
    assert said.err.endswith("; kbsim sweep run computes it again\n")
    assert kbsim("sweep", "compare", "sound", "s.sqlite") == said == kbsim("sweep", "merge", "into.sqlite", "s.sqlite")
    said = kbsim(*RUN)
    assert said.code == 0 and said.out.startswith("s  6 points: 1 run, 5 known before")
    assert said.err.startswith(f"warning: s.sqlite: result {key[:16]}: {message}") and said.err.endswith("point is run again\n")
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "now.csv").code == 0
    assert Path("now.csv").read_bytes() == Path("sound.csv").read_bytes()


def test_an_estimate_touches_nothing(kbsim: Kbsim) -> None:
    change("UPDATE results SET cycles = 'x' WHERE key = ?", first_key())
    before = Path("s.sqlite").read_bytes()
    assert kbsim(*RUN, "--dry-run").code == 0
    assert Path("s.sqlite").read_bytes() == before


def test_a_sound_result_takes_the_place_of_a_damaged_one(kbsim: Kbsim) -> None:
    change("UPDATE results SET metrics = 'x' WHERE key = ?", first_key())
    said = kbsim("sweep", "merge", "s.sqlite", "sound")
    assert said == (0, "s.sqlite: 6 results, from 1 store, 0 new results; sweeps: s\n", "")
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "now.csv").code == 0
    assert Path("now.csv").read_bytes() == Path("sound.csv").read_bytes()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE sweeps SET about = 'x'", 'sweep s: about = "x", but the text cannot be read: '),
        ('UPDATE sweeps SET about = replace(about, \'"ns","min"\', \'"ns","best"\')', "sweep s: about.goals = "),
        ("UPDATE sweeps SET name = CAST(x'ff' AS TEXT)", 'sweep a sweep: name = "\\udcff", but it must be text'),
        ("UPDATE points SET task = '[[1],3]' WHERE number = 2", 'sweep s: point 2: task = "[[1],3]", but the text cannot'),
        (
            "UPDATE points SET task = replace(task, '[[10', '[[9,10') WHERE number = 0",
            "sweep s: point 0: task = ",
        ),
        ("UPDATE points SET key = 'x' WHERE number = 1", 'sweep s: point 1: key = "x", but it must be the key of its task, '),
        ("UPDATE points SET number = -7 WHERE number = 1", "sweep s: point -7: number = -7, but it must be from 0 to 9999999"),
        ("DELETE FROM points WHERE number = 2", "sweep s: points_hash = "),
        ("UPDATE points SET target = CAST(x'ff' AS TEXT)", 'sweep s: point 0: target = "\\udcff", but it must be text'),
    ],
)
def test_damaged_points(statement: str, message: str, kbsim: Kbsim) -> None:
    """A run with the spec writes them again, and keeps the results."""
    change(statement)
    said = kbsim("sweep", "report", "s.sqlite", "--sweep", "s")
    assert (said.code, said.out) == (2, "") and said.err.startswith(f"error: s.sqlite: {message}")
    assert said.err.endswith("; kbsim sweep run with its spec writes its points again; results are not touched\n")
    change("DELETE FROM sweeps WHERE name != 's'")
    assert kbsim(*RUN).out.startswith("s  6 points: 0 run, 6 known before")
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "now.csv").code == 0
    assert Path("now.csv").read_bytes() == Path("sound.csv").read_bytes()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE reasons", "it has no table reasons"),
        ("ALTER TABLE results ADD COLUMN more", "its table results has other columns"),
        ("CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM points; END", "it has t beside the tables of a store"),
        ("CREATE VIEW v AS SELECT 1", "it has v beside the tables of a store"),
    ],
)
def test_other_tables(statement: str, message: str, kbsim: Kbsim) -> None:
    change(statement)
    for call in (("sweep", "report", "s.sqlite"), RUN, ("sweep", "merge", "into.sqlite", "s.sqlite")):
        said = kbsim(*call)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith(f"error: s.sqlite: it is not a sound store of sweeps: {message}; keep it aside")


def test_places_that_are_no_files(kbsim: Kbsim) -> None:
    os.mkfifo("pipe")
    Path("zero").symlink_to("/dev/zero")
    Path("round").symlink_to("round")
    for name in ("pipe", "zero"):
        said = kbsim("sweep", "report", name)
        assert (said.code, said.err) == (2, f"error: {name}: there is no such store; the stores here are s.sqlite\n")
        said = kbsim(*RUN, "--store", name)
        assert (said.code, said.out) == (2, "") and "it cannot be opened or written: it is a pipe or a device" in said.err
        assert kbsim("sweep", "merge", name, "sound").code == 2
    said = kbsim("sweep", "merge", "round", "sound")
    assert said.code == 2 and "its links form a cycle" in said.err
    assert kbsim(*RUN, "--store", "round").code == 2


def test_a_damaged_sentence_is_made_anew(kbsim: Kbsim) -> None:
    said = kbsim("sweep", "report", "s.sqlite", "--why", "1", "--json")
    change("UPDATE reasons SET text = CAST(x'ff' AS TEXT)")
    assert kbsim("sweep", "report", "s.sqlite", "--why", "1", "--json") == said
    assert kbsim("sweep", "merge", "into.sqlite", "s.sqlite").code == 0
    change("UPDATE reasons SET text = x'00'")
    assert kbsim("sweep", "report", "s.sqlite", "--why", "1", "--json") == said


@pytest.mark.parametrize("left", [b"", b"\x37\x7f\x06\x82" + bytes(5000), b"x" * 40])
def test_a_log_that_a_killed_writer_left(left: bytes, kbsim: Kbsim) -> None:
    """What is not a log of this store is not read: all results are there."""
    Path("s.sqlite-wal").write_bytes(left)
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "now.csv").code == 0
    assert Path("now.csv").read_bytes() == Path("sound.csv").read_bytes()
    assert kbsim(*RUN).out.startswith("s  6 points: 0 run, 6 known before")
