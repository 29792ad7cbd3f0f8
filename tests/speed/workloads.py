"""Benchmark machines: identical PEs in groups of eight, under three shapes of load.

A PE is a DMA engine, a TE, a VE and a scratchpad of 16 banks of 16-byte lines. A group of up to eight PEs sits on a 2x4 mesh
with four DRAM channels in its corners and shares nothing with other groups. `kernbench/npu/1` has one scratchpad and one
mesh a machine, so a group is lowered as such a machine and its tables are then rewired: each PE to its own scratchpad, each
group to its own resources. Only `route_path` says which resources a flow uses under `shared_bw_v1`, so that is enough.

Nothing waits for anything but its engine's queue. Addresses and tile sizes come from generators seeded by load and PE.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.config import load_config
from kernbench_core.numbers import Opkind

Tables = dict[str, Any]
Column = npt.NDArray[np.int64]

GROUP = 8  # PEs that share DRAM channels and a mesh
CHANNELS = 4
CORNERS = [[0, 0], [0, 3], [1, 0], [1, 3]]  # where the channels are on the 2x4 mesh
BANKS, LINE, BANK_BYTES = 16, 16, 64 << 10
BUS_BYTES = 64
INTERLEAVE = 4096  # [B] a 4 KiB tile is on one channel, one of 16 KiB is striped over four
TILES = (4 << 10, 8 << 10, 16 << 10)  # [B]
DRAM_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Load:
    """A shape of load: what a PE is made of, and the jobs that its engines repeat."""

    name: str
    about: str
    ports: int  # shared ports of a bank
    burst_cycles: int  # of a 64-byte bus word: a channel moves 64 / burst_cycles bytes per cycle
    in_flight: int  # transfers of a DMA engine at a time
    macs_per_cycle: int
    gemm: int  # m = n = k of every TE job
    lanes: int
    vector: str  # opcode of every VE job
    length: int  # its elements, of one byte
    tiles: tuple[int, ...] = TILES  # [B] sizes of transfers
    spm_step: int = LINE  # [B] scratchpad addresses of transfers are multiples of this
    penalty: int = 1
    max_wait: int = 8
    backpressure: int = 8

    @property
    def gemm_cycles(self) -> int:
        """Body cycles of a TE job."""
        return -(-(self.gemm**3) // self.macs_per_cycle)

    @property
    def vector_cycles(self) -> int:
        """A lower bound of the cycles of a VE job."""
        return -(-self.length // self.lanes)


LOADS = {
    load.name: load
    for load in (
        Load(
            name="dram",
            about="DRAM-bound: four transfers on 64 B/cycle; TE and VE touch few lines",
            ports=2,
            burst_cycles=1,
            in_flight=4,
            macs_per_cycle=512,
            gemm=256,
            lanes=8,
            vector="VE_COPY_TILE",
            length=65536,
        ),
        Load(
            name="compute",
            about="TE and VE stream ~10 lines a cycle; one transfer; few conflicts",
            ports=2,
            burst_cycles=4,
            in_flight=1,
            macs_per_cycle=4096,
            gemm=128,
            lanes=64,
            vector="VE_SOFTMAX_TILE",
            length=16384,
        ),
        Load(
            name="conflict",
            about="one port a bank: TE and VE as in compute, transfers as in dram",
            ports=1,
            burst_cycles=1,
            in_flight=4,
            macs_per_cycle=4096,
            gemm=128,
            lanes=64,
            vector="VE_SOFTMAX_TILE",
            length=16384,
        ),
    )
}


@dataclass(frozen=True)
class Jobs:
    """How many jobs each PE's engines have in their queues."""

    transfers: int
    gemms: int
    vectors: int


def jobs_for(load: Load, pes: int, cycles: int) -> Jobs:
    """Enough jobs to keep every engine busy for `cycles`; a PE may get twice its even share of the channels."""
    share = CHANNELS * BUS_BYTES / load.burst_cycles / min(pes, GROUP)
    return Jobs(
        transfers=int(2 * share * cycles) // (sum(load.tiles) // len(load.tiles)) + load.in_flight + 1,
        gemms=cycles // load.gemm_cycles + 2,
        vectors=cycles // load.vector_cycles + 2,
    )


