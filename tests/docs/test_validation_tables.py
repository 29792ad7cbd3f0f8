"""The errors of chips that docs/validation_tables.py records on the page of the validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_build import DOCS, part

pytestmark = pytest.mark.skipif(
    not (DOCS / "validation_tables.py").exists(), reason="the documentation is not in this source tree"
)


def result(name: str, **more: Any) -> dict[str, Any]:
    shares = {"median": 0.051, "mean": 0.06, "left_out": 0.2, "left_out_mean": 0.25, "roofline": 0.9, "three": None}
    shares |= {"new_chip": 0.3, "new_chip_mean": 0.31, "moved": 0.26, "moved_mean": None}
    far = {"label": "8 x 16", "op": "matmul", "error": -0.305, "causes": {"host": 1.0, "body": 4.0}}
    nothing = {**far, "label": "row 1", "op": "", "error": 0.1, "causes": {}}
    return {"name": name, "runtime": "none", "cases": 1234, "skipped": "", "worst": [far, nothing, nothing], **shares, **more}


def test_each_table_has_a_line_of_errors_and_its_two_worst_rows() -> None:
    tables = [result("a.csv"), result("b.csv", skipped="another suite compares it")]
    lines = list(part("validation_tables").recorded_errors(tables))
    assert lines[2] == "| `a.csv` | `none` | 1,234 | 5.1% | 6.0% | 20.0% | 25.0% | 30.0% | 31.0% | 26.0% | n/a | 90.0% | n/a |"
    assert lines[6:8] == ["| `a.csv` | matmul 8 x 16 | -30% | body |", "| `a.csv` | row 1 | +10% |  |"]
    assert lines[8:] == ["", "- The suite `chips` skips the table `b.csv`: another suite compares it."]


def test_only_the_lines_between_the_marks_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validation_tables = part("validation_tables")
    begin, end = validation_tables.RECORDED
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}old\n{end}after\n")
    monkeypatch.setattr(validation_tables, "PAGE", page)
    validation_tables.record({"suites": [{"suite": "chips", "tables": [result("a.csv")]}, {"suite": "dram"}]})
    text = page.read_text()
    assert text.startswith(f"before\n{begin}") and text.endswith(f"{end}after\n")
    assert "`a.csv`" in text and "old" not in text


def test_the_page_has_the_errors_of_every_chip_that_tables_were_compared_with() -> None:
    text = (DOCS / "validation.md").read_text()
    begin, end = part("validation_tables").RECORDED
    recorded = text[text.index(begin) : text.index(end)]
    chips = ("a100", "a6000", "mi210", "rk3588", "rtx4090", "tpuv5e", "trainium1", "wormhole_n150")
    for folder in (*chips, "edge", "llm", "other"):
        assert f"| `{folder}/" in recorded
