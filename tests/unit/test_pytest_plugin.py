"""The pytest plugin: limits and baselines of cycles, in suites that run in a process of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernbench.common.errors import InputError
from kernbench.pytest import assert_cycles
from kernbench.testing.baselines import Baseline, read_baselines, write_baselines
from tests.docs.examples import BLOCK, Shown

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorials" / "performance_tests.md"
FILE = "kbsim_baselines.json"
PLAIN = """
from types import SimpleNamespace
from kernbench.pytest import assert_cycles
"""


@dataclass(frozen=True)
class Told:
    """How a run of pytest ended."""

    code: int
    text: str


#: Forks a child for each line of stdin (folder, options and a file for what it prints), and answers with its exit code. It has
#: imported pytest and the simulator, which takes longer than a suite, and not the plugin, which pytest imports by itself.
SERVER = """
import gc, json, os, sys
import numpy, pytest, kernbench
kernbench.run, kernbench.llm  # their modules are imported
assert not [name for name in sys.modules if name == "kernbench.pytest" or name.startswith("kernbench.testing")]
gc.freeze()
for line in sys.stdin:
    folder, options, out = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        opened = os.open(out, os.O_WRONLY | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        sys.path.insert(0, folder)
        sys.argv = ["pytest", *options]
        code = 70
        try:
            code = pytest.console_main()
            sys.stdout.flush()
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
OPTIONS = ("-p", "no:cacheprovider", "-p", "kernbench.pytest")
forks: list[subprocess.Popen[str]] = []  #: the process that runs suites


@pytest.fixture(scope="module", autouse=True)
def _fork_server() -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SERVER], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        forks[:] = [process]
        yield


def environment() -> dict[str, str]:
    """That of a suite. Other plugins that are installed take longer to import than pytest and the test."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    found = os.environ | {"PYTHONPATH": paths, "COLUMNS": "120", "PY_COLORS": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in [name for name in found if name == "PYTEST_ADDOPTS" or name.startswith("PYTEST_XDIST")]:
        del found[name]
    return found


def suite(folder: Path, *options: str) -> Told:
    """Run the tests of a folder with the plugin, in a forked child."""
    if "-n" in options:
        return started(folder, "-p", "xdist.plugin", *options)
    (process,) = forks
    assert process.stdin is not None and process.stdout is not None
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "out")
        process.stdin.write(json.dumps([str(folder), [*OPTIONS, f"--rootdir={folder}", "-q", *options], str(out)]) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        return Told(code, out.read_text(encoding="utf-8"))


def started(folder: Path, *options: str) -> Told:
    """Run them in a process of their own."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, f"--rootdir={folder}", "-q", *options]
    told = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    return Told(told.returncode, told.stdout + told.stderr)


def numbers(folder: Path, *cycles: int, name: str = "") -> None:
    """A test for each number, of a run that takes so many cycles; the names are n0, n1, ..."""
    tests = [
        f"def test_{k}():\n    assert_cycles(SimpleNamespace(cycles={one}), baseline={name or f'n{k}'!r})\n"
        for k, one in enumerate(cycles)
    ]
    (folder / "test_numbers.py").write_text(PLAIN + "\n".join(tests), encoding="utf-8")


def cycles_of(folder: Path) -> dict[str, int]:
    """What the file of baselines says."""
    return {name: one.cycles for name, one in read_baselines(folder / FILE).items()}


@dataclass
class Measured:
    cycles: int
    status: str = "done"


def test_a_limit_holds_to_the_cycle() -> None:
    assert_cycles(Measured(10), at_most=10)
    with pytest.raises(AssertionError) as told:
        assert_cycles(Measured(11), at_most=10)
    assert str(told.value) == "11 cycles\n1 cycles more than at_most=10 (+10.0%)"


def test_a_run_that_did_not_end_fails_whatever_its_cycles_are() -> None:
    with pytest.raises(AssertionError, match="its status is deadlock"):
        assert_cycles(Measured(1, "deadlock"), at_most=10)


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({}, "assert_cycles: it needs a limit; give at_most=CYCLES, baseline=NAME, or both; "
         "kbsim.assert_cycles names the baseline itself"),
        ({"at_most": -1}, "assert_cycles: at_most = -1, but it must be an integer of 0 or more [cycle]"),
        ({"at_most": 1.5}, "assert_cycles: at_most = 1.5, but it must be an integer of 0 or more [cycle]"),
        ({"at_most": True}, "assert_cycles: at_most = true, but it must be an integer of 0 or more [cycle]"),
    ],
)
def test_wrong_limits(limits: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError) as told:
        assert_cycles(Measured(1), **limits)
    assert str(told.value) == rule


def test_what_is_not_a_result_is_an_error_of_the_user() -> None:
    rule = "it must be the result of kernbench.run, kernbench.llm or kernbench.simulate, and it is of type int"
    with pytest.raises(InputError) as told:
        assert_cycles(129_813, at_most=1)  # type: ignore[arg-type]
    assert str(told.value) == f"assert_cycles: result: {rule}"


