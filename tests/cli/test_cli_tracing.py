"""`kbsim run` and `kbsim step` with a trace: what is written, refused, continued and left valid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim

PROGRAM = {
    "metadata": {"version": "1.0", "name": "traced"},
    "cmdq": [
        {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0,
         "num_elements": 65536},
        {"opcode": "TE_GEMM_TILE", "deps_before": [0], "m": 64, "n": 64, "k": 64, "qbits_weight": 8, "qbits_activation": 8,
         "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 4096, "ofm_bank": 0, "ofm_offset": 8192},
        {"opcode": "END"},
    ],
}  # fmt: skip

#: In a process of its own, to be interrupted.
KBSIM = [sys.executable, "-c", "from kernbench.cli.main import main; main()"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "p.json").write_text(json.dumps(PROGRAM))
    return tmp_path


def events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_levels_hold_what_they_say(kbsim: Kbsim, place: Path) -> None:
    found = {}
    for level in ("summary", "full", "access"):
        done = kbsim("run", "p.json", "-q", "--trace", f"{level}.jsonl", "--trace-level", level)
        assert done.code == 0, done.err
        found[level] = {str(event["event_type"]) for event in events(place / f"{level}.jsonl")}
    assert "SRAM_ACCESS" not in found["summary"] and "DRAM_TX_START" not in found["summary"]
    assert found["summary"] < found["full"] == found["access"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace-level", "all"), "it must be one of summary, full, access"),
        (("--trace-cycles", "5"), "it must be A:B, two numbers of cycles"),
        (("--trace-cycles", "7:3"), "it must be FROM:TO with 0 <= FROM < TO"),
        (("--trace-only", "dma7"), "no unit fits; the machine has 70 like dma0"),
        (("--out", "no/t.json"), "there is no directory"),
        (("--report", "page.txt"), "the file name must end in .html or .htm"),
    ],
)
def test_what_makes_no_trace_is_refused(kbsim: Kbsim, place: Path, arguments: tuple[str, ...], message: str) -> None:
    (place / "t.jsonl").write_text("of the run before", encoding="utf-8")
    done = kbsim("run", "p.json", "-q", "--trace", "t.jsonl", *arguments)
    assert done.code == 2 and message in done.err and "Traceback" not in done.err
    assert (place / "t.jsonl").read_text(encoding="utf-8") == "of the run before"


@pytest.mark.parametrize(
    "command",
    [
        ("run", "p.json", "--trace-level", "full"),
        ("run", "p.json", "--trace-only", "dma*"),
        ("step", "p.json", "--cycles", "5", "--trace-window", "64"),
        ("llm", "--trace-cycles", "1:2"),
        ("llm", "--trace-level", "full", "--compare", "w=4,8"),
    ],
)
def test_options_of_a_trace_that_is_not_written_are_refused(kbsim: Kbsim, place: Path, command: tuple[str, ...]) -> None:
    option = next(word for word in command if word.startswith("--trace-"))
    done = kbsim(*command)
    assert done.code == 2 and f"kbsim {command[0]}: {option} = " in done.err, done.err
    assert "this run writes no trace; name the trace's file with --trace" in done.err


def test_a_trace_goes_on_with_the_options_that_it_began_with(kbsim: Kbsim, place: Path) -> None:
    first = kbsim("step", "p.json", "--cycles", "100", "--trace", "t.jsonl", "--trace-level", "full", "--save", "c")
    assert first.code == 0
    begun = (place / "t.jsonl").read_bytes()
    last = ("step", "p.json", "--cycles", "1000", "--from", "c", "--trace", "t.jsonl", "--trace-level")
    done = kbsim(*last, "access")
    assert done.code == 2 and "with the --trace- options that it began with, and these are others" in done.err
    assert (place / "t.jsonl").read_bytes() == begun
    assert kbsim(*last, "full").code == 0


def test_a_run_from_a_checkpoint_goes_on_with_its_file(kbsim: Kbsim, place: Path) -> None:
    assert kbsim("run", "p.json", "-q", "--trace", "whole.jsonl", "--trace-level", "full").code == 0
    first = kbsim("step", "p.json", "--cycles", "100", "--trace", "t.jsonl", "--trace-level", "full", "--save", "c")
    assert first.code == 0 and "TRACE_END" not in (place / "t.jsonl").read_text()
    with (place / "t.jsonl").open("a") as file:
        file.write("what a later run wrote\n")
    assert kbsim("step", "p.json", "--cycles", "100000", "--from", "c", "--trace", "t.jsonl").code == 0
    assert (place / "t.jsonl").read_bytes() == (place / "whole.jsonl").read_bytes()


def test_a_checkpoint_without_a_trace_cannot_be_traced(kbsim: Kbsim, place: Path) -> None:
    assert kbsim("step", "p.json", "--cycles", "100", "--save", "c").code == 0
    done = kbsim("step", "p.json", "--cycles", "100", "--from", "c", "--trace", "t.jsonl")
    assert done.code == 2 and "the checkpoint is of a run without a trace" in done.err


def test_the_report_of_a_run_is_the_page_of_its_trace_with_its_answer(kbsim: Kbsim, place: Path) -> None:
    done = kbsim("run", "p.json", "-q", "--trace", "t.jsonl", "--trace-level", "full", "--report", "run.html")
    assert done.code == 0, done.err
    assert kbsim("trace", "report", "t.jsonl", "-o", "trace.html").code == 0
    page = (place / "run.html").read_text(encoding="utf-8")
    assert page.count("kbsim debug p.json") == 1  # of a trace alone nobody knows the target
    assert page.replace("kbsim debug p.json", "kbsim debug TARGET") == (place / "trace.html").read_text(encoding="utf-8")
    assert "--trace-level full" not in page  # the hint of traces without causes


def test_report_of_a_run(kbsim: Kbsim, place: Path) -> None:
    done = kbsim("run", "p.json", "-q", "--report", "page.html")
    assert done.code == 0, done.err
    assert (place / "page.html").read_text().startswith("<!doctype html>") or "<html" in (place / "page.html").read_text()
    assert not (place / "run.jsonl").exists()


def test_an_interrupted_run_leaves_a_closed_trace(place: Path) -> None:
    long = {**PROGRAM, "cmdq": [{**PROGRAM["cmdq"][0], "num_elements": 1 << 20}] * 6}  # type: ignore[index]
    (place / "long.json").write_text(json.dumps(long))
    command = [*KBSIM, "run", "long.json", "-q", "--trace", "t.jsonl", "--trace-level", "access", "--trace-window", "1"]
    command += ["--set", "dram.dram_burst_cycles=64"]
    run = subprocess.Popen(command, cwd=place, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    path = place / "t.jsonl"
    while run.poll() is None and not (path.exists() and path.stat().st_size):
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    code = run.wait()
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["event_type"] == "TRACE_END"
    assert (code, last["status"]) in {(130, "interrupted"), (0, "done")}  # done: the machine was faster than the signal
