"""What a run's summary draws by itself is what rich draws, and what it cannot draw is left to rich."""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cli import output, text
from kernbench.cli.drawn import Line, Table, headed, lines_of, status_line

WORDS = st.text(st.sampled_from("ab1.,-_ █▒·▏▉"), max_size=12)
LINES = st.lists(WORDS, max_size=12).map(" ".join)


def by_rich(drawables: list[Any], width: int) -> list[str]:
    page = StringIO()
    from rich.console import Console

    console = Console(file=page, width=width, highlight=False, emoji=False, markup=False)
    for one in drawables:
        console.print(one)
    return [line.rstrip() for line in page.getvalue().split("\n")[:-1]]


@st.composite
def tables(draw: Any) -> Table:
    count = draw(st.integers(1, 5))
    columns = [(draw(WORDS), draw(st.sampled_from(["left", "right"]))) for _ in range(count)]
    made = Table("T" + draw(WORDS), [("c", "left"), *columns], draw(WORDS), wrap_last=draw(st.booleans()))
    bars = st.floats(0, 0.9).map(lambda share: text.Bar([(share, text.BUSY, "cyan"), (0.1, text.STALLED, "yellow")], 10))
    cell = st.one_of(WORDS, WORDS.map(lambda one: Line((one, "bold"))), bars)
    for _ in range(draw(st.integers(0, 4))):
        cells = draw(st.lists(cell, max_size=count))
        made.add_row("r", *cells)
    return made


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(LINES, LINES.map(Line), tables()), max_size=4), st.integers(20, 120))
def test_files_get_what_rich_draws(drawables: list[Any], width: int) -> None:
    drawn = lines_of(drawables, width)
    assert drawn is None or drawn == by_rich(drawables, width)


def test_what_fits_is_drawn_here() -> None:
    note = headed("Note").append("x " * 20)
    assert lines_of([status_line("done").append("  9 cycles"), "", note], 20) == [
        "done  9 cycles", "", "Note  x x x x x x x", "x x x x x x x x x x", "x x x",
    ]  # fmt: skip
    wide = Table("T", [("a name", "left"), ("number", "right")])
    wide.add_row("x", "1")
    assert lines_of([wide], 40) == ["T", "a name  number", "x            1"]


@pytest.mark.parametrize("one", ["a\tb", "a\nb", "\x1b[1m", "é", "一", "x" * 41, object(), Table("t" * 30, [("a", "left")])])
def test_the_rest_is_left_to_rich(one: Any) -> None:
    assert lines_of([one], 40) is None


def test_a_terminal_and_forced_colours_get_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StringIO()
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    monkeypatch.setattr(sys, "modules", {name: one for name, one in sys.modules.items() if name != "IPython"})
    assert output.is_file(stream)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not output.is_file(stream)
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setattr(stream, "isatty", lambda: True)
    assert not output.is_file(stream)
