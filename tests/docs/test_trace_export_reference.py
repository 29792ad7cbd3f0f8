"""The page of exports says of every event what becomes of it; the page of comparisons names every part and counter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernbench.trace.compare.align import Simulated
from kernbench.trace.compare.matching import PARTS
from kernbench.trace.exporters.event_rows import columns
from kernbench.trace.exporters.timeline import MAPPING
from kernbench.trace.reader import open_trace
from tests.trace_samples import lawful, write_trace

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
pytestmark = pytest.mark.skipif(not (DOCS / "trace_export.md").exists(), reason="the documentation is not in this source tree")


def rows(page: str) -> list[list[str]]:
    """The rows of all tables of a page."""
    lines = (DOCS / page).read_text(encoding="utf-8").split("\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_every_event_and_what_becomes_of_it() -> None:
    found = {row[0].strip("`"): tuple(row[1:]) for row in rows("trace_export.md") if re.fullmatch(r"`[A-Z_]+`", row[0])}
    assert found == MAPPING


def test_the_number_of_columns() -> None:
    assert f" {len(columns())} columns" in (DOCS / "trace_export.md").read_text(encoding="utf-8")


def test_every_part_of_a_command() -> None:
    assert {f"`{part}`" for part in PARTS} <= {row[0] for row in rows("trace_diff.md")}


def test_every_simulated_counter_has_a_name(tmp_path: Path) -> None:
    names = Simulated(open_trace(write_trace(tmp_path / "x.jsonl", lawful()))).totals
    said = re.findall(r"`([^`]+)`", " ".join(row[0] for row in rows("trace_diff.md")))
    last = {name.rpartition(".")[2] for name in said}
    for name in names:
        counter = re.sub(r"\[\d+\]$", "", name).rpartition(".")[2]
        assert counter in last, name
