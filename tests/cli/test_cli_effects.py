"""What is said of a machine is what runs use: rates of the timing, and values that have no effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim

ARRAY = ("--set", "te.timing=systolic", "--set", "te.rows=128", "--set", "te.cols=128", "--set", "te.dataflow=ws")
PE_ARRAY = tuple(text.replace("te.", "pe.te.") for text in ARRAY)


@pytest.mark.parametrize(
    ("machine", "settings", "fact"),
    [
        ("npu_server", (), "TE 4 x 16,384 MAC, "),
        ("npu_mobile", ARRAY, "TE 2 x 16,384 MAC, "),
        ("npu_mobile", ("--set", "te.f_w.8=2"), "TE 2 x 4,096 MAC, "),
        ("single_cube", PE_ARRAY, "TE 8 x 16,384 MAC\n"),
    ],
)
def test_config_check_says_what_the_engines_do(machine: str, settings: tuple[str, ...], fact: str, kbsim: Kbsim) -> None:
    """`timing: systolic` was told with `te.macs_per_cycle`, which it does not use."""
    assert fact in kbsim("config", "check", machine, *settings).out


def test_topology_says_it_too(kbsim: Kbsim) -> None:
    assert "TE 1 x 16,384 MAC" in kbsim("topology", "show", "single_cube", *PE_ARRAY).out
    assert kbsim("topology", "draw", "single_cube", *PE_ARRAY, "--view", "pe", "--out", "pe.svg").code == 0
    assert "1 x 16,384 MAC" in Path("pe.svg").read_text()


def test_the_bound_of_a_model_is_that_of_the_cells(kbsim: Kbsim) -> None:
    """32 x 32 cells in each of two engines."""
    small = [text.replace("128", "32") for text in ARRAY]
    brief = ("llm", "-m", "llama2-7b", "-c", "npu_mobile", "--phase", "prefill", "--prompt", "8", "--layers", "1", "--json")
    found = [json.loads(kbsim(*brief, *small, "--set", f"te.macs_per_cycle={macs}").out) for macs in (16, 2048)]
    assert found[0] == found[1]
    phase = found[0]["phases"]["prefill"]
    assert phase["mac_bound"]["cycles"] == pytest.approx(phase["macs"] / 2048, rel=0.01)
