"""Signals to `kbsim sweep run` and its workers: no stored result is lost, and a worker that dies costs none."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweep_samples import GRID, acknowledged, children, stored_keys, write_spec

KBSIM = [sys.executable, "-c", "from kernbench.cli.main import main; main()"]
POINTS = 240


@pytest.fixture(autouse=True)
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_spec(tmp_path, GRID)


@pytest.fixture(autouse=True)
def hangups() -> Iterator[None]:
    """Processes of a test inherit what the test process ignores, which is SIGHUP if `nohup` starts the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def started(command: list[str]) -> tuple[subprocess.Popen[str], str]:
    """A sweep that has stored some results, and its first line."""
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    return driver, driver.stdout.readline()


def rest_of(driver: subprocess.Popen[str]) -> tuple[str, str]:
    """The other lines of a sweep, and its messages."""
    assert driver.stdout is not None and driver.stderr is not None
    with driver.stdout, driver.stderr:
        out, err = driver.stdout.read(), driver.stderr.read()
    driver.wait()
    return out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_a_worker_costs_no_result(number: signal.Signals) -> None:
    driver, first = started([*KBSIM, "sweep", "run", "s.yaml", "--jobs", "2", "--lines"])
    for worker in children(driver.pid):
        os.kill(worker, number)
    out, err = rest_of(driver)
    assert (driver.returncode, err) == (0, "")
    assert acknowledged(first + out) == stored_keys("s.sqlite") and len(stored_keys("s.sqlite")) == POINTS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_sweep_as_ctrl_c_does(number: signal.Signals) -> None:
    """A closed terminal sends SIGHUP."""
    driver, first = started([*KBSIM, "sweep", "run", "s.yaml", "--jobs", "2", "--lines"])
    workers = children(driver.pid)
    driver.send_signal(number)
    out, err = rest_of(driver)
    assert (driver.returncode, err) == (130, "interrupted\n")
    assert acknowledged(first + out) <= stored_keys("s.sqlite") and not Path("s.sqlite-wal").exists()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < until:
        time.sleep(0.02)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    assert subprocess.run([*KBSIM, "sweep", "run", "s.yaml", "-q"], check=True) and len(stored_keys("s.sqlite")) == POINTS


def test_a_sweep_that_ignores_hangups_goes_on() -> None:
    """As `nohup` starts it."""
    driver, first = started(["nohup", *KBSIM, "sweep", "run", "s.yaml", "--lines"])
    driver.send_signal(signal.SIGHUP)
    out, _ = rest_of(driver)
    assert driver.returncode == 0 and len(acknowledged(first + out)) == POINTS


def test_a_terminal_that_closes_stops_a_sweep_as_ctrl_c_does() -> None:
    """The progress bar can no longer be erased, and nobody reads the report."""
    driver, terminal = pty.fork()
    if not driver:
        os.execv(KBSIM[0], [*KBSIM, "sweep", "run", "s.yaml", "--jobs", "2"])
    shown = b""
    while b"best" not in shown:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]) == 130
    assert len(stored_keys("s.sqlite")) > 0 and not Path("s.sqlite-wal").exists()
