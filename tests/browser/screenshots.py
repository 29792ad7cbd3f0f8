"""Pictures of a report as a browser shows it: `python -m tests.browser.screenshots TRACE FOLDER`.

A PNG for each tab, light and dark, and of the timeline by command, zoomed in, and with a span and a part of time selected.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kernbench.trace.reader import open_trace
from kernbench.trace.report import report_html
from kernbench.trace.timeline import read_timeline
from tests.browser.chromium import Page, browser, missing, prefer

SIZE = (1280, 800)
TABS = ("timeline", "heatmaps", "phases", "roofline", "run")


def screenshots(trace: Path, folder: Path, size: tuple[int, int] = SIZE) -> list[Path]:
    """Make all of them; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = read_timeline(open_trace(trace))
    with tempfile.TemporaryDirectory() as place, browser(Path(place) / "profile", *size) as page:
        path = Path(place) / "report.html"
        path.write_bytes(report_html(made))
        return [picture for scheme in ("light", "dark") for picture in _of_scheme(page, path, folder, scheme)]


def _of_scheme(page: Page, path: Path, folder: Path, scheme: str) -> list[Path]:
    prefer(page, scheme)
    page.open(path)
    made = []

    def take(name: str) -> None:
        target = folder / f"{name}-{scheme}.png"
        page.driver.save_screenshot(str(target))
        made.append(target)

    for number, tab in enumerate(TABS, 1):
        page.press(str(number))
        take(tab)
    page.press("1", *"wwwww")
    take("zoomed")
    box = page.run("return document.getElementById('plot').getBoundingClientRect().toJSON()")
    page.mouse(box["left"] + 450, box["top"] + 110, click=True)
    take("span")
    page.press("l")
    take("commands")
    page.press("l", "0", "w", "r")
    take("selected-time")
    return made


if __name__ == "__main__":
    if missing():
        sys.exit(missing())
    print(*screenshots(Path(sys.argv[1]), Path(sys.argv[2])), sep="\n")
