"""`kbsim run` and the other commands: exit codes, JSON, files, refusals."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jsonschema
import pytest

from kernbench import InternalError, load_config, load_program, simulate
from kernbench.cli.main import exit_code
from kernbench.sim_engine.json_schema import result_json_schema
from kernbench.sim_engine.machine import Machine
from tests.cli.conftest import Kbsim
from tests.schemas import validator_of, validator_of_text

SMALL = ("--config", "small.yaml")
WIDE_APART = (  # beside a KV load, a load of weights would get less than 2^-31 bytes per cycle
    *("--set", "allocation=max_min_v1", "--set", "dram.peak_bw_bytes_per_cycle=0.25"),
    *("--set", "dma.channels.kv_load.weight=2147483647"),
)
ENDINGS = {
    "done": (("tiles.json",), 0),
    "aborted": (("tiles.json", "--set", "max_cycles=500"), 3),
    "deadlock": (("stuck.json",), 4),
    "failed": (("clash.json", "--set", "spm.check_overlap=error"), 5),
}


def one_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is: nothing before it, one line feed behind it."""
    assert text.endswith("\n") and text.count("\n") == 1
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("status", ENDINGS)
def test_a_run_leaves_with_the_code_of_its_ending(status: str, kbsim: Kbsim) -> None:
    arguments, code = ENDINGS[status]
    said = kbsim("run", *arguments, *SMALL)
    assert said.code == code
    assert said.out.split()[0] == status
    assert said.err == ""


@pytest.mark.parametrize("status", ENDINGS)
def test_json_is_the_result_and_fits_its_schema(status: str, kbsim: Kbsim) -> None:
    arguments, code = ENDINGS[status]
    said = kbsim("run", *arguments, *SMALL, "--json")
    result = one_object(said.out)
    validator_of(result_json_schema).validate(result)
    assert (said.code, said.err, result["status"]) == (code, "", status)
    config = load_config("small.yaml", [argument for argument in arguments if "=" in argument])
    assert result == simulate(load_program(arguments[0]), config).to_dict()


def test_json_of_a_run_with_warnings_fits_its_schema(kbsim: Kbsim) -> None:
    result = one_object(kbsim("run", "clash.json", *SMALL, "--json", "--set", "spm.check_overlap=warn").out)
    validator_of(result_json_schema).validate(result)
    assert [(warning["entry"], warning["with"]) for warning in result["warnings"]] == [(2, 1)]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "finished"},
        {"cycles": -1},
        {"deadlock": []},
        {"more": 1},
        {"counters": {"spm": {"requests": [], "grants": [], "denials": []}, "gpu0": {}}},
    ],
)
def test_the_schema_refuses_what_is_no_result(change: dict[str, Any], kbsim: Kbsim) -> None:
    result = one_object(kbsim("run", "tiles.json", *SMALL, "--json").out)
    with pytest.raises(jsonschema.ValidationError):
        validator_of(result_json_schema).validate({**result, **change})


@pytest.mark.parametrize("status", ENDINGS)
def test_stepping_every_cycle_gives_the_same_text(status: str, kbsim: Kbsim) -> None:
    arguments, _ = ENDINGS[status]
    assert kbsim("run", *arguments, *SMALL, "--no-skip") == kbsim("run", *arguments, *SMALL)


def test_quiet_prints_nothing_and_still_tells_by_its_code(kbsim: Kbsim) -> None:
    assert kbsim("run", "stuck.json", *SMALL, "--quiet") == (4, "", "")


def test_out_writes_what_json_prints(kbsim: Kbsim) -> None:
    said = kbsim("run", "tiles.json", *SMALL, "--out", "result.json")
    assert said.code == 0 and said.out.startswith("done")
    assert Path("result.json").read_text() == kbsim("run", "tiles.json", *SMALL, "--json").out


def test_a_refused_run_leaves_an_existing_output_alone(kbsim: Kbsim) -> None:
    Path("result.json").write_text("precious")
    assert kbsim("run", "tiles.json", *SMALL, "--out", "result.json", "--set", "te.engines=1").code == 2
    assert Path("result.json").read_text() == "precious"


@pytest.mark.parametrize(
    ("place", "reason"),
    [("nowhere/result.json", "there is no directory"), (".", "it is a directory")],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    place: str, reason: str, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "run", _never)
    said = kbsim("run", "tiles.json", *SMALL, "--out", place)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {place}: it cannot be written: {reason}")


def _never(*_: Any, **__: Any) -> bool:
    raise AssertionError("the run has begun")


