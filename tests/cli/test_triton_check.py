"""`kbsim run FILE.py --check memory,races`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code
from tests.cli.conftest import Kbsim

HEAD = """import numpy as np
import kernbench.triton as triton
import kernbench.triton.language as tl

"""
SCRIPT = """
@triton.jit
def total(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    {change}


for programs in {grids}:
    total[(programs,)](np.ones(64, np.float32), np.zeros(1, np.float32), BLOCK=16)
"""


def checked(folder: Path, capsys: pytest.CaptureFixture[str], change: str, grids: str, *options: str) -> tuple[int, str]:
    file = folder / "k.py"
    file.write_text(HEAD + SCRIPT.format(change=change, grids=grids), encoding="utf-8")
    code = exit_code(["run", str(file), "--check", "memory,races", *options])
    return code, capsys.readouterr().out


RACE = "tl.store(out_ptr, tl.load(out_ptr) + tl.sum(x, 0))"


def test_a_race_and_a_pointer_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    code, text = checked(tmp_path, capsys, RACE, "(4, 5)")
    lines = text.splitlines()
    assert code == 5 and lines[0].startswith("total: ") and lines[0].endswith(" cycles")
    assert lines[1] == (
        "k.py:8: tl.load: lane [0] of [16] points to element 64 of x_ptr, which has 64; 16 lanes are outside. "
        "Check the mask and the strides"
    )
    assert lines[2].startswith("  in program 4 of total on sip0.cube0.pe4, cycle ")
    assert lines[3].startswith("total: race on out_ptr, element 0 (0x") and lines[3].count("k.py:9") == 2


def test_a_file_that_is_not_there_is_no_file_of_another_kind(kbsim: Kbsim) -> None:
    done = kbsim("run", "none.py", "--check", "memory")
    assert done.code == 2 and done.err == "error: none.py: the file does not exist\n"
    assert "it takes a Python file" in kbsim("run", "gemm", "--check", "memory").err


def test_options_of_one_run_are_refused_beside_it(kbsim: Kbsim) -> None:
    """They were taken and did nothing; `-q` is honoured."""
    for options in (("--trace", "t.jsonl"), ("--report", "p.html"), ("--out", "r.json"), ("--verify",), ("--strict-wait",)):
        done = kbsim("run", "k.py", "--check", "memory", *options)
        assert done.code == 2 and f"does nothing with {options[0]}; leave it out" in done.err, done.err
    Path("k.py").write_text(HEAD + SCRIPT.format(change=RACE, grids="(4,)"), encoding="utf-8")
    done = kbsim("run", "k.py", "--check", "races", "-q")
    assert done.code == 5 and done.out == ""


def test_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = checked(tmp_path, capsys, "tl.atomic_add(out_ptr, tl.sum(x, 0))", "(4,)", "--json")
    found = json.loads(text)
    assert code == 0 and found["problems"] == [] and found["checks"] == ["memory", "races"]
    assert [one["kernel"] for one in found["launches"]] == ["total"]


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("x = 1\n", 0, "the file launches no kernel, as kernel[grid](...), so nothing was checked"),
        ("import sys\nsys.exit(0)\n", 0, "the file launches no kernel, as kernel[grid](...), so nothing was checked"),
        ("import sys\nsys.exit(3)\n", 5, "{file}: it ended with exit(3)"),
        ("def f():\n    return 1 / 0\n\n\nf()\n", 5, "{file}:2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_script_that_launches_nothing_or_fails(
    script: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a script itself raises is no bug of kernbench, and launches before that are told."""
    monkeypatch.delenv("COLUMNS", raising=False)
    file = tmp_path / "k.py"
    file.write_text(script, encoding="utf-8")
    assert exit_code(["run", str(file), "--check", "races"]) == code
    told = capsys.readouterr()
    assert told.out == said.format(file=file) + "\n"
    assert ("return 1 / 0" in told.err) == ("1 / 0" in script)


def test_a_script_that_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text("x = (\n", encoding="utf-8")
    assert exit_code(["run", str(file), "--check", "races"]) == 2
    assert capsys.readouterr().err == f"error: {file}:1: this is not valid Python: '(' was never closed\n"


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["run", "gemm", "--check", "races"]) == 2
    rule = 'target = "gemm", but it takes a Python file that launches Triton kernels'
    assert capsys.readouterr().err.strip() == f"error: kbsim run --check: {rule}"
    assert exit_code(["run", "gemm", "--check", "rates"]) == 2
    assert capsys.readouterr().err.strip() == 'error: kbsim run: --check = "rates", but it must be one or more of memory, races'


