"""The sdist has every file of its tests and its documentation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.meta.source import ROOT

FOLDERS = ("benches", "docs", "tests")  #: setuptools adds the modules and the data of the packages itself


def test_every_file_of_tests_and_docs_is_in_the_sdist(monkeypatch: pytest.MonkeyPatch) -> None:
    egg_info = pytest.importorskip("setuptools.command.egg_info")
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout of the repository")
    listed = subprocess.run(["git", "ls-files", *FOLDERS], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    monkeypatch.chdir(ROOT)
    files = egg_info.FileList()
    for line in Path("MANIFEST.in").read_text(encoding="utf-8").splitlines():
        files.process_template_line(line)
    assert set(listed.splitlines()) - {Path(name).as_posix() for name in files.files} == set()
