"""Every example of the documentation is run, and prints what the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import BLOCK, ROOT, Place, Shown, extra_modules, first_pages, pages, run_page, run_text, wrong_at

PAGES = [page for page in pages() if page.exists() and BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.skipif(not (ROOT / "docs" / "index.md").exists(), reason="the documentation is not in this source tree")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_the_page_says(page: Path) -> None:
    """README and the tutorials have nothing to import but what a plain install has."""
    place = Place(hidden=extra_modules()) if page in first_pages() else Place()
    wrong = [shown for shown in run_page(page, place) if not shown.agrees()]
    text = "\n".join(f"line {shown.line}:\n{shown.said}--- printed:\n{shown.printed}" for shown in wrong)
    assert not wrong, f"{page.relative_to(ROOT)} (python -m tests.docs.examples --write): {text}"


def test_dots_stand_for_lines_and_nothing_else_does() -> None:
    printed = "a\nb\nc\n"
    assert Shown(1, "a\n...\nc\n", printed, (0, 0)).agrees()
    assert Shown(1, "...\n", printed, (0, 0)).agrees()
    assert Shown(1, "a\nb\nc\n...\n", printed, (0, 0)).agrees()
    assert Shown(1, "x = [...], y\n", "x = 1234, y\n", (0, 0)).agrees()
    assert not Shown(1, "x = [...], y\n", "x = 1234\n, y\n", (0, 0)).agrees()
    assert not Shown(1, "a\nc\n", printed, (0, 0)).agrees()
    assert not Shown(1, "a\n.\nc\n", printed, (0, 0)).agrees()
    assert not Shown(1, "", printed, (0, 0)).agrees()


def test_the_readme_at_160_columns() -> None:
    if (ROOT / "README.md").exists():
        assert wrong_at(ROOT / "README.md", 160) == []


def test_commands_of_the_readme_work() -> None:
    """Those of its sh blocks, in their order; left out: a file that the reader has, and what takes a minute."""
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("README.md is not in this source tree")
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("kbsim ")]
    left = ("kbsim onnx model.onnx", "kbsim validate")
    assert len(commands) > 6 and all(any(one.startswith(start) for one in commands) for start in left)
    text = "".join(f"```console\n$ {one}\n...\n```\n" for one in commands if not one.startswith(left))
    assert [shown.printed for shown in run_text(text, Place(hidden=extra_modules())) if shown.code] == []


def test_modules_of_extras_are_hidden_and_those_of_a_plain_install_are_not() -> None:
    hidden = set(extra_modules())
    assert {"pytest", "hypothesis"} <= hidden
    assert not hidden & {"kernbench", "kernbench_core", "numpy", "matplotlib", "rich", "typer", "yaml", "pydantic_core"}


@pytest.mark.nightly
@pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="this is not the source tree")
def test_readme_and_tutorials_work_in_an_environment_with_the_plain_install_alone(tmp_path: Path) -> None:
    """A new environment, `pip install` of the sources into it, and the pages run there at 80 and at 160 columns."""
    sources, python = tmp_path / "sources", tmp_path / "env" / "bin" / "python"
    left = shutil.ignore_patterns(".venv", ".git", "*_cache", "__pycache__", "_build")
    shutil.copytree(ROOT, sources, ignore=left)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", sources], check=True)
    for part in ("kernbench", "kernbench_core", "kernbench_libraries.py"):  # what runs is what was installed
        (sources / part).rename(sources / f"not_{part}")
    command = [str(python), str(sources / "tests" / "docs" / "examples.py"), "--wide"]
    told = subprocess.run(
        [*command, *(str(sources / page.relative_to(ROOT)) for page in first_pages())],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_pages_have_examples() -> None:
    if not (ROOT / "docs" / "index.md").exists():
        pytest.skip("the documentation is not in this source tree")
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/model/by_example.md", "docs/tutorials/first_program.md", "docs/reference/python.md"} <= names
