"""A report of a million spans, in a browser: it is there in three seconds, and zooms in a tenth of one."""

from __future__ import annotations

import pytest

from tests.browser.chromium import missing
from tests.speed.report_rows import report_goals, report_rows


@pytest.mark.nightly
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_million_spans_stay_smooth() -> None:
    figures = report_rows()
    assert figures["spans"] > 1_000_000
    assert [goal.figure for goal in report_goals(figures) if not goal.met] == []
    assert figures["page_bytes"] < 25_000_000
