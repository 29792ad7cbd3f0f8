"""`make bench` runs: its rows are made by functions of all parts of the package, which other tests do not call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("simpy")

from tests.speed import __main__ as bench
from tests.speed.goals import Goal, goal_lines
from tests.speed.sample import Sample
from tests.speed.sections import SECTIONS, Finding, Section

GOALS = [
    Goal("a load", Sample([1.0, 2.0, 1.5]), 2.0, "us"),
    Goal(
        "trace validate, with a name that is longer than a line of the terminal has room for",
        1.2345,
        2,
        "M events/s",
        more=True,
    ),
]


@pytest.mark.nightly
def test_the_short_form_ends_and_has_all_its_rows(tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    told = [sys.executable, "-m", "tests.speed", "--quick", "--json", str(report)]
    done = subprocess.run(told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    rows = (
        "rows",
        "walks",
        "model_lines",
        "growth",
        "memory",
        "starts",
        "kernels",
        "sweep",
        "collectives",
        "sends",
        "serving",
        "traces",
    )
    assert all(found[name] for name in rows)
    assert f"[{sum(not section.long_only for section in SECTIONS)}/" in done.stdout


@pytest.mark.parametrize("width", [80, 120])
def test_goals_say_what_missed_and_fit_the_terminal(width: int) -> None:
    text = goal_lines(GOALS, width)
    assert max(map(len, text.splitlines())) <= width
    met, missed = (next(line for line in text.splitlines() if line.startswith(f"  {name}")) for name in ("a load", "trace"))
    assert met.split()[2:] == ["1.50", "us", "+-", "33%", "<=", "2", "us", "met"]
    assert missed.endswith("MISSED") and "1.23 M events/s  >= 2 M events/s" in missed


def test_the_summary_lists_only_what_missed() -> None:
    lines = bench.summary(GOALS, ["build"]).splitlines()
    assert lines[0] == "goals: 1 of 2 met"
    assert not any("a load" in line for line in lines)
    assert lines[-1] == "FAILED, see above: build"


def test_an_interrupted_bench_keeps_what_it_has(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    def first(quick: bool) -> Finding:
        return Finding([GOALS[1]], {"first": [1]})

    def second(quick: bool) -> Finding:
        raise KeyboardInterrupt

    given = [Section("first", "", first), Section("second", "", second), Section("third", "", first)]
    monkeypatch.setattr(bench, "chosen_sections", lambda only, quick: given)
    assert bench.main(["--json", str(tmp_path / "found.json")]) == 130
    told = capsys.readouterr().out
    assert "interrupted in second: the results of 1 of 3 sections follow" in told
    assert "goals: 0 of 1 met" in told and "trace validate" in told
    assert json.loads((tmp_path / "found.json").read_text())["first"] == [1]


def test_a_section_that_fails_does_not_end_the_bench(monkeypatch: Any, capsys: Any) -> None:
    def fails(quick: bool) -> Finding:
        raise RuntimeError("no compiler")

    given = [Section("first", "", fails), Section("second", "", lambda quick: Finding([GOALS[0]]))]
    monkeypatch.setattr(bench, "chosen_sections", lambda only, quick: given)
    assert bench.main([]) == 1
    told = capsys.readouterr()
    assert "RuntimeError: no compiler" in told.err
    assert "goals: 1 of 1 met" in told.out and "FAILED, see above: first" in told.out
