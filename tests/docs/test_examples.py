"""Every example of the documentation is run, and prints what the page says."""

from __future__ import annotations

import re
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
    """Those of its sh blocks, in their order."""
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("README.md is not in this source tree")
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert sum(line.startswith("kbsim ") for block in blocks for line in block.splitlines()) > 6
    shown = run_text("".join(f"```sh\n{one}```\n" for one in blocks), Place(hidden=extra_modules(), shell=True))
    assert len(shown) > 6 and [one.printed for one in shown if not one.agrees()] == []


def test_an_sh_block_is_compared_with_the_text_below_it_or_must_exit_with_0() -> None:
    text = "```sh\nkbsim --version\n```\n```text\nkernbench [...]\n...\n```\n```sh\nkbsim run nothing\n```\n"
    shown = run_text(text, Place(shell=True))
    assert [one.agrees() for one in shown] == [True, False] and [one.code for one in shown] == [0, 2]
    assert run_text(text) == []


def test_modules_of_extras_are_hidden_and_those_of_a_plain_install_are_not() -> None:
    hidden = set(extra_modules())
    assert {"pytest", "hypothesis"} <= hidden
    assert not hidden & {"kernbench", "kernbench_core", "numpy", "matplotlib", "rich", "typer", "yaml", "pydantic_core"}


def test_the_pages_have_examples() -> None:
    if not (ROOT / "docs" / "index.md").exists():
        pytest.skip("the documentation is not in this source tree")
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/model/by_example.md", "docs/tutorials/first_program.md", "docs/reference/python.md"} <= names
