"""The page of a collective's curves in a browser: it draws, fits a phone, and hides what is clicked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code
from tests.browser.chromium import Page, browser, missing

SIZES = ("-g", "4", "-b", "1K", "-e", "16K", "-f", "4", "--no-check", "-q")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ccl") / "c.html"
    assert exit_code(["ccl", "run", "all_reduce", "-a", "ring,halving_doubling", *SIZES, "--report", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if missing():
        pytest.skip(missing())
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def drawn(page: Page) -> list[int]:
    """Curves and points of each plot."""
    asked = "[...document.querySelectorAll('.plot')].map((one) => one.querySelectorAll('path.curve, circle').length)"
    found: list[int] = page.run(f"return {asked}")
    return found


@pytest.mark.parametrize("width", [1440, 420])
def test_the_page_draws_at_every_width(made: Path, page: Page, width: int) -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    page.open(made)
    assert drawn(page) == [2 * (1 + 3)] * 3 and page.errors() == []
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    small = "[...document.querySelectorAll('body *')].filter((one) => parseFloat(getComputedStyle(one).fontSize) < 11).length"
    assert page.run(f"return {small}") == 0
    page.run("document.querySelector('button.key').click()")
    assert drawn(page) == [1 + 3] * 3
    page.run("document.querySelector('button.key').click()")
    assert drawn(page) == [2 * (1 + 3)] * 3
