"""Runs in which nothing runs say so, on the terminal and in `warnings`, and no share of nothing is 100%."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench import Program, load_config, simulate
from kernbench.sim_engine.result_look import result_html
from tests.cli.conftest import Kbsim

NONE = "the program has no entries: nothing ran"
CONTROL = "the program has only NOP, BARRIER and END: nothing ran"
LAUNCHED = "nothing was launched: nothing ran"
CONTROLS = [{"opcode": "NOP"}, {"opcode": "BARRIER"}, {"opcode": "END"}]
IDLE = """\
from kernbench.runtime_api import bench


def nothing(tl):
    pass


@bench(name="idle", description="launches nothing", params={"launch": False})
def run(ctx):
    if ctx.params["launch"]:
        ctx.launch("nothing", nothing)
"""


@pytest.fixture(autouse=True)
def files(_place: None) -> None:
    for name, entries in (("empty", []), ("controls", CONTROLS)):
        text = json.dumps({"metadata": {"version": "1.0", "name": name}, "cmdq": entries})
        Path(f"{name}.json").write_text(text, encoding="utf-8")
    Path("idle.py").write_text(IDLE, encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "machine", "entries", "message"),
    [
        ("empty", "npu_mobile", "0 entries", NONE),
        ("controls", "npu_mobile", "3 entries", CONTROL),
        ("empty", "single_cube", "0 entries", NONE),
        ("controls", "single_cube", "3 entries", CONTROL),
    ],
)
def test_a_program_without_jobs_says_so(target: str, machine: str, entries: str, message: str, kbsim: Kbsim) -> None:
    said = kbsim("run", f"{target}.json", "-c", machine)
    head = f"done  0 cycles, 0 ns at 1 GHz\n{target} on {machine}.yaml, {entries}\n"
    assert (said.code, said.out, said.err) == (0, f"{head}\nWarnings (1)\ncycle 0: {message}\n", "")
    found = json.loads(kbsim("run", f"{target}.json", "-c", machine, "--json").out)
    assert found["status"] == "done" and found["warnings"] == [{"code": "EMPTY", "cycle": 0, "message": message}]


@pytest.mark.parametrize(("target", "what"), [("empty", "no entries"), ("controls", "only NOP, BARRIER and END")])
def test_so_do_the_commands_before_a_run(target: str, what: str, kbsim: Kbsim) -> None:
    shown = kbsim("program", "show", f"{target}.json").out
    assert "nothing runs: it has " + what in shown and "at least 0 cycles" not in shown
    assert f"nothing runs: it has {what}" in kbsim("program", "check", f"{target}.json").out
    assert "nothing ran" in kbsim("step", f"{target}.json", "--cycles", "5").out


def test_a_bench_that_launches_nothing_says_so(kbsim: Kbsim) -> None:
    for machine in ("single_cube", "npu_mobile"):
        said = kbsim("run", "idle.py", "-c", machine)
        assert said.code == 0 and f"cycle 0: {LAUNCHED}\n" in said.out and "100%" not in said.out
        found = json.loads(kbsim("run", "idle.py", "-c", machine, "--json").out)
        assert found["result"]["warnings"] == [{"code": "EMPTY", "cycle": 0, "message": LAUNCHED}]
        launched = json.loads(kbsim("run", "idle.py", "-c", machine, "--set", "launch=true", "--json").out)
        assert launched["result"]["warnings"] == []


def test_a_sweep_over_nothing_says_so(kbsim: Kbsim) -> None:
    spec = "schema: kernbench/sweep/1\nmachine: npu_mobile\ntargets: [empty.json]\naxes: {dram.channels: [1, 2]}\n"
    Path("s.yaml").write_text(spec, encoding="utf-8")
    said = kbsim("sweep", "run", "s.yaml", "-j", "1")
    assert said.code == 0 and "in 2 of the points nothing ran: their cycles are 0\n" in said.out


def test_a_sweep_without_points_is_refused(kbsim: Kbsim) -> None:
    spec = "schema: kernbench/sweep/1\nmachine: npu_mobile\ntargets: [empty.json]\naxes: {dram.channels: [1, 2]}\n"
    Path("s.yaml").write_text(spec + 'where: ["dram.channels > 4"]\n', encoding="utf-8")
    assert kbsim("sweep", "run", "s.yaml") == (
        2,
        "",
        "error: s.yaml: the sweep has no point to run (excluded by conditions: 2, not valid: 0)\n",
    )


def test_python_and_notebooks_say_it() -> None:
    result = simulate(Program(), load_config("npu_mobile"))
    assert [one["message"] for one in result.warnings] == [NONE]
    page = result_html(result)
    assert f"warning: {NONE}" in page and "100.0%" not in page and "bound" not in page
    program = Program()
    program.nop()
    assert [one["message"] for one in simulate(program, load_config("npu_mobile")).warnings] == [CONTROL]


def test_what_has_a_job_has_no_such_warning(kbsim: Kbsim) -> None:
    assert json.loads(kbsim("run", "llama2-7b-decode", "--json").out)["warnings"] == []
