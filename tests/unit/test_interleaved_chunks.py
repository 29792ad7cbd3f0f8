"""A long transfer over several DRAM channels counts its requests on every scratchpad bank as the model does, cycle by cycle."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kernbench.cmdq import Program
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import Machine

WIDTH = 16  # [B] of a bank


def config(banks: int, chunk: int, channels: int) -> NpuConfig:
    """A machine with so many banks, and chunks of so many lines on each DRAM channel. Nothing denies the requests of a flow."""
    return load_config(
        "npu_mobile",
        {
            "spm.num_banks": banks, "spm.bank_width_bytes": WIDTH, "spm.bank_size_bytes": 65536, "spm.map": "interleaved",
            "spm.write_ports": channels, "dram.channels": channels, "dram.interleave_bytes": chunk * WIDTH,
        },
    )  # fmt: skip


def counters(machine: NpuConfig, program: Program, plain: bool) -> tuple[int, Any]:
    run = Machine(machine, program, walk="plain" if plain else "fast")
    run.run()
    result = run.result()
    assert result.status == "done"
    return result.cycles, result.counters


@pytest.mark.parametrize(("banks", "chunk", "channels"), list(product((2, 8), (1, 4, 16, 64), (1, 2, 4))))
def test_requests_of_chunks_are_counted_on_their_banks(banks: int, chunk: int, channels: int) -> None:
    for nbytes in (chunk * WIDTH * channels * 9 + 5, 7 * 1024 + WIDTH):
        program = Program("load")
        program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=nbytes, spm_bank=0, spm_offset=0)
        program.end()
        machine = config(banks, chunk, channels)
        assert counters(machine, program, False) == counters(machine, program, True)
