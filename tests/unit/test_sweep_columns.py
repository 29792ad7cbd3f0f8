"""Packed columns of the page of a sweep: what a browser reads is what was packed."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest

from kernbench.sweep.report.columns import packed


def unpacked(column: dict[str, Any]) -> list[Any]:
    """As the script of the page does."""
    raw = base64.b64decode(column["at"])
    if "levels" in column:
        return [column["levels"][place] for place in np.frombuffer(raw, dtype=f"<u{column['size']}")]
    return [None if math.isnan(value) else value for value in np.frombuffer(raw, dtype="<f8")]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None, None],
        ["4 GiB", 4, "4", 4.5, None],
        [1, 2.5, None, -3, 2**53, 1e100, 5e-324],
        [i % 300 for i in range(2000)],
        [f"name {i}" for i in range(70_000)],
        [i * 0.1 for i in range(70_000)],
    ],
)
def test_a_column_is_read_as_it_was(values: list[Any]) -> None:
    assert unpacked(packed(values)) == values


def test_a_place_takes_as_many_bytes_as_the_levels_need() -> None:
    assert [packed([f"{i % count}" for i in range(70_000)])["size"] for count in (256, 257, 65_537)] == [1, 2, 4]


def test_few_different_numbers_are_named_once() -> None:
    column = packed([float(i % 3) for i in range(1000)])
    assert column["levels"] == [0.0, 1.0, 2.0] and len(column["at"]) < 1400
