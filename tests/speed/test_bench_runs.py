"""`make bench` runs: its rows are made by functions of all parts of the package, which other tests do not call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("simpy")


@pytest.mark.nightly
def test_the_short_form_ends_and_has_all_its_rows(tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    told = [sys.executable, "-m", "tests.speed", "--quick", "--json", str(report)]
    done = subprocess.run(told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    rows = ("rows", "walks", "model_lines", "growth", "starts", "kernels", "sweep", "collectives", "sends", "serving", "traces")
    assert all(found[name] for name in rows)
