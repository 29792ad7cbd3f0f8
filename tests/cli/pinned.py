"""Outputs pinned at 80 and 120 columns: a file each, or one for both where they agree.

With KB_REGOLD=1 the files of the tests that run are made again; they are looked at then, and never edited by hand.
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
    """A command says in a terminal of this width what is pinned, and nothing that a terminal would obey.

    `file` is the name without width and suffix: `file.txt` where all widths agree, else one for each, `file_80.txt`.
    `settled` takes out what differs from run to run. `folded`: no line of the output is longer than `width`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        said = kbsim(*arguments)
    if folded:
        assert max(len(line) for line in said.out.split("\n")) <= width
    assert all(c.isprintable() or c == "\n" for c in said.out + said.err)
    said = settled(said)
    text = f"$ kbsim {' '.join(arguments)}   # exit code {said.code}\n{said.out}{said.err}"
    if os.environ.get("KB_REGOLD") == "1":
        _pin(file, width, text)
    assert text == pinned_file(file, width).read_text(encoding="utf-8")


def pinned_file(file: Path, width: int) -> Path:
    """Where the text for this width is: the one for all of them, if there is one."""
    whole = file.with_name(f"{file.name}.txt")
    return whole if whole.exists() else _of(file, width)


def _of(file: Path, width: int) -> Path:
    return file.with_name(f"{file.name}_{width}.txt")


def _pin(file: Path, width: int, text: str) -> None:
    """Write the text for this width: one file for each, then one for all where they agree."""
    file.parent.mkdir(exist_ok=True)
    whole, each = file.with_name(f"{file.name}.txt"), [_of(file, one) for one in WIDTHS]
    if whole.exists():
        for one in each:
            one.write_bytes(whole.read_bytes())
        whole.unlink()
    _of(file, width).write_text(text, encoding="utf-8")
    if all(one.exists() and one.read_text(encoding="utf-8") == text for one in each):
        _of(file, width).rename(whole)
        for one in each:
            one.unlink(missing_ok=True)


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Each file of a folder belongs to a command, and each command has its file, or one for each width where they differ."""
    found = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}
    wanted = set()
    for name in names:
        each = [f"{name}_{width}.txt" for width in WIDTHS]
        wanted.update([f"{name}.txt"] if f"{name}.txt" in found else each)
        assert len({found.get(one, one) for one in each}) == len(each), f"{name}: one file is enough"
    assert set(found) == wanted
