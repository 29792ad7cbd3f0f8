"""The timeline of a run as a notebook shows it: it is zoomed, told and fits, at 1440 and 420 px."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kernbench as kb
from tests.browser.chromium import Page, browser, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PAGE = '<!doctype html><meta charset="utf-8"><body style="margin:0">'
MARKS = "return [...document.querySelectorAll('.kb-axis span')].map(one => one.textContent)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for target in ("llama2-7b-decode", "tp_mlp"):
        run = kb.run(target)
        run.why()
        made[target] = folder / f"{target}.html"
        made[target].write_text(PAGE + run._repr_html_() * 2, encoding="utf-8")
    return made


def shown(page: Page, file: Path, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.driver.get(file.as_uri())
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


@pytest.mark.parametrize("width", [1440, 420])
@pytest.mark.parametrize("target", ["llama2-7b-decode", "tp_mlp"])
def test_it_fits_and_the_console_is_silent(page: Page, files: dict[str, Path], target: str, width: int) -> None:
    shown(page, files[target], width)
    room = page.run("return document.documentElement.clientWidth")
    assert page.run("return document.documentElement.scrollWidth") == room
    assert page.run("return document.querySelector('.kb-plot').clientWidth") >= 0.75 * room
    sizes = "return [...document.querySelectorAll('.kb-run *')].map(one => parseFloat(getComputedStyle(one).fontSize))"
    assert min(page.run(sizes)) >= 11
    assert page.errors() == []


def test_buttons_keys_and_the_mouse_zoom(page: Page, files: dict[str, Path]) -> None:
    shown(page, files["llama2-7b-decode"], 1440)
    whole = page.run(MARKS)
    last = page.run("return JSON.parse(document.querySelector('.kb-data').textContent).last")
    assert whole[0] == "0" and f"{last:,}" in whole
    page.run("document.querySelector('[data-do=in]').click()")
    assert page.run(MARKS)[0] == f"{round(last / 4 + 1e-9):,}"
    page.run("document.querySelector('[data-do=all]').click()")
    assert page.run(MARKS) == whole
    box = page.run("const b = document.querySelector('.kb-plot').getBoundingClientRect(); return [b.left, b.top, b.width]")
    page.mouse(box[0] + box[2] * 0.25, box[1] + 10, drag_to=(box[0] + box[2] * 0.5, box[1] + 10))
    first = int(page.run(MARKS)[0].replace(",", ""))
    assert abs(first - last / 4) < last * 0.01
    told = page.run("return document.querySelector('.kb-told').textContent")
    assert told.startswith("dma0: ")
    page.run("document.querySelector('.kb-plot').dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))")
    assert page.run(MARKS) == whole
    assert page.errors() == []


def test_each_output_of_a_page_has_its_own_zoom(page: Page, files: dict[str, Path]) -> None:
    shown(page, files["tp_mlp"], 1440)
    page.run("document.querySelectorAll('[data-do=in]')[1].click()")
    first, second = page.run("return [...document.querySelectorAll('.kb-axis')].map(axis => axis.firstChild.textContent)")
    assert first == "0" and second != "0"


def test_without_scripts_the_whole_run_is_a_picture(files: dict[str, Path]) -> None:
    text = files["tp_mlp"].read_text(encoding="utf-8")
    picture = text[text.index("<svg") : text.index("</svg>")]
    assert picture.count('class="kb-lane"') == 24 and picture.count("<path") == 24
