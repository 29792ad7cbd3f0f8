"""The page of a sweep in a browser: its front and its grid are ours, choosing works, names do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kernbench.sweep.report.analysis import grid_of, pareto
from kernbench.sweep.report.page import page_bytes
from kernbench.sweep.report.table import SweepTable, read_table
from kernbench.sweep.store import Store
from tests.browser.chromium import Page, browser, missing, prefer
from tests.sweep_samples import run_spec, write_spec

SPEC = """\
schema: kernbench/sweep/1
name: "<b onclick='alert(1)'>@DATA@</script>"
targets: [tiles.json, {program: clash.json, label: "<img src=x onerror=alert(1)>"}]
machine: small.yaml
axes:
  dram.t_setup_cycles: [10, 50, 100]
  te.macs_per_cycle: {from: 64, to: 1024, count: 3, scale: log}
  te.engines: [1, 2]
goals: {ns: min, te_busy: max}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepTable, Path]:
    folder = tmp_path_factory.mktemp("sweep")
    run_spec(write_spec(folder, SPEC), folder / "s.sqlite")
    with Store.read(folder / "s.sqlite") as store:
        table = read_table(store)
    page = folder / "s.html"
    page.write_bytes(page_bytes(table, table.goals, {table.entries[1].task.key: "because <i>of</i> it"}))
    return table, page


def test_the_page_needs_nothing_and_is_the_same_bytes(made: tuple[SweepTable, Path]) -> None:
    table, page = made
    reasons = {table.entries[1].task.key: "because <i>of</i> it"}
    data = page.read_bytes()
    assert data == page_bytes(table, table.goals, reasons)
    text = data.decode()
    assert "http://" not in text and "https://" not in text
    assert "<img src" not in text and "<b onclick" not in text


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if missing():
        pytest.skip(missing())
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def only(table: SweepTable, target: str) -> SweepTable:
    """The points of one target: the page shows one at a time, the first at first."""
    return replace(table, entries=[entry for entry in table.entries if entry.target == target])


def test_front_and_grid_are_ours(made: tuple[SweepTable, Path], page: Page) -> None:
    table, path = only(made[0], "tiles"), made[1]
    page.open(path)
    goal = table.goals[0]
    assert sorted(page.ask("front")) == sorted(entry.number for entry in pareto(table, table.goals))
    names = page.run("return ['rows', 'columns'].map((id) => document.getElementById(id).value)")
    ours = grid_of(table, names[0], names[1], goal)
    theirs = page.ask("grid")
    assert [[None if cell is None else round(cell, 6) for cell in line] for line in theirs] == [
        [None if cell is None else round(cell, 6) for cell in line] for line in ours.cells
    ]
    assert page.errors() == []


def test_choosing_along_an_axis(made: tuple[SweepTable, Path], page: Page) -> None:
    table, path = only(made[0], "tiles"), made[1]
    page.open(path)
    few = page.ask("brush", "dram.t_setup_cycles", -0.01, 0.01)
    there = sum(entry.values[0] == 10 for entry in table.entries)
    assert few.startswith(f"{there} of {len(table.entries)}")
    assert page.run("return document.querySelectorAll('#table tr').length") == there + 1
    page.run("document.getElementById('clear').click()")
    page.ask("drawNow")
    assert page.run("return document.querySelectorAll('#table tr').length") == len(table.entries) + 1
    assert page.errors() == []


NARROW = """\
schema: kernbench/sweep/1
targets: [tiles.json]
machine: small.yaml
axes: {dram.t_setup_cycles: [100000, 100001, 100003, 100004, 100009]}
goals: {ns: min}
"""


def opened(spec: str, folder: Path, page: Page) -> SweepTable:
    """A sweep is run, and its page is open."""
    run_spec(write_spec(folder, spec), folder / "s.sqlite")
    with Store.read(folder / "s.sqlite") as store:
        table = read_table(store)
    (folder / "s.html").write_bytes(page_bytes(table, table.goals, {}))
    page.open(folder / "s.html")
    return table


