"""What Phase 1 costs: CPU microseconds a block load and a product on 64 PEs, with the op log and without. No test."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kernbench.cmdq import Program
from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.triton_emu.kernel_system import kernel_system
from kernbench.triton_emu.launch import PeWork
from tests.speed.goals import Goal
from tests.speed.sample import Sample

PES = 64
GOAL_US = 2.0  # of CPU time a load or product; `wait_rows` has the goals with the op log
TILE, DTYPE, NBYTES = (64, 64), "f16", 8192
PRELOADED = 32  # tiles in memory


@cache
def kernel_rows(quick: bool = False) -> dict[str, Any]:
    """CPU microseconds an op, the simulation of its transfer or product included. They are measured once in a process."""
    ops = 100 if quick else 400
    rows: dict[str, Any] = {"pes": PES, "ops_per_pe": ops}
    for kernel in (loads, dots):
        for name, logged in (("logged", True), ("plain", False)):
            found = Sample(_cost(kernel, ops, logged) for _ in range(3 if quick else 5))
            rows[f"{kernel.__name__}_{name}_us"], rows[f"{kernel.__name__}_{name}_spread"] = found, found.spread
    return rows


def loads(first: int, count: int, tl: Any) -> None:
    """Blocks, one after the other, each waited for."""
    for i in range(count):
        tl.load(first + i % PRELOADED * NBYTES, TILE, DTYPE)


def dots(first: int, count: int, tl: Any) -> None:
    """Products that the engines do while the kernel goes on, until its queue is full."""
    a, b = (tl.load(first + i * NBYTES, TILE, DTYPE) for i in range(2))
    for _ in range(count):
        tl.dot(a, b)


def _cost(kernel: Callable[..., None], ops: int, logged: bool) -> float:
    """Microseconds of CPU an op, beyond those of launches that do nothing. Every PE has tiles of its own in its own slice."""
    return (run(kernel, ops, logged) - run(kernel, 0, logged)) / (ops * PES) * 1e6


def run(kernel: Callable[..., None], ops: int, logged: bool) -> float:
    """Seconds of CPU of one run."""
    config = load_config("sip_4x4", kind=SystemConfig)
    store = MemoryStore()
    bases = [_slice(config, pe) for pe in range(PES)]
    tile = np.ones(TILE, np.float16)
    for base in bases:
        for i in range(PRELOADED):
            store.write("hbm", base + i * NBYTES, tile)

    def body() -> None:
        names = list(system.runners)
        system.host.launch("it", [PeWork(names[pe], kernel, (bases[pe], ops)) for pe in range(PES)])

    system = kernel_system(config, body, store=store, log=OpLogger(store) if logged else None)
    machine = Machine(config, Program("kernels"), system.components, whole=True)
    system.bind(machine)
    gc.collect()
    before = time.process_time()
    machine.run()
    spent = time.process_time() - before
    assert machine.status == "done"
    return spent


def _slice(config: SystemConfig, pe: int) -> int:
    """The first byte of a PE's own slice of HBM."""
    cube, slice_number = divmod(pe, config.cube.pes)
    window = 1 << (config.cube.hbm.capacity_bytes - 1).bit_length()
    return cube * window + slice_number * (config.cube.hbm.capacity_bytes // config.slices)


def kernel_table(rows: dict[str, Any]) -> str:
    """The rows for a person."""
    what = f"CPU us an op on {rows['pes']} PEs"
    lines = [f"  {what:34} {'with the op log':>22} {'without':>13}"]
    for name in ("loads", "dots"):
        logged, plain = rows[f"{name}_logged_us"], rows[f"{name}_plain_us"]
        lines.append(f"  {name:34} {logged:14.1f} {logged.about:7} {plain:5.1f} {plain.about}")
    return "\n".join(lines)


def kernel_goals(rows: dict[str, Any]) -> list[Goal]:
    """Without the op log."""
    kinds = {"loads": "load", "dots": "product"}
    return [
        Goal(f"a kernel's {kind} on {PES} PEs, not logged", rows[f"{name}_plain_us"], GOAL_US, "us")
        for name, kind in kinds.items()
    ]


if __name__ == "__main__":
    print(json.dumps(kernel_rows(), indent=1))
