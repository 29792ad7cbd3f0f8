"""What a command imports before it does its work: what it does not need is left out. Times are rows of `make bench`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

import kernbench.cli.run as run_command
from kernbench.cli.app import app
from kernbench.cli.main import main
from kernbench.cli.overview import COMMANDS, help_text
from kernbench.cli.plain_arguments import FLAGS, LISTS, VALUES, plain_run
from kernbench.cli.run_target import RunOptions

#: Packages that take long to import.
HEAVY = ("click", "kernbench_core", "ml_dtypes", "numpy", "pydantic", "rich", "scipy", "typer", "yaml")


def imported(*arguments: str, **environment: str) -> set[str]:
    """The modules that a command has imported at its end."""
    code = (
        f"import sys, atexit; sys.argv[1:] = {list(arguments)!r}\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from kernbench.cli.main import main; main()"
    )
    given = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()])
def test_the_help_of_kbsim_imports_nothing(arguments: tuple[str, ...]) -> None:
    found = {name for name in imported(*arguments) if name.startswith("kernbench")}
    assert {name for name in found if "editable" not in name} <= {
        "kernbench", "kernbench.cli", "kernbench.cli.main", "kernbench.cli.overview", "kernbench.cli.panels",
        "kernbench.moved", "kernbench.version",
        "kernbench_libraries",
    }  # fmt: skip
    assert not found & {"dataclasses", "inspect", "json", "re", *HEAVY}


def test_a_run_imports_what_it_runs() -> None:
    found = imported("run", "tiles.json", "--config", "small.yaml", "--json")
    unused = ("ml_dtypes", "rich", "scipy", "polars", "matplotlib", "typer", "click", "pydantic")
    assert not {name for name in found if name.partition(".")[0] in unused}
    left_out = (
        "numpy.ma", "numpy.random", "runpy", "kernbench.components.parts", "kernbench.topology.graph",
        "kernbench.triton_emu", "kernbench.runtime_api", "kernbench.ccl", "kernbench.workloads.llm", "kernbench.sweep",
        "kernbench.trace.why", "kernbench.validate", "kernbench.cli.llm", "kernbench.cli.trace",
    )  # fmt: skip
    assert not {name for name in found for one in left_out if name == one or name.startswith(f"{one}.")}


def test_a_process_of_a_sweep_imports_only_the_targets_that_it_runs() -> None:
    """Those of all kinds took a second, in each process."""
    code = "import sys, kernbench.sweep.executors.worker; print(*sys.modules)"
    found = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    unused = ("kernbench.runtime_api", "kernbench.ccl", "kernbench.triton_emu", "kernbench.workloads.llm", "pydantic", "typer")
    assert not {name for name in found for one in unused if name == one or name.startswith(f"{one}.")}
    targets = {name for name in found if name.startswith("kernbench.sweep.targets.")}
    assert targets == {"kernbench.sweep.targets.target"}


def test_a_second_run_reads_no_yaml(tmp_path: Path) -> None:
    """The data of its machine's text, and of the colours, are kept from the first run."""
    program = tmp_path / "tiles.json"
    program.write_text(json.dumps({"metadata": {"version": "1.0", "name": "none"}, "cmdq": [{"id": 0, "opcode": "END"}]}))
    readers = {"yaml", "tomllib"}
    for missing in (set(), readers):
        found = imported("run", str(program), "--config", "npu_mobile", KERNBENCH_CACHE=str(tmp_path / "cache"))
        assert readers - found == missing


def test_the_threads_of_numpy_do_not_spin_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS takes 40 ms of CPU time for it otherwise. A user's own setting stays."""
    for given, expected in ((None, "20"), ("4", "4")):
        if given is None:
            monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
        else:
            monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", given)
        with pytest.raises(SystemExit):
            main(["--version"])
        assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == expected
        monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")


def test_help_is_printed_by_both_ways(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for arguments, code in ((["--help"], 0), ([], 2), (["--debug", "--help"], 0)):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
        assert capsys.readouterr().out == help_text(100, False) + "\n"
    assert all(name in help_text(100, False) for name in COMMANDS)


PLAIN = (
    "a.json", "a.json -c m.yaml --json", "--json --config=m.yaml a.json", "a.json --set dram.channels=4 --set te.engines=1 -q",
    "gemm --verify --strict-wait --all --no-skip", "a.json -o out.json --trace t.jsonl --report p.html --trace-level full",
    "a.json --trace=t.jsonl --trace-cycles 0:5 --trace-only dma0", "s.py --check memory --allow-code here --allow-code there",
    "a.json --set=x=1 --set n=", "a.json --config=", "a.json --out=",
)  # fmt: skip
LEFT_TO_TYPER = (
    "", "--json", "a.json b.json", "a.json -c m -c n", "a.json --config m --config=n", "a.json --bogus", "a.json -c",
    "a.json -c --json", "a.json -cm", "a.json --", "-- a.json", "a.json --json --json", "a.json --json=1", "a.json --help",
    "a.json -h", "- x", "a.json -c -", "a.json --walk plain", "a.json --trace-window 5", "a.json --checks off",
    "a.json --conf m",
)  # fmt: skip


@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_line_is_read_as_typer_reads_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", *line.split(" ")]
    asked: list[Any] = []
    monkeypatch.setattr(run_command, "run_target", asked.append)
    with pytest.raises(SystemExit):
        get_command(app)(arguments, prog_name="kbsim")
    assert [plain_run(arguments)] == asked


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
def test_every_other_line_is_left_to_typer(line: str) -> None:
    assert plain_run(["run", *line.split()]) is None
    assert plain_run(["step", "a.json"]) is None


def test_plain_options_are_those_of_the_command() -> None:
    params = {name: one.name for one in get_command(app).commands["run"].load().params for name in one.opts}  # type: ignore[attr-defined]
    plain = {**FLAGS, **LISTS, **{name: field for name, (field, _) in VALUES.items()}}
    assert plain.items() <= params.items()
    assert set(params.values()) - {"threads", "walk"} == {field.name for field in msgspec.structs.fields(RunOptions)}


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "kernbench", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kernbench ")
