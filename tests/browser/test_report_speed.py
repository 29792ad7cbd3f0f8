"""A report of a million spans, in a browser: it is there in three seconds, and zooms in a tenth of one."""

from __future__ import annotations

import pytest

from tests.browser.chromium import missing
from tests.speed.report_rows import MARKS, report_rows


@pytest.mark.nightly
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_million_spans_stay_smooth() -> None:
    figures = report_rows()
    assert figures["spans"] > 1_000_000
    assert figures["load_s"] < MARKS["load_s"]
    assert figures["zoom_ms"]["median"] < MARKS["zoom_ms"]
    assert figures["page_bytes"] < 25_000_000
