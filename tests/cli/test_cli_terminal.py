"""`kbsim` as a process: pipes, terminals, interrupts, full disks."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

SMALL = ("--config", "small.yaml")
FOREVER = ("--no-skip", "--set", "dram.peak_bw_bytes_per_cycle=0.000001", "--set", "max_cycles=1000000000000")
PATIENCE = 120  # [s] a loaded computer is no reason to fail
ESCAPE = b"\x1b["


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from kernbench.cli.main import main; main()", *arguments]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), capture_output=True, env={**os.environ, **environment}, timeout=PATIENCE)


def on_terminal(arguments: Sequence[str], interrupt_at: bytes = b"", **environment: str) -> tuple[int, bytes, bytes]:
    """Runs `kbsim` with stderr and, where it is not interrupted, stdout on a terminal: exit code, stdout, what it got.

    The process is interrupted when `interrupt_at` appears.
    """
    ours, theirs = pty.openpty()
    out = subprocess.PIPE if interrupt_at else theirs
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=theirs,
        env={**os.environ, **environment},
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        if interrupt_at and interrupt_at in seen:
            process.send_signal(signal.SIGINT)
            interrupt_at = b""
    os.close(ours)
    try:
        said = process.communicate(timeout=PATIENCE)[0] or b""
    finally:
        process.kill()
    return process.returncode, said, seen


@pytest.mark.parametrize(
    "arguments", [("run", "tiles.json"), ("step", "tiles.json", "-n", "99"), ("program", "show", "tiles.json")]
)
def test_no_colours_in_a_pipe(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, *SMALL)
    assert done.returncode == 0 and done.stderr == b""
    assert ESCAPE not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.decode().splitlines())


def test_colours_on_a_terminal_unless_unwanted() -> None:
    red_and_green = (b"\x1b[1;32m", b"\x1b[32m", b"\x1b[31m")
    _, _, seen = on_terminal(("run", "tiles.json", *SMALL), TERM="xterm-256color")
    assert any(code in seen for code in red_and_green)
    _, _, seen = on_terminal(("run", "tiles.json", *SMALL), TERM="xterm-256color", NO_COLOR="1")
    assert b"done" in seen
    assert not any(code in seen for code in red_and_green)


def test_a_long_run_shows_progress_on_a_terminal_and_ends_on_an_interrupt() -> None:
    code, out, seen = on_terminal(("run", "endless.json", *SMALL, *FOREVER, "--json"), interrupt_at=b"cycles/s")
    assert code == 130
    assert json.loads(out) == {"status": "interrupted"}
    assert b"of the lower bound" in seen and b"interrupted" in seen
    assert b"Traceback" not in seen


def test_an_interrupted_run_leaves_an_existing_output_alone() -> None:
    Path("result.json").write_text("precious")
    code, _, _ = on_terminal(
        ("run", "endless.json", *SMALL, *FOREVER, "--out", "result.json"), interrupt_at=b"cycles/s"
    )
    assert code == 130
    assert Path("result.json").read_text() == "precious"
    assert not list(Path().glob(".result*"))


def test_watch_on_a_terminal_redraws_in_place() -> None:
    code, _, seen = on_terminal(("step", "tiles.json", *SMALL, "--watch", "--cycles", "1500"), TERM="xterm-256color")
    assert code == 0
    assert b"cycle 1,500" in seen and b"cycle 3,410" in seen
    assert b"\x1b[1A" in seen  # the cursor goes up, over the frame before


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(command("run", "tiles.json", *SMALL), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # before anything is written
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=PATIENCE), said) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("as_json", [False, True])
def test_a_full_disk_is_said_in_a_line(as_json: bool) -> None:
    arguments = ("run", "tiles.json", *SMALL, *(["--json"] if as_json else []))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr == b"error: stdout: it cannot be written: No space left on device; make room\n"


def test_a_terminal_without_unicode_gets_ascii() -> None:
    done = run("run", "tiles.json", *SMALL, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stderr == b""
    assert b"# busy  = stalled  . idle" in done.stdout
    narrow = run("run", "tiles.json", *SMALL, PYTHONIOENCODING="ascii", COLUMNS="40")
    assert b"#" in narrow.stdout and b"?" not in narrow.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_place_without_permission_is_refused() -> None:
    Path("locked").mkdir(mode=0o500)
    done = run("run", "tiles.json", *SMALL, "--out", "locked/result.json")
    assert done.returncode == 2
    assert b"you have no permission to write" in done.stderr
