"""How long a report of a million spans takes: to make, to load, to zoom and to filter in a browser."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from kernbench.trace.reader import open_trace
from kernbench.trace.report import report_html
from kernbench.trace.timeline import read_timeline
from tests.browser.chromium import browser, missing
from tests.speed.goals import Goal
from tests.trace_big import write_big

JOBS = 334_000  # three spans a job: itself, and of each load two flows on two channels and two links
QUICK_JOBS = 20_000
ZOOMS = 40
GOAL_LOAD_S, GOAL_ZOOM_MS = 3.0, 100.0  #: for a million spans


def report_rows(quick: bool = False) -> dict[str, Any]:
    """Figures of one big report; `skipped` says why there are none of the browser."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        trace = write_big(place / "big.jsonl", QUICK_JOBS if quick else JOBS, tile=8)
        started = time.process_time()
        timeline = read_timeline(open_trace(trace))
        read = time.process_time()
        page = place / "big.html"
        page.write_bytes(report_html(timeline))
        figures: dict[str, Any] = {
            "spans": len(timeline.spans),
            "trace_bytes": trace.stat().st_size,
            "page_bytes": page.stat().st_size,
            "read_s": read - started,
            "make_s": time.process_time() - read,
        }
        if missing():
            return {**figures, "skipped": missing()}
        with browser(place / "profile", 1920, 1080) as chromium:
            figures |= _in_browser(chromium, page)
        return figures


def _in_browser(chromium: Any, page: Path) -> dict[str, Any]:
    """Seconds from opening the file to the first picture, and milliseconds of each redrawing afterwards."""
    started = time.perf_counter()
    chromium.open(page)
    loaded = time.perf_counter() - started
    zooms = [chromium.ask("zoom", 1 / 1.3 if i < ZOOMS // 2 else 1.3) for i in range(ZOOMS)]
    started = time.perf_counter()
    chromium.ask("filter", {"phase": ["QKV_PROJ", "MLP_UP"]})
    chromium.ask("drawNow")
    filtered = time.perf_counter() - started
    chromium.ask("filter", {})
    started = time.perf_counter()
    chromium.ask("groups", "phase")
    grouped = time.perf_counter() - started
    return {
        "load_s": loaded,
        "zoom_ms": {"median": statistics.median(zooms), "largest": max(zooms)},
        "filter_ms": filtered * 1000,
        "groups_ms": grouped * 1000,
    }


def report_table(page: dict[str, Any]) -> str:
    """As text."""
    lines = [f"  {page['spans']:,} spans, made in {page['make_s']:.2f} s, {page['page_bytes'] / 1e6:.1f} MB"]
    if "skipped" in page:
        return "\n".join([*lines, f"  not opened: {page['skipped']}"])
    zoom = page["zoom_ms"]
    return "\n".join(
        [*lines, f"  loaded in {page['load_s']:.2f} s, zoom {zoom['median']:.1f} ms, at most {zoom['largest']:.1f} ms"]
    )


def report_goals(page: dict[str, Any]) -> list[Goal]:
    """Of the browser; none where there is no browser."""
    if "skipped" in page:
        return []
    load = Goal(f"a page of {page['spans']:,} spans loads", page["load_s"], GOAL_LOAD_S, "s")
    return [load, Goal("the slowest zoom of this page", page["zoom_ms"]["largest"], GOAL_ZOOM_MS, "ms")]


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(report_rows("--quick" in sys.argv), indent=2))
