"""`kbsim validate scalesim`: SCALE-Sim in an environment of its own, and what its reports say.

With KERNBENCH_SCALESIM, the Python of such an environment, SCALE-Sim itself runs; else a script stands for it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from kernbench.validate.run import Runner
from kernbench.validate.suites.scalesim import report_cycles
from kernbench.validate.suites.systolic import systolic_cycles
from tests.cli.conftest import Kbsim

#: What SCALE-Sim 3.0.0 reports of the products 128 x 64 x 128 and 2048 x 128 x 1, weight-stationary on 16 x 16: its own lines.
REPORT = """\
LayerID, Total Cycles (incl. prefetch), Total Cycles, Stall Cycles, Overall Util %, Mapping Efficiency %, Compute Util %,
0, 13857, 5567, 0, 73.57643254894917, 100.0, 67.72486772486772,
1, 37329, 16751, 0, 6.113067876544684, 6.25, 6.069227121858701,
"""


def test_a_recorded_report_agrees_with_ours() -> None:
    ours = [systolic_cycles(shape, (16, 16), "ws", Runner()) for shape in ((128, 64, 128), (2048, 128, 1))]
    assert report_cycles(REPORT) == [5567, 16751] == ours


def test_another_table_reports_nothing() -> None:
    assert report_cycles("LayerID, Avg IFMAP SRAM BW,\n0, 1.5,\n") == [] == report_cycles("")


def test_scalesim_itself_agrees_with_ours(kbsim: Kbsim, tmp_path: Path) -> None:
    python = os.environ.get("KERNBENCH_SCALESIM")
    if not python:
        pytest.skip("KERNBENCH_SCALESIM names no Python with SCALE-Sim: `kbsim validate scalesim` says how to make one")
    (tmp_path / "small.csv").write_text("Layer,M,N,K\nfirst,33,17,50\nsecond,8,100,3\n", encoding="utf-8")
    said = kbsim("validate", "scalesim", "--topologies", str(tmp_path), "--json")
    rows = json.loads(said.out)["suites"][0]["rows"]
    assert said.code == 0 and len(rows) == 6 and all(row["expected"] == row["ours"] for row in rows)


def test_scalesim_is_skipped_with_a_reason(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNBENCH_SCALESIM", raising=False)
    said = kbsim("validate", "scalesim")
    assert said.code == 0 and said.out.endswith("0 of 0 rows pass, 0 fail, 1 suite skipped: scalesim\n")
    text = " ".join(said.out.split())
    assert "skipped: SCALE-Sim runs where --scalesim PYTHON or KERNBENCH_SCALESIM names an environment that has it" in text
    assert "NEW/bin/pip install scalesim==3.0.0 'numpy<2'; kbsim validate scalesim --scalesim NEW/bin/python" in text


#: Stands for a Python with SCALE-Sim: takes what the suite gives it, and reports a cycle more than K for every layer.
STAND_IN = """#!{python}
import csv, pathlib, sys
config, layers, layout, out, gemm = sys.argv[3:8]
assert "ArrayHeight = " in pathlib.Path(config).read_text() and pathlib.Path(layout).exists()
rows = list(csv.reader(open(layers)))[1:]
folder = pathlib.Path(out) / "run"
folder.mkdir(parents=True)
lines = ["LayerID, Total Cycles (incl. prefetch), Total Cycles, Stall Cycles,"]
lines += [f"{{i}}, 1, {{int(row[3]) + 1}}, 0," for i, row in enumerate(rows)]
(folder / "COMPUTE_REPORT.csv").write_text("\\n".join(lines))
"""


def test_scalesim_is_asked_for_layers_of_files(kbsim: Kbsim) -> None:
    """A 1 x 1 array has os: M N K - 1 cycles. With M = N = 1 that is K - 1, and the stand-in says K + 1."""
    python = Path("python")
    python.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    folder = Path("layers")
    folder.mkdir()
    (folder / "some.csv").write_text("Layer,M,N,K\nfirst,1,1,64\n\nsecond,2,3,512,\n", encoding="utf-8")
    said = kbsim("validate", "scalesim", "--scalesim", os.fspath(python.resolve()), "--topologies", "layers", "--json")
    rows = json.loads(said.out)["suites"][0]["rows"]
    assert said.code == 1
    assert [(row["case"], row["expected"], row["ours"]) for row in rows[:2]] == [
        ("some first, os on 16x16", 65, 64 + 30 - 1),
        ("some second, os on 16x16", 513, 512 + 30 - 1),
    ]
    (folder / "bad.csv").write_text("Layer,M,N,K\nfirst,1,1,none\n", encoding="utf-8")
    said = kbsim("validate", "scalesim", "--scalesim", os.fspath(python.resolve()), "--topologies", "layers")
    assert said.err == "error: layers/bad.csv:2: a layer has a name and 3 whole numbers above 0\n"


def test_a_report_that_lacks_layers_is_refused(kbsim: Kbsim) -> None:
    python = Path("python")
    short = STAND_IN.format(python=sys.executable).replace("enumerate(rows)", "enumerate(rows[1:])")
    python.write_text(short, encoding="utf-8")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    said = kbsim("validate", "scalesim", "--scalesim", os.fspath(python.resolve()))
    message = "--scalesim: SCALE-Sim reports 3 of 4 layers; it must be a Python with scalesim 3.0.0 and numpy 1.26"
    assert (said.code, said.err) == (2, f"error: {python.resolve()}: {message}\n")
