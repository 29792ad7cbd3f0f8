"""Machines with all additions to version 1 of the timing model that a machine can have together, and programs for them.

No machine has all of them: routers refuse caches, codecs and row buffers, row buffers refuse codecs and write-backs, and a host
that writes entries refuses a micro-scheduler. `MEMORIES` lists what transfers may meet; engines, clocks and costs are the same
with each of them. `additions` says which of them a machine has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.cache_strategies import give_cache, move_near, repeat_transfers
from tests.combined_strategies import give_codecs, give_host, give_jobs
from tests.machine_strategies import Draw, drawn_mma, drawn_routers, machines
from tests.row_strategies import (
    RULES,
    System,
    controllers,
    crowded_banks,
    dram_program,
    give_controller,
    give_rows,
    rows_of_dram,
)
from tests.sampled import sampled_from
from tests.strategies import crowds, programs
from tests.systems_of_pes import system_machines

MAX_CYCLES, WITH_ROUTERS = 20_000, 3_000
#: What a transfer meets on its way: DRAM rows and controllers behind a cache, a cache that writes back, routers, codecs.
MEMORIES = ("rows", "controllers", "cache", "routers")
BURSTS = ((64, 4), (32, 2), (16, 3), (96, 5))  # bytes and clocks


@st.composite
def npus_with_every_addition(draw: Draw, memories: tuple[str, ...] = (*MEMORIES, "codecs")) -> System:
    """One NPU: engines, clocks, costs and a host or a micro-scheduler, with one of `memories`."""
    machine = draw(machines().filter(lambda one: {"spm", "te", "ve"} <= one.keys()))
    machine["max_cycles"] = MAX_CYCLES
    if draw(sampled_from([True, True, False])):
        machine["spm"] = draw(crowded_banks())
    memory = draw(sampled_from(memories))
    if memory == "rows":
        give_rows(draw, machine, *draw(sampled_from(BURSTS)))
        machine["dram"]["row_buffer"] |= draw(sampled_from(RULES))
    elif memory == "controllers":
        give_controller(draw, machine)
    elif memory == "routers":
        _give_routers(draw, machine)
    elif memory == "codecs":
        machine["allocation"] = draw(sampled_from(["shared_bw_v1", "fifo_v1"]))
    if memory in ("rows", "controllers", "cache"):
        give_cache(draw, machine)
        machine["llc"] |= {"write": "back"} if memory == "cache" else {"write": "through"}
    _give_engines(draw, machine)
    kind = draw(sampled_from(["crowd", "crowd", "queue"]))
    program = draw(crowds(machine, work=True, least=5) if kind == "crowd" else programs(machine))
    if "llc" in machine:
        move_near(draw, machine, program)
        repeat_transfers(draw, program)
    if memory == "codecs":
        give_codecs(draw, machine, program)
    draw(sampled_from([give_host, give_jobs]))(draw, machine, program)
    return machine, program


@st.composite
def systems_with_every_addition(draw: Draw, memories: tuple[str, ...] = MEMORIES) -> System:
    """A system of PEs: the same."""
    system = draw(system_machines())
    system["max_cycles"] = MAX_CYCLES
    memory = draw(sampled_from(memories))
    cube, pe = system["cube"], system["pe"]
    if memory == "rows":
        system["allocation"] = "row_buffer_v1"
        cube["hbm"] |= rows_of_dram(draw, *draw(sampled_from(BURSTS)))
        cube["hbm"]["row_buffer"] |= draw(sampled_from(RULES))
    elif memory == "controllers":
        size = draw(sampled_from([64, 32, 16, 96]))
        system["allocation"] = "row_buffer_v2"
        cube["hbm"] |= {"interleave_bytes": size * draw(sampled_from([1, 2, 3])), "controller": draw(controllers(size))}
    elif memory == "routers":
        link = cube["mesh"]["link"].get("bytes_per_cycle", 128)
        width = pe.get("spm", {}).get("bank_width_bytes", 16)
        cube["mesh"] |= {"model": "flit", "flit": drawn_routers(draw, width, link, 2)}
        system["max_cycles"] = WITH_ROUTERS
    if memory != "routers":
        machine: dict[str, Any] = {}
        give_cache(draw, machine)
        cube["llc"] = machine["llc"] | ({"write": "back"} if memory == "cache" else {"write": "through"})
    _give_engines(draw, pe)
    program = dram_program(draw, system)
    if memory != "routers":
        repeat_transfers(draw, program)
    draw(sampled_from([give_host, give_jobs]))(draw, system, program)
    return system, program


#: Additions to version 1 of the model, and whether a machine has them: by its parts of a PE and of a cube, and the machine.
_ADDITIONS: dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], bool]] = {
    "row_buffer_v1": lambda pe, cube, all_: all_["allocation"] == "row_buffer_v1",
    "row_buffer_v2": lambda pe, cube, all_: all_["allocation"] == "row_buffer_v2",
    "llc": lambda pe, cube, all_: "llc" in cube,
    "routers": lambda pe, cube, all_: (cube.get("mesh") or cube.get("noc") or {}).get("model") == "flit",
    "codecs": lambda pe, cube, all_: bool(pe["dma"].get("codecs")),
    "host": lambda pe, cube, all_: "mmio" in all_["control"],
    "micro_scheduler": lambda pe, cube, all_: "micro_scheduler" in all_["control"],
    "round_robin": lambda pe, cube, all_: pe["spm"]["arbiter"] == "round_robin",
    "dma round_robin": lambda pe, cube, all_: pe["dma"].get("arbiter") == "round_robin",
    "overlapped fill": lambda pe, cube, all_: pe["te"].get("fill") == "overlapped",
    "overlapped drain": lambda pe, cube, all_: pe["te"].get("drain") == "overlapped",
    "operand stalls": lambda pe, cube, all_: "operand_bytes_per_cycle" in pe["te"],
    "mma": lambda pe, cube, all_: pe["te"]["timing"] == "mma",
    "clocks": lambda pe, cube, all_: "clock_ratio" in pe["te"] and "clock_ratio" in pe["ve"],
    "op costs": lambda pe, cube, all_: "op_cost" in pe["ve"],
}
ADDITIONS = frozenset(_ADDITIONS)


def additions(machine: dict[str, Any]) -> set[str]:
    """Those of ADDITIONS that a machine of this module has."""
    pe, cube = machine.get("pe", machine), machine.get("cube", machine)
    return {name for name, has in _ADDITIONS.items() if has(pe, cube, machine)}


def _give_routers(draw: Draw, machine: dict[str, Any]) -> None:
    """Let the machine have a mesh whose transfers move as flits."""
    engines, channels = machine["dma"]["engines"], machine["dram"]["channels"]
    rows, cols = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    tile = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1)).map(list)
    link = draw(sampled_from([2.5, 4, 7.919, 16, 64]))
    machine["noc"] = {
        "kind": "mesh", "rows": rows, "cols": cols, "link_bytes_per_cycle": link,
        "hop_latency_cycles": draw(sampled_from([0, 1, 2, 5])),
        "dma_at": [draw(tile) for _ in range(engines)], "dram_at": [draw(tile) for _ in range(channels)],
        "model": "flit", "flit": drawn_routers(draw, machine["spm"]["bank_width_bytes"], link),
    }  # fmt: skip
    machine["max_cycles"] = WITH_ROUTERS


def _give_engines(draw: Draw, pe: dict[str, Any]) -> None:
    """Overlapped folds with operand stalls or matrix instructions, clocks and costs, and banks that are granted in turn."""
    pe["spm"] = {**pe.get("spm", {}), "arbiter": draw(sampled_from(["round_robin", "round_robin", "oldest_first"]))}
    slower = {"clock_ratio": draw(sampled_from([0.75, "2/3"]))}
    pe["te"] = {**_without_timing(pe.get("te", {})), **draw(_tensor_engines()), **slower}
    costs = {"clock_ratio": draw(sampled_from(["2/3", 0.5])), "op_cost": {"exp": 4, "softmax": 2.5, "add": 3}}
    pe["ve"] = {**pe.get("ve", {}), **costs}


def _without_timing(te: dict[str, Any]) -> dict[str, Any]:
    timing = ("timing", "rows", "cols", "dataflow", "fill", "drain", "operand_bytes_per_cycle", "mma")
    return {key: value for key, value in te.items() if key not in timing}


@st.composite
def _tensor_engines(draw: Draw) -> dict[str, Any]:
    if draw(sampled_from([True, False, False])):
        return {"timing": "mma", "mma": drawn_mma(draw)}
    array = {"rows": draw(sampled_from([1, 2, 5])), "cols": draw(sampled_from([1, 3])), "fill": "overlapped"}
    array |= {"drain": draw(sampled_from(["exposed", "overlapped"]))}
    fed = {"operand_bytes_per_cycle": draw(sampled_from([2.5, 5]))}
    return {"timing": "systolic", "dataflow": draw(sampled_from(["os", "ws", "is"])), **array, **fed}
