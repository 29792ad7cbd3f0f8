"""What people see of benches, pinned at 80 and 120 columns.

The texts are in `tests/cli/golden/bench`, made again by `KB_REGOLD=1 pytest tests/cli/test_cli_bench_golden.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.bench_samples import BENCH
from tests.cli.conftest import Kbsim, Said
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned

PINNED = GOLDEN / "bench"
SMALL_GEMM = ("--set", "m=64", "--set", "n=64", "--set", "k=64", "--set", "block_n=32")
COMMANDS = {
    "list": ("bench", "list"),
    "show": ("bench", "show", "gemm"),
    "show_file": ("bench", "show", "scale.py"),
    "run": ("run", "gemm", "-c", "single_cube", "--verify", *SMALL_GEMM),
    "run_many_pes": ("run", "reduce", "--verify", "--config", "sip_4x4", "--set", "rows=256", "--set", "columns=64"),
    "run_unverified": ("run", "scale.py"),
    "run_wrong": ("run", "scale.py", "--verify", "--set", "off=1"),
    "run_failed": ("run", "scale.py", "--verify", "--set", "first=-1"),
    "run_hasty": ("run", "scale.py", "--verify", "--set", "hasty=true"),
    "run_deadline": ("run", "scale.py", "--verify", "--set", "max_cycles=500"),
    "step": ("step", "gemm", "-c", "single_cube", "--cycles", "500", *SMALL_GEMM),
    "step_many_pes": ("step", "reduce", "--cycles", "600", "--config", "sip_4x4", "--set", "rows=256"),
    "step_end": ("step", "scale.py", "--until", "cycle:10000"),
    "step_watch": ("step", "scale.py", "--watch", "--cycles", "400"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scale.py").write_text(BENCH, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim, tmp_path: Path) -> None:
    def settled(said: Said) -> Said:
        return said._replace(err=said.err.replace(str(tmp_path), "FOLDER"))

    check_pinned(kbsim, PINNED / name, COMMANDS[name], width, settled=settled)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)
