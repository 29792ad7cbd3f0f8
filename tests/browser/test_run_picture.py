"""The picture of README and the landing page: its text is readable at the sizes at which pages show it, and none overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Page, browser, missing
from tests.browser.test_layouts import LEAST

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
STORED = Path(__file__).parents[2] / "docs" / "_static"
#: The least width at which the landing page shows each form: windows of 701 px and of 420 px, less the margins.
SHOWN = {"run": 652, "run_narrow": 360}

TEXTS = """
const wide = arguments[0], svg = document.documentElement;
svg.setAttribute('height', svg.getAttribute('height') * wide / svg.getAttribute('width'));
svg.setAttribute('width', wide);
return [...svg.querySelectorAll('text')].map((one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  const size = parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
  return { text: one.textContent, left, right, top, bottom, size };
});
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def overlap(one: dict[str, Any], two: dict[str, Any]) -> bool:
    across = one["left"] < two["right"] and two["left"] < one["right"]
    return across and one["top"] < two["bottom"] and two["top"] < one["bottom"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("form", SHOWN)
def test_text_is_readable_and_apart(page: Page, form: str, theme: str) -> None:
    page.driver.get((STORED / f"{form}_{theme}.svg").as_uri())
    texts = page.run(TEXTS, SHOWN[form])
    assert any(one["text"].endswith(" cycles") for one in texts)
    assert all(one["size"] >= LEAST and one["left"] >= 0 and one["right"] <= SHOWN[form] for one in texts), texts
    assert [(one["text"], two["text"]) for one, two in combinations(texts, 2) if overlap(one, two)] == []
