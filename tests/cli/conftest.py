"""What the tests of the command line share: a folder with samples, and `kbsim` in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kernbench.cli.main import exit_code
from tests.cli.samples import write_samples


class Said(NamedTuple):
    """What one call of `kbsim` left behind."""

    code: int
    out: str
    err: str


Kbsim = Callable[..., Said]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples are in the current directory, and nothing of the caller's terminal is seen."""
    write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "KBSIM_DEBUG", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def kbsim(capsys: pytest.CaptureFixture[str]) -> Kbsim:
    """Calls `kbsim` with arguments."""

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = exit_code(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call
