"""Rows of `make bench` about the plain model: ratios of runs that agree, and lines of code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.speed.measure import Size
from tests.speed.sample import Sample
from tests.speed.walk_rows import GOAL, ModelLines, _row, code_lines, walk_goals, walk_table
from tests.speed.workloads import LOADS


def test_code_is_what_is_neither_comment_nor_docstring() -> None:
    text = '''"""Of a file,
in two lines."""
from libc cimport memset          # 1

cdef struct Lane:                 # 2
    # what it is
    int64_t next_at               # 3

cdef inline bint can(
        Spm* p) noexcept nogil:   # 4 and 5
    """Of a function."""
    name = """a text
    that is a value"""            # 6 and 7
    return not p.split and <uint64_t>1 << p.banks   # 8
'''
    assert code_lines(text) == 8
    assert code_lines('"""Nothing."""\n# else\n') == 0


def test_a_row_and_its_goal() -> None:
    row = _row(LOADS["conflict"], Size(1, 400, 0, 1))
    for ratio, other in ((row.over_skipping, row.skipping), (row.over_stepping, row.stepping)):
        assert float(ratio) == pytest.approx(row.plain / other)  # of one round
    near, far = (replace(row, over_stepping=Sample([1.0]), over_skipping=Sample([ratio])) for ratio in (GOAL, GOAL + 0.1))
    lines = ModelLines({"dma.pyx": 1000, "dma.pxd": 234})
    assert [goal.met for goal in walk_goals([near])] == [True]
    assert [(goal.figure.split(":")[0], goal.met) for goal in walk_goals([near, far])] == [("conflict, 1 PEs", False)]
    assert walk_table([near], lines).endswith("1,000 in .pyx, 234 in .pxd, 2 files")
