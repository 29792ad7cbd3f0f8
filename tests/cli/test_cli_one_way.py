"""One way to say things: machines, sizes, formats and places mean the same in every command."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from kernbench.cli.app import every_command
from tests.cli.conftest import Kbsim

MACHINE_COMMANDS = [
    "run", "step", "llm", "onnx", "torch", "compare", "whatif", "fuzz", "probe",
    "program check", "program show", "program emit", "program compile",
    "topology show", "topology compile", "topology route", "topology draw", "ccl run", "ccl tune", "ccl replay",
    "ccl torchrun",
    "op", "calibrate", "triton", "debug", "tenants", "serve run", "serve why", "serve capacity",
]  # fmt: skip
SYSTEM_COMMANDS = ["probe", "topology show", "topology route", "topology draw"]
SWEEP = """\
schema: kernbench/sweep/1
name: setups
targets: [{program: tiles.json}]
machine: small.yaml
axes: {dram.t_setup_cycles: [10, 20]}
"""


def found(path: str) -> object:
    """A command by its words."""
    command = every_command()
    for word in path.split():
        command = command.commands[word]
    return command


@pytest.mark.parametrize("path", MACHINE_COMMANDS)
def test_a_machine_is_named_by_config_everywhere(path: str) -> None:
    option = next(param for param in found(path).params if "--config" in param.opts)  # type: ignore[attr-defined]
    assert "-c" in option.opts and option.multiple == (path == "compare")


def test_no_other_command_runs_on_a_machine_without_config() -> None:
    having = set()
    for name, command in every_command().commands.items():
        for sub, one in getattr(command, "commands", {"": command}).items():
            if any("--set" in param.opts for param in one.params):
                having.add(f"{name} {sub}".strip())
    assert having == {*MACHINE_COMMANDS, "config show", "config check", "config init", "config energy"} - {"topology compile"}


@pytest.mark.parametrize("path", ["run", "step", "llm", "onnx", "whatif", "program show", "program emit", "program compile"])
def test_the_default_machine_is_one_and_named_in_the_help(path: str, kbsim: Kbsim) -> None:
    said = " ".join(kbsim(*path.split(), "--help").out.replace("\u2502", " ").split())
    assert re.search(r"\[default: npu_server(, or what a bench names)?\]", said)


@pytest.mark.parametrize("path", SYSTEM_COMMANDS)
def test_commands_between_pes_name_their_own_default(path: str, kbsim: Kbsim) -> None:
    assert "single_cube" in kbsim(*path.split(), "--help").out


def test_benches_and_programs_run_on_the_default(kbsim: Kbsim) -> None:
    small = ("--set", "n=64")
    assert json.loads(kbsim("run", "vector_add", *small, "--json").out)["result"]["machine"] == "npu_server.yaml"
    assert json.loads(kbsim("run", "tiles.json", "--json").out)["machine"] == "npu_server.yaml"
    assert json.loads(kbsim("run", "tp_mlp", "--json").out)["result"]["machine"] == "single_cube.yaml"  # it names it


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("probe", "single_cube", "--only", "own_hbm"), ("probe", "-c", "single_cube", "--only", "own_hbm")),
        (("topology", "show", "two_sips"), ("topology", "show", "--config", "two_sips")),
        (
            ("topology", "route", "host", "sip0.cube0.pe0", "two_sips"),
            ("topology", "route", "host", "sip0.cube0.pe0", "-c", "two_sips"),
        ),
        (
            ("topology", "draw", "two_sips", "--view", "sip", "-o", "a.svg"),
            ("topology", "draw", "-c", "two_sips", "--view", "sip", "-o", "a.svg"),
        ),
    ],
)  # fmt: skip
def test_a_machine_as_an_argument_works_with_a_note(old: tuple[str, ...], new: tuple[str, ...], kbsim: Kbsim) -> None:
    before, now = kbsim(*old), kbsim(*new)
    note, _, rest = before.err.partition("\n")
    assert (before.code, before.out, rest) == (now.code, now.out, now.err) and now.code == 0
    assert note.startswith("deprecated: use --config ") and "deprecated" not in now.err


def test_a_machine_given_both_ways_is_refused(kbsim: Kbsim) -> None:
    said = kbsim("probe", "single_cube", "-c", "two_sips")
    assert (said.code, said.out) == (2, "") and "as --config two_sips and as single_cube" in said.err


@pytest.mark.parametrize("option", [("--config", "small.yaml"), ("-o", "a.json"), ("--trace", "t.jsonl")])
def test_an_option_of_one_value_is_given_once(option: tuple[str, str], kbsim: Kbsim) -> None:
    said = kbsim("run", "tiles.json", "-c", "small.yaml", *option, *option)
    times = 3 if option[0] == "--config" else 2
    assert (said.code, said.out) == (2, "") and f"is given {times} times, but takes only one value" in said.err


def test_an_option_that_may_repeat_does(kbsim: Kbsim) -> None:
    twice = ("--set", "dram.t_setup_cycles=1", "--set", "dma.period=2", "-q", "-q")
    assert kbsim("run", "tiles.json", "-c", "small.yaml", *twice).code == 0


@pytest.mark.parametrize("size", ["4096", "4KiB", "4k", "4K", "4.096kB"])
def test_a_size_is_written_the_same_way_everywhere(size: str, kbsim: Kbsim) -> None:
    rows = json.loads(kbsim("probe", "--sizes", size, "--only", "own_hbm", "--json").out)["rows"]
    assert [row["bytes"] for row in rows] == [4096]
    ran = json.loads(kbsim("ccl", "run", "broadcast", "-n", "2", "-b", size, "--slot-bytes", size, "--json").out)
    assert [row["size"] for row in ran["rows"]] == [4096]
    assert kbsim("config", "check", "npu_server", "--set", f"dram.interleave_bytes={size}").code == 0


def test_counts_of_tokens_are_written_so_too(kbsim: Kbsim) -> None:
    short = ("llm", "--layers", "1", "--phase", "prefill", "--json")
    assert kbsim(*short, "--prompt", "1k").out == kbsim(*short, "--prompt", "1024").out
    runs = json.loads(kbsim(*short, "--compare", "prompt=64,1k").out)["runs"]
    assert [run["case"] for run in runs] == [{"prompt": 64}, {"prompt": 1024}]


def test_the_format_of_an_export_is_that_of_its_name(kbsim: Kbsim) -> None:
    assert kbsim("run", "tiles.json", "-c", "small.yaml", "-q", "--trace", "t.jsonl").code == 0
    for name, to in (("a.json", "chrome"), ("a.csv", "csv"), ("a.jsonl", "jsonl"), ("a.json.gz", "chrome")):
        told = json.loads(kbsim("trace", "export", "t.jsonl", "-o", name, "--json").out)
        assert told["format"] == to
        kbsim("trace", "export", "t.jsonl", "-o", f"named{name[1:]}", "--to", to)
        assert Path(name).read_bytes() == Path(f"named{name[1:]}").read_bytes()
    assert gzip.decompress(Path("a.json.gz").read_bytes()) == Path("a.json").read_bytes()
    said = kbsim("trace", "export", "t.jsonl", "-o", "a.zip")
    assert said.code == 2 and "the file name must end in .json, .pftrace" in said.err and not Path("a.zip").exists()


def test_the_table_of_a_sweep_goes_to_stdout(kbsim: Kbsim) -> None:
    Path("s.yaml").write_text(SWEEP, encoding="utf-8")
    assert kbsim("sweep", "run", "s.yaml", "--threads", "1", "-q").code == 0
    kbsim("sweep", "report", "s.sqlite", "--csv", "s.csv")
    said = kbsim("sweep", "report", "s.sqlite", "--csv", "-")
    assert said.code == 0 and said.out == Path("s.csv").read_bytes().decode()
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "-", "--json").code == 2


def test_quiet_prints_nothing_but_errors(kbsim: Kbsim) -> None:
    assert kbsim("config", "check", "small.yaml", "-q") == (0, "", "")
    assert kbsim("config", "check", "small.yaml", "--quiet", "--set", "te.engines=0").code == 2
    assert kbsim("run", "tiles.json", "-c", "small.yaml", "-q", "--trace", "t.jsonl") == (0, "", "")
    assert kbsim("trace", "report", "t.jsonl", "-q", "-o", "t.html") == (0, "", "") and Path("t.html").exists()
