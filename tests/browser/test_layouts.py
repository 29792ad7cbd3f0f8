"""The pages of traces, sweeps, validations, serving and collectives at 1440, 1024 and 420 px, light and dark.

Nothing is cut, small, or wider than the window, and everything is done by keyboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code
from kernbench.cli.serve.page import page_bytes as serving_page
from kernbench.serving import ContinuousBatching, EngineOptions, Request, fixed_step, simulate
from kernbench.sweep.report.page import page_bytes as sweep_page
from kernbench.sweep.report.table import read_table
from kernbench.sweep.store import Store
from kernbench.trace.reader import open_trace
from kernbench.trace.report import report_html
from kernbench.trace.timeline import KINDS, read_timeline
from kernbench.trace.why import explain_or_error
from kernbench.validate.page import page_bytes as validation_page
from kernbench.validate.run import Options, Runner, SuiteRun, run_suite
from kernbench.validate.suite import Row
from tests.browser.chromium import Page, browser, missing, prefer
from tests.browser.screenshots import FOLDER, PAGES, SCHEMES, SIZES, pictures, stored
from tests.sweep_samples import run_spec, write_spec

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
WIDTHS, LEAST, SHARE = (1440, 1024, 420), 11, 0.75
TABS = ("timeline", "heat", "phases", "roofline", "run")

SPEC = """\
schema: kernbench/sweep/1
name: a sweep with a name that is longer than the header of a phone has room for, and then some more
targets: [tiles.json]
machine: small.yaml
axes:
  dram.t_setup_cycles: [10, 50, 100]
  te.macs_per_cycle: {from: 64, to: 1024, count: 3, scale: log}
  te.engines: [1, 2]
