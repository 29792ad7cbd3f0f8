"""Outputs pinned at 80 and 120 columns, a file each.

With KB_REGOLD=1 the files of the tests that run are made anew; they are looked at then, and never edited by hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim, Said

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (80, 120)  #: columns


def check_pinned(
    kbsim: Kbsim,
    file: Path,
    arguments: Sequence[str],
    width: int,
    *,
    settled: Callable[[Said], Said] = lambda said: said,
    folded: bool = True,
) -> None:
    """A command says what stands in `file`, and nothing that a terminal would obey.

    `settled` takes out what differs from run to run. `folded`: no line of the output is longer than `width`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        said = kbsim(*arguments)
    if folded:
        assert max(len(line) for line in said.out.split("\n")) <= width
    assert all(c.isprintable() or c == "\n" for c in said.out + said.err)
    said = settled(said)
    text = f"$ kbsim {' '.join(arguments)}   # {width} columns, exit code {said.code}\n{said.out}{said.err}"
    if os.environ.get("KB_REGOLD") == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Each file of a folder belongs to a command, and each command has its files."""
    found = {file.name for file in folder.iterdir() if file.is_file()}
    assert found == {f"{name}_{width}.txt" for name in names for width in WIDTHS}
