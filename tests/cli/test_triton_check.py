"""`kbsim run FILE.py --check memory,races`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code

SCRIPT = """
import numpy as np
import kernbench.triton as triton
import kernbench.triton.language as tl


@triton.jit
def total(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    {change}


for programs in {grids}:
    total[(programs,)](np.ones(64, np.float32), np.zeros(1, np.float32), BLOCK=16)
"""


def checked(folder: Path, capsys: pytest.CaptureFixture[str], change: str, grids: str, *options: str) -> tuple[int, str]:
    file = folder / "k.py"
    file.write_text(SCRIPT.format(change=change, grids=grids), encoding="utf-8")
    code = exit_code(["run", str(file), "--check", "memory,races", *options])
    return code, capsys.readouterr().out


RACE = "tl.store(out_ptr, tl.load(out_ptr) + tl.sum(x, 0))"


def test_a_race_and_a_pointer_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = checked(tmp_path, capsys, RACE, "(4, 5)")
    lines = text.splitlines()
    assert code == 5 and lines[0].startswith("total: ") and lines[0].endswith(" cycles")
    assert lines[1] == (
        "k.py:9: tl.load: lane [0] of [16] points to element 64 of x_ptr, which has 64; 16 lanes are outside. "
        "Check the mask and the strides"
    )
    assert lines[2].startswith("  in program 4 of total on sip0.cube0.pe4, cycle ")
    assert lines[3].startswith("total: race on out_ptr at 0x") and lines[3].count("k.py:10") == 2


def test_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = checked(tmp_path, capsys, "tl.atomic_add(out_ptr, tl.sum(x, 0))", "(4,)", "--json")
    found = json.loads(text)
    assert code == 0 and found["problems"] == [] and found["checks"] == ["memory", "races"]
    assert [one["kernel"] for one in found["launches"]] == ["total"]


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["run", "gemm", "--check", "races"]) == 2
    rule = 'target = "gemm", but it takes a Python file that launches Triton kernels'
    assert capsys.readouterr().err.strip() == f"error: --check: {rule}"
    assert exit_code(["run", "gemm", "--check", "rates"]) == 2
    assert capsys.readouterr().err.strip() == 'error: --check: check = "rates", but it must be one or more of memory, races'
