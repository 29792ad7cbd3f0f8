"""The core's ring of trace records, where nobody takes records out of it."""

from __future__ import annotations

import io
import json

import pytest

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sim_engine.recording.templates import line
from kernbench.workloads.catalogue import WORKLOADS
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


def lines_of_requests(window: int) -> list[bytes]:
    """Lines of accesses, conflicts and waits of the decode run."""
    config = load_config("npu_server")
    machine, out = Machine(config, WORKLOADS["llama2-7b-decode"](config)), io.BytesIO()
    tracing = machine.trace(out, TraceOptions("full", window))
    machine.run()
    tracing.close()
    kinds = (b"SRAM_ACCESS", b"MEM_ACCESS_EVENT", b"SRAM_CONFLICT", b"STALL_EVENT")
    starts = tuple(b'{"event_type":"%s"' % kind for kind in kinds)
    return [line for line in out.getvalue().splitlines() if line.startswith(starts)]


def test_the_order_of_lines_does_not_depend_on_batches() -> None:
    """Short windows: a batch of 64 cycles. A long one: of 32768 records, over more cycles than one digit of the sort holds."""
    assert lines_of_requests(64) == lines_of_requests(1 << 30)


def test_the_bank_of_an_access_is_that_of_its_first_byte() -> None:
    """Also where most of a run was asked for in a short loop: 128 bytes a line, 64 banks."""
    accesses = [json.loads(line) for line in lines_of_requests(1024)[:20_000] if b'"SRAM_ACCESS"' in line]
    assert len(accesses) > 5000
    assert [event["bank_id"] for event in accesses] == [event["addr"] // 128 % 64 for event in accesses]


def test_a_path_is_no_sink() -> None:
    program = load_program({"metadata": {"version": "1.0"}, "cmdq": [{"opcode": "NOP"}]})
    with pytest.raises(InputError, match=r"sink = .run.jsonl., but it must have a method write, like a binary file; pass open"):
        Machine(load_config({}), program).trace("run.jsonl")  # type: ignore[arg-type]


def test_every_character_of_an_event_is_written_as_json_writes_it() -> None:
    told = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    written = line("ERROR", 7, {"msg": told, "code": "DEADLOCK", "component": None, "job_id": 2**63 - 1})
    fields = {"event_type": "ERROR", "t_cycle": 7, "code": "DEADLOCK", "msg": told, "job_id": 2**63 - 1}
    names = list(json.loads(written))
    assert sorted(names) == sorted(fields)
    as_json = json.dumps({name: fields[name] for name in names}, ensure_ascii=False, separators=(",", ":"))
    assert written == as_json.encode() + b"\n"