where: ["te.macs_per_cycle <= 512 * te.engines"]
goals: {ns: min, energy_pj: min}
"""

#: Texts that nobody can read whole: past the window, or cut by a box that neither scrolls nor ends them with an ellipsis.
CUT = """
const cut = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const own = node.parentElement;
  if (!node.data.trim() || own.closest('script, style, noscript, [hidden], option, #tip') || !own.checkVisibility()) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  if (!box.width) continue;
  let room = { left: 0, right: innerWidth }, ends = false, scrolls = false;
  for (let one = own; one && one !== document.body; one = one.parentElement) {
    const style = getComputedStyle(one), frame = one.getBoundingClientRect();
    ends ||= style.textOverflow === 'ellipsis' || style.webkitLineClamp !== 'none';
    if (['auto', 'scroll'].includes(style.overflowX)) { scrolls = true; break; }
    if (!['hidden', 'clip'].includes(style.overflowX) || ends) continue;
    room = { left: Math.max(room.left, frame.left), right: Math.min(room.right, frame.right) };
  }
  if (!scrolls && !ends && (box.left < room.left - 1 || box.right > room.right + 1)) cut.push(node.data.trim().slice(0, 60));
}
return cut;
"""

#: The least size of text: of the page, of SVG as it is drawn, of what is written on a canvas.
SMALLEST = """
let least = 100, what = '';
const take = (size, text) => { if (size < least - 0.01) [least, what] = [size, text]; };
for (const one of document.querySelectorAll('body *')) {
  if (!one.checkVisibility() || ![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  const scale = one.getScreenCTM ? Math.hypot(one.getScreenCTM().a, one.getScreenCTM().b) : 1;
  take(parseFloat(getComputedStyle(one).fontSize) * scale, one.textContent.slice(0, 40));
}
for (const [font, text] of window.written) take(parseFloat(/([\\d.]+)px/.exec(font)[1]), text);
return [least, what];
"""

#: Texts on a canvas are noted with their font, and those that begin or end past its edges.
WATCH = """
window.written = [];
window.outside = [];
const beyond = (context, text, x) => {
  const wide = context.measureText(text).width, left = { center: wide / 2, right: wide, end: wide }[context.textAlign] || 0;
  const { a, b, e } = context.getTransform();
  if (!b && (a * (x - left) + e < -1 || a * (x - left + wide) + e > context.canvas.width + 1)) window.outside.push(text);
};
for (const kind of ['fillText', 'strokeText']) {
  const draw = CanvasRenderingContext2D.prototype[kind];
  CanvasRenderingContext2D.prototype[kind] = function (text, ...rest) {
    window.written.push([this.font, text]);
    beyond(this, text, rest[0]);
    draw.call(this, text, ...rest);
  };
}
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in ("trace", "sweep", "validation")}
    trace = folder / "run.jsonl"
    told = ["--config", "npu_mobile", "--trace", str(trace), "--trace-level", "full", "--quiet"]
    assert exit_code(["run", "llama2-7b-decode", *told]) == 0
    opened = open_trace(str(trace))
    made["trace"].write_bytes(report_html(read_timeline(opened), explain_or_error(opened)))
    run_spec(write_spec(folder, SPEC), folder / "s.sqlite")
    with Store.read(folder / "s.sqlite") as store:
        table = read_table(store)
    reasons = {entry.task.key: "72% of the run is TE work: te0; 25% DRAM bandwidth: dram.ch0" for entry in table.entries[:3]}
    made["sweep"].write_bytes(sweep_page(table, table.goals, reasons))
    runs = [run_suite(name, Runner(Options(quick=True))) for name in ("tensor", "dram", "scalesim")]
    late = Row(case="a case", source="formula", expected=100, ours=150, unit="cycles", allowed=0.1, why="a planted error")
    runs.append(SuiteRun(runs[0].data, [*runs[0].rows, late]))
    made["validation"].write_bytes(validation_page(runs))
    return made


@pytest.fixture(scope="module")
def others(pages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A served workload, collectives of one and two algorithms, and a sweep whose second goal has a long name."""
    folder = tmp_path_factory.mktemp("others")
    made = {name: folder / f"{name}.html" for name in ("serving", "collective", "collectives", "goals")}
    engine = ContinuousBatching(EngineOptions(num_gpu_blocks=24, max_model_len=256, max_num_seqs=8))
    load = [Request(i, arrival_ns=i * 3_000_000, prompt=80, output=40) for i in range(60)]
    result = simulate(load, engine, fixed_step(1_000_000))
    told = {"model": "tiny", "machine": "npu.yaml", "num_gpu_blocks": 24, "block_size": 16, "max_model_len": 256}
    told |= {"table": None, "cost": None, "energy": None}
    made["serving"].write_bytes(serving_page({**told, "goals_ms": {"ttft": 200.0}, **result.to_dict()}, result))
    sizes = ("-g", "4", "-b", "1K", "-e", "16K", "-f", "4", "--no-check", "-q")
    for name, algorithms in (("collective", "ring"), ("collectives", "ring,recursive_doubling")):
        assert exit_code(["ccl", "run", "all_reduce", "--algo", algorithms, *sizes, "--report", str(made[name])]) == 0
    whole = pages["sweep"].read_bytes()
    before, data, after = re.split(rb'(<script id="data".*?</script>)', whole, maxsplit=1, flags=re.DOTALL)
    made["goals"].write_bytes(before + data.replace(b"energy_pj", b"requests_per_s_per_usd_per_hour") + after)
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        found.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        yield found


def shown(page: Page, path: Path, width: int, scheme: str = "light", address: str = "", scale: int = 1) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": scale, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    prefer(page, scheme)
    page.open(path, address)
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


VIEWS = [("trace", f"#tab={tab}") for tab in TABS] + [("sweep", ""), ("validation", "")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "address"), VIEWS)
def test_nothing_is_cut_small_or_wider_than_the_window(
    page: Page, pages: dict[str, Path], name: str, address: str, width: int, scheme: str
) -> None:
    shown(page, pages[name], width, scheme, address)
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.run(CUT) == []
    size, text = page.run(SMALLEST)
    assert size >= LEAST, text
    assert name == "trace" or page.run("return window.outside") == []  # lanes begin and end outside where time is zoomed
    assert page.errors() == []


def test_the_peak_of_jobs_is_the_same_at_every_width(page: Page, pages: dict[str, Path]) -> None:
    spans = read_timeline(open_trace(str(pages["trace"].with_name("run.jsonl")))).spans
    here = spans["kind"] <= KINDS.index("VE")
    jobs = list(zip(spans["start"][here].tolist(), spans["end"][here].tolist(), strict=True))
    peak = max(sum(start <= at < end for start, end in jobs) for at, _ in jobs)
    for width in WIDTHS:
        shown(page, pages["trace"], width)
        assert f"peak {peak}" in {text for _, text in page.run("return window.written")}


def test_a_run_without_preemptions_has_no_empty_card(page: Page, others: dict[str, Path]) -> None:
    shown(page, others["serving"], 1440)
    titles = page.run("return [...document.querySelectorAll('main h2')].map((one) => one.firstChild.data.trim())")
    preempted = "Preemptions" in titles
    assert page.run("return document.querySelectorAll('main .none').length") == 0
    wide = page.run("return document.querySelectorAll('main > .line')[2].getBoundingClientRect().width")
    assert (wide < 0.6 * 1440) == preempted


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["serving", "collective", "collectives", "goals"])
def test_other_pages_fit_too(page: Page, others: dict[str, Path], name: str, width: int) -> None:
    shown(page, others[name], width)
    if name in ("collective", "collectives"):  # a card beside which there is nothing takes the width
        alone = page.run("return document.querySelector('main > .wide').getBoundingClientRect().width")
        assert alone >= 0.9 * width
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.run(CUT) == [] and page.run("return window.outside") == []
    size, text = page.run(SMALLEST)
    assert size >= LEAST, text
    assert page.errors() == []


@pytest.mark.parametrize("name", ["trace", "sweep"])
def test_canvases_are_as_sharp_as_the_screen(page: Page, pages: dict[str, Path], name: str) -> None:
    shown(page, pages[name], 1024, scale=2)
    sizes = page.run(
        "return [...document.querySelectorAll('canvas')].filter((one) => one.checkVisibility())"
        ".map((one) => [one.width, one.clientWidth])"
    )
    assert sizes and all(abs(dots - 2 * wide) <= 2 for dots, wide in sizes), sizes


def test_plots_have_most_of_a_phone(page: Page, pages: dict[str, Path]) -> None:
    shown(page, pages["trace"], 420)
    assert page.ask("plot")["room"] >= SHARE * 420
    assert page.ask("plot")["height"] >= 0.5 * 900
    shown(page, pages["sweep"], 420)
    assert min(page.ask("plots").values()) >= SHARE * 420
    shown(page, pages["validation"], 420)
    room = "return Math.min(...[...document.querySelectorAll('svg.plot')].map((one) => one.parentElement.clientWidth))"
    assert page.run(room) >= SHARE * 420


#: The names in the roofline through which a roof passes.
CROSSED = """
const upright = [...document.querySelectorAll('#view-roofline svg text')].filter((one) => !one.hasAttribute('transform'));
const inside = (box, { x, y }) => x > box.left + 1 && x < box.right - 1 && y > box.top + 2 && y < box.bottom - 2;
return upright.filter((text) => [...document.querySelectorAll('#view-roofline .roof')].some((roof) => {
  const place = roof.getScreenCTM(), box = text.getBoundingClientRect();
  const steps = [...Array(401).keys()].map((step) => (roof.getTotalLength() * step) / 400);
  return steps.some((step) => inside(box, roof.getPointAtLength(step).matrixTransform(place)));
})).map((text) => text.textContent);
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_no_roof_crosses_a_name(page: Page, pages: dict[str, Path], width: int) -> None:
    shown(page, pages["trace"], width, address="#tab=roofline")
    assert page.run("return document.querySelectorAll('#view-roofline svg text').length") > 8
    assert page.run(CROSSED) == []


def test_both_columns_of_a_suite_are_filled(page: Page, pages: dict[str, Path]) -> None:
    """Beside a short plot, long texts leave no empty room."""
    shown(page, pages["validation"], 1440)
    ends = page.run(
        "return [...document.querySelectorAll('.beside')].map((one) => {"
        " const box = one.getBoundingClientRect(), middle = box.left + box.width / 2, end = [box.top, box.top];"
        " for (const part of one.querySelectorAll('.scroll, li')) for (const { left, bottom } of part.getClientRects())"
        "  end[+(left >= middle)] = Math.max(end[+(left >= middle)], bottom);"
        " return [end[0] - box.top, end[1] - box.top]; })"
    )
    assert ends and all(abs(left - right) <= 150 for left, right in ends), ends  # [px]


@pytest.mark.parametrize("width", WIDTHS)
def test_panels_of_the_trace_fit(page: Page, pages: dict[str, Path], width: int) -> None:
    """Filters are a drawer, the selection a sheet of 45% from below; the counter of a search does not hide its text."""
    shown(page, pages["trace"], width)
    page.press("b")
    assert page.run(CUT) == []
    wide = page.run("return document.getElementById('filters').getBoundingClientRect().width")
    assert wide == (420 if width == 420 else 240)
    page.press("b", "r")
    assert page.run(CUT) == []
    side = page.run("const box = document.getElementById('side').getBoundingClientRect(); return [box.width, box.height]")
    assert side == ([420, 405] if width == 420 else [320, side[1]])
    page.run("const find = document.getElementById('find'); find.value = 'GEMM'; find.focus();")
    page.run("document.getElementById('find').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))")
    box = "return ['find', 'found'].map((id) => document.getElementById(id).getBoundingClientRect().toJSON())"
    find, found = page.run(box)
    assert found["width"] > 0 and found["left"] >= find["right"] and found["right"] <= width
    assert find["width"] >= 120
    page.press("Escape")
    assert page.errors() == []


#: Notes of each element that gets the focus: what it is, and whether its outline is seen.
NOTE_FOCUS = """
window.focused = [];
document.addEventListener('focusin', ({ target }) => {
  const style = getComputedStyle(target);
  const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  window.focused.push([target.id || target.textContent.trim().slice(0, 20), outlined]);
});
"""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("trace", {"find", "theme", "help", "plot", "Heatmaps", "Filters"}),
        ("sweep", {"goal", "theme", "rows", "columns", "heat", "scatter", "parallel", "table", "Columns"}),
        ("validation", {"theme", "37 rows"}),
    ],
)
def test_the_keyboard_reaches_every_control_and_shows_where_it_is(
    page: Page, pages: dict[str, Path], name: str, wanted: set[str]
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    shown(page, pages[name], 1440)
    page.run("document.activeElement.blur()")
    page.run(NOTE_FOCUS)
    ActionChains(page.driver).send_keys(Keys.TAB * 60).perform()
    reached = dict(page.run("return window.focused"))
    assert wanted - {"37 rows"} <= set(reached)
    assert all(seen for what, seen in reached.items() if what in wanted), reached


def test_the_keyboard_chooses_in_the_sweep(page: Page, pages: dict[str, Path]) -> None:
    shown(page, pages["sweep"], 1440)
    tip = "return document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"
    for canvas in ("heat", "scatter"):
        page.run("document.getElementById(arguments[0]).focus()", canvas)
        page.press("\ue014")  # the right arrow
        assert page.run(tip).startswith("Point ")
    page.run("document.getElementById('parallel').focus()")
    rows = page.run("return document.querySelectorAll('#table tbody tr').length")
    page.press("\ue013")  # up: the first value of the first axis
    assert 0 < page.run("return document.querySelectorAll('#table tbody tr').length") < rows
    page.press("\ue00c")
    assert page.run("return document.querySelectorAll('#table tbody tr').length") == rows


@pytest.mark.parametrize("name", ["trace", "sweep", "validation"])
def test_the_theme_is_switched_by_button_and_key(page: Page, pages: dict[str, Path], name: str) -> None:
    shown(page, pages[name], 1024)
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.run("document.getElementById('theme').click()")
    dark = page.run(ground)
    page.run("document.activeElement.blur(); dispatchEvent(new KeyboardEvent('keydown', { key: 't', bubbles: true }))")
    assert dark != light == page.run(ground)
    page.run("try { localStorage.clear() } catch { /* none */ }")
    assert page.errors() == []


def test_cells_without_a_value_say_why(page: Page, pages: dict[str, Path]) -> None:
    shown(page, pages["sweep"], 1440)
    choose = (
        "const box = document.getElementById(arguments[0]);"
        "box.value = arguments[1]; box.dispatchEvent(new Event('change'))"
    )
    page.run(choose, "columns", "te.engines")
    page.run(choose, "rows", "te.macs_per_cycle")
    page.ask("drawNow")
    grid, gaps = page.ask("grid"), page.ask("gaps")
    empty = {gaps[r][c] for r, line in enumerate(grid) for c, value in enumerate(line) if value is None}
    assert empty == {"left out", "failed"}  # the program needs two engines
    assert "left out" in {text for _, text in page.run("return window.written")}


def test_a_table_of_a_sweep_is_not_cut(page: Page, pages: dict[str, Path]) -> None:
    """At 1440 px all of its columns are seen; on a phone the first stays where it is."""
    shown(page, pages["sweep"], 1440)
    wide, room = page.run("const box = document.getElementById('table'); return [box.scrollWidth, box.clientWidth]")
    assert wide <= room
    shown(page, pages["sweep"], 420)
    page.run("document.getElementById('table').scrollLeft = 60")
    left = page.run(
        "const box = document.getElementById('table').getBoundingClientRect();"
        "return document.querySelector('#table td').getBoundingClientRect().left - box.left"
    )
    assert left == 0


@pytest.mark.parametrize("sizes", [("desktop",), pytest.param(tuple(SIZES), marks=pytest.mark.nightly)], ids=["wide", "all"])
def test_the_documentation_has_pictures_of_every_page(
    sizes: tuple[str, ...], page: Page, pages: dict[str, Path], tmp_path: Path
) -> None:
    """`python -m tests.browser.screenshots` makes them; the pages of the documentation show each, and no other is kept."""
    wanted = {stored(name, size, scheme) for name in PAGES for size in SIZES for scheme in SCHEMES}
    assert {path.name for path in FOLDER.iterdir()} == wanted
    texts = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parents[1].rglob("*.md"))
    assert all(name in texts for name in wanted)
    made = pictures(page, tmp_path, pages, {size: SIZES[size] for size in sizes})
    names = {stored(name, size, scheme) for name in pages for size in sizes for scheme in SCHEMES}
    assert {path.name for path in made} == names
    for path in made:
        data = path.read_bytes()
        assert data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) > 5000
    light, dark = (tmp_path / stored("sweep", "desktop", scheme) for scheme in SCHEMES)
    assert light.read_bytes() != dark.read_bytes()
