"""What `kbsim ccl run` says of sizes that take long or have no room, before they run and while they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl import measure
from kernbench.ccl import measure as room
from kernbench.cli.ccl.remaining_time import about
from tests import all_reduce_own
from tests.cli.conftest import Kbsim
from tests.cli.test_cli_terminal import on_terminal

MINE = """\
schema: kernbench/ccl/1
algorithms: {all_reduce: {mine: {module: mine.py, topologies: [ring]}}}
"""


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "row", row)


ENDS = "; Ctrl-C leaves the sizes that are done"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--algo", "ring", "-n", "1024", "-b", "2K"),
            "note: 2,048 B: 2,095,104 messages between 1,024 ranks, about 28 min; "
            "fewer ranks or a smaller size take less, --algo tree has 4,092 messages" + ENDS,
        ),
        (
            ("--algo", "ring", "-b", "1M", "-e", "900M", "--no-check"),
            "note: 10 sizes: 458,304 messages between 8 ranks, about 70 s and 1.5 GiB of memory; "
            "fewer ranks or a smaller size take less" + ENDS,
        ),
        (
            ("--algo", "mine", "--ccl", "mine.yaml", "--allow-code", "mine.py", "-b", "1G", "--no-check"),
            "note: 1,073,741,824 B: at least 458,752 messages between 8 ranks, about 70 s and 3.0 GiB of memory; "
            "fewer ranks or a smaller size take less" + ENDS,
        ),
        (("-b", "1M"), None),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_what_takes_long_is_said_before_it_runs(
    kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str | None
) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 1 << 40)
    Path("mine.yaml").write_text(MINE, encoding="utf-8")
    ring = Path(all_reduce_own.__file__).read_text(encoding="utf-8")
    Path("mine.py").write_text(ring.replace("all_reduce_own", "all_reduce_mine"), encoding="utf-8")
    lines = kbsim("ccl", "run", "all_reduce", *arguments).err.splitlines()
    assert lines == ([said] if said else []) + ["interrupted"]
    assert kbsim("ccl", "run", "all_reduce", *arguments, "--quiet").err == "interrupted\n"


def test_it_is_said_again_where_it_takes_twice_as_long(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size takes 1,000 s on a clock of ours, and has twice the messages of the one before."""
    run, clock = measure.row, [0.0]

    def row(asked: Any, count: int, *inside: Any) -> Any:
        clock[0] += 1000
        return run(asked, 512, *inside)

    monkeypatch.setattr(measure, "row", row)
    monkeypatch.setattr("kernbench.cli.ccl.remaining_time.time.monotonic", lambda: clock[0])
    said = kbsim("ccl", "run", "all_reduce", "-a", "ring", "-b", "1M", "-e", "4M", "--no-check")
    assert [line.split(";")[0] for line in said.err.splitlines()] == [
        "note: 2 sizes: 2,688 messages between 8 ranks, about 2 h",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("-b", "4G", "--no-check"),
            "size = 4294967296, but a rank's elements and results take 8,589,934,592 bytes, "
            "and a PE's slice of the HBM has 2,147,483,648; take a smaller size",
        ),
        (
            ("-b", "1K", "-e", "64M"),
            "size = 67108864, but it takes about 3.2 GiB of this computer's memory, and 2.5 GiB are free; "
            "take a smaller size, fewer ranks, or --no-check",
        ),
        (
            ("-b", "1G", "--no-check"),
            "size = 1073741824, but it takes about 3.0 GiB of this computer's memory, and 2.5 GiB are free; "
            "take a smaller size",
        ),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_what_has_no_room_is_refused_before_anything_runs(
    kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 5 << 29)
    assert kbsim("ccl", "run", "all_reduce", *arguments) == (2, "", f"error: kbsim ccl run: {said}\n")


@pytest.mark.parametrize(("seconds", "text"), [(61, "60 s"), (89.9, "90 s"), (90, "2 min"), (5399, "90 min"), (5400, "2 h")])
def test_times_as_one_says_them(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_a_terminal_sees_how_many_messages_are_sent() -> None:
    code, _, seen = on_terminal(("ccl", "run", "all_reduce", "-b", "64M", "--no-check"), interrupt_at=b"messages")
    assert code == 130 and b" of 28,672 messages" in seen
