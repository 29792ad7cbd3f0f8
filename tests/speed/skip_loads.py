"""Loads that skipping is for: engines that are idle nearly always, and long transfers whose shares stay.

Both run on one group of eight PEs of tests/speed/workloads.py, and end by themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.config import load_config
from tests.speed.workloads import GROUP, LOADS, Jobs, Load, Tables, cmdq, machine_of_groups, npu_machine

SPARSE = replace(LOADS["compute"], name="sparse", about="one of 24 engines works at a time, the others wait for it", gemm=256)
SHORT = replace(LOADS["compute"], name="short", about="the same with a GEMM of an eighth of the work")
STABLE = replace(
    LOADS["dram"],
    name="stable",
    about="two transfers of 512 KiB a PE, begun together; no TE or VE works",
    in_flight=2,
    tiles=(512 << 10,),
)


def sparse_tables(load: Load, rounds: int) -> tuple[Tables, Tables]:
    """Each PE in turn loads a tile, works on it and stores it, `rounds` times: an entry waits for the one before it."""
    queues = [cmdq(load, Jobs(4 * rounds, rounds, rounds), range(pe, pe + 1))["cmdq"] for pe in range(GROUP)]
    chain: list[dict[str, Any]] = []
    for turn in range(rounds):
        for pe, entries in enumerate(queues):
            transfers, gemms, vectors = entries[: 4 * rounds], entries[4 * rounds : 5 * rounds], entries[5 * rounds :]
            for entry in (transfers[4 * turn], gemms[turn], vectors[turn], transfers[4 * turn + 3]):
                engine = next(key for key in ("dma_id", "te_id", "ve_id") if key in entry)
                waits = {"deps_before": [len(chain) - 1]} if chain else {}
                chain.append({**entry, engine: pe, "id": len(chain), **waits})
    return _group(load, chain)


def stable_tables(rounds: int) -> tuple[Tables, Tables]:
    """Every PE's two transfers stand side by side, `rounds` times."""
    return _group(STABLE, cmdq(STABLE, Jobs(2 * rounds, 0, 0), range(GROUP))["cmdq"])


def _group(load: Load, entries: list[dict[str, Any]]) -> tuple[Tables, Tables]:
    config = load_config(npu_machine(load, GROUP))
    program = load_program({"metadata": {"version": "1.0", "name": load.name}, "cmdq": entries})
    return machine_of_groups(lower_machine(config), 1, GROUP), lower_program(program, config)
