"""`kbsim debug` by a script: the commands, the jumps, the refusals, and session files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim


def did(kbsim: Kbsim, target: str, *commands: str, more: tuple[str, ...] = ()) -> list[str]:
    """What the commands print, without the lines of the commands themselves."""
    said = kbsim("debug", target, *more, *(word for one in commands for word in ("--do", one)))
    assert said.err == "" and said.code == 0
    return [line for line in said.out.splitlines() if line and not line.startswith(">")]


def refused(kbsim: Kbsim, *arguments: str) -> str:
    said = kbsim("debug", *arguments)
    assert said.code == 2
    return said.err


SMALL = ("--set", "n=8192")


def test_going_forward_and_back(kbsim: Kbsim) -> None:
    lines = did(kbsim, "vector_add", "goto 120", "back 3", "step", more=SMALL)
    assert [line.split("  ")[1] for line in lines if "vector_add on" in line] == ["cycle 120", "cycle 117", "cycle 118"]


def test_jumps_to_jobs_events_and_source_lines(kbsim: Kbsim) -> None:
    assert did(kbsim, "vector_add", "end 1", more=SMALL)[-1] == "DMA_LOAD_TILE 1 ends on dma0"
    lines = did(kbsim, "vector_add", "next line", "line vector_add.py:27 pe0", "prevline vector_add.py:21", more=SMALL)
    assert lines[1] == "vector_add.py:21 issues DMA_LOAD_TILE 1"
    assert lines[3] == "vector_add.py:27 issues VE_ADD_TILE 3"
    assert lines[5] == lines[1]


def test_a_breakpoint_stops_where_an_expression_becomes_true(kbsim: Kbsim) -> None:
    lines = did(
        kbsim,
        "vector_add",
        "break ve0.entry == 3",
        "run",
        "print ve0.opcode",
        "back",
        "print ve0.entry",
        "run",
        "run",
        more=SMALL,
    )
    assert lines[2] == "breakpoint ve0.entry == 3"
    assert lines[3] == "ve0.opcode = VE_ADD_TILE"
    assert lines[6] == "ve0.entry = none"
    assert lines[8] == "breakpoint ve0.entry == 3"
    assert lines[10] == "the run ended (done)"


def test_tensors_have_the_values_of_the_cycle(kbsim: Kbsim) -> None:
    lines = did(
        kbsim,
        "vector_add",
        "print tensor.out.known",
        "end",
        "print abs(tensor.out[1] - tensor.x[1] - tensor.y[1]) < 0.01",
        more=SMALL,
    )
    assert lines[0] == "tensor.out.known = false"
    assert lines[-1].endswith("= true")


def test_a_session_is_saved_and_opened(kbsim: Kbsim) -> None:
    did(kbsim, "vector_add", "goto 200", "watch ve0.entry", "break conflict", "save here.kbdebug", more=SMALL)
    said = kbsim("debug", "--session", "here.kbdebug", "--do", "watch", "--do", "print cycle")
    assert said.out.splitlines()[1].split() == ["1", "ve0.entry", "3"]
    assert "break conflict" in said.out and said.out.endswith("cycle = 200\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kbsim_debug": 2}, "this kernbench reads version 1"),
        ({"digest": "0" * 64}, "the content of the target is not what was saved"),
        ({"state": "0" * 64}, "the run is not in the saved state in cycle 200"),
        ({"machine_digest": "0" * 64}, "the machine in the file differs from the saved one"),
        ({"cycle": -1}, "the session is damaged"),
        ({"more": 1}, "the session is damaged"),
        ({"target": "mine.py"}, "a session runs no code that it names"),
        ({"watches": ["__import__('os')"]}, "column"),
    ],
)
def test_a_changed_session_is_refused(change: dict[str, object], message: str, kbsim: Kbsim) -> None:
    did(kbsim, "vector_add", "goto 200", "save here.kbdebug", more=SMALL)
    saved = json.loads(Path("here.kbdebug").read_text())
    Path("here.kbdebug").write_text(json.dumps(saved | change))
    assert message in refused(kbsim, "--session", "here.kbdebug", "--do", "state")


def test_mistakes_are_named(kbsim: Kbsim) -> None:
    assert "did you mean goto?" in refused(kbsim, "vector_add", "--do", "got 5")
    assert "engine has no foo; it has activity" in refused(kbsim, "vector_add", "--do", "print dma0.foo")
    assert "did you mean dma0?" in refused(kbsim, "vector_add", "--do", "print dam0.entry")
    assert "column 8: a value is missing" in refused(kbsim, "vector_add", "--do", "print cycle >")
    assert "no job with this id starts" in refused(kbsim, "vector_add", "--do", "start 99999")
    assert "no command of the run is issued from this line" in refused(kbsim, "vector_add", "--do", "line x.py:1")
    assert "it needs" not in refused(kbsim, "vector_add")  # no terminal here: it says so, and how to go on
    assert "the program needs a terminal" in refused(kbsim, "vector_add")
    assert "give a TARGET" in refused(kbsim)


def test_two_machines_differ_first_in_one_cycle(kbsim: Kbsim) -> None:
    lines = did(kbsim, "vector_add", "diff ve.lanes=32", more=SMALL)
    assert lines[1] == "the runs differ first after cycle 198"
    assert "body_left" in lines[2] or "body_left" in lines[3]
    assert did(kbsim, "vector_add", "diff", more=SMALL) == ["the runs never differ"]


def test_a_script_file_is_done_line_by_line(kbsim: Kbsim) -> None:
    Path("walk.txt").write_text("# to the first load's end\n\nend 1\nprint cycle\nquit\nprint 1\n")
    said = kbsim("debug", "vector_add", *SMALL, "--script", "walk.txt")
    assert said.out.endswith("> print cycle\ncycle = 197\n")
