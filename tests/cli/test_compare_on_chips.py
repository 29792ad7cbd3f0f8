"""`kbsim compare --runtime`, and boards of chips under a runtime profile."""

from __future__ import annotations

import json
import re

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.serving import generate
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.board import LLM, chip_under_profile
from kernbench.workloads.serving.machine_step import ChipStep, machine_step
from tests.cli.conftest import Kbsim

COMPARE = ("compare", "llama3.2-1b", "-c", "a100", "-c", "rtx4090", "--runtime", "vllm", "--set", "tokens=1")


def test_each_machine_has_the_times_of_its_own_run(kbsim: Kbsim) -> None:
    plain = json.loads(kbsim(*COMPARE, "--set", "batch=2", "--set", "w=8", "--json").out)
    sizes = {"prompt": 128, "tokens": 1, "batch": 2, "weight_bits": 8}
    runs = {name: generate("llama3.2-1b", name, "vllm", **sizes) for name in ("a100", "rtx4090")}
    assert [one["name"] for one in plain["machines"]] == list(runs)
    for one in plain["machines"]:
        run = runs[one["name"]]
        assert one["ttft_ns"] == pytest.approx(run.ttft_ns) and one["t_ns"] == pytest.approx(run.ttft_ns + run.tpot_ns)
        assert one["speedup"] == pytest.approx(plain["machines"][0]["t_ns"] / one["t_ns"])
    assert plain["fastest"] == min(plain["machines"], key=lambda one: one["t_ns"])["name"]
    assert (plain["batch"], plain["w"], plain["a"]) == (2, 8, 16)


def test_kernels_stand_beside_each_other(kbsim: Kbsim) -> None:
    text = kbsim(*COMPARE, "--set", "phase=decode").out
    assert "Kernels of a decode step" in text and "prefill" not in text and "TTFT" not in text
    row = next(line for line in text.splitlines() if "1 x 16384 x 2048" in line)
    assert len(re.findall(r"[0-9.]+ [um]s", row)) == 2
    assert "Kernels" not in kbsim(*COMPARE, "--no-why").out


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("compare", "gemm", "-c", "a100", "-c", "h100", "--runtime", "vllm"), "runs the kernels of a language model"),
        ((*COMPARE, "--set", "pp=2"), "pp = 2, but with --runtime"),
        ((*COMPARE, "--plot", "x.svg"), "leave out --plot, or leave out --runtime"),
        ((*COMPARE, "-c", "npu_server"), "this machine is no chip"),
        ((*COMPARE, "--set", "kv=4"), "keys and values have 8 or 16 bits"),
    ],
)
def test_what_does_not_fit_a_profile_is_refused(kbsim: Kbsim, given: tuple[str, ...], rule: str) -> None:
    ended = kbsim(*given)
    assert ended.code == 2 and rule in ended.err


def test_a_model_that_is_too_large_is_refused_in_the_words_of_the_place(kbsim: Kbsim) -> None:
    """34 GB of keys and values, and 2.5 GB of weights, on an RTX 4090 of 25 GB."""
    sizes = {"prompt": 16384, "tokens": 1, "batch": 64}
    settings = [part for name, value in sizes.items() for part in ("--set", f"{name}={value}")]
    ended = kbsim("compare", "llama3.2-1b", "-c", "a100", "-c", "rtx4090", "--runtime", "vllm", *settings)
    ways = "keys and values ({}{}=8), more chips ({}tp=2), a smaller batch ({}batch=42) or a shorter prompt ({}prompt=10860)"
    assert ended.code == 2 and ways.format("--set ", "kv", "--set ", "--set ", "--set ") in ended.err
    with pytest.raises(InputError) as refused:
        generate("llama3.2-1b", "rtx4090", **sizes)
    assert ways.format("", "kv_bits", "", "", "") in str(refused.value)
    for name, value in (("kv_bits", 8), ("tp", 2), ("batch", 42), ("prompt", 10860)):
        generate("llama3.2-1b", "rtx4090", phases=(), **(sizes | {name: value}))
    for name, value in (("batch", 43), ("prompt", 10861)):
        with pytest.raises(InputError, match="a chip has"):
            generate("llama3.2-1b", "rtx4090", phases=(), **(sizes | {name: value}))


def test_a_board_under_a_profile_has_the_times_of_its_chip() -> None:
    """A switch gives each chip its links; launches and steps are those of the profile."""
    board, chip = (generate("llama3.2-1b", name, "torch_eager", prompt=64, tokens=1, tp=4) for name in ("a100_8x", "a100"))
    assert board == chip and board.phases[-1].launches_ns > 0
    step = machine_step(load_model("llama3.2-1b"), load_config("a100_8x"), tp=2, runtime="vllm")
    assert isinstance(step, ChipStep) and step.host_ns(8, prompt=False) > 0


def test_collectives_use_the_links_that_a_chip_has_on_its_board() -> None:
    """Two Wormholes have one link of 25 GB/s between them; a chip in a torus of 2 x 4 has three neighbours."""
    for name, links, rate in (("wormhole_n300", 1, 25.0), ("tpuv5e_2x4", 3, 45.0)):
        machine = chip_under_profile(load_config(name), 2, spelling=LLM)
        assert machine is not None and machine.chip is not None
        assert (machine.chip.links, float(machine.chip.link_gb_s)) == (links, pytest.approx(rate))
    assert chip_under_profile(load_config("single_cube"), 1, spelling=LLM) is None


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("--tp", "16"), "the run needs 16 chips, but the board h100_8x has 8"),
        (("--set", "system.link.cycles=1"), "values that are set on the board have no effect"),
    ],
)
def test_a_board_refuses_what_its_chips_cannot_do(kbsim: Kbsim, given: tuple[str, ...], rule: str) -> None:
    for command in (("llm", "--tokens", "1"), ("serve", "--num-prompts", "4")):
        ended = kbsim(command[0], "--model", "llama3.2-1b", "-c", "h100_8x", "--runtime", "vllm", *command[1:], *given)
        assert ended.code == 2 and rule in ended.err
