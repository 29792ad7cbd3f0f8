"""Programs of segments that have the same run: their contents are equal, so the run is shared."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.cmdq.program import Program
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.llm.emitted import Emitted
from kernbench.workloads.llm.steps import Job, LlmPrograms, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision

TURN = 4 * 256  #: [B] after which the interleave of these machines begins again
CHANNELS = {"schema": "kernbench/npu/1", "dram": {"channels": 4, "interleave_bytes": 256}}
ROWS = {"schema": "kernbench/npu/1", "allocation": "row_buffer_v2", "dram": {"device": "ddr4_3200"}}


def program(address: int, weight: int = 8, size: int = 16, **meta: Any) -> Program:
    """A load, and a product that waits for it."""
    made = Program("content")
    load = made.dma_load(tensor_role="weight", qbits=8, dram_addr=address, spm_bank=0, spm_offset=0, num_elements=3000, **meta)
    made.te_gemm(
        m=size, n=size, k=size, qbits_weight=weight, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1, wgt_offset=0,
        ofm_bank=2, ofm_offset=0, deps_before=[load], **meta,
    )  # fmt: skip
    made.end()
    return made


def content(config: NpuConfig, made: Program) -> str:
    return Emitted(object(), lambda: made, config).content


def times(config: NpuConfig, made: Program) -> list[list[int]]:
    machine = Machine(config, made)
    machine.run()
    found: list[list[int]] = machine.time_table().tolist()
    return found


def machine(given: dict[str, Any]) -> NpuConfig:
    config = load_config(given)
    assert isinstance(config, NpuConfig)
    return config


@pytest.mark.parametrize("address", [0, 192, 256, 1000 * 64])
def test_whole_turns_of_the_channels_and_metadata_change_neither_content_nor_times(address: int) -> None:
    config, one, other = machine(CHANNELS), program(address), program(address + 7 * TURN, seq_len=5, token_idx=4, layer_id=2)
    assert content(config, one) == content(config, other)
    assert times(config, one) == times(config, other)


def test_another_first_channel_is_another_content() -> None:
    config = machine(CHANNELS)
    assert len({content(config, program(address)) for address in (0, 64, 256, 512)}) == 4


def test_another_width_of_weights_is_another_content_although_it_takes_the_same_cycles_and_bytes() -> None:
    config = machine(CHANNELS)
    wide, narrow = program(0, weight=8, size=1), program(0, weight=4, size=1)
    assert times(config, wide) == times(config, narrow)
    assert content(config, wide) != content(config, narrow)


def test_another_address_is_another_content_where_rows_of_the_dram_count() -> None:
    config = machine(ROWS)
    assert content(config, program(0)) != content(config, program(1 << 20))
    assert content(config, program(0)) == content(config, program(0, seq_len=5))


def test_the_embedding_is_shared_between_contexts_and_a_layer_is_not() -> None:
    found = {}
    for context in (128, 512):
        job = Job(prompt=context, tokens=1, phases=("decode",))
        programs = LlmPrograms(load_model("llama2-7b"), uniform_precision(w=4, a=8, kv=4), machine_of_layers(), job)
        for kind, segment in segments(programs).items():
            emitted = programs.emitted(segment)
            assert emitted is not None
            found[context, kind] = programs.run_content(emitted)
    assert found[128, "embedding"] == found[512, "embedding"]
    assert found[128, "layer"] != found[512, "layer"]


def machine_of_layers() -> NpuConfig:
    config = load_config("npu_server")
    assert isinstance(config, NpuConfig)
    return config


def segments(programs: LlmPrograms) -> dict[str, Segment]:
    """The first segment of each kind in the only step."""
    (step,) = programs.steps
    return {segment.kind: segment for segment in reversed(list(programs.segments(step))) if segment.kind != "head"}