def npu_machine(load: Load, pes: int) -> Tables:
    """A group of `pes` <= 8 PEs as a `kernbench/npu/1` machine; exact where it is one PE, for it has one scratchpad."""
    channel = {"max_concurrent": load.in_flight, "priority": 0, "weight": 1}
    compute = {"engines": pes, "init_cycles": 8, "finalize_cycles": 4, "spm_traffic": True}
    return {
        "schema": "kernbench/npu/1",
        "dma": {
            "engines": pes,
            "max_concurrent_transfers": load.in_flight,
            "alignment_bytes": 64,
            "channels": {"act_weight": channel},
        },
        "dram": {
            "channels": CHANNELS,
            "interleave_bytes": INTERLEAVE,
            "capacity_bytes": DRAM_BYTES,
            "bus_width_bytes": BUS_BYTES,
            "dram_burst_cycles": load.burst_cycles,
            "peak_bw_bytes_per_cycle": BUS_BYTES,
            "t_setup_cycles": 20,
        },
        "noc": {
            "kind": "mesh",
            "rows": 2,
            "cols": 4,
            "link_bytes_per_cycle": 64,
            "hop_latency_cycles": 2,
            "dma_at": [[place // 4, place % 4] for place in range(pes)],
            "dram_at": CORNERS,
        },
        "spm": {
            "num_banks": BANKS,
            "bank_size_bytes": BANK_BYTES,
            "bank_width_bytes": LINE,
            "map": "interleaved",
            "ports": load.ports,
            "conflict_penalty_cycles": load.penalty,
            "max_wait_cycles": load.max_wait,
            "backpressure_cycles": load.backpressure,
        },
        "te": {**compute, "macs_per_cycle": load.macs_per_cycle, "f_w": {8: 1}, "f_a": {8: 1}},
        "ve": {**compute, "lanes": load.lanes, "ops_per_lane": 1, "f_a": {8: 1}, "reduction_pipeline": 8, "sfu": {"exp": 0}},
    }


def cmdq(load: Load, jobs: Jobs, pes: range) -> Tables:
    """The program of the PEs of one group; `pes` are their numbers in the whole machine."""
    entries: list[Tables] = []
    for place, pe in enumerate(pes):
        # Each kind draws from its own generator: a longer program begins with the jobs of a shorter one.
        draw = {kind: random.Random(f"{load.name} pe{pe} {kind}") for kind in ("dma", "te", "ve")}
        entries += [_transfer(load, place, k, draw["dma"]) for k in range(jobs.transfers)]
        entries += [_gemm(load, place, draw["te"]) for _ in range(jobs.gemms)]
        entries += [_vector(load, place, draw["ve"]) for _ in range(jobs.vectors)]
    return {"metadata": {"version": "1.0", "name": load.name}, "cmdq": entries}


def _transfer(load: Load, place: int, number: int, draw: random.Random) -> Tables:
    nbytes = draw.choice(load.tiles)
    return {
        "opcode": "DMA_STORE_TILE" if number % 4 == 3 else "DMA_LOAD_TILE",
        "dma_id": place,
        "tensor_role": "activation",
        "qbits": 8,
        "num_elements": nbytes,
        "dram_addr": draw.randrange((DRAM_BYTES - nbytes) // INTERLEAVE) * INTERLEAVE,
        "spm_bank": draw.randrange(BANKS),
        "spm_offset": _offset(nbytes, draw) + draw.randrange(LINE // load.spm_step) * load.spm_step,
    }


def _gemm(load: Load, place: int, draw: random.Random) -> Tables:
    n = load.gemm
    entry: Tables = {"opcode": "TE_GEMM_TILE", "te_id": place, "m": n, "n": n, "k": n, "qbits_weight": 8, "qbits_activation": 8}
    for operand in ("ifm", "wgt", "ofm"):
        entry |= {f"{operand}_bank": draw.randrange(BANKS), f"{operand}_offset": _offset(n * n, draw)}
    return entry


def _vector(load: Load, place: int, draw: random.Random) -> Tables:
    entry: Tables = {"opcode": load.vector, "ve_id": place, "length": load.length, "qbits_activation": 8}
    for operand in ("in", "out"):
        entry |= {f"{operand}_bank": draw.randrange(BANKS), f"{operand}_offset": _offset(load.length, draw)}
    return entry


def _offset(nbytes: int, draw: random.Random) -> int:
    """A line's offset in its bank from which `nbytes` fit, whatever the bank."""
    rows = -(-nbytes // (BANKS * LINE)) + 2  # of banks; an unaligned start may reach into one more, a high bank into another
    return draw.randrange(BANK_BYTES // LINE - rows) * LINE


def core_tables(load: Load, pes: int, jobs: Jobs) -> tuple[Tables, Tables]:
    """(machine, program) of `pes` PEs for `kernbench_core.Core`.

    Engines stand group by group; of its resources a group has the four channels, then the links. Raises ValueError where
    `pes` is neither at most 8 nor a multiple of it.
    """
    size = min(pes, GROUP)
    if pes < 1 or pes % size:
        raise ValueError(f"pes = {pes}: it must be from 1 to {GROUP}, or a multiple of {GROUP}")
    groups = pes // size
    config = load_config(npu_machine(load, size))
    programs = [lower_program(load_program(cmdq(load, jobs, range(g * size, (g + 1) * size))), config) for g in range(groups)]
    return machine_of_groups(lower_machine(config), groups, size), program_of_groups(programs, size)


def machine_of_groups(one: Tables, groups: int, size: int) -> Tables:
    """The tables of `groups` times the machine `one`, every PE with its own scratchpad, every group with its own resources."""
    resources, steps = len(one["resource_num"]), len(one["route_path"])
    starts = [one["route_start"][:-1] + g * steps for g in range(groups)]
    return one | {
        "resource_num": np.tile(one["resource_num"], groups),
        "resource_den": np.tile(one["resource_den"], groups),
        "route_path": np.concatenate([one["route_path"] + g * resources for g in range(groups)]),
        "route_start": np.concatenate([*starts, np.array([groups * steps])]),
        "route_latency": np.tile(one["route_latency"], groups),
        "spm": one["spm"] * (groups * size),
        "dma": [{**engine, "spm": g * size + k} for g in range(groups) for k, engine in enumerate(one["dma"])],
        "compute": [
            {**engine, "id": g * size + engine["id"], "spm": g * size + engine["id"]}
            for g in range(groups)
            for engine in one["compute"]
        ],
    }


def program_of_groups(programs: list[Tables], size: int) -> Tables:
    """One program of the groups' programs, which have no dependencies."""
    entries = _starts([len(p["op"]) for p in programs])
    first_job = {
        Opkind.OP_DMA: _starts([len(p["dma"]["entry"]) for p in programs]),
        Opkind.OP_COMPUTE: _starts([len(p["compute"]["entry"]) for p in programs]),
    }
    job = [
        p["job"] + np.where(p["op"] == Opkind.OP_DMA, first_job[Opkind.OP_DMA][g], first_job[Opkind.OP_COMPUTE][g])
        for g, p in enumerate(programs)
    ]
    return {
        "op": np.concatenate([p["op"] for p in programs]),
        "job": np.concatenate(job),
        "waits": np.concatenate([p["waits"] for p in programs]),
        "after": np.zeros(sum(len(p["op"]) for p in programs) + 1, dtype=np.int64),
        "dependents": np.zeros(0, dtype=np.int64),
        "dma": _stacked([p["dma"] for p in programs], entries, size) | {"route": _routes(programs, size)},
        "compute": _stacked([p["compute"] for p in programs], entries, 2 * size),
    }


def _starts(lengths: list[int]) -> list[int]:
    return [sum(lengths[:k]) for k in range(len(lengths))]


def _routes(programs: list[Tables], size: int) -> Column:
    """Routes of the groups' transfers: a group has one for each of its engines, directions and channels."""
    return np.concatenate([p["dma"]["route"] + g * size * 2 * CHANNELS for g, p in enumerate(programs)])


def _stacked(tables: list[Tables], entries: list[int], engines: int) -> dict[str, Column]:
    """Jobs of all groups: engines and entries are renumbered, all else stays."""
    out = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    out["engine"] = np.concatenate([table["engine"] + g * engines for g, table in enumerate(tables)])
    out["entry"] = np.concatenate([table["entry"] + entries[g] for g, table in enumerate(tables)])
    return out
