"""What people see, pinned at 80 and 120 columns.

The texts are in `tests/cli/golden`. They are made again by `KB_REGOLD=1 pytest tests/cli/test_cli_golden.py`, looked at,
and never edited by hand.
"""

from __future__ import annotations

import pytest

from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned

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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    arguments = COMMANDS[name]
    if arguments[0] in WITH_MACHINE:
        arguments = (*arguments, "--config", "small.yaml")
    check_pinned(kbsim, GOLDEN / name, arguments, width)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(GOLDEN, COMMANDS)
