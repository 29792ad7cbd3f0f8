"""Sweeps: specs in JSON and YAML, and stores, which are SQLite databases with JSON in their cells."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.property.fuzz.bases import SMALL, every_opcode
from tests.property.fuzz.case import Case
from tests.property.fuzz.harness import Limits, run_case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of
from tests.property.fuzz.values import strange

SPECS: tuple[dict[str, Any], ...] = (
    {
        "schema": "kernbench/sweep/1",
        "targets": ["p.json"],
        "machine": "m.yaml",
        "set": {"dram.capacity_bytes": "32 MiB"},
        "axes": {"dram.t_setup_cycles": [10, 50], "te.macs_per_cycle": {"from": 64, "to": 1024, "count": 3, "scale": "log"}},
        "where": ["te.macs_per_cycle <= 512 or dram.t_setup_cycles == 10"],
        "goals": {"ns": "min", "te_busy / area_mm2": "max"},
        "area_table": "7nm",
    },
    {
        "schema": "kernbench/sweep/1",
        "name": "drawn",
        "targets": [{"program": "p.json", "label": "one"}],
        "machine": ["m.yaml"],
        "axes": {"dma.max_concurrent_transfers": {"from": 1, "to": 4}, "te.engines": [1, 2]},
        "zip": [{"ve.engines": [1, 2], "noc.link_bytes_per_cycle": [16, 24]}],
        "sample": {"random": 4, "seed": 1},
        "budget": {"points": 6, "seconds": 20},
        "invalid": "skip",
    },
    {
        "schema": "kernbench/sweep/1",
        "targets": [{"ccl": "barrier", "params": {"ranks": 2}}, {"ccl": "all_reduce", "params": {"ranks": 2, "size": 64}}],
        "machine": "single_cube",
        "axes": {"cube.mesh.router_cycles": [1, 2]},
        "sample": {"sobol": 2, "seed": 3},
    },
)
PROGRAM = as_json(every_opcode())
RUN = ("sweep", "run", "s.yaml", "--threads", "1", "--quiet")
PROCESS = ("sweep", "run", "s.yaml", "--jobs", "1", "--quiet")


def _files(spec: bytes, name: str = "s.yaml") -> dict[str, bytes]:
    return {name: spec, "p.json": PROGRAM, "m.yaml": as_yaml(SMALL)}


class SpecFormat:
    """Specs of sweeps."""

    name = "spec"
    KEYS = (
        "name",
        "zip",
        "where",
        "sample",
        "goals",
        "limits",
        "budget",
        "area_table",
        "invalid",
        "set",
        "from",
        "to",
        "count",
        "step",
        "scale",
    )

    def __init__(self, number: int, count: int) -> None:
        pass

    def sound(self) -> list[Case]:
        """Every spec, run on a thread; collectives have to have a process."""
        return [Case(RUN if spec is not SPECS[2] else PROCESS, _files(as_yaml(spec))) for spec in SPECS]

    def mutated(self, rng: Random) -> Case:
        """A changed spec."""
        end = rng.choice((".yaml", ".yaml", ".json"))
        base = rng.choice((*SPECS[:2] * 4, SPECS[2]))
        if rng.random() < 0.15:  # threads refuse them; --dry-run does not
            base = {**base, "limits": {"seconds": 30, "memory": "2 GiB"}}
        made = changed(rng, base, self.KEYS)
        if base is SPECS[2]:
            return Case(("sweep", "run", f"s{end}", *PROCESS[3:]), _files(text_of(rng, made, end), f"s{end}"))
        more = rng.choice((("--threads", "1", "--quiet"), ("--threads", "1", "--lines"), ("--dry-run",)))
        return Case(("sweep", "run", f"s{end}", *more), _files(text_of(rng, made, end), f"s{end}"))

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        case = self.sound()[0]
        return [(case, "s.yaml"), (case, "p.json"), (case, "m.yaml")]


class StoreFormat:
    """Stores of sweeps."""

    name = "store"

    def __init__(self, number: int, count: int) -> None:
        self.spec = as_yaml(SPECS[0])
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            ended = run_case(Case((*RUN, "--store", "s.sqlite"), _files(self.spec)), place, Limits())
            assert ended.code == 0, ended
            with sqlite3.connect(place / "s.sqlite") as database:
                database.execute("PRAGMA journal_mode=DELETE")
            database.close()
            self.base = (place / "s.sqlite").read_bytes()

    def sound(self) -> list[Case]:
        """The store, in each command."""
        files = {**_files(self.spec), "a.sqlite": self.base, "b.sqlite": self.base}
        return [Case(arguments, files) for arguments in self._commands()]

    @staticmethod
    def _commands() -> tuple[tuple[str, ...], ...]:
        return (
            ("sweep", "report", "a.sqlite"),
            ("sweep", "report", "a.sqlite", "--json"),
            ("sweep", "report", "a.sqlite", "--csv", "o.csv", "--html", "o.html"),
            ("sweep", "report", "a.sqlite", "--why", "1"),
            ("sweep", "merge", "new.sqlite", "a.sqlite"),
            ("sweep", "merge", "b.sqlite", "a.sqlite"),
            ("sweep", "merge", "a.sqlite", "b.sqlite"),
            ("sweep", "compare", "a.sqlite", "b.sqlite", "--markdown", "o.md", "--junit", "o.xml"),
            ("sweep", "compare", "b.sqlite", "a.sqlite", "--json"),
            (*RUN, "--store", "a.sqlite"),
            (*RUN, "--store", "a.sqlite", "--retry", "failed"),
        )

    def mutated(self, rng: Random) -> Case:
        """A store with other cells, lost rows, other tables, or other bytes."""
        data = changed_store(rng, self.base) if rng.random() < 0.75 else self._bytes(rng)
        return Case(rng.choice(self._commands()), {**_files(self.spec), "a.sqlite": data, "b.sqlite": self.base})

    def _bytes(self, rng: Random) -> bytes:
        """Damage; most bytes are free space, so that it aims at what is not 0."""
        if rng.random() < 0.3:
            return bytes_changed(rng, self.base)
        data = bytearray(self.base)
        used = [i for i, byte in enumerate(data) if byte]
        for _ in range(rng.choice((1, 2, 8, 50))):
            at = rng.choice(used) if rng.random() < 0.8 else rng.randrange(100)
            data[at] = rng.choice((0, 1, 127, 128, 255, data[at] ^ 1 << rng.randrange(8)))
        return bytes(data)

    def readers(self) -> list[tuple[Case, str]]:
        """Reports, merges and runs."""
        files = {**_files(self.spec), "a.sqlite": self.base, "b.sqlite": self.base}
        chosen = [self._commands()[i] for i in (0, 4, 6, 7, 9)]
        return [(Case(arguments, files), "a.sqlite") for arguments in chosen]


def changed_store(rng: Random, data: bytes) -> bytes:
    """A database after a few statements that keep it one."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "s.sqlite"
        place.write_bytes(data)
        database = sqlite3.connect(place, isolation_level=None)
        try:
            for _ in range(rng.choice((1, 1, 2, 4))):
                _change(rng, database)
        finally:
            database.close()
        return place.read_bytes()