def test_values_that_are_near_each_other_are_told_apart(tmp_path: Path, page: Page) -> None:
    """Three digits of each were the same label five times."""
    table = opened(NARROW, tmp_path, page)
    page.run(
        "window.texts = []; const draw = CanvasRenderingContext2D.prototype.fillText;"
        "CanvasRenderingContext2D.prototype.fillText = function (...text) { texts.push(text[0]); draw.apply(this, text); }"
    )
    page.ask("drawNow")
    assert {"100,000", "100,001", "100,003", "100,004", "100,009"} <= set(page.run("return window.texts"))
    times = page.run("return [...document.querySelectorAll('#table td')].map((cell) => cell.textContent)")
    assert len({text for text in times if text.endswith(" us")}) == len({entry.row.ns for entry in table.entries if entry.row})
    assert page.errors() == []


def test_the_grid_is_of_the_axes_that_are_chosen_over_it(tmp_path: Path, page: Page) -> None:
    """Of two targets on machines of their own the machine mattered, and was drawn; the list has it not."""
    model = "{llm: llama2-7b, params: {phase: decode, layers: 1, prompt: 1, tokens: 1}}"
    spec = NARROW.replace("[tiles.json]", f"[clash.json, {model}]").replace("machine: small.yaml\n", "").replace("1000", "1")
    opened(spec, tmp_path, page)
    chosen = page.run("return ['rows', 'columns'].map((id) => document.getElementById(id).value)")
    assert chosen == ["dram.t_setup_cycles"] * 2 and [len(line) for line in page.ask("grid")] == [5]


def test_names_do_no_harm(made: tuple[SweepTable, Path], page: Page) -> None:
    table, path = made
    page.open(path)
    assert page.run("return document.getElementById('name').textContent") == table.name
    assert page.run("return document.images.length") == 0
    assert "because <i>of</i> it" in page.run("return document.getElementById('why').textContent")
    for scheme in ("dark", "light"):
        prefer(page, scheme)
        page.ask("drawNow")
    assert page.errors() == []


def test_points_that_break_a_constraint_are_not_best_and_not_on_the_front(
    made: tuple[SweepTable, Path], page: Page, tmp_path: Path
) -> None:
    whole = only(made[0], "tiles")
    least = min(entry.row.cycles for entry in whole.entries if entry.row is not None and entry.row.cycles is not None)
    table = replace(made[0], about=msgspec.structs.replace(made[0].about, constraints=(f"cycles > {least}",)))
    path = tmp_path / "s.html"
    path.write_bytes(page_bytes(table, table.goals, {}))
    page.open(path)
    front = [entry.number for entry in pareto(only(table, "tiles"), table.goals)]
    assert sorted(page.ask("front")) == sorted(front) != sorted(entry.number for entry in pareto(whole, table.goals))
    answer = page.run("return document.getElementById('answer').textContent")
    best = {entry.number for entry in whole.entries if entry.row is not None and entry.row.cycles == least}
    assert f"cycles > {least}" in answer and not any(f"(point {number})" in answer for number in best)
    assert "Hollow points break a constraint" in page.run("return document.getElementById('front').textContent")
    assert "grey points break a constraint" in page.run("return document.getElementById('shown').textContent")


def test_of_many_points_some_lines_are_drawn_and_the_page_says_so(
    made: tuple[SweepTable, Path], page: Page, tmp_path: Path
) -> None:
    """The front, the best point and the count are still those of all points."""
    whole = only(made[0], "tiles")
    whole = replace(whole, entries=[entry for entry in whole.entries if entry.status == "done"])
    copies = 10_001 // len(whole.entries) + 1
    entries = [
        replace(entry, number=k * len(whole.entries) + i) for k in range(copies) for i, entry in enumerate(whole.entries)
    ]
    table = replace(whole, entries=entries)
    path = tmp_path / "s.html"
    path.write_bytes(page_bytes(table, table.goals, {}))
    page.open(path)
    page.run(
        "window.lines = 0; const draw = CanvasRenderingContext2D.prototype.stroke;"
        "CanvasRenderingContext2D.prototype.stroke = function () { lines += this.canvas.id === 'parallel'; draw.apply(this); }"
    )
    page.ask("drawNow")
    half = -(-len(entries) // 2)
    assert half <= page.run("return window.lines") < half + 100
    assert page.run("return document.getElementById('lines').textContent") == (
        "from the best to the worst, one line for every 2 points"
    )
    assert "Of points within one pixel, the best is drawn." in page.run("return document.getElementById('front').textContent")
    assert len(page.ask("front")) == copies * len({entry.number for entry in pareto(whole, table.goals)})
    assert page.run("return document.getElementById('shown').textContent").startswith(
        f"{len(entries):,} of {len(entries):,}, the first 200;"
    )
    assert page.errors() == []
