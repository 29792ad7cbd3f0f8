"""`--walk` and KERNBENCH_WALK: the plain model gives the same bytes as the fast paths, everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim
from tests.sweep_samples import write_spec

COMMANDS = {
    "program": ("run", "llama2-7b-decode", "--config", "npu_mobile"),
    "bench": ("run", "tp_mlp", "--verify"),
    "collective": ("ccl", "run", "all_reduce", "-a", "ring", "-n", "4", "-b", "1K"),
    "step": ("step", "llama2-7b-decode", "--cycles", "5000"),
    "llm": ("llm", "--tokens", "1", "--layers", "1", "--prompt", "16"),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNBENCH_WALK", raising=False)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_both_walks_print_the_same(command: tuple[str, ...], kbsim: Kbsim) -> None:
    plain, fast = (kbsim(*command, "--json", "--walk", walk) for walk in ("plain", "fast"))
    assert plain.code == 0, plain.err
    assert plain == fast


@pytest.mark.parametrize("level", ["summary", "full", "access"])
def test_both_walks_trace_the_same_bytes(level: str, kbsim: Kbsim) -> None:
    for walk in ("plain", "fast"):
        said = kbsim("run", "tp_mlp", "--walk", walk, "--trace", f"{walk}.jsonl", "--trace-level", level, "-q")
        assert said.code == 0, said.err
    assert Path("plain.jsonl").read_bytes() == Path("fast.jsonl").read_bytes() != b""


@pytest.mark.parametrize(("saved", "taken_up"), [("plain", "fast"), ("fast", "plain")])
def test_a_checkpoint_of_one_walk_is_taken_up_by_the_other(saved: str, taken_up: str, kbsim: Kbsim) -> None:
    step = ("step", "llama2-7b-decode", "--cycles", "3000", "--save")
    assert kbsim(*step, "a.ckpt", "--walk", saved).code == kbsim(*step, "b.ckpt", "--walk", taken_up).code == 0
    assert Path("a.ckpt").read_bytes() == Path("b.ckpt").read_bytes()
    said = kbsim("step", "llama2-7b-decode", "--from", "a.ckpt", "--cycles", "3000", "--json", "--walk", taken_up)
    assert said == kbsim("step", "llama2-7b-decode", "--cycles", "6000", "--json") and said.code == 0


def test_sweeps_of_both_walks_have_the_same_results(kbsim: Kbsim, place: Path) -> None:
    write_spec(place)
    for walk in ("plain", "fast"):
        said = kbsim("sweep", "run", "s.yaml", "--store", f"{walk}.sqlite", "--jobs", "2", "--walk", walk, "-q")
        assert said.code == 0, said.err
    said = kbsim("sweep", "compare", "plain.sqlite", "fast.sqlite")
    assert said.code == 0, said.out


def test_a_walk_that_is_none_is_refused(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = '= "slow", but it must be one of plain, fast\n'
    said = kbsim("run", "llama2-7b-decode", "--walk", "slow")
    assert (said.code, said.out, said.err) == (2, "", f"error: walk of the run: --walk {rule}")
    monkeypatch.setenv("KERNBENCH_WALK", "slow")
    said = kbsim("run", "llama2-7b-decode")
    assert (said.code, said.out, said.err) == (2, "", f"error: walk of the run: KERNBENCH_WALK {rule}")


def test_the_option_ends_with_the_command(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_WALK", "slow")
    assert kbsim("run", "llama2-7b-decode", "--walk", "plain", "-q").code == 0
    assert kbsim("run", "llama2-7b-decode", "-q").code == 2