def _change(rng: Random, database: sqlite3.Connection) -> None:
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if not tables:
        return
    table = rng.choice(tables)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
    way = rng.randrange(20)
    try:
        if way == 0:
            database.execute(f'DROP TABLE "{table}"')
        elif way == 1:
            database.execute(f'ALTER TABLE "{table}" RENAME TO "{rng.choice(("x", "results", "points", "meta"))}"')
        elif way == 2:
            database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{rng.choice(columns)}"')
        elif way == 3:
            database.execute(f'ALTER TABLE "{table}" ADD COLUMN "more"')
        elif way == 4:
            database.execute(
                f"CREATE TRIGGER t{rng.randrange(99)} BEFORE INSERT ON \"{table}\" BEGIN SELECT RAISE(FAIL, 'no'); END"
            )
        elif way == 5 and rows:
            database.execute(f'DELETE FROM "{table}" WHERE "{columns[0]}" = ?', (rng.choice(rows)[0],))
        elif way == 6:
            database.execute(f"PRAGMA user_version = {rng.choice((1, -1, 2**31 - 1))}")
        elif rows:
            _change_cell(rng, database, table, columns, rng.choice(rows))
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):  # what it refuses stays as it was
        pass


def _change_cell(rng: Random, database: sqlite3.Connection, table: str, columns: list[str], row: tuple[Any, ...]) -> None:
    """Another value: JSON stays JSON as a rule."""
    at = rng.randrange(len(columns))
    was = row[at]
    value: Any
    if isinstance(was, str) and was[:1] in ("{", "[") and rng.random() < 0.7:
        value = json.dumps(changed(rng, json.loads(was)))
    else:
        value = strange(rng, was)
        if isinstance(value, (list, dict)):
            value = json.dumps(value)
        elif rng.random() < 0.1:
            value = rng.randbytes(9)
    known = " AND ".join(f'"{name}" IS ?' for name in columns)
    database.execute(f'UPDATE "{table}" SET "{columns[at]}" = ? WHERE {known}', (value, *row))
