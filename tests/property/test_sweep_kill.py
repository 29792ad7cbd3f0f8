"""Kill -9 of drivers and workers at random moments: nothing that was acknowledged is lost, and the table is the same."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernbench.sweep.points import points_of
from kernbench.sweep.runner import missing
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from tests.sweep_samples import GRID, alive, children, run_spec, table_of, write_spec

POINTS = 240


def rest_of(driver: subprocess.Popen[bytes]) -> tuple[list[bytes], str]:
    """The lines that nobody has read yet, to the end, and what was said on stderr."""
    assert driver.stdout is not None and driver.stderr is not None
    with driver.stdout, driver.stderr:
        lines = driver.stdout.readlines()
        said = driver.stderr.read().decode()
    driver.wait()
    return lines, said


def start(*arguments: str | Path, cwd: Path) -> subprocess.Popen[bytes]:
    """`kbsim sweep run --lines` and so on, with its lines to read."""
    command = [sys.executable, "-c", "from kernbench.cli.main import main; main()", "sweep", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Ledger:
    """What the drivers have said: keys that are in the store, by their own word."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()

    def read(self, line: bytes) -> None:
        if line.endswith(b"\n"):
            told = json.loads(line)
            assert told["status"] == "done", told
            self.acknowledged.add(told["key"])

    def check(self, store: Path) -> None:
        """Everything is there, and the file is sound, by SQLite's own word."""
        database = sqlite3.connect(store)
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        there = {key for (key,) in database.execute("SELECT key FROM results WHERE status = 'done'")}
        database.close()
        assert self.acknowledged <= there


def one_round(folder: Path, store: Path, ledger: Ledger, draw: random.Random, who: str) -> bool:
    """Start a driver and kill it, or a worker of its and then the driver; whether there was something to kill."""
    driver = start("run", "s.yaml", "--store", store, "--jobs", "2", "--lines", cwd=folder)
    assert driver.stdout is not None
    workers: list[int] = []
    struck = False
    try:
        for _ in range(draw.randrange(1, 24)):
            line = driver.stdout.readline()
            if not line:
                break
            ledger.read(line)
        workers = children(driver.pid)
        if who == "worker" and workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
            struck = True
            ledger.read(driver.stdout.readline() or b"")  # it goes on
        time.sleep(draw.random() * 0.05)
        workers += children(driver.pid)
        struck = struck or driver.poll() is None
    finally:
        driver.kill()
        lines, said = rest_of(driver)
    for line in lines:
        ledger.read(line)
    assert not said
    until = time.monotonic() + 20
    while any(alive(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.02)
    assert not [pid for pid in workers if alive(pid)], "workers outlive their driver"
    return struck


def survive(tmp_path: Path, rounds: int, seed: int) -> None:
    spec = write_spec(tmp_path, GRID)
    draw = random.Random(seed)
    run_spec(spec, tmp_path / "calm.sqlite")
    calm = table_of(tmp_path / "calm.sqlite")
    points = points_of(load_spec(spec))
    kills, at, ledger = 0, 0, Ledger()
    while kills < rounds:
        at += 1
        store, ledger = tmp_path / f"store{at}.sqlite", Ledger()
        done = False
        while kills < rounds and not done:
            struck = one_round(tmp_path, store, ledger, draw, "worker" if kills % 2 else "driver")
            ledger.check(store)
            kills += struck
            done = not struck or len(ledger.acknowledged) > POINTS - 30
        finish(tmp_path, store, points.points)
        assert table_of(store) == calm


def finish(folder: Path, store: Path, points: list) -> None:  # type: ignore[type-arg]
    """A rerun computes what is missing, and nothing else."""
    with Store.read(store) as opened:
        left = len(missing(points, opened, retry=False))
    driver = start("run", "s.yaml", "--store", store, "--jobs", "2", "--json", cwd=folder)
    out, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said.decode()
    told = json.loads(out)
    assert (told["ran"], told["known"], told["failed"]) == (left, POINTS - left, 0)


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    survive(tmp_path, 4, 9)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_kill_9_loses_nothing_however_often(tmp_path: Path, seed: int) -> None:
    survive(tmp_path, 10, 100 + seed)


def test_interrupt_keeps_what_was_done(tmp_path: Path) -> None:
    """Ctrl-C: exit code 130, a sound store with everything that was acknowledged, no process left."""
    write_spec(tmp_path, GRID)
    ledger = Ledger()
    driver = start("run", "s.yaml", "--store", "i.sqlite", "--jobs", "2", "--lines", cwd=tmp_path)
    assert driver.stdout is not None
    ledger.read(driver.stdout.readline())
    workers = children(driver.pid)
    driver.send_signal(signal.SIGINT)
    lines, said = rest_of(driver)
    for line in lines:
        ledger.read(line)
    assert (driver.returncode, said) == (130, "interrupted\n")
    ledger.check(tmp_path / "i.sqlite")
    assert ledger.acknowledged and not any(alive(pid) for pid in workers)
    assert not (tmp_path / "i.sqlite-wal").exists()
