"""The core's ring of trace records, where nobody takes records out of it."""

from __future__ import annotations

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.config import load_config
from kernbench_core import Core

BATCH = 1 << 15  # records, after which `Core.run` comes back
FIRST_ROOM = 1 << 16  # records
ACCESS = 3  # the level with an event a request


def long_load() -> Core:
    """A transfer of 100,000 requests: more records than two batches and the first room."""
    config = load_config({"schema": "kernbench/npu/1", "dram": {"dram_burst_cycles": 1}, "spm": {"bank_size_bytes": "1 MiB"}})
    load = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0}
    program = load_program({"metadata": {"version": "1.0", "name": "long"}, "cmdq": [load | {"num_elements": 6_400_000}]})
    return Core(lower_machine(config), lower_program(program, config))


def test_a_batch_is_what_is_new_in_the_ring() -> None:
    core = long_load()
    trace = core.tracer(ACCESS)
    core.run(1 << 40, trace=trace)
    before, cycle = len(trace), core.cycle
    assert before >= BATCH
    core.run(1 << 40, trace=trace)
    assert len(trace) >= before + BATCH
    assert core.cycle > cycle


def test_a_ring_takes_back_more_records_than_it_has_room_for_at_first() -> None:
    core = long_load()
    trace = core.tracer(ACCESS)
    while len(trace) <= FIRST_ROOM:
        core.run(1 << 40, trace=trace)
    records = trace.dump()
    again = core.tracer(ACCESS)
    again.load(records)
    assert again.dump() == records
