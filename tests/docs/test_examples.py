"""Every example of the documentation is run, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import BLOCK, ROOT, Shown, pages, run_page

PAGES = [page for page in pages() if page.exists() and BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.skipif(not (ROOT / "docs" / "index.md").exists(), reason="the documentation is not in this source tree")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_the_page_says(page: Path) -> None:
    wrong = [shown for shown in run_page(page) if not shown.agrees()]
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


def test_the_pages_have_examples() -> None:
    if not (ROOT / "docs" / "index.md").exists():
        pytest.skip("the documentation is not in this source tree")
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/model/by_example.md", "docs/tutorials/first_program.md", "docs/reference/python.md"} <= names
