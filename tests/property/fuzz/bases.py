"""Sound machines and programs that inputs are made from: some written here, others drawn, the same for the same seed."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kernbench import Program
from tests.cli.samples import clash, stuck, tiles
from tests.row_strategies import row_systems
from tests.strategies import systems
from tests.system_rings import rings
from tests.systems_of_pes import systems_of_pes

T = TypeVar("T")
System = tuple[dict[str, Any], dict[str, Any]]  # a machine and a program on it
CYCLES = 1_000_000  #: that a run may take

SMALL: dict[str, Any] = {
    "schema": "kernbench/npu/1",
    "freq_ghz": 1.5,
    "max_cycles": CYCLES,
    "dma": {"engines": 2, "max_concurrent_transfers": 3, "queue_depth_per_master": 2},
    "dram": {"channels": 2, "capacity_bytes": "64 MiB", "t_setup_cycles": 10},
    "noc": {"rows": 2, "cols": 3, "link_bytes_per_cycle": 24, "dma_at": [[0, 0], [1, 2]], "dram_at": [[0, 1], [1, 1]]},
    "spm": {"num_banks": 8, "bank_size_bytes": "16 KiB"},
    "te": {"engines": 2, "macs_per_cycle": 256},
    "energy": {"static_mw": 100},
    "kv_layouts": [{"t_max": 64, "head_dim": 64}, {"t_max": 256, "head_dim": 128}],
}
GEMM = {"qbits_weight": 4, "qbits_activation": 8, "ifm_bank": 0, "ofm_bank": 4, "wgt_bank": 2}


def every_opcode() -> dict[str, Any]:
    """A program with an entry of each kind."""
    program = Program("every")
    place: dict[str, Any] = {"spm_bank": 0, "spm_offset": 0}
    kv: dict[str, Any] = {"head_id": 0, "kv_kind": "k", "dram_base_addr": 4096, "qbits_kv": 4, **place}
    tile = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=640, **place, debug={"a": [1, {"b": 2}]})
    program.dma_load(dma_id=1, tensor_role="kv", qbits=4, dram_addr=99, rows=3, row_elements=50, stride_bytes=70, **place)
    program.dma_store(tensor_role="kv", qbits=4, dram_addr=0, rows=3, row_elements=5, stride_bytes=7, **place, phase="decode")
    program.kv_store(**kv, t_start=0, t_len=9)
    program.kv_load(**kv, kv_range={"t_start": 1, "t_len": 5, "d_start": 2, "d_len": 6})
    offsets = {"ifm_offset": 0, "wgt_offset": 64, "ofm_offset": 128}
    made = program.te_gemm(m=16, n=24, k=40, **GEMM, **offsets, deps_before=[tile])
    ve: dict[str, Any] = {"qbits_activation": 8, "in_bank": 4, "in_offset": 128, "out_bank": 5, "out_offset": 0}
    program.ve_add(length=200, **ve, in2_bank=1, in2_offset=0, deps_before=[made])
    program.ve_softmax(length=64, batch=3, **ve)
    program.nop()
    program.barrier(wait_for=[tile], token=3)
    program.te_gemm(te_id=1, m=8, n=8, k=8, **GEMM, **offsets)
    program.end()
    return program.to_dict()


def limited(machine: dict[str, Any]) -> dict[str, Any]:
    """A machine whose runs end."""
    return {**machine, "max_cycles": min(machine.get("max_cycles", CYCLES), CYCLES)}


def drawn(strategy: st.SearchStrategy[T], count: int, number: int) -> list[T]:
    """Some examples of a strategy, the same for the same `number`."""
    found: list[T] = []

    @seed(number)
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(example: T) -> None:
        found.append(copy.deepcopy(example))

    collect()
    return found


@cache
def npu_systems(count: int, number: int) -> list[System]:
    """NPUs and programs: written ones, then drawn ones with every allocation and rows of DRAM."""
    samples = [(SMALL, every_opcode()), (SMALL, tiles().to_dict()), (SMALL, stuck().to_dict())]
    checked = {**SMALL, "spm": {**SMALL["spm"], "check_overlap": "error"}}
    samples.append((checked, clash().to_dict()))
    blocked = {**SMALL, "spm": {**SMALL["spm"], "map": "blocked", "read_ports": 2, "write_ports": 1, "num_banks": 32}}
    samples.append((blocked, every_opcode()))
    systolic = {**SMALL, "te": {"timing": "systolic", "rows": 8, "cols": 8, "dataflow": "os", "engines": 2}}
    samples.append((systolic, every_opcode()))
    samples += [({**SMALL, "allocation": way}, tiles().to_dict()) for way in ("max_min_v1", "fifo_v1")]
    more = drawn(systems(), count, number) + drawn(row_systems(), (count + 1) // 2, number)
    return samples + [(limited(machine), program) for machine, program in more]


@cache
def pe_systems(count: int, number: int) -> list[System]:
    """Systems of PEs and programs over them."""
    found = drawn(systems_of_pes(), max(1, count), number) + drawn(rings(), max(1, count // 4), number)
    return [(limited(machine), program) for machine, program in found]
