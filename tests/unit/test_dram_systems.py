"""DRAM with rows and controllers in systems: transfers by hand, and kernels and collectives that are right by every walk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench import Machine, load_config, load_program
from kernbench.ccl.call import Call, Queues, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.registry import read_registry
from kernbench.config import SystemConfig
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run
from tests.unit.test_dram_controllers import ROW, TIMES
from tests.unit.test_row_buffers import TIMES as ROW_TIMES

PES = [f"sip0.cube0.pe{k}" for k in range(2)]


def machine(allocation: str = "row_buffer_v2", link: int = 64, **keys: Any) -> dict[str, Any]:
    """Two PEs and one slice with one channel; a link between the PEs' routers of so many bytes a cycle."""
    hbm: dict[str, Any] = {"slices": 1, "channels": 1, "width_mm": 1, "height_mm": 1}
    if allocation == "row_buffer_v2":
        hbm["controller"] = TIMES | keys
    else:
        hbm |= {"bus_width_bytes": 32, "dram_burst_cycles": 2, "row_buffer": ROW_TIMES | keys}
    mesh = {"rows": 1, "cols": 2, "link": {"bytes_per_cycle": link}}
    dma = {"alignment_bytes": 32, "channels": {"act_weight": {"max_concurrent": 8}}, "max_concurrent_transfers": 8}
    return {
        "schema": "kernbench/system/1",
        "allocation": allocation,
        "cube": {"pes": 2, "mesh": mesh, "hbm": hbm},
        "pe": {"dma": dma, "spm": {"ports": 16}},
    }


def load(address: int, size: int = 32, pe: int = 0, **more: Any) -> dict[str, Any]:
    entry = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": address, "node": PES[pe]}
    return entry | {"num_elements": size, "spm_bank": 0, "spm_offset": 0} | more


def send(size: int) -> dict[str, Any]:
    entry = {"opcode": "DMA_SEND_TILE", "tensor_role": "activation", "qbits": 8, "node": PES[0], "peer": PES[1]}
    return entry | {"num_elements": size, "spm_bank": 0, "spm_offset": 0, "peer_bank": 0, "peer_offset": 0}


def run(config: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    """The result, which is the same by every walk."""
    parsed = load_program({"metadata": {"version": "1.0", "name": "systems"}, "cmdq": list(entries)})
    found = []
    for walk, skip in (("plain", False), ("fast", False), ("fast", True)):
        made = Machine(load_config(config), parsed, walk=walk)
        made.run(skip=skip)
        found.append(made.result().to_dict())
    assert found[0] == found[1] == found[2]
    assert found[0]["status"] == "done"
    return found[0]


def ends(result: dict[str, Any]) -> list[int]:
    return [entry["end"] for entry in result["entries"]]


def head(config: dict[str, Any], *loads: dict[str, Any]) -> list[int]:
    """Head latencies of transfers, from runs of single ones under shared_bw_v1."""
    hbm = {key: value for key, value in config["cube"]["hbm"].items() if key not in ("controller", "row_buffer")}
    wide = {"bus_width_bytes": 64, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 64}
    fluid = config | {"allocation": "shared_bw_v1", "cube": config["cube"] | {"hbm": hbm | wide}}
    return [ends(run(fluid, one))[0] - 1 for one in loads]


def test_a_burst_comes_as_on_one_npu_behind_the_head_latency() -> None:
    """Last data in clock 31 (test_dram_controllers), and the route before it."""
    config = machine()
    (route,) = head(config, load(0))
    assert route > 0
    assert ends(run(config, load(0))) == [route + 31]


def test_bursts_of_two_pes_meet_in_a_bank() -> None:
    """PRE 35 (tRAS), ACT 49, RD 63 behind the first one's head latency: the second waits as on one NPU."""
    config, first, second = machine(), load(0), load(ROW, pe=1)
    near, far = head(config, first, second)
    assert near < far < near + 34
    result = run(config, first, second)
    assert ends(result) == [near + 31, near + 79]
    counts = result["counters"]["sip0.cube0.hbm_ctrl.ch0"]
    assert (counts["bursts"], counts["row_misses"], counts["row_conflicts"]) == (2, 1, 1)


@pytest.mark.parametrize("allocation", ["row_buffer_v1", "row_buffer_v2"])
def test_a_load_that_waits_for_its_row_takes_nothing_of_a_link(allocation: str) -> None:
    """Bytes between scratchpads have the whole link while a load over it waits for an activation of 200 clocks."""
    config = machine(allocation, link=8, t_rcd=200, t_ras=240)
    alone = ends(run(config, send(800)))
    assert ends(run(config, send(800), load(0, pe=1)))[0] == alone[0]
    shared = config | {"allocation": "shared_bw_v1"}
    shared["cube"] = config["cube"] | {"hbm": {"slices": 1, "channels": 1, "width_mm": 1, "height_mm": 1}}
    assert ends(run(shared, send(800), load(0, 800, pe=1)))[0] > ends(run(shared, send(800)))[0]



SYSTEM = {"schema": "kernbench/system/1"}
RULES = [["allocation=row_buffer_v2", "cube.hbm.device=hbm3_6400"], ["allocation=row_buffer_v2", "cube.hbm.device=hbm2_2000"]]
A = np.arange(4096, dtype=np.float32).reshape(64, 64)


def rows_v1() -> SystemConfig:
    hbm = {"bus_width_bytes": 32, "dram_burst_cycles": 2, "row_buffer": ROW_TIMES}
    return load_config(SYSTEM | {"allocation": "row_buffer_v1", "cube": {"hbm": hbm}}, kind=SystemConfig)


CONFIGS = [*(load_config(SYSTEM, rule, kind=SystemConfig) for rule in RULES), rows_v1()]


@pytest.mark.parametrize("config", CONFIGS, ids=["hbm3", "hbm2", "rows"])
def test_a_kernel_loads_and_stores(config: SystemConfig) -> None:
    def body(host: Any) -> None:
        host.launch("adds", [PeWork(pe, adds, (1 << 20,), (i,), (2,)) for i, pe in enumerate(PES)])

    def adds(out: int, tl: Any) -> None:
        x = tl.load(0, (64, 64), "f32")
        tl.store(out + (1 << 15) * tl.program_id(), x + float(tl.program_id()))

    made = Run(body=body, memory={0: A}, config=config)
    made.run()
    store = DataExecutor(made.log).run().store  # type: ignore[arg-type]
    for i in range(2):
        assert np.array_equal(store.read("hbm", (1 << 20) + (1 << 15) * i, (64, 64), "f32"), A + i)
    counters = made.machine.result().to_dict()["counters"]
    bursts = sum(one.get("bursts", 0) for name, one in counters.items() if ".hbm_ctrl.ch" in name and "-" not in name)
    assert bursts >= 2 * A.nbytes // 32  # the loads; stores may wait in a queue at the end


@pytest.mark.parametrize("config", CONFIGS, ids=["hbm3", "hbm2", "rows"])
@pytest.mark.parametrize("tier", ["tcm", "hbm"])
def test_a_collective_is_right(config: SystemConfig, tier: str) -> None:
    entry = next(one for one in read_registry().entries if one.collective == "all_reduce")
    group = group_of(config, shape_for(config, 4), None)
    made = Call(entry.full_name, entry.load(), group, 3000, "f16", 4096, ())
    found = run_call(config, made, COLLECTIVES["all_reduce"], Queues(4, 4096, tier), check=True)
    assert found.wrong == 0
