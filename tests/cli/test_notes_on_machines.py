"""Notes on the machine of a run: each command that simulates a chip without calibration reports this on stderr."""

from __future__ import annotations

import pytest

from kernbench.config import board_names, chip_names, load_config
from kernbench.config.load import chip_of_board
from tests.cli.conftest import Kbsim

NOTE = "note: NVIDIA H100 80GB SXM5 (GH100) is not calibrated"
LENGTHS = ("--random-input-len", "16", "--random-output-len", "4")
SERVED = ("serve", "--model", "llama3-8b", "--request-rate", "4", "--num-prompts", "2", *LENGTHS)
LLM = ("llm", "--model", "llama3-8b", "--phase", "decode", "--tokens", "1", "--layers", "1")


@pytest.mark.parametrize(
    "command",
    [
        ("op", "matmul"),
        LLM,
        (*LLM, "--compare", "w=4,8"),
        SERVED,
        ("run", "vector_add", "--set", "n=64"),
    ],
    ids=["op", "llm", "llm_compare", "serve", "run"],
)
def test_a_chip_without_calibration_is_told(command: tuple[str, ...], kbsim: Kbsim) -> None:
    said = kbsim(*command, "-c", "h100")
    assert said.code == 0 and said.err.count(NOTE) == 1
    assert "calibrated" not in kbsim(*command, "-c", "a100").err


def test_so_is_a_board_of_such_chips(kbsim: Kbsim) -> None:
    for command in (("ccl", "run", "barrier", "-c", "h100_8x"), (*LLM, "--tp", "8", "-c", "h100_8x")):
        assert NOTE in kbsim(*command).err
    said = kbsim(*SERVED, "--tp", "8", "-c", "h100_8x").err
    assert NOTE in said and "--runtime vllm" in said
    assert "note" not in kbsim(*SERVED, "--tp", "8", "-c", "h100_8x", "-q").err


def test_values_of_a_served_machine_without_effect_are_told(kbsim: Kbsim) -> None:
    said = kbsim(*SERVED, "-c", "h100", "--set", "dram.interleave_bytes=512").err
    assert "warning: override dram.interleave_bytes=512" in said


@pytest.mark.parametrize("board", board_names())
def test_every_board_has_the_rates_of_its_chip(board: str) -> None:
    system = load_config(board)
    chip = load_config(chip_of_board(system))
    assert chip_of_board(system) in chip_names() and system.freq_ghz == chip.freq_ghz
    assert system.cube.hbm.peak_bw_bytes_per_cycle == chip.dram.peak_bw_bytes_per_cycle
    assert system.pe.te.macs_per_cycle == chip.te.macs_per_cycle


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("--a", "4"), "error: kbsim serve: --a = 4, but on a chip, activations have 8 or 16 bits"),
        (("--ep",), "error: kbsim serve: --ep = true, but on a chip, each rank has a share of every expert; leave out --ep"),
        (("--kv-cache-dtype", "int4"), "--kv-cache-dtype = 4, but on a chip, keys and values have 8 or 16 bits"),
    ],
)
def test_what_the_step_of_a_chip_does_not_take_is_refused(given: tuple[str, ...], rule: str, kbsim: Kbsim) -> None:
    said = kbsim(*SERVED, "-c", "h100", *given)
    assert said.code == 2 and rule in said.err
