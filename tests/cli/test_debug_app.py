"""The program of `kbsim debug`: by Textual's pilot, and in a terminal of tmux with 80 and 160 columns."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench.debug import Session
from kernbench.debug.subject import Subject, subject_of

pytest.importorskip("textual", reason="Textual is not installed: pip install 'kernbench[debug]'")

from kernbench.debug.app import DebugApp, Pane


@pytest.fixture(scope="module")
def subject() -> Subject:
    return subject_of("vector_add", None, ["n=8192"])


def drive(session: Session, size: tuple[int, int], *keys: str) -> tuple[DebugApp, list[set[str]]]:
    """The program after these keys, and the panes that were seen after each; a word in quotes is typed."""
    app, seen = DebugApp(session), list[set[str]]()

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            for key in keys:
                await pilot.press(*(key[1:-1] if key.startswith("'") else [key]))
                await pilot.pause()
                seen.append({pane.view for pane in app.query(Pane) if pane.display})

    asyncio.run(run())
    return app, seen


def test_keys_go_forward_and_back(subject: Subject) -> None:
    session = Session(subject)
    drive(session, (80, 24), "S", "S", "s", "b", "b")
    assert session.cycle == 19


def test_commands_are_typed_and_completed_and_mistakes_are_shown(subject: Subject) -> None:
    session = Session(subject)
    keys = ("colon", "'goto'", "space", "'200'", "enter", "'watch'", "space", "'ve0.entr'", "tab", "enter", "'gotoo'", "enter")
    app, _ = drive(session, (80, 24), *keys)
    assert session.cycle == 200
    assert [(one.text, value) for one, value in session.watched()] == [("ve0.entry", 3)]
    assert "did you mean goto?" in app.refused


def test_panes_fit_the_terminal(subject: Subject) -> None:
    _, seen = drive(Session(subject), (80, 24), "s", "3", "0")
    assert seen == [{"engines", "source", "waits"}, {"banks"}, {"engines", "source", "waits"}]
    _, seen = drive(Session(subject), (160, 40), "s")
    assert len(seen[0]) == 6


class Terminal:
    """A terminal of tmux with a server of its own."""

    def __init__(self, socket: str) -> None:
        self._base = ["tmux", "-S", socket, "-f", "/dev/null"]

    def __call__(self, *words: str) -> str:
        return subprocess.run([*self._base, *words], capture_output=True, text=True, timeout=20, check=False).stdout

    def screen(self) -> list[str]:
        """The lines that are seen."""
        return self("capture-pane", "-p", "-t", "0").splitlines()

    def until(self, text: str, seconds: float = 40) -> list[str]:
        """The screen as soon as it has a text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen = self.screen()
            if any(text in line for line in seen):
                return seen
            time.sleep(0.05)
        raise AssertionError("\n".join([f"no {text!r} in", *self.screen()]))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    made = Terminal(str(tmp_path / "tmux"))
    yield made
    made("kill-server")


def test_the_program_runs_in_terminals_of_80_and_160_columns(terminal: Terminal) -> None:
    kbsim = str(Path(sys.executable).with_name("kbsim"))
    started = f"env -u COLUMNS -u LINES {kbsim} debug vector_add --set n=8192 --at 100"
    terminal("new-session", "-d", "-x", "160", "-y", "40", started)
    for text in ("1 Engines", "2 Queues", "3 Banks and flows", "6 Waits", "cycle 100", "q Quit"):
        terminal.until(text)
    terminal("resize-window", "-t", "0", "-x", "80", "-y", "24")
    end = time.monotonic() + 20
    while any("2 Queues" in line for line in terminal.screen()) and time.monotonic() < end:
        time.sleep(0.05)
    terminal("send-keys", "-t", "0", "b")
    terminal.until("cycle 99 ")
    seen = terminal.until("pe0 waits for tl.wait(t1) since cycle 1, at vector_add.py:26")
    assert all(len(line) <= 80 for line in seen)
    terminal.until("q Quit")
    terminal("send-keys", "-t", "0", ":")
    terminal("send-keys", "-t", "0", "-l", "end 1")
    terminal("send-keys", "-t", "0", "Enter")
    terminal.until("DMA_LOAD_TILE 1 ends on dma0")