@pytest.mark.parametrize(
    ("arguments", "place", "reason"),
    [
        (("run", "tiles.json", *SMALL, "-o", "tiles.json"), "tiles.json", "the command reads it"),
        (("run", "tiles.json", *SMALL, "--trace", "small.yaml"), "small.yaml", "the command reads it"),
        (("run", "tiles.json", *SMALL, "--trace", "x", "-o", "x"), "x", "two options name it"),
        (("step", "tiles.json", *SMALL, "-n", "1", "--save", "tiles.json"), "tiles.json", "the command reads it"),
        (("trace", "export", "tiles.json", "--to", "chrome", "-o", "tiles.json"), "tiles.json", "the command reads it"),
        (("trace", "summary", "tiles.json", "-o", "tiles.json"), "tiles.json", "the command reads it"),
        (("trace", "report", "stuck.json", "--view", "gantt", "-o", "link.svg"), "link.svg", "the command reads it"),
        (("trace", "diff", "tiles.json", "stuck.json", "--markdown", "stuck.json"), "stuck.json", "the command reads it"),
        (("trace", "diff", "tiles.json", "stuck.json", "--markdown", "x", "--junit", "x"), "x", "two options name it"),
        (("sweep", "report", "tiles.json", "--csv", "tiles.json"), "tiles.json", "the command reads it"),
        (("sweep", "compare", "tiles.json", "stuck.json", "--junit", "tiles.json"), "tiles.json", "the command reads it"),
        (("llm", "--model", "tiles.json", "--emit", "tiles.json"), "tiles.json", "the command reads it"),
    ],
)
def test_what_is_read_is_not_written_over(arguments: tuple[str, ...], place: str, reason: str, kbsim: Kbsim) -> None:
    Path("link.svg").symlink_to("stuck.json")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    said = kbsim(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err == f"error: {place}: it cannot be written: {reason}; choose another place\n"
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_out_to_a_device_writes_to_it_and_does_not_replace_it(kbsim: Kbsim) -> None:
    assert kbsim("run", "tiles.json", *SMALL, "--out", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_the_default_machine_is_a_preset(kbsim: Kbsim) -> None:
    said = kbsim("run", "tiles.json", "--json")
    assert said.code == 0
    assert one_object(said.out)["machine"] == "npu_server.yaml"


BENCH_IS_NONE = "this is a bench, but a program or a workload is expected; kbsim run and kbsim step take benches"
REFUSALS = [
    (("program", "show", "vector_add"), f"vector_add: {BENCH_IS_NONE}"),
    (("program", "show", "./mine.py:one"), f"./mine.py:one: {BENCH_IS_NONE}"),
    (("run", "missing.json"), "missing.json: the file does not exist"),
    (
        ("run", "lama2-7b-decode"),
        "lama2-7b-decode: there is no workload or bench with this name; "
        "did you mean llama2-7b-decode?",
    ),
    (
        ("run", "tiles", *SMALL),
        "tiles: there is no workload or bench with this name; "
        "did you mean tiles.json?",
    ),
    (
        ("run", "tiles.json", "--config", "npu_mobil"),
        "npu_mobil: there is no machine with this name; "
        "did you mean npu_mobile?",
    ),
    (
        ("run", "tiles.json", *SMALL, "--set", "dram.chanels=2"),
        "override dram.chanels=2: dram.chanels: there is no such key; did you mean dram.channels?",
    ),
    (
        ("run", "tiles.json", *SMALL, *WIDE_APART),
        'small.yaml: allocation = "max_min_v1", but a max-min share of this program needs terms of more than 128 bits, '
        "or is below 2^-31 bytes per cycle; use shared_bw_v1, or capacities with smaller denominators and weights closer "
        "to each other",
    ),
    (("step", "tiles.json", *SMALL), "kbsim step: give at least one of --cycles and --until"),
    (
        ("step", "tiles.json", *SMALL, "--until", "never"),
        'kbsim step: --until = "never", but it must be end:ID, start:ID, stall, conflict or cycle:N',
    ),
    (
        ("step", "tiles.json", *SMALL, "--until", "end:99"),
        'kbsim step: --until = "end:99", but no entry of the program has this id',
    ),
    (
        ("step", "tiles.json", *SMALL, "--watch", "--until", "stall"),
        "kbsim step: --watch needs --cycles of at least 1: the cycles between two states",
    ),
    (
        ("step", "tiles.json", *SMALL, "-n", "1", "--watch", "--json"),
        "kbsim step: --watch shows many states, but --json shows one: give one of the two",
    ),
    (
        ("program", "emit", "llama2-7b-decode", "-o", "decode.txt"),
        "decode.txt: the file name must end in .json, .yaml or .yml",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS)
def test_a_refusal_says_why(arguments: tuple[str, ...], message: str, kbsim: Kbsim) -> None:
    said = kbsim(*arguments)
    assert (said.code, said.err) == (2, f"error: {message}\n")
    assert (said.out == "") == ("--json" not in arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "missing.json"),
        ("run", "tiles.json", *SMALL, "--set", "te.engines=1"),
        ("run",),
        ("run", "x", "--fast"),
        ("walk",),
    ],
)
def test_a_refusal_with_json_is_one_object(arguments: tuple[str, ...], kbsim: Kbsim) -> None:
    said = kbsim(*arguments, "--json")
    answer = one_object(said.out)
    assert said.code == 2
    assert answer["status"] == "refused"
    assert [f"error: {problem['message']}" for problem in answer["problems"]] == said.err.splitlines()
    assert all(problem["message"].startswith(problem["where"]) for problem in answer["problems"])


def test_a_refused_value_stands_in_the_json(kbsim: Kbsim) -> None:
    said = kbsim("run", "tiles.json", *SMALL, "--set", "te.engines=1", "--json")
    first = one_object(said.out)["problems"][0]
    assert (first["field"], first["value"]) == ("te_id", 1)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("run",), "kbsim bench list"),
        (("run", "x", "--fast"), "--help"),
        (("walk",), "--help"),
        (("schema", "house"), "it must be one of program, "),
        (("step", "x", "-n", "-1"), "but it must be at least 0"),
    ],
)
def test_a_usage_error_says_how_it_is_used(arguments: tuple[str, ...], remedy: str, kbsim: Kbsim) -> None:
    said = kbsim(*arguments)
    assert (said.code, said.out) == (2, "")
    usage, error = said.err.splitlines()
    assert usage.startswith("Usage: kbsim")
    assert error.startswith("error: kbsim")
    assert remedy in error


