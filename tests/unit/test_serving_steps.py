"""Steps of a served model on NPUs and systems: a batch that the memory cannot hold is timed too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.blocks.timer import StepTimer
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.serving.machine_step import machine_step

TINY = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
    "vocab_size": 64, "head_dim": 32,
}  # fmt: skip
BATCH = [Sequences(512, 0), Sequences(1, 512, 3)]
KEYS = {"npu_server": "dram.capacity_bytes", "single_cube": "cube.hbm.capacity_bytes"}


@pytest.fixture
def tiny(tmp_path: Path) -> Model:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    return load_model(str(tmp_path / "tiny.json"))


@pytest.mark.parametrize(("machine", "key"), KEYS.items())
def test_a_batch_beyond_the_memory_takes_what_it_takes_with_enough(machine: str, key: str, tiny: Model) -> None:
    small, large = (load_config(machine, {key: size}) for size in ("1MiB", "64MiB"))
    step = machine_step(tiny, small)
    assert step.device_ns(BATCH) == machine_step(tiny, large).device_ns(BATCH) > 0
    assert step.energy_pj(BATCH) == machine_step(tiny, large).energy_pj(BATCH)
    assert step.memory_bytes() * (8 if machine == "single_cube" else 1) == 2**20


@pytest.mark.parametrize(("machine", "key"), KEYS.items())
def test_a_timer_refuses_it_unless_any_size_is_asked_for(machine: str, key: str, tiny: Model) -> None:
    timer = StepTimer(tiny, uniform_precision(tiny.stated), load_config(machine, {key: "256KiB"}))
    with pytest.raises(InputError, match=key):
        timer.step_cycles(BATCH)
