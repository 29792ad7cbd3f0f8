"""Draws what `kbsim trace report --view` makes of the Llama layer of the tutorials."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kernbench.cli.main import exit_code
from kernbench.trace.reader import open_trace
from kernbench.trace.report.plots import picture
from kernbench.trace.timeline import read_timeline

#: With KERNBENCH_DOCS_QUICK=1, a test of the build itself, the light pictures stand in both places.
QUICK = os.environ.get("KERNBENCH_DOCS_QUICK") == "1"
VIEWS = ("gantt", "heatmap", "phases", "roofline")


def trace_pictures() -> dict[str, str]:
    """File name: SVG."""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "decode.jsonl")
        code = exit_code(["run", "llama2-7b-decode", "--config", "npu_server", "--trace", trace, "--quiet"])
        if code != 0:
            raise RuntimeError(f"kbsim run ended with exit code {code}")
        timeline = read_timeline(open_trace(trace))
    found: dict[str, str] = {}
    for view in VIEWS:
        light = picture(timeline, view, "svg").decode()
        dark = light if QUICK else picture(timeline, view, "svg", dark=True).decode()
        found |= {f"trace_{view}_light.svg": light, f"trace_{view}_dark.svg": dark}
    return found
