"""Machines and programs that are made here, each crowded in its own way: short ones to be traced, long ones to be run."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from tests.golden.test_system_numbers import PE0, PE1, PE2, SRAM, SYSTEM, copy, move, pair
from tests.speed.workloads import LOADS, Jobs, cmdq, jobs_for, npu_machine
from tests.unit.test_row_buffers import TIMES
from tests.workload_programs import TINY_CASES

Tables = dict[str, Any]
SHORT = Jobs(transfers=16, gemms=2, vectors=1)  # of each PE, to be traced
LONG = 20_000  # [cycle] that the engines of a dense load have work for, about


class Dense(NamedTuple):
    """Engines that are always busy: a shape of load, how many PEs on one scratchpad, and what differs of the machine."""

    load: str
    pes: int
    sections: Tables


def _channels(*weights: int) -> Tables:
    names = ("act_weight", "kv_load", "kv_store")
    pairs = enumerate(zip(names, weights, strict=True))
    return {name: {"max_concurrent": 4, "priority": i, "weight": weight} for i, (name, weight) in pairs}


SPLIT = {"ports": None, "read_ports": 1, "write_ports": 1}
ROWS = {"bus_width_bytes": 32, "dram_burst_cycles": 2, "interleave_bytes": 1024, "row_buffer": TIMES}
PRESSED = {"queue_bursts": 3, "buffer_bursts": 2, "batch_bursts": 2, "t_refi": 900, "t_rfc": 60, "row_bytes": 256}
DENSE = {
    "dram": Dense("dram", 1, {}),
    "compute": Dense("compute", 1, {}),
    "conflict": Dense("conflict", 1, {}),
    "two_engines": Dense("conflict", 2, {}),
    "three_engines": Dense("compute", 3, {"spm": {"max_wait_cycles": 2, "backpressure_cycles": 3}}),
    "blocked": Dense("conflict", 1, {"spm": {"map": "blocked", "num_banks": 4, "bank_size_bytes": 1 << 18}}),
    "one_bank": Dense("compute", 1, {"spm": {"num_banks": 1, "bank_size_bytes": 1 << 20, "conflict_penalty_cycles": 3}}),
    "two_banks_split": Dense("conflict", 1, {"spm": {**SPLIT, "num_banks": 2, "bank_size_bytes": 1 << 19}}),
    "split_fifo": Dense("conflict", 2, {"allocation": "fifo_v1", "spm": SPLIT}),
    "max_min_weights": Dense("dram", 2, {"allocation": "max_min_v1", "dma": {"channels": _channels(7, 3, 2)}}),
    "max_min_conflict": Dense("conflict", 2, {"allocation": "max_min_v1", "spm": {"backpressure_cycles": 1}}),
    "weights": Dense("conflict", 2, {"dma": {"channels": _channels(9, 6, 1), "queue_depth_per_master": 2}}),
    "odd": Dense(
        "conflict",
        1,
        {
            "dma": {"alignment_bytes": 48},
            "dram": {"channels": 5, "interleave_bytes": 96, "bus_width_bytes": 56, "dram_burst_cycles": 3},
            "noc": None,
            "spm": {"num_banks": 7, "bank_width_bytes": 24, "bank_size_bytes": 24 * 10_000},
        },
    ),
    "many_banks": Dense("conflict", 2, {"spm": {"num_banks": 96}}),
    "twelve_channels": Dense("dram", 1, {"dram": {"channels": 12, "interleave_bytes": 256}, "noc": None}),
    "overlap_error": Dense("compute", 1, {"spm": {"check_overlap": "error"}}),
    "overlap_warn": Dense("conflict", 2, {"spm": {"check_overlap": "warn"}}),
    "rows": Dense("dram", 1, {"allocation": "row_buffer_v1", "dram": ROWS}),
    "rows_pressed": Dense(
        "conflict",
        2,
        {
            "allocation": "row_buffer_v1",
            "dram": {**ROWS, "row_buffer": TIMES | PRESSED, "channels": 2},
            "noc": None,
            "spm": {"num_banks": 3, "bank_size_bytes": 1 << 19, "max_wait_cycles": 2, "backpressure_cycles": 2},
        },
    ),
    "rows_split": Dense("conflict", 1, {"allocation": "row_buffer_v1", "dram": ROWS, "spm": SPLIT}),
    "periods": Dense("conflict", 1, {"dram": {"period": 3}, "te": {"period": 2}, "ve": {"period": 5}}),
    "issue_width": Dense("conflict", 2, {"control": {"issue_width": 1}, "dma": {"queue_depth_per_master": 1}}),
    "systolic": Dense("compute", 1, {"te": {"timing": "systolic", "rows": 16, "cols": 16, "dataflow": "ws"}}),
}


def dense(name: str, short: bool) -> tuple[Tables, Tables]:
    """(machine, program) of one of DENSE, with few jobs or many."""
    kind = DENSE[name]
    load = LOADS[kind.load]
    machine = npu_machine(load, kind.pes)
    for section, values in kind.sections.items():
        if isinstance(values, dict):
            merged = {**machine.get(section, {}), **values}
            machine[section] = {key: value for key, value in merged.items() if value is not None}
        elif values is None:
            del machine[section]
        else:
            machine[section] = values
    program = cmdq(load, SHORT if short else jobs_for(load, kind.pes, LONG), range(kind.pes))
    for entry in program["cmdq"]:
        for key in entry:
            if key.endswith("_bank"):
                entry[key] %= machine["spm"]["num_banks"]
    return machine, program


#: Sections of the small system whose times are worked out by hand, and what its scratchpads have.
SYSTEMS: dict[str, tuple[str, Tables]] = {
    "system": ("shared_bw_v1", {}),
    "system_fifo": ("fifo_v1", {"map": "blocked", "backpressure_cycles": 2}),
    "system_max_min": ("max_min_v1", {"num_banks": 2, "bank_size_bytes": 2048, "backpressure_cycles": 1}),
    "system_split": ("shared_bw_v1", {"read_ports": 1, "write_ports": 1, "conflict_penalty_cycles": 2, "max_wait_cycles": 3}),
    "system_one_bank": ("max_min_v1", {"num_banks": 1, "bank_size_bytes": 4096, "ports": 2, "backpressure_cycles": 3}),
}


def system(name: str, count: int) -> tuple[Tables, Tables]:
    """(machine, program) of one of SYSTEMS: moves of every kind over its three PEs, and engines in their way."""
    allocation, spm = SYSTEMS[name]
    pe = {**SYSTEM["pe"], "spm": {**SYSTEM["pe"]["spm"], **spm}}
    draw = random.Random(f"same {name}")
    entries = [_entry(draw, pe["spm"]["num_banks"], pe["spm"]["bank_size_bytes"]) for _ in range(count)]
    for i, entry in enumerate(entries):
        if i > 4 and draw.randrange(4) == 0:
            entry["deps_before"] = [i - draw.randrange(1, 5)]
    machine = {**SYSTEM, "allocation": allocation, "pe": pe}
    return machine, {"metadata": {"version": "1.0", "name": name}, "cmdq": entries}


def _entry(draw: random.Random, banks: int, bank_bytes: int) -> Tables:
    node, peer = draw.sample([PE0, PE1, PE2], 2)
    nbytes = draw.randrange(1, 400)
    kind = draw.randrange(8)
    if kind < 2:
        opcode = draw.choice(["DMA_LOAD_TILE", "DMA_STORE_TILE"])
        entry = move(opcode, node, _address(draw), nbytes)
    elif kind < 5:
        entry = pair(draw.choice(["DMA_SEND_TILE", "DMA_RECV_TILE"]), node, peer, nbytes)
    elif kind == 5:
        return copy(draw.choice(["to_device", "to_host"]), _address(draw), nbytes)
    elif kind == 6:
        shape = {"m": draw.randrange(1, 12), "n": 8, "k": 16, "qbits_weight": 8, "qbits_activation": 8}
        entry = {"opcode": "TE_GEMM_TILE", "node": node, **shape, **{f"{what}_bank": 0 for what in ("ifm", "wgt", "ofm")}}
    elif draw.randrange(4) == 0:
        return {"opcode": "LAUNCH"}
    else:
        entry = {"opcode": "VE_SOFTMAX_TILE", "node": node, "length": nbytes, "qbits_activation": 8}
        entry |= {"in_bank": 0, "out_bank": 0}
    for key in [key for key in entry if key.endswith("_bank")]:
        entry[key] = draw.randrange(banks)
        entry[key.replace("_bank", "_offset")] = draw.randrange(bank_bytes // 4 // 16) * 16
    return entry


def _address(draw: random.Random) -> int:
    """Of at least 512 bytes of a slice or of the SRAM."""
    return draw.choice([0, 1024, 2048, SRAM]) + draw.randrange(512)


def layers() -> dict[str, tuple[Tables, Tables]]:
    """Decoder layers on machines on which they barely fit."""
    return {f"layer_{name}": (case.machine, case.program().to_dict()) for name, case in TINY_CASES.items()}
