"""Systems with every addition to version 1 of the timing model switched on at once, and programs over their PEs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import Draw, drawn_mma
from tests.row_strategies import System, controllers
from tests.sampled import sampled_from
from tests.system_programs import system_programs
from tests.systems_of_pes import system_machines


@st.composite
def systems_with_every_addition(draw: Draw) -> System:
    """DRAM controllers, banks that are granted in turn, overlapped folds or matrix instructions, clocks and costs of engines.

    An addition that has an oracle gets its line here when it is added.
    """
    system = draw(system_machines())
    size = draw(sampled_from([64, 32, 16, 96]))
    system["allocation"] = "row_buffer_v2"
    system["max_cycles"] = 20_000
    hbm: dict[str, Any] = system["cube"]["hbm"]
    hbm |= {"interleave_bytes": size * draw(sampled_from([1, 2, 3])), "controller": draw(controllers(size))}
    pe: dict[str, Any] = system["pe"]
    pe["spm"] = {**pe.get("spm", {}), "arbiter": "round_robin"}
    slower = {"clock_ratio": draw(sampled_from([0.75, "2/3"]))}
    pe["te"] = {**_without_timing(pe.get("te", {})), **draw(_tensor_engines()), **slower}
    costs = {"clock_ratio": draw(sampled_from(["2/3", 0.5])), "op_cost": {"exp": 4, "softmax": 2.5, "add": 3}}
    pe["ve"] = {**pe.get("ve", {}), **costs}
    return system, draw(system_programs(system))


def _without_timing(te: dict[str, Any]) -> dict[str, Any]:
    timing = ("timing", "rows", "cols", "dataflow", "fill", "drain", "operand_bytes_per_cycle", "mma")
    return {key: value for key, value in te.items() if key not in timing}


@st.composite
def _tensor_engines(draw: Draw) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"timing": "mma", "mma": drawn_mma(draw)}
    array = {"rows": draw(sampled_from([1, 2, 5])), "cols": draw(sampled_from([1, 3])), "fill": "overlapped"}
    array |= {"drain": draw(sampled_from(["exposed", "overlapped"]))}
    fed = {"operand_bytes_per_cycle": draw(sampled_from([2.5, 5]))}
    return {"timing": "systolic", "dataflow": draw(sampled_from(["os", "ws", "is"])), **array, **fed}
