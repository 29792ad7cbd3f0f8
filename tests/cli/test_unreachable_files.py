"""Files that the operating system does not let `kbsim` look for: in a directory of another user, or with too long a name.

`Path.is_file` and `Path.exists` raise an exception for such a file. A name that is too long has the same effect for every user.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.common.files import make_folder, no_file
from tests.cli.conftest import Kbsim

LONG = "x" * 300
REASON = os.strerror(errno.ENAMETOOLONG)
COMMANDS = (
    "run {}.json",
    "run {}.py",
    "run {}.kbp",
    "run tiles.json -c {}",
    "run tiles.json -c {}.yaml",
    "run tiles.json -c small.yaml -o {}.json",
    "run tiles.json -c small.yaml --trace {}.jsonl",
    "run tiles.json -c small.yaml --report {}.html",
    "run {}.py --check memory",
    "step tiles.json -c small.yaml -n 5 --from {}.ckpt",
    "step tiles.json -c small.yaml -n 5 --save {}.ckpt",
    "debug tiles.json -c small.yaml --script {}",
    "debug --session {}",
    "llm -m {}",
    "llm -m {}.json",
    "llm -c h100 --runtime {}.yaml",
    "onnx {}.onnx",
    "triton {}.py",
    "calibrate {}.csv -c h100",
    "compare tiles.json -c {} -c small.yaml",
    "whatif {}.json",
    "tenants {}.json tiles.json",
    "fuzz --replay {}.json",
    "fuzz tiles.json -c small.yaml --save {}",
    "fuzz tiles.json -c small.yaml --junit {}.xml",
    "validate chips --data {}",
    "validate dram --ramulator {}",
    "validate noc --booksim {}",
    "validate vector --report {}.html",
    "serve run -m llama3.2-1b -c h100 --dataset-path {}.csv",
    "serve run --fleet {}",
    "serve run -m llama3.2-1b -c h100 --rows {}.csv",
    "bench show {}.py",
    "program check {}.json",
    "program compile tiles.json -c small.yaml -o {}.kbp",
    "config init {}.yaml",
    "config init --nccl-topology {}.xml",
    "config init --astra-network {}.yml",
    "config show {}",
    "config check {}.yaml",
    "config energy npu_mobile --ert {}.yaml",
    "config energy npu_mobile --accelergy {}",
    "topology draw --view system -c single_cube -o {}.svg",
    "trace summary {}.jsonl",
    "trace report {}.jsonl -o y.html",
    "trace export {}.jsonl -o y.json",
    "sweep run {}.yaml",
    "sweep report {}.sqlite",
    "sweep merge new.sqlite {}.sqlite",
    "ccl list --ccl {}.yaml",
    "ccl run all_reduce -n 4 --msccl {}.xml",
    "ccl run all_reduce -n 4 --chakra {}",
    "ccl run all_reduce -n 4 --csv {}.csv",
    "ccl replay {}",
    "ccl replay {}.0.et",
    "ccl torchrun {}.py",
    "noc replay {}.json -d wormhole",
    "man -o {}",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_error_names_the_file(kbsim: Kbsim, command: str) -> None:
    said = kbsim(*command.format(LONG).split())
    assert said.code == 2, said.err
    *notes, error = said.err.splitlines()
    assert error.startswith("error: ") and LONG[:40] in error
    assert all(note.startswith("note: ") for note in notes)


def test_the_reason_is_that_of_the_operating_system(kbsim: Kbsim) -> None:
    assert kbsim("run", f"{LONG}.py").err == f"error: {LONG}.py: the file cannot be read: {REASON}; check the path\n"
    said = kbsim("config", "energy", "npu_mobile", "--accelergy", LONG).err
    assert said == f"error: {LONG}: the directory cannot be created: {REASON}; choose another place\n"


def test_a_cache_that_cannot_be_reached_is_not_used(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", LONG)
    assert kbsim("run", "tiles.json", "-c", "small.yaml", "-q").code == 0
    assert kbsim("ccl", "run", "all_reduce", "-n", "4", "-q").code == 0
    said = kbsim("ccl", "tune", "all_reduce", "-n", "4", "-b", "1K", "-e", "2K", "--simulate")
    assert said.code == 0
    refused = f"{LONG}/ccl: the directory cannot be created: {REASON}; choose another place"
    assert said.err == f"note: the simulated times are not kept: {refused}\n"
    said = kbsim("serve", "run", "-m", "llama3.2-1b", "-c", "h100", "--num-prompts", "2", "-q")
    assert said.code == 0 and said.err == ""


def test_a_damaged_table_of_steps_in_the_cache_is_replaced(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", os.path.abspath("cache"))
    serve = ("serve", "run", "-m", "llama3.2-1b", "-c", "h100", "--num-prompts", "2", "--json")
    first = kbsim(*serve)
    (table, *_) = sorted(Path("cache/serving").iterdir())
    sound = table.read_bytes()
    table.write_bytes(sound[: len(sound) // 2])
    assert kbsim(*serve).out == first.out
    assert table.read_bytes() == sound


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert no_file(tmp_path) == "it is a directory"
    assert no_file(tmp_path / "pipe") == "it is not a file"
    assert no_file(tmp_path / "none") == no_file(tmp_path / "file" / "inside") == "the file does not exist"
    with pytest.raises(InputError, match="file: the directory cannot be created: File exists; choose another place"):
        make_folder(tmp_path / "file")
