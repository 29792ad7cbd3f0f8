"""How numbers are written for people, and in how many columns."""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from io import StringIO

import pytest
from rich.console import Console

from kernbench.cli import output
from kernbench.cli.text import BUSY, STALLED, Bar, digits_apart, duration, ids, percent, rational, scaled, short, table, unit
from kernbench.common.json_shapes import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9999, "9,999"),
        (10_000, "10.0 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (6_410_000, "6.41 M"),
        (12_345_678, "12.3 M"),
        (2**62, "4.61 E"),
        (10**24, "1,000,000 E"),
        (2.5, "2.50"),
        (1234.5, "1,234"),
    ],
)
def test_a_count_is_shortened_with_a_prefix(number: float, text: str) -> None:
    assert short(number) == text


def test_units_take_the_prefix() -> None:
    assert (unit(64, "B"), unit(15_300, "B"), unit(0, "op")) == ("64 B", "15.3 kB", "0 op")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0, "0%"),
        (1e-9, "<0.1%"),
        (0.0005, "0.1%"),
        (0.0098, "1.0%"),
        (0.01, "1%"),
        (0.966, "97%"),
        (0.9899, "99%"),
        (0.9949, "99.5%"),
        (0.9994, "99.9%"),
        (0.99951, ">99.9%"),
        (1, "100%"),
        (1.04, "104%"),
    ],
)
def test_nearly_nothing_is_not_nothing_and_nearly_all_not_all(part: float, text: str) -> None:
    assert percent(part) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (0.5, "0.5 ns"),
        (354, "354 ns"),
        (1000, "1 us"),
        (13_443, "13.44 us"),
        (6.63e6, "6.63 ms"),
        (2.5e9, "2.5 s"),
        (999_960, "1 ms"),
        (1.234e13, "12,340 s"),
    ],
)
def test_times_have_their_unit(ns: float, text: str) -> None:
    assert duration(ns) == text


def test_values_in_a_column_are_told_apart() -> None:
    """Of what they differ by, as many digits as of a number that stands alone."""
    near = [10_496_000, 10_498_000, 10_514_000]
    assert digits_apart(near, 3) == 5 and digits_apart([7, 7], 3) == digits_apart([], 3) == digits_apart([1, 100], 3) == 3
    assert [short(value, 5) for value in near] == ["10.496 M", "10.498 M", "10.514 M"]
    assert [duration(value, 5) for value in near] == ["10.496 ms", "10.498 ms", "10.514 ms"]
    assert digits_apart([1e15, 1e15 + 1], 3) == 12
    assert [duration(value, 4) for value in (6_680, 10_400, 400, 1_000_000)] == ["6.680 us", "10.40 us", "400.0 ns", "1.000 ms"]


def test_cells_stand_beside_the_first_line_of_a_long_one() -> None:
    """A name beside the last line of its text looked like that of another row."""
    made = table("T", [("name", "left"), ("text", "left")])
    made.columns[-1].no_wrap = False
    made.add_row("one", "some words that take several lines")
    out = StringIO()
    Console(file=out, width=24).print(made)
    assert [line.strip() for line in out.getvalue().splitlines()[2:]] == ["one   some words that", "take several lines"]


def test_other_texts() -> None:
    assert (scaled(0, ("pJ", "nJ")), scaled(1500, ("pJ", "nJ")), scaled(10**7, ("pJ", "nJ"))) == (
        "0.00 pJ",
        "1.50 nJ",
        "10,000 nJ",
    )
    assert (rational(Fraction(1024)), rational(Fraction(16, 3))) == ("1,024", "5.333")
    assert (counted(1, "entry"), counted(1240, "entry"), counted(2, "job")) == ("1 entry", "1,240 entries", "2 jobs")
    assert (counted(1, "more PE"), counted(0, "cycle")) == ("1 more PE", "0 cycles")
    assert (ids([1, 2, 3]), ids(range(9), 2)) == ("1, 2, 3", "0, 1, ... (7 more)")


@pytest.mark.parametrize(
    ("busy", "stalled", "drawn"),
    [
        (0, 0, "··········"),
        (0.5, 0.2, "█████▒▒···"),
        (1, 0, "██████████"),
        (0.25, 0.75, "██▌▒▒▒▒▒▒▒"),
        (1.5, 1, "██████████"),
        (0.04, 0, "▍·········"),
        (0.001, 0, "▏·········"),
    ],
)
def test_bars_fill_their_width(busy: float, stalled: float, drawn: str) -> None:
    console = Console(width=40, no_color=True)
    with console.capture() as capture:
        console.print(Bar([(busy, BUSY, "green"), (stalled, STALLED, "red")], 10), end="")
    assert capture.get().strip() == drawn


@pytest.mark.parametrize("given", ["²", "", "9" * 5000, "-3", "wide"])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_width_that_is_no_number_is_as_none(given: str, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a script or a notebook, where no command has looked at the variable."""
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(os, "get_terminal_size", lambda number=1: os.terminal_size((70, 20)))
    monkeypatch.delenv("COLUMNS", raising=False)
    without = output.width()
    monkeypatch.setenv("COLUMNS", given)
    assert output.width() == without
    monkeypatch.setenv("COLUMNS", "44")
    assert output.width() == 44
