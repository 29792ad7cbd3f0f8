"""What people see, pinned at 80 and 120 columns.

The texts are in `tests/cli/golden`. They are made anew by `KB_REGOLD=1 pytest tests/cli/test_cli_golden.py`, looked at,
and never edited by hand.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = {
    "run_done": ("run", "tiles.json"),
    "run_aborted": ("run", "tiles.json", "--set", "max_cycles=500"),
    "run_deadlock": ("run", "stuck.json"),
    "run_failed": ("run", "clash.json", "--set", "spm.check_overlap=error"),
    "run_warned": ("run", "clash.json", "--set", "spm.check_overlap=warn"),
    "run_many_engines": ("run", "tiles.json", "--set", "te.engines=20", "--set", "ve.engines=18"),
    "step_cycles": ("step", "tiles.json", "--cycles", "150"),
    "step_until_conflict": ("step", "tiles.json", "--until", "conflict"),
    "step_until_end": ("step", "tiles.json", "--until", "end:2"),
    "step_fifo": (
        "step",
        "tiles.json",
        "--cycles",
        "90",
        "--set",
        "allocation=fifo_v1",
        "--set",
        "dma.queue_depth_per_master=4",
    ),
    "step_watch": ("step", "tiles.json", "--watch", "--cycles", "400"),
    "program_show": ("program", "show", "tiles.json"),
    "program_show_stuck": ("program", "show", "stuck.json"),
    "config_show": ("config", "show", "small.yaml", "--set", "dram.channels=1", "--set", "noc.dram_at=[[0, 1]]"),
    "config_show_effective": ("config", "show", "small.yaml", "--effective"),
}
WITH_MACHINE = ("run", "step", "program")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = COMMANDS[name]
    if arguments[0] in WITH_MACHINE:
        arguments = (*arguments, "--config", "small.yaml")
    monkeypatch.setenv("COLUMNS", str(width))
    said = kbsim(*arguments)
    text = f"$ kbsim {' '.join(arguments)}   # {width} columns, exit code {said.code}\n{said.out}{said.err}"
    assert max(len(line) for line in said.out.split("\n")) <= width
    assert "\x1b" not in said.out
    file = GOLDEN / f"{name}_{width}.txt"
    if os.environ.get("KB_REGOLD") == "1":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_command() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == {
        f"{name}_{width}" for name in COMMANDS for width in (80, 120)
    }