@pytest.mark.parametrize("arguments", [(), ("program",), ("config",)])
def test_a_command_without_anything_prints_its_help(arguments: tuple[str, ...], kbsim: Kbsim) -> None:
    said = kbsim(*arguments)
    assert said.code == 2
    assert said.out.count("Usage: kbsim") == 1 and said.err == ""


def test_version_names_package_model_and_schemas(kbsim: Kbsim) -> None:
    from kernbench.version import VERSION

    schemas = "kernbench/npu/1, kernbench/system/1, program 1.0"
    assert kbsim("--version").out == f"kernbench {VERSION}\ntiming model 1\nschemas {schemas}\n"


@pytest.mark.parametrize("kind", ["program", "machine", "result"])
def test_schemas_are_schemas(kind: str, kbsim: Kbsim) -> None:
    validator_of_text(kbsim("schema", kind).out)  # it checks the schema


@pytest.mark.parametrize("error", [InternalError("a promise is broken"), asyncio.CancelledError("a task is")])
def test_our_bug_is_one_line_and_70(error: BaseException, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no `Exception` of Python's too."""
    monkeypatch.setattr(Machine, "run", Mock(side_effect=error))
    said, text = kbsim("run", "tiles.json", *SMALL), f"{type(error).__name__}: {error}"
    again = "(run it again with --debug, or KBSIM_DEBUG=1, to see the traceback)"
    assert (said.code, said.out, said.err) == (70, "", f"kbsim has a bug: {text} {again}\n")
    answer = one_object(kbsim("run", "tiles.json", *SMALL, "--json").out)
    assert answer == {"status": "internal error", "message": text}


@pytest.mark.parametrize("by", ["option", "environment"])
def test_debug_shows_the_traceback_and_keeps_the_code(by: str, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "environment":
        monkeypatch.setenv("KBSIM_DEBUG", "1")
    said = kbsim("run", "missing.json", *(["--debug"] if by == "option" else []))
    assert said.code == 2
    assert "Traceback" in said.err and said.err.endswith("the file does not exist\n")


def test_running_out_of_memory_is_no_bug(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> bool:
        raise MemoryError("no memory for a table")

    monkeypatch.setattr(Machine, "run", full)
    said = kbsim("run", "tiles.json", *SMALL)
    assert (said.code, said.err) == (
        2,
        "error: kbsim: there is not enough memory for this run: no memory for a table\n",
    )


def test_an_interrupt_is_130(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "run", interrupted)
    assert kbsim("run", "tiles.json", *SMALL) == (130, "", "interrupted\n")
    assert one_object(kbsim("run", "tiles.json", *SMALL, "--json").out) == {"status": "interrupted"}


def test_the_entry_point_leaves_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernbench.cli.main import main

    monkeypatch.setattr(sys, "argv", ["kbsim", "run", "missing.json"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == exit_code(["run", "missing.json"]) == 2


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from kernbench.cli.main import exit_code; exit_code(['--help']); "
        "print(sorted({'numpy', 'pydantic', 'yaml', 'kernbench_core'} & set(sys.modules)))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert text.splitlines()[-1] == "[]"