def test_a_baseline_is_recorded_held_and_passed_by_faster_runs(tmp_path: Path) -> None:
    numbers(tmp_path, 100, 200)
    told = suite(tmp_path)
    assert told.code == 1 and 'no baseline "n0"' in told.text and "pytest --kbsim-update" in told.text
    assert not (tmp_path / FILE).exists()
    told = suite(tmp_path, "--kbsim-update")
    assert told.code == 0 and "2 of 2 baselines written to" in told.text
    assert cycles_of(tmp_path) == {"n0": 100, "n1": 200}
    before = (tmp_path / FILE).read_bytes()
    assert suite(tmp_path).code == 0
    numbers(tmp_path, 101, 150)
    told = suite(tmp_path)
    assert told.code == 1 and "1 failed, 1 passed" in told.text
    assert '1 cycles more than the baseline "n0" (100) (+1.0%)' in told.text
    assert '"n1": 150 cycles, 50 fewer than its baseline (-25.0%)' in told.text
    assert (tmp_path / FILE).read_bytes() == before


def test_an_update_keeps_what_did_not_run_and_writes_nothing_of_tests_that_fail(tmp_path: Path) -> None:
    numbers(tmp_path, 100, 200)
    suite(tmp_path, "--kbsim-update")
    numbers(tmp_path, 110, 220)
    assert suite(tmp_path, "--kbsim-update", "-k", "test_1").code == 0
    assert cycles_of(tmp_path) == {"n0": 100, "n1": 220}
    numbers(tmp_path, 110, 240)
    with (tmp_path / "test_numbers.py").open("a", encoding="utf-8") as file:
        file.write("    assert False\n")
    assert suite(tmp_path, "--kbsim-update").code == 1
    assert cycles_of(tmp_path) == {"n0": 110, "n1": 220}


def test_one_name_for_two_runs_is_an_error_and_is_not_written(tmp_path: Path) -> None:
    numbers(tmp_path, 100, 200, name="same")
    told = suite(tmp_path, "--kbsim-update")
    said = '"same": 100 cycles in test_numbers.py::test_0, 200 cycles in test_numbers.py::test_1'
    assert told.code == 1 and said in told.text
    assert not (tmp_path / FILE).exists()


def test_workers_of_xdist_record_what_one_process_records(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    numbers(tmp_path, *range(100, 112))
    assert suite(tmp_path, "--kbsim-update").code == 0
    alone = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).unlink()
    told = suite(tmp_path, "--kbsim-update", "-n", "2")
    assert told.code == 0 and "12 of 12 baselines written to" in told.text
    assert (tmp_path / FILE).read_bytes() == alone


def test_the_file_is_where_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "speed").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nkbsim_baselines = speed/cycles.json\n", encoding="utf-8")
    numbers(tmp_path, 7)
    assert suite(tmp_path, "--kbsim-update").code == 0
    assert read_baselines(tmp_path / "speed" / "cycles.json")["n0"].cycles == 7


def test_a_file_that_cannot_be_written_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    numbers(tmp_path, 7)
    told = suite(tmp_path, "--kbsim-update")
    assert told.code == 1 and "error:" in told.text and FILE in told.text


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("{", "this is not valid JSON"),
        ("[]", 'a file of baselines has "version": 1'),
        ('{"version": 2, "baselines": {}}', 'a file of baselines has "version": 1'),
        ('{"version": 1, "baselines": {"a": {"cycles": 1}}}', "a baseline has the keys cycles, groups, model_version"),
        ('{"version": 1, "baselines": {"a": {"cycles": -1, "groups": {}, "model_version": 1}}}', "cycles = -1"),
        ('{"version": 1, "baselines": {"a": {"cycles": 1, "groups": {"b": NaN}, "model_version": 1}}}', "names to numbers"),
    ],
)
def test_a_broken_file(tmp_path: Path, content: str, rule: str) -> None:
    (tmp_path / FILE).write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as told:
        read_baselines(tmp_path / FILE)
    assert rule in str(told.value) and FILE in str(told.value) and "--kbsim-update" in str(told.value)


def test_a_file_is_sorted_and_reads_back(tmp_path: Path) -> None:
    given = {"b": Baseline(2, 1, {"z": 1.5, "a": 0.5}), "a": Baseline(1, 1)}
    write_baselines(tmp_path / FILE, given)
    plain = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    assert list(plain["baselines"]) == ["a", "b"] and list(plain["baselines"]["b"]["groups"]) == ["a", "z"]
    assert read_baselines(tmp_path / FILE) == given


