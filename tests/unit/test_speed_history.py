"""The history of the benchmark: ratios are kept, compared with the median of the last ones, and told."""

from __future__ import annotations

from pathlib import Path

from tests.speed.history import keep, kept_ratios, moved, report


def test_runs_are_kept_in_order(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    assert kept_ratios(file) == []
    keep({"b": 2.00004, "a": 1.5}, day="2026-01-02", version="1", file=file)
    keep({"a": 3.0}, day="2026-01-03", version="1", file=file)
    assert kept_ratios(file) == [{"a": 1.5, "b": 2.0}, {"a": 3.0}]
    assert file.read_text().splitlines()[0] == '{"date": "2026-01-02", "version": "1", "ratios": {"a": 1.5, "b": 2.0}}'


def test_more_than_a_tenth_off_the_median_of_the_last_five_is_told() -> None:
    before = [{"a": 1000.0}] * 3 + [{"a": value} for value in (100.0, 90.0, 500.0, 110.0, 100.0)]
    assert moved({"a": 109.9}, before) == []
    assert moved({"a": 89.9}, before) == ["a: 100 in the last 5 runs, now 89.9 (-10%)"]
    assert moved({"a": 150.0, "new": 1.0}, before) == ["a: 100 in the last 5 runs, now 150 (+50%)"]


def test_what_is_said() -> None:
    assert report({"a": 1.0}, []) == "history: no run before this one was kept (--keep keeps this one)"
    assert report({"a": 1.0}, [{"a": 1.05}]) == "history: no ratio moved by more than 10% against the last of 1 runs"
    assert report({"a": 2.0}, [{"a": 1.0}]) == (
        "history: ratios that moved by more than 10%\n  a: 1 in the last 1 runs, now 2 (+100%)"
    )
