"""Engines of the jobs of graphs: a job does not wait behind others while another engine is free."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kernbench.cmdq.entries import TeEntry
from kernbench.cmdq.program import Program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.graphs.balance import balanced

MACHINE = load_config("npu_server")
PLACE = {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0}


def product(program: Program, engine: int, m: int, **fields: Any) -> int:
    sizes = {"m": m, "n": 128, "k": 128, "qbits_weight": 8, "qbits_activation": 8}
    return program.append("TE_GEMM_TILE", te_id=engine, **PLACE, **sizes, **fields)


def cycles(entries: list[Any]) -> int:
    program = Program("p")
    program.entries[:] = entries
    machine = Machine(MACHINE, program)
    machine.run()
    return machine.result().cycles


def test_a_job_goes_to_the_engine_that_is_free_first() -> None:
    """Two engines have long jobs, two short ones; the jobs that follow the short ones were given to engines with long jobs."""
    program = Program("p")
    for engine in range(4):
        product(program, engine, 1024 if engine < 2 else 128)
    for engine in range(2):
        product(program, engine, 256, deps_before=[engine + 2])
    program.end()
    other = balanced(program.entries, MACHINE)
    engines = [entry.te_id for entry in other if isinstance(entry, TeEntry)]
    assert engines == [0, 1, 2, 3, 2, 3]
    assert [entry.te_id for entry in program.entries[:-1]] == [0, 1, 2, 3, 0, 1]  # the program itself is as before
    assert cycles(other) < cycles(list(program.entries))


def test_equal_jobs_are_spread_evenly_and_nothing_else_changes() -> None:
    program = Program("p")
    for _ in range(8):
        product(program, 0, 128)
    program.end()
    other = balanced(program.entries, MACHINE)
    assert Counter(entry.te_id for entry in other[:-1]) == dict.fromkeys(range(4), 2)
    assert [(entry.id, entry.opcode, entry.deps_before) for entry in other] == [
        (entry.id, entry.opcode, entry.deps_before) for entry in program.entries
    ]
