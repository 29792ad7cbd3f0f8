"""Queues between PEs on a machine that is easy to work with: what their tests share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernbench.config import SystemConfig, load_config
from kernbench.triton_emu.launch import PeWork
from kernbench.triton_emu.queues import NeighbourTable
from tests.kernels import Run

WIDE = 64  # [B/cycle] of every link
LATENCY = 14  # [cycle] between neighbours: 3 and 5 and 3 of links, and one of the wire of each
SCHEDULER, IPCQ, CREDIT = 1, 1, 2  # [cycle]


def row(pes: int = 2, **changed: Any) -> SystemConfig:
    """PEs in a row, each with a router: 64 B a cycle everywhere, no bank is ever short of ports."""
    keys = [f"{name.replace('__', '.')}={value}" for name, value in changed.items()]
    link = {"bytes_per_cycle": WIDE}
    mesh = {"rows": 1, "cols": pes, "link": {**link, "cycles": 5}, "router_cycles": 0}
    described = {
        "schema": "kernbench/system/1",
        "cube": {
            "pes": pes,
            "mesh": mesh,
            "hbm": {"channels": pes, "width_mm": 1, "height_mm": 1, "capacity_bytes": pes * 2**22, "t_setup_cycles": 0},
            "m_cpu": {"cycles": 0},
        },
        "pe": {
            "link": {**link, "cycles": 3},
            "cpu": {"cycles": 0},
            "spm": {"num_banks": 16, "bank_width_bytes": 64, "bank_size_bytes": 2**16, "read_ports": 8, "write_ports": 8},
            "te": {"init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False},
            "ve": {"init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False, "reduction_pipeline": 0},
        },
        "wires": {"mm_per_cycle": 1000, "board_mm_per_cycle": 1000},
    }
    return load_config(described, keys, kind=SystemConfig)


def names(pes: int) -> list[str]:
    return [f"sip0.cube0.pe{i}" for i in range(pes)]


def line(pes: int) -> NeighbourTable:
    """The next rank is in the east."""
    links: dict[int, dict[tuple[int, str], tuple[int, str]]] = {rank: {} for rank in range(pes)}
    for rank in range(pes - 1):
        links[rank][0, "E"] = (rank + 1, "W")
        links[rank + 1][0, "W"] = (rank, "E")
    return NeighbourTable(names(pes), links)


def ring(pes: int) -> NeighbourTable:
    """The same, and the first follows the last."""
    return NeighbourTable(
        names(pes), {r: {(0, "E"): ((r + 1) % pes, "W"), (0, "W"): ((r - 1) % pes, "E")} for r in range(pes)}
    )


def queued(
    kernel: Callable[..., Any],
    table: NeighbourTable,
    *args: Any,
    config: SystemConfig | None = None,
    memory: Mapping[int, Any] | None = None,
    **form: Any,
) -> Run:
    """A kernel on every rank of a table whose queues are installed before the run."""

    def body(host: Any) -> None:
        host.launch("it", [PeWork(pe, kernel, args) for pe in table.pes])

    run = Run(body=body, memory=memory, config=config or row(len(table.pes)))
    run.system.queues.install(table, **form)
    return run


def idle(tl: Any, cycles: int) -> None:
    """The kernel does nothing for so long."""
    if cycles:
        tl._runner.pause("idle", until=tl._runner.now + cycles)


def now(tl: Any) -> int:
    return int(tl._runner.now)
