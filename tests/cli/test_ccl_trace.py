"""`kbsim ccl run --trace` and `--report`: why a collective takes so long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from tests.cli.test_ccl_cli import kbsim, lazy

RUN = ("run", "all_reduce", "--algo", "ring", "-n", "4", "-b", "1K", "--json")
SIZES = "a trace is of one size, and this run has 3; leave --end out"


def test_a_traced_run_takes_as_long_and_can_be_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, page = tmp_path / "run.jsonl.gz", tmp_path / "run.html"
    code, plain, _ = kbsim(capsys, *RUN)
    assert code == 0
    code, out, _ = kbsim(capsys, *RUN, "--trace", str(trace), "--trace-level", "full", "--report", str(page))
    assert code == 0 and out == plain
    assert exit_code(["trace", "validate", str(trace)]) == 0
    why = explain(open_trace(trace))
    assert {"transfer", "head", "work"} <= {cost.cause for cost in why.costs}
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "all_reduce_ring" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "4K", "--trace", "t.jsonl"], f'--trace = "t.jsonl", but {SIZES}'),
        (["--report", "r.txt"], "--report = \"r.txt\", but the file name must end in .html or .htm"),
        (["--trace-level", "full"], "--trace-level"),
        (["--trace", "same.svg", "--plot", "same.svg"], "two options name it"),
        (["--trace", "missing/t.jsonl"], "missing/t.jsonl"),
        (["--trace", "t.jsonl", "--trace-only", "none"], "no unit fits; the machine has 144 like sip0.cube0.pe0.pe_dma, "),
    ],
)
def test_what_cannot_be_traced_is_refused_before_it_runs(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = kbsim(capsys, "run", "all_reduce", "-n", "4", *arguments)
    assert (code, out) == (2, "") and said in err
    assert not [place for place in arguments if place in {path.name for path in tmp_path.iterdir()}]


def test_the_trace_of_a_hang_ends_where_nothing_could_happen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    code, _, _ = kbsim(capsys, "run", "all_reduce", *lazy(tmp_path), "--trace", str(trace), "--trace-level", "full")
    assert code == 4
    assert json.loads(trace.read_text(encoding="utf-8").splitlines()[-1])["status"] == "deadlock"
    assert exit_code(["trace", "validate", str(trace)]) == 0
    assert explain(open_trace(trace)).history.status == "deadlock"
