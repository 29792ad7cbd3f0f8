"""Draws what `kbsim trace report --view` makes of the Llama layer of the tutorials."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kernbench.cli.main import exit_code
from kernbench.common.look.palette import THEMES
from kernbench.trace.reader import open_trace
from kernbench.trace.report.plots import picture
from kernbench.trace.timeline import read_timeline

VIEWS = ("gantt", "heatmap", "phases", "roofline")


def trace_pictures() -> dict[str, str]:
    """File name: SVG."""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "decode.jsonl")
        code = exit_code(["run", "llama2-7b-decode", "--config", "npu_server", "--trace", trace, "--quiet"])
        if code != 0:
            raise RuntimeError(f"kbsim run ended with exit code {code}")
        timeline = read_timeline(open_trace(trace))
    return {
        f"trace_{view}_{theme}.svg": picture(timeline, view, "svg", dark=theme == "dark").decode()
        for view in VIEWS
        for theme in THEMES
    }