def test_files_are_found_beside_the_test_and_cycles_are_properties(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    entry = '{"id": 0, "opcode": "END"}'
    text = f'{{"metadata": {{"version": "1.0", "name": "one"}}, "cmdq": [{entry}]}}'
    (inner / "one.json").write_text(text, encoding="utf-8")
    (inner / "test_one.py").write_text(
        "def test_one(kbsim):\n    kbsim.assert_cycles(kbsim.run('one.json', config='npu_server'))\n", encoding="utf-8"
    )
    assert suite(tmp_path, "--kbsim-update", "--junitxml=out.xml").code == 0
    found = cycles_of(tmp_path)
    assert list(found) == ["inner/test_one.py::test_one"]
    cycles = found["inner/test_one.py::test_one"]
    assert f'value="{cycles}"' in (tmp_path / "out.xml").read_text(encoding="utf-8")


def test_a_wrong_machine_is_reported_at_the_line_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(kbsim):\n    kbsim.run('gemm', config='npu_servr')\n", encoding="utf-8")
    told = suite(tmp_path)
    assert told.code == 1 and "npu_server" in told.text and "load.py" not in told.text and "test_it.py:2" in told.text


def test_the_plugin_loads_nothing_of_the_simulator() -> None:
    heavy = {"kernbench_core", "numpy", "pydantic", "rich", "typer", "yaml"}
    code = f"import sys, kernbench.pytest; print(*sorted({heavy} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert told.stdout.strip() == ""
    code = "import sys, kernbench, kernbench.cli.main; print('pytest' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert told.stdout.strip() == "False"


def test_pytest_loads_the_plugin_under_the_name_that_an_option_gives() -> None:
    settings = ROOT / "pyproject.toml"
    if not settings.exists():
        pytest.skip("pyproject.toml is not in this source tree")
    project = tomllib.loads(settings.read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"kernbench.pytest": "kernbench.pytest"}


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    if not PAGE.exists():
        pytest.skip("the documentation is not in this source tree")
    text = PAGE.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    said = 0
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block["kind"] == "python":
            (tmp_path / (block["mark"] or "").removeprefix("save: ")).write_text(block["body"], encoding="utf-8")
        elif block["kind"] == "sh" and not block["body"].startswith("pip install"):
            assert after is not None and block["body"].startswith("pytest -q test_speed.py")
            told = suite(tmp_path, *block["body"].split()[2:])  # it adds -q itself
            shown = Shown(0, after["body"], told.text, (0, 0))
            assert shown.agrees(), told.text
            said += 1
    assert said == 3


WORKFLOW = ROOT / "docs" / "ci" / "performance.yml"


@pytest.mark.skipif(not WORKFLOW.exists(), reason="the documentation is not in this source tree")
def test_the_workflow_fails_with_the_reason_in_its_summary(tmp_path: Path) -> None:
    """Its steps are run as GitHub would; the installation and the actions are left out."""
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["cycles"]["steps"]
    commands = {step["name"]: step["run"] for step in steps if "run" in step and step["name"] != "install"}
    folder = tmp_path / "performance"
    folder.mkdir()
    test = "def test_it(kbsim):\n    kbsim.assert_cycles(kbsim.run('vector_add', n=64), at_most=1)\n"
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    told = suite(tmp_path, "performance", "--junitxml=performance.xml")
    (tmp_path / "pytest").write_text(f"#!/bin/sh\ncat told.txt; exit {told.code}\n", encoding="utf-8")
    (tmp_path / "pytest").chmod(0o755)
    (tmp_path / "told.txt").write_text(told.text, encoding="utf-8")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    codes = [
        subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, env=env, capture_output=True, check=False).returncode
        for command in commands.values()
    ]
    assert list(commands) == ["test", "summary"] and codes == [1, 0]
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "cycles more than at_most=1" in summary and "% of the run is" in summary and summary.count("```") == 2
    assert " performance --junitxml=" in commands["test"] and (tmp_path / "performance.xml").exists()


SMALL = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 4, "hidden_act": "silu", "vocab_size": 512, "max_position_embeddings": 64}  # fmt: skip


def test_a_language_model_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps(SMALL), encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "def test_it(kbsim):\n"
        "    run = kbsim.llm('small.json', config='npu_server', prompt=1, tokens=1, phase='prefill')\n"
        "    kbsim.assert_cycles(run, at_most=run.cycles)\n"
        "    kbsim.assert_cycles(run, at_most=run.cycles - 1)\n",
        encoding="utf-8",
    )
    told = suite(tmp_path)
    assert told.code == 1 and "test_it.py:4" in told.text and "\nE       1 cycles more than at_most=" in told.text


def test_a_slower_language_model_fails_with_its_limits_and_the_parts_that_changed(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(json.dumps(SMALL), encoding="utf-8")
    test = "def test_it(kbsim):\n    kbsim.assert_cycles(kbsim.llm('small.json', config='npu_server', prompt={}, tokens=1))\n"
    (tmp_path / "test_it.py").write_text(test.format(1), encoding="utf-8")
    assert suite(tmp_path, "--kbsim-update").code == 0
    groups = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))["baselines"]["test_it.py::test_it"]["groups"]
    assert {"prefill layer", "decode layer", "decode head"} <= set(groups)
    (tmp_path / "test_it.py").write_text(test.format(40), encoding="utf-8")
    told = suite(tmp_path)
    assert told.code == 1 and re.search(r"\nE +\d+% prefill \(.+\), \d+% decode \(.+\)\n", told.text)
    assert "def checked" not in told.text and "test_it.py:2: AssertionError" in told.text
    assert re.search(rf"\nE +prefill layer +{groups['prefill layer']:,.0f} -> +[0-9,]+ cycles +\+", told.text)
