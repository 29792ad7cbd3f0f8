"""`kbsim step` of a bench: each kernel's line and what it waits for, and checkpoints that are restored by running again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.bench_samples import BENCH
from tests.cli.conftest import Kbsim


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scale.py").write_text(BENCH, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def state(kbsim: Kbsim, *arguments: str) -> Any:
    said = kbsim("step", "scale.py", "--json", *arguments)
    assert said.code == 0, said.err
    return json.loads(said.out)


def test_every_kernel_has_its_line_and_what_it_waits_for(kbsim: Kbsim) -> None:
    # Launches reach PE 0 in cycle 423 and PE 1 in 422; each loads first.
    first, second, *others = state(kbsim, "--cycles", "500")["kernels"]
    assert first == {
        "pe": "sip0.cube0.pe0",
        "launch": "scale",
        "program": 0,
        "line": "scale.py:7",
        "waits_for": "the load of t1",
        "since": 423,
        "in_flight": 1,
        "implicit_waits": 0,
    }
    assert (second["program"], second["since"]) == (1, 423)
    assert all(one["launch"] is None and one["line"] is None for one in others) and len(others) == 6


def test_cycle_by_cycle_a_kernel_goes_on_when_its_load_has_ended(kbsim: Kbsim) -> None:
    before, after = (state(kbsim, "--cycles", str(n))["kernels"][0] for n in (550, 551))
    assert before["waits_for"] == "the load of t1" and after["waits_for"] == "tl.wait(t2)"
    assert (after["line"], after["since"]) == ("scale.py:11", 550)


def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(kbsim: Kbsim) -> None:
    assert kbsim("step", "scale.py", "--cycles", "300", "--save", "a.ckpt").code == 0
    assert kbsim("step", "scale.py", "--from", "a.ckpt", "--cycles", "260", "--save", "b.ckpt").code == 0
    straight = state(kbsim, "--cycles", "600")
    assert state(kbsim, "--from", "b.ckpt", "--cycles", "40") == straight
    assert state(kbsim, "--from", "b.ckpt", "--until", "cycle:600") == straight


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("scale.py", "--set", "factor=3", "--set", "hasty=true"),
            "a.ckpt: params.factor = 2.0, but in this run it is 3.0; give the --set it was saved with\n"
            "error: a.ckpt: params.hasty = false, but in this run it is true; give the --set it was saved with",
        ),
        (
            ("scale.py", "--strict-wait"),
            "a.ckpt: strict_wait = false, but the checkpoint is of a run with the other setting of --strict-wait, and this "
            "run's is true; give the options it was saved with",
        ),
        (
            ("scale.py", "--trace", "t.jsonl"),
            'kbsim step: --trace = "t.jsonl", but a bench is resumed by running it again from cycle 0, and a trace cannot '
            "begin in the middle of a run; trace the whole run, without --from and --save",
        ),
    ],
)
def test_checkpoints_of_another_run_are_refused(arguments: tuple[str, ...], message: str, kbsim: Kbsim) -> None:
    kbsim("step", "scale.py", "--cycles", "300", "--save", "a.ckpt")
    said = kbsim("step", *arguments, "--from", "a.ckpt", "--cycles", "1")
    assert (said.code, said.err) == (2, f"error: {message}\n")


def test_checkpoints_of_another_machine_or_code_are_refused(kbsim: Kbsim, tmp_path: Path) -> None:
    kbsim("step", "scale.py", "--cycles", "300", "--save", "a.ckpt")
    said = kbsim("step", "scale.py", "--from", "a.ckpt", "--cycles", "1", "--set", "cube.hbm.t_setup_cycles=1")
    assert said.code == 2 and "but the checkpoint is of another machine" in said.err
    said = kbsim("step", "vector_add", "-c", "single_cube", "--from", "a.ckpt", "--cycles", "1")
    assert said.code == 2 and "but the checkpoint is of another program" in said.err
    (tmp_path / "scale.py").write_text(BENCH + "# changed\n", encoding="utf-8")
    said = kbsim("step", "scale.py", "--from", "a.ckpt", "--cycles", "1")
    assert said.code == 2 and "but the bench's code has changed since" in said.err


def test_a_bench_that_is_not_the_same_again_is_found_out(kbsim: Kbsim, tmp_path: Path) -> None:
    changing = BENCH.replace("values[0, 0] += ctx", "values[3, 3] = int(np.fromfile('n', sep=' ')[0])\n    values[0, 0] += ctx")
    (tmp_path / "scale.py").write_text(changing, encoding="utf-8")
    (tmp_path / "n").write_text("1")
    assert kbsim("step", "scale.py", "--cycles", "300", "--save", "a.ckpt").code == 0
    (tmp_path / "n").write_text("2")
    said = kbsim("step", "scale.py", "--from", "a.ckpt", "--cycles", "1")
    assert (said.code, said.err) == (
        2,
        "error: a.ckpt: the run is not in the saved state in cycle 300: it depends on more than its inputs; "
        "remove clocks and unseeded random numbers from the bench\n",
    )


def test_a_checkpoint_of_a_program_is_none_of_a_bench(kbsim: Kbsim) -> None:
    kbsim("step", "llama2-7b-decode", "--cycles", "10", "--save", "p.ckpt", "--config", "npu_mobile")
    said = kbsim("step", "vector_add", "--from", "p.ckpt", "--cycles", "1", "--config", "npu_mobile")
    assert said.code == 2 and "but the checkpoint is of another program" in said.err


def test_a_kernel_that_raises_while_stepped_says_so(kbsim: Kbsim) -> None:
    said = kbsim("step", "scale.py", "--cycles", "1000", "--set", "first=-1")
    assert said.code == 5 and "RuntimeError: below zero\nin program 0 of scale on sip0.cube0.pe0, cycle 550\n" in said.err


def test_until_conditions_of_entries_are_refused(kbsim: Kbsim) -> None:
    said = kbsim("step", "scale.py", "--until", "end:3")
    assert (said.code, said.err) == (2, 'error: kbsim step: --until = "end:3", but no entry of the program has this id\n')


def test_jobs_of_kernels_have_their_op_and_their_line(kbsim: Kbsim) -> None:
    """Two loads of a PE are in flight, each with the line that issued it."""
    small = ("--set", "m=64", "--set", "n=64", "--set", "k=64", "--set", "block_n=32")
    said = json.loads(kbsim("step", "gemm", "-c", "single_cube", *small, "--cycles", "500", "--json").out)
    dma = next(engine for engine in said["engines"] if engine["name"] == "sip0.cube0.pe0.pe_dma")
    assert [(job["opcode"], job["line"].partition(":")[0]) for job in dma["jobs"]] == [("DMA_LOAD_TILE", "gemm.py")] * 2
    assert dma["jobs"][0]["id"] >= 0 and dma["line"] is None
