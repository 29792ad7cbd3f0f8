"""A DRAM of a few bytes a second: skipping jumps from request to request, however many cycles lie between them.

A run has up to 3.7e11 cycles, so a walk that visits more than a small part of them does not end.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from kernbench.cmdq import load_program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine

SLOW = 6 * 10**7  #: cycles that a byte takes on a channel
BYTES = 256  #: of a transfer on each of the eight channels: a run of the interleave
#: what decides which fast path runs the scratchpad
MACHINES: dict[str, dict[str, Any]] = {
    "one port": {"spm.read_ports": 1, "spm.write_ports": 1},
    "two ports": {"spm.read_ports": 2, "spm.write_ports": 2},
    "one kind of ports": {"spm.read_ports": None, "spm.write_ports": None, "spm.ports": 2},
    "more banks than a word has bits": {"spm.num_banks": 128},
    "another arbiter": {"spm.arbiter": "round_robin"},
    "one at a time": {"allocation": "fifo_v1"},
    "progressive filling": {"allocation": "max_min_v1"},
}


def cycles(changes: dict[str, Any], transfers: int, cycles_a_byte: int, walk: Literal["plain", "fast"] = "fast") -> int:
    """[cycle] of transfers that each move `BYTES` on every channel, and of vector work at the beginning."""
    memory = {"dram.peak_bw_bytes_per_cycle": f"1/{cycles_a_byte}", "noc": None, "max_cycles": 1 << 60}
    size = 8 * BYTES
    entries: list[dict[str, Any]] = [
        {
            "opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": size, "dma_id": k % 4,
            "dram_addr": size * k, "spm_bank": 0, "spm_offset": 512 * k,
        }
        for k in range(transfers)
    ]  # fmt: skip
    places = {"in_bank": 0, "in_offset": 1 << 16, "out_bank": 0, "out_offset": 1 << 16}
    entries.append({"opcode": "VE_COPY_TILE", "length": 1024, "qbits_activation": 8, **places})
    program = load_program({"metadata": {"version": "1.0"}, "cmdq": entries})
    run = Machine(load_config("npu_server", changes | memory), program, walk=walk)
    run.run()
    assert run.status == "done"
    return run.result().cycles


@pytest.mark.parametrize("transfers", [1, 3, 24])
@pytest.mark.parametrize("machine", MACHINES)
def test_cycles_between_requests_take_no_time(machine: str, transfers: int) -> None:
    short = cycles(MACHINES[machine], transfers, 20, "plain")
    assert cycles(MACHINES[machine], transfers, SLOW) == short + transfers * BYTES * (SLOW - 20)
