"""`kbsim run` on a bench whose PEs wait for each other: exit code 4, and who waits for whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim

HANG = """\
from kernbench.runtime_api import bench

PES = [f"sip0.cube0.pe{i}" for i in range(2)]
LINKS = {0: {(0, "E"): (1, "W")}, 1: {(0, "W"): (0, "E")}}


def stuck(tl):
    if tl.rank == 1:
        first = tl.recv("W", 16, "f32")
        tl.recv("W", 16, "f32")
    else:
        tl.send("E", tl.full((16,), 1.0, "f32"))


@bench(name="hang", description="one receive too many", machine="single_cube")
def run(ctx):
    ctx.install_queues(LINKS, ranks=PES)
    ctx.launch("stuck", stuck, pes=PES)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hang.py").write_text(HANG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_a_hang_is_exit_code_4_and_says_who_waits(kbsim: Kbsim) -> None:
    said = kbsim("run", "hang.py")
    assert said.code == 4 and said.out.startswith("deadlock  ")
    waits = " ".join(said.out.partition("Nothing can ever happen again")[2].split())
    assert waits.startswith("rank 1 (sip0.cube0.pe1) waits for a message of rank 0, W, since cycle ")
    assert "(hang.py:10); 1 of 4 slots are taken, last received: hang.py:12 by hang.py:9; rank 0 runs no program " in waits


def test_the_trace_of_a_hang_is_lawful_and_the_json_says_the_same(kbsim: Kbsim) -> None:
    said = kbsim("run", "hang.py", "--json", "--trace", "hang.jsonl")
    (wait,) = json.loads(said.out)["result"]["deadlock"]
    assert said.code == 4 and (wait["rank"], wait["waits_for"], wait["line"]) == (1, 0, "hang.py:10")
    assert kbsim("trace", "validate", "hang.jsonl").code == 0
