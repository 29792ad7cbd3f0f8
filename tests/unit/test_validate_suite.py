"""Rows, data files and pictures of `kbsim validate`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.validate.figures import error_svg, figure_svg
from kernbench.validate.page import cells, headline, page_bytes, share_text
from kernbench.validate.run import SUITES, Runner, SuiteRun, chosen
from kernbench.validate.suite import Figure, Row, Series, Source, SuiteData, read_data_file, read_suite_data
from kernbench.validate.suites import tensor, transfers
from kernbench.validate.suites.scalesim import Layer
from kernbench.validate.suites.systolic import folds


def row(**given: Any) -> Row:
    base: dict[str, Any] = {"case": "a", "source": "s", "expected": 100, "ours": 100, "unit": "cycles", "allowed": 0}
    return Row(**{**base, "why": "w", **given})


@pytest.mark.parametrize(
    ("given", "error", "verdict"),
    [
        ({}, 0, "pass"),
        ({"ours": 101}, Fraction(1, 100), "fail"),
        ({"ours": 101, "allowed": Fraction(1, 100)}, Fraction(1, 100), "pass"),
        ({"ours": 98, "allowed": 0.01}, Fraction(-1, 50), "fail"),
        ({"ours": 500, "allowed": None}, 4, "info"),
        ({"expected": (100, 200), "ours": 150}, 0, "pass"),
        ({"expected": (100, 200), "ours": 200}, 0, "pass"),
        ({"expected": (100, 200), "ours": 210}, Fraction(1, 20), "fail"),  # from the nearer end
        ({"expected": (100, 200), "ours": 90, "allowed": 0.1}, Fraction(-1, 10), "pass"),
        ({"expected": 0, "ours": 3}, 1, "fail"),
    ],
)
def test_an_error_is_a_share_of_what_is_expected(given: dict[str, Any], error: Fraction, verdict: str) -> None:
    made = row(**given)
    assert (made.error, made.verdict) == (error, verdict)


def test_rows_as_text() -> None:
    ranged = row(expected=(Fraction(2, 5), Fraction(1, 2)), ours=0.45)
    assert cells(ranged)[2:] == ("0.4..0.5", "0.45", "cycles", "0", "0", "pass")
    assert cells(row(expected=Fraction(15220081, 1000), ours=0.1579))[2:4] == ("15,220", "0.1579")
    told = row(expected=1234567, ours=1234000, allowed=None)
    assert cells(told)[2:] == ("1,234,567", "1,234,000", "cycles", "-0.05%", "any", "info")
    assert [share_text(value, sign=True) for value in (Fraction(1, 8), 0.0123, -0.2)] == ["+12%", "+1.2%", "-20%"]


def data(**given: Any) -> SuiteData:
    return SuiteData("t", "Title <b>", "About.", {"s": Source("S", "https://x", "a fact", "Do it.")}, **given)


def test_the_page_escapes_shows_and_counts() -> None:
    runs = [SuiteRun(data(), [row(), row(case="<i>", ours=50)]), SuiteRun(data(), [], "no tool")]
    assert headline(runs) == "1 of 2 rows pass, 1 fail, 1 suite skipped: t"
    page = page_bytes(runs).decode()
    assert page == page_bytes(runs).decode()
    assert "<i>" not in page and "&lt;i&gt;" in page and "Title &lt;b&gt;" in page and "Skipped: no tool" in page
    assert re.search(r'<tr class="fail" tabindex="0"><td class="text" data-name="case">&lt;i&gt;</td><td class="', page)
    assert '<details class="card suite fail" id="t" open>' in page and "\u2717 fail" in page
    assert not re.search(r'(?:src|href)="http[^"]*\.(?:js|css|png)"', page)


@pytest.mark.parametrize(("log_x", "log_y"), [(False, False), (True, True), (True, False)])
def test_a_figure_is_well_formed_and_inside_its_frame(log_x: bool, log_y: bool) -> None:
    line = Series("a & b", [(1, 5), (1000, 0.003), (30, 2e9)], "line")
    figure = Figure("T <", "x", "y", [line, Series("one", [(7, 7)])], log_x=log_x, log_y=log_y)
    root = ElementTree.fromstring(figure_svg(figure))
    name = "{http://www.w3.org/2000/svg}"
    spots = [tuple(map(float, spot.split(","))) for spot in root.find(f"{name}polyline").get("points", "").split()]  # type: ignore[union-attr]
    assert len(spots) == 3 and all(74 <= x <= 620 and 48 <= y <= 290 for x, y in spots)
    assert spots[0][0] < spots[2][0] < spots[1][0] and spots[2][1] < spots[0][1] <= spots[1][1]
    assert len(root.findall(f"{name}circle")) == 2  # the point, and its mark in the legend


def test_errors_are_drawn_within_their_bands() -> None:
    """Two bands, a disc inside, a cross outside its band, a ring without a band; a suite that is exact has no plot."""
    rows = [row(ours=98, allowed=0.05), row(ours=120, allowed=0.1), row(ours=40, allowed=None)]
    root = ElementTree.fromstring(error_svg(rows))
    svg = "{http://www.w3.org/2000/svg}"
    bands, discs = root.findall(f"{svg}rect"), root.findall(f"{svg}circle")
    heights = [float(one.get("height", "")) for one in bands]
    assert len(heights) == 2 and heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert [one.get("fill") for one in discs] == ["var(--soft)", "var(--card)"]
    top, tall = (float(bands[0].get(name, "")) for name in ("y", "height"))
    assert top < float(discs[0].get("cy", "")) < top + tall
    assert len(root.findall(f"{svg}path")) == 1
    page = page_bytes([SuiteRun(data(), [row()])]).decode()
    assert "1 row, all of them exact." in page and "<svg" not in page


def test_a_figure_of_one_point() -> None:
    """Whose axes have no length: it is in the frame."""
    root = ElementTree.fromstring(figure_svg(Figure("t", "x", "y", [Series("p", [(0, 0)])])))
    point = root.findall("{http://www.w3.org/2000/svg}circle")[0]
    assert 74 <= float(point.get("cx", "")) <= 620 and 48 <= float(point.get("cy", "")) <= 290


def test_every_suite_has_data_with_sources() -> None:
    for name in SUITES:
        found = read_suite_data(name)
        assert found.sources and found.title and found.about.endswith(".")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suite: b\ntitle: t\nabout: a\nsources: {}\n", 'a.yaml:1:8: suite = "b", but it must be the name of the file'),
        ("suite: a\ntitle: t\nsources: {}\n", "a.yaml:1:1: about: the key is missing"),
        ("suite: a\ntitle: t\nabout: a\nsources: {x: {title: t}}\n", "a.yaml:4:14: sources.x.url: the key is missing"),
        ("suite: a\ntitle: t\nabout: a\nsources: {}\nextra: 1\n", "a.yaml:5:8: extra: there is no such key"),
    ],
)
def test_a_data_file_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        read_data_file(file)
    assert message in str(refused.value).replace(str(tmp_path) + "/", "")


def test_suites_come_in_their_own_order_and_others_are_refused() -> None:
    assert chosen(["vector", "systolic"]) == ["systolic", "vector"] and chosen([]) == list(SUITES)
    with pytest.raises(InputError, match=r'^kbsim validate: there is no suite "te"; the suites are systolic, '):
        chosen(["te"])


def test_folds_by_hand() -> None:
    """4x4 outputs on 2x2, k = 3: four folds of 3 + 2 + 2 - 2 = 5 cycles, less one; ws: 2 x 2 folds of 4 + 4 + 2 - 2 = 8."""
    assert folds((4, 4, 3), (2, 2), "os") == 19
    assert folds((4, 4, 3), (2, 2), "ws") == 2 * 2 * 8 - 1
    assert folds((4, 4, 3), (2, 2), "is") == 2 * 2 * 8 - 1


def test_a_convolution_as_a_product() -> None:
    """14 x 14 with a filter of 1 x 1 and stride 2: ceil((14 - 1 + 2) / 2) = 8 pixels a side."""
    assert Layer("c", (14, 14, 1, 1, 256, 512, 2)).shape == (64, 512, 256)
    assert Layer("c", (7, 7, 3, 3, 512, 512, 1)).shape == (25, 512, 4608)


@pytest.mark.parametrize(
    ("engine", "loaded", "over_links", "product"),
    [
        ("", 10 + 128, 10 + 8 + 2048, 524),
        ("dma", 10 + 144, 10 + 8 + 2256, 524),  # 2253 B are 2304 aligned, 18023 are 18048
        ("dram", 10 + 141, 10 + 8 + 2048, 524),  # 140.8; the link binds
        ("noc", 10 + 128, 10 + 9 + 2253, 524),  # 8.8 and 2252.8
        ("te", 10 + 128, 10 + 8 + 2048, 577),  # 576.4
        ("ve", 10 + 128, 10 + 8 + 2048, 524),
    ],
)
def test_a_planted_error_by_hand(engine: str, loaded: int, over_links: int, product: int) -> None:
    """2048 B from one channel of 16 B/cycle after 10 cycles, 16384 B over four links of 8 B and 2 cycles, a product."""
    runner = Runner(plant={engine: Fraction(11, 10)} if engine else {})
    moved = {row.case: row.ours for row in transfers.rows(read_suite_data("transfers"), runner)}
    products = {row.case: row.ours for row in tensor.rows(read_suite_data("tensor"), runner)}
    assert moved["2,048 B from 0"] == loaded
    assert moved["16,384 B over 4 links of 8 B/cycle"] == over_links
    assert products["64x128x256, W8A8, 4096 MAC/cycle"] == product