MISTAKES = {
    # A stride in bytes where elements are meant.
    "stride": ("""
@triton.jit
def rows(x_ptr, out_ptr, stride, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * stride + tl.arange(0, N))
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))

x = np.ones((8, 64), np.float32)
rows[(8,)](x, np.zeros(8, np.float32), x.strides[0], N=64)
""", """\
k.py:7: tl.load: lane [0] of [64] points to element 512 of x_ptr, which has 512;
    64 lanes are outside. Check the mask and the strides
  in program 2 of rows on sip0.cube0.pe2, cycle 422
"""),
    # No `other`: the masked lanes are NaN, and so is the sum.
    "mask": ("""
@triton.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n)
    tl.store(out_ptr, tl.sum(x, 0))

total[(1,)](np.ones(100, np.float32), np.zeros(1, np.float32), 100, BLOCK=128)
""", """\
total: 287 cycles
total: out_ptr[0] is NaN (1 of 1), and nothing that was loaded is: lanes that
    are masked out of tl.load at k.py:7 are NaN; give it other=
"""),
    # Rows that are stored 32 elements apart, and are 64 wide.
    "race": ("""
@triton.jit
def rows(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.store(out_ptr + tl.program_id(0) * 32 + tl.arange(0, N), x)

rows[(8,)](np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32), N=64)
""", """\
rows: 293 cycles
rows: race on out_ptr, element 32 (0x1000000000980, 224 elements): program 0
    (store, k.py:8, cycle 423) and program 1 (store, k.py:8, cycle 423)
"""),
    "scratchpad": ("""
@triton.jit
def big(x_ptr, out_ptr, N: tl.constexpr):
    places = tl.arange(0, N)
    x = tl.load(x_ptr + places)
    y = tl.load(x_ptr + places) * x
    tl.store(out_ptr + places, x + y)

x = np.ones(1 << 19, np.float32)
big[(1,)](x, x.copy(), N=1 << 19)
""", """\
k.py:9: t8 f32[524288] takes 2097152 bytes, but of the scratchpad's 4194304
    bytes 0 are free, the largest piece 0, and no command in flight will free
    more; it is held by t5 f32[524288] of k.py:8 (2097152 bytes), t7 f32[524288]
    of k.py:9 (2097152 bytes); use smaller tiles, or let go of handles
  in program 0 of big on sip0.cube0.pe0, cycle 41507
"""),
    "name": ("""
@triton.jit
def bad(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + offset)

bad[(1,)](np.ones(1, np.float32))
""", """\
k.py:7: NameError: name 'offset' is not defined
  in program 0 of bad on sip0.cube0.pe0, cycle 549
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_at_80_columns(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    script, text = MISTAKES[name]
    (tmp_path / "k.py").write_text(HEAD.rstrip("\n") + "\n" + script, encoding="utf-8")
    assert exit_code(["run", str(tmp_path / "k.py"), "--check", "memory,races"]) == 5
    assert capsys.readouterr().out == text


def test_mistakes_at_120_columns_and_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.py").write_text(HEAD.rstrip("\n") + "\n" + MISTAKES["mask"][0], encoding="utf-8")
    said = (
        "total: out_ptr[0] is NaN (1 of 1), and nothing that was loaded is: lanes that are masked out of tl.load at k.py:7 are"
    )
    for columns, between in (("120", "\n    "), (None, " ")):
        if columns:
            monkeypatch.setenv("COLUMNS", columns)
        else:
            monkeypatch.delenv("COLUMNS", raising=False)
        exit_code(["run", str(tmp_path / "k.py"), "--check", "memory"])
        out = capsys.readouterr().out
        assert out == f"total: 287 cycles\n{said}{between}NaN; give it other=\n"


UNCHANGED = """
import sys

import numpy as np
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, n, N: tl.constexpr):
    places = tl.arange(0, N)
    tl.store(x_ptr + places, 2 * tl.load(x_ptr + places, mask=places < n), mask=places < n)


x = np.ones(int(sys.argv[1]), np.float32)
double[(1,)](x, x.size, N=6)
print(x.sum())
"""


def test_a_file_for_triton_runs_unchanged(tmp_path: Path, kbsim: Kbsim) -> None:
    file = tmp_path / "for_triton.py"
    file.write_text(UNCHANGED, encoding="utf-8")
    done = kbsim("triton", str(file), "5")
    assert done.code == 0 and done.out.startswith("10.0\ndouble: ") and done.out.endswith(" cycles\n")
    refused = kbsim("triton", str(file), "5", "--portable")
    assert refused.code == 5 and "in Triton its length is a power of two, and" in refused.out
    shown = kbsim("triton", str(file), "5", "-c", "npu_mobile", "--json", "--check", "memory").out
    found = json.loads(shown.partition("\n")[2])
    assert found["checks"] == ["memory"] and found["launches"][0]["kernel"] == "double" and not found["problems"]
