"""Two traces in one page: one axis, one tab, one theme; the answer says what the second takes longer for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code
from kernbench.cmdq.program import Program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from tests.browser.chromium import Page, browser, missing, prefer

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile"), width=1440, height=900) as found:
        yield found


def traced(path: Path, loads: int, name: str, **overrides: float) -> None:
    program = Program(name)
    for i in range(loads):
        program.dma_load(tensor_role="weight", qbits=8, dram_addr=4096 * i, num_elements=4096, spm_bank=0, spm_offset=4096 * i)
    machine = Machine(load_config("npu_mobile", {key.replace("__", "."): value for key, value in overrides.items()}), program)
    with path.open("wb") as file:
        tracing = machine.trace(file, TraceOptions("full"))
        machine.run()
        tracing.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    traced(folder / "few.jsonl", 2, "few <b>loads</b>")
    traced(folder / "more.jsonl", 8, "more loads")
    files = [str(folder / f"{name}.jsonl") for name in ("few", "more")]
    for target in ("pair.html", "again.html"):
        assert exit_code(["trace", "report", *files, "-o", str(folder / target)]) == 0
    assert (folder / "pair.html").read_bytes() == (folder / "again.html").read_bytes()
    return folder / "pair.html"


def test_both_see_the_same_cycles_and_tab(page: Page, made: Path) -> None:
    page.open(made)
    first, second = page.ask("seen")
    runs = page.run("return JSON.parse(document.getElementById('head').textContent).runs")
    assert first == second == [0, runs[1]["cycles"]] and runs[0]["cycles"] < runs[1]["cycles"]
    page.run("window.report.pages()[0].zoom(0.25)")
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    first, second = page.ask("seen")
    assert first == second and first[1] - first[0] == pytest.approx(runs[1]["cycles"] / 4)
    page.run("document.querySelector('[data-tab=phases]').click()")
    assert page.run("return window.report.pages().map((one) => one.view().tab)") == ["phases", "phases"]
    assert page.errors() == []


def test_the_answer_names_the_keys_of_the_machines_that_differ(page: Page, made: Path, tmp_path: Path) -> None:
    page.open(made)
    assert page.run("return document.querySelector('#answer .facts').textContent") == "Both runs have the same machine."
    traced(tmp_path / "slow.jsonl", 2, "few", dram__t_setup_cycles=200, dma__max_concurrent_transfers=1)
    files = [str(made.with_name("few.jsonl")), str(tmp_path / "slow.jsonl")]
    assert exit_code(["trace", "report", *files, "-o", str(tmp_path / "pair.html")]) == 0
    page.open(tmp_path / "pair.html")
    said = page.run("return document.querySelector('#answer .facts').textContent")
    before = load_config("npu_mobile")
    engines = f"dma.max_concurrent_transfers {before.dma.max_concurrent_transfers} \u2192 1"
    assert said == f"The machine of B differs: {engines}, dram.t_setup_cycles {before.dram.t_setup_cycles} \u2192 200."


def test_the_answer_says_how_much_longer_and_for_what(page: Page, made: Path) -> None:
    page.open(made)
    said = page.run("return document.querySelector('.said').textContent")
    runs = page.run("return JSON.parse(document.getElementById('head').textContent).runs")
    by = runs[1]["cycles"] - runs[0]["cycles"]
    assert said.startswith(f"B takes {by:,} cycles (") and re.search(r"more than A: DRAM bandwidth \+[\d,]+", said)
    widths = "[...bar.children].reduce((sum, one) => sum + one.offsetWidth, 0)"
    wide = page.run(f"return [...document.querySelectorAll('.share')].map((bar) => {widths})")
    assert wide[0] / wide[1] == pytest.approx(runs[0]["cycles"] / runs[1]["cycles"], rel=0.1)
    assert "few <b>loads</b>" in page.run("return document.getElementById('name-a').textContent")


@pytest.mark.parametrize("width", [1440, 1024, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_has_one_theme(page: Page, made: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    prefer(page, scheme)
    page.open(made)
    assert page.run("return document.documentElement.scrollWidth") <= width
    rooms = page.run("return window.report.pages().map((one) => one.plot())")
    window = page.run("return document.documentElement.clientWidth")  # without a scroll bar, which phones lay over the page
    assert all(room["room"] >= 0.75 * window and room["height"] >= 150 for room in rooms)
    dark = "return window.report.pages().map((one) => one.view().dark)"
    before = page.run(dark)
    assert before == [scheme == "dark"] * 2
    page.run("document.getElementById('theme').click()")
    assert page.run(dark) == [not one for one in before]
    page.run("try { localStorage.clear() } catch { /* none */ }")
    assert page.errors() == []


def test_a_picture_is_of_one_trace(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(made.with_name(f"{name}.jsonl")) for name in ("few", "more")]
    assert exit_code(["trace", "report", *files, "--view", "gantt"]) == 2
    assert '--view = "gantt", but it draws one trace, and two are given' in capsys.readouterr().err
