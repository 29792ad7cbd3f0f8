"""Small, nasty machines with DRAM rows (`allocation: row_buffer_v1`), and programs for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kernbench.config.dram_controller import PAGES
from kernbench.config.dram_controller import SCHEDULERS as CONTROLLER_SCHEDULERS
from kernbench.config.dram_device import ADDRESS_MAPS, PAGE_POLICIES, SCHEDULERS
from tests.machine_strategies import drawn_arbiter, machines
from tests.sampled import sampled_from
from tests.strategies import crowds, programs
from tests.system_programs import system_programs
from tests.systems_of_pes import system_machines

RULES: list[dict[str, str]] = [  # of a controller; one machine in five names none
    *({} for _ in range(3)),
    *({"scheduler": one, "page": two, "map": three} for one in SCHEDULERS for two in PAGE_POLICIES for three in ADDRESS_MAPS),
]
#: Opcodes of transfers with DRAM, and those that may repeat one with the same fields.
_MOVE = ("DMA_LOAD_TILE", "DMA_STORE_TILE", "DMA_STORE_TILE")
MOVES: dict[str, tuple[str, ...]] = {
    "DMA_LOAD_TILE": _MOVE, "DMA_STORE_TILE": _MOVE, "DMA_PREFETCH_TILE": ("DMA_LOAD_TILE", "DMA_PREFETCH_TILE"),
    "KV_LOAD_TILE": ("KV_LOAD_TILE",), "HOST_COPY_TILE": ("HOST_COPY_TILE",),
}  # fmt: skip
Draw = Any  # the `draw` of a composite strategy: its type depends on what is drawn
System = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def row_systems(draw: Draw) -> System:
    """A machine whose DRAM has rows, few and small enough that bursts meet in banks, and a program that is valid on it."""
    machine = draw(machines())
    size, burst = draw(sampled_from([(64, 4), (32, 2), (64, 1), (16, 3), (96, 5), (8, 1)]))
    give_rows(draw, machine, size, burst)
    machine["dram"]["row_buffer"] |= draw(sampled_from(RULES))
    return machine, draw(programs(machine))


@st.composite
def pressed_row_systems(draw: Draw) -> System:
    """Flows leave the bus for backpressure and come back all the time, and the controller has room for few bursts.

    One to three cycles of backpressure, scratchpads of few banks and ports, buffers and queues of one to four bursts, widths
    and alignments that are no powers of two, several DMA engines and channels. Refresh leaves room for bursts, so that every
    program ends.
    """
    machine = draw(machines())
    machine["max_cycles"] = 100_000
    size, burst = draw(sampled_from([(16, 2), (24, 3), (20, 3), (3, 1), (7, 2), (48, 5), (64, 4), (9, 1), (1, 1)]))
    give_rows(draw, machine, size, burst)
    rows = machine["dram"]["row_buffer"]
    enough = burst + sum(value for name, value in rows.items() if name[:2] == "t_" and name != "t_refi")
    rows["t_refi"] = draw(sampled_from([0, 0, enough, 500 + enough]))
    rows |= {name: draw(st.integers(1, 4)) for name in ("queue_bursts", "buffer_bursts")}
    engines = machine["dma"]["engines"] = draw(sampled_from([1, 2, 2, 3, 4]))
    if "noc" in machine:
        machine["noc"]["dma_at"] = (machine["noc"]["dma_at"] * engines)[:engines]
    machine["dma"]["alignment_bytes"] = draw(sampled_from([1, 3, 8, 12, 24, 24, 40, 48, 100]))
    machine["spm"] = draw(crowded_banks())
    program = draw(crowds(machine, work=draw(st.booleans()), least=5))
    rows |= draw(sampled_from(RULES))
    return machine, program


@st.composite
def row_systems_of_pes(draw: Draw) -> System:
    """A system whose stacks have rows, and a program over its PEs."""
    system = draw(system_machines())
    size, burst = draw(sampled_from([(64, 4), (32, 2), (64, 1), (16, 3), (96, 5), (8, 1), (9, 1)]))
    hbm = system["cube"]["hbm"]
    system["allocation"] = "row_buffer_v1"
    hbm |= rows_of_dram(draw, size, burst)
    hbm["row_buffer"] |= draw(sampled_from(RULES))
    if draw(st.booleans()):
        hbm["row_buffer"] |= {name: draw(st.integers(1, 4)) for name in ("queue_bursts", "buffer_bursts")}
    return system, dram_program(draw, system)


def rows_of_dram(draw: Draw, size: int, burst: int) -> dict[str, Any]:
    """The keys of a DRAM with rows, and bursts of so many bytes and DRAM clocks."""
    return {
        "interleave_bytes": size * draw(sampled_from([1, 2, 3, 8])),
        "bus_width_bytes": size,
        "dram_burst_cycles": burst,
        "peak_bw_bytes_per_cycle": 256,
        "row_buffer": draw(row_buffers(size, burst)),
    }


def give_rows(draw: Draw, machine: dict[str, Any], size: int, burst: int) -> None:
    """Let the machine's DRAM have rows, and bursts of so many bytes and DRAM clocks."""
    machine["allocation"] = "row_buffer_v1"
    machine["dram"] |= {"channels": draw(sampled_from([1, 1, 2, 3])), **rows_of_dram(draw, size, burst)}
    if "noc" in machine:
        machine["noc"]["dram_at"] = [machine["noc"]["dram_at"][0]] * machine["dram"]["channels"]


@st.composite
def crowded_banks(draw: Draw) -> dict[str, Any]:
    """A scratchpad in which transfers deny each other banks."""
    banks, width = draw(sampled_from([1, 2, 2, 3, 5])), draw(sampled_from([1, 3, 4, 4, 6, 8, 20]))
    ports = draw(sampled_from([{"ports": 1}, {"ports": 1}, {"read_ports": 1, "write_ports": 1}, {"ports": 2}]))
    return ports | {
        "num_banks": banks,
        "bank_size_bytes": -(-4096 // (banks * width)) * width,
        "bank_width_bytes": width,
        "map": draw(sampled_from(["interleaved", "interleaved", "blocked"])),
        "conflict_penalty_cycles": draw(sampled_from([1, 2, 3, 7])),
        **drawn_arbiter(draw),
        "max_wait_cycles": draw(sampled_from([1, 2, 4, 8, 40])),
        "backpressure_cycles": draw(st.integers(1, 3)),
    }


@st.composite
def row_buffers(draw: Draw, size: int, burst: int) -> dict[str, Any]:
    """`dram.row_buffer` for bursts of so many bytes and DRAM clocks."""
    short, long = sampled_from([1, 1, 2, 3, 5]), sampled_from([1, 3, 7, 14, 30])
    rows: dict[str, Any] = {
        "bank_groups": draw(sampled_from([1, 2, 4])),
        "banks_per_group": draw(sampled_from([1, 2, 3])),
        "row_bytes": size * draw(sampled_from([1, 2, 5, 16])),
        **{name: draw(long) for name in ("t_rcd", "t_rcd_wr", "t_rp", "t_ras", "t_wr", "t_faw")},
        **{name: draw(short) for name in ("t_cwl", "t_rtp", "t_rrd_s", "t_wtr_s")},
        "t_ccd_s": burst + draw(sampled_from([0, 0, 1])),
        "t_rfc": draw(sampled_from([5, 20, 60])),
    }
    rows["t_cl"] = max(1, rows["t_cwl"] - burst - 1) + draw(sampled_from([0, 2, 14]))
    for name in ("t_ccd", "t_rrd", "t_wtr"):
        rows[f"{name}_l"] = rows[f"{name}_s"] + draw(sampled_from([0, 1, 4]))
    least = max(rows["t_ras"], rows["t_rtp"], rows["t_cwl"] + burst + rows["t_wr"]) + rows["t_rp"] + rows["t_rfc"] + 1
    rows["t_refi"] = draw(sampled_from([0, least, least + 40, 400 + least]))
    for name, sizes in (("queue_bursts", [1, 2, 5, 32]), ("buffer_bursts", [1, 2, 8]), ("batch_bursts", [1, 2, 16])):
        if draw(st.booleans()):
            rows[name] = draw(sampled_from(sizes))
    return rows


@st.composite
def controller_systems(draw: Draw) -> System:
    """A machine with the controllers of `row_buffer_v2`, every rule drawn, and a program that is valid on it."""
    machine = draw(machines())
    machine["max_cycles"] = 100_000
    give_controller(draw, machine)
    return machine, draw(programs(machine))


@st.composite
def pressed_controller_systems(draw: Draw) -> System:
    """The same with flows that leave for backpressure all the time, and small queues and buffers."""
    machine = draw(machines())
    machine["max_cycles"] = 100_000
    controller = give_controller(draw, machine)
    controller |= {name: draw(st.integers(1, 4)) for name in ("read_queue", "write_queue")}
    controller["read_buffer_bytes"] = controller["burst_bytes"] * draw(st.integers(2, 5))
    controller |= {"write_high": controller["write_queue"], "write_low": draw(st.integers(0, controller["write_queue"] - 1))}
    engines = machine["dma"]["engines"] = draw(sampled_from([1, 2, 2, 3]))
    if "noc" in machine:
        machine["noc"]["dma_at"] = (machine["noc"]["dma_at"] * engines)[:engines]
    machine["dma"]["alignment_bytes"] = draw(sampled_from([1, 3, 8, 12, 24, 24, 40, 48, 100]))
    machine["spm"] = draw(crowded_banks())
    return machine, draw(crowds(machine, work=draw(st.booleans()), least=5))


@st.composite
def controller_systems_of_pes(draw: Draw) -> System:
    """A system whose stacks have the controllers of `row_buffer_v2`, and a program over its PEs."""
    system = draw(system_machines())
    size = draw(sampled_from([64, 32, 64, 16, 96, 8, 24]))
    controller: dict[str, Any] = draw(controllers(size))
    if draw(st.booleans()):
        controller |= {name: draw(st.integers(1, 4)) for name in ("read_queue", "write_queue")}
        controller |= {"read_buffer_bytes": size * draw(st.integers(2, 5)), "write_high": controller["write_queue"]}
        controller["write_low"] = draw(st.integers(0, controller["write_queue"] - 1))
    system["allocation"] = "row_buffer_v2"
    system["cube"]["hbm"] |= {"interleave_bytes": size * draw(sampled_from([1, 2, 3, 8])), "controller": controller}
    return system, dram_program(draw, system)


def dram_program(draw: Draw, system: dict[str, Any]) -> dict[str, Any]:
    """A program over the PEs of a system, whose transfers mostly use its stacks."""
    program: dict[str, Any] = draw(system_programs(system, on_stacks=True))
    return program


def give_controller(draw: Draw, machine: dict[str, Any]) -> dict[str, Any]:
    """Let the machine's DRAM have controllers, and return their keys."""
    size = draw(sampled_from([64, 32, 64, 16, 96, 8, 24]))
    controller: dict[str, Any] = draw(controllers(size))
    machine["allocation"] = "row_buffer_v2"
    machine["dram"] |= {
        "channels": draw(sampled_from([1, 1, 2, 3])),
        "interleave_bytes": size * draw(sampled_from([1, 2, 3, 8])),
        "controller": controller,
    }
    if "noc" in machine:
        machine["noc"]["dram_at"] = [machine["noc"]["dram_at"][0]] * machine["dram"]["channels"]
    return controller


#: Fields of a map, the highest first; columns may be cut in two.
MAPS = [
    "row bank stack rank column group pseudo", "row bank group stack rank pseudo column",
    "row column bank group stack rank pseudo column2",
    "row column rank pseudo stack bank group column4", "bank row group stack column rank pseudo",
    "row column4 bank group stack rank pseudo column", "column2 row bank stack column group rank pseudo",
]  # fmt: skip


@st.composite
def controllers(draw: Draw, size: int) -> dict[str, Any]:
    """`dram.controller` for bursts of so many bytes."""
    short, long = sampled_from([1, 1, 2, 3, 5]), sampled_from([1, 3, 7, 14, 30])
    columns = draw(sampled_from([4, 8, 16]))
    keys: dict[str, Any] = {
        "burst_bytes": size,
        "row_bytes": size * columns,
        "clock": draw(sampled_from([1, 1, 1, 2, "3/2", "2/3", "5/3", "1/3"])),
        "bank_groups": draw(sampled_from([1, 2, 4])),
        "banks_per_group": draw(sampled_from([1, 2, 4])),
        "pseudo_channels": draw(sampled_from([1, 1, 2])),
        "ranks": draw(sampled_from([1, 1, 2])),
        "stacks": draw(sampled_from([1, 1, 2])),
        "rows": draw(sampled_from([4, 64, 1024])),
        "t_bl": draw(sampled_from([1, 2, 2, 4, 3])),
        **{name: draw(long) for name in ("t_rcd", "t_rcd_wr", "t_rp", "t_ras", "t_wr", "t_faw", "t_cl")},
        **{name: draw(short) for name in ("t_cwl", "t_rtp", "t_rrd_s", "t_wtr_s", "t_ccd_s", "t_ppd", "t_rtrs")},
        "t_rfc": draw(sampled_from([5, 20, 60])),
    }
    for name in ("t_ccd", "t_rrd", "t_wtr"):
        keys[f"{name}_l"] = keys[f"{name}_s"] + draw(sampled_from([0, 1, 4]))
    for name in ("t_rp_ab", "t_ccd_l_wr", "t_ccd_r", "t_rtw", "act_clocks", "column_clocks", "pre_clocks"):
        if draw(st.booleans()):
            keys[name] = draw(sampled_from([1, 2, 3]))
    closing = max(keys["t_ras"], keys["t_rtp"], keys["t_cwl"] + keys["t_bl"] + keys["t_wr"]) + keys["t_rp"] + keys["t_rfc"]
    keys["refresh"] = draw(sampled_from(["none", "all_bank", "all_bank", "per_bank"]))
    keys |= {
        "t_refi": closing + draw(sampled_from([60, 200, 900])),
        "t_refi_pb": 120,
        "t_rfc_pb": draw(sampled_from([5, 30])),
    }
    keys["postpone"] = draw(sampled_from([0, 0, 1, 4]))
    keys["command_buses"] = draw(sampled_from([1, 2]))
    if draw(st.integers(0, 4)) == 0:
        keys |= {"phases": 2}
    elif draw(st.integers(0, 4)) == 0:
        keys |= {"t_aad": draw(sampled_from([1, 3, 8])), "t_wckpst": draw(sampled_from([0, 1, 3]))}
    keys |= {
        "scheduler": draw(sampled_from(CONTROLLER_SCHEDULERS)),
        "cap": draw(sampled_from([1, 2, 16])),
        "page": draw(sampled_from(PAGES)),
        "idle_clocks": draw(sampled_from([1, 8, 64])),
        "map": draw(sampled_from(MAPS)),
        "hash": draw(sampled_from([[], [], ["group^column", "bank^row"], ["bank^row", "group^row", "row^column"]])),
    }
    for name, sizes in (("read_queue", [1, 2, 5, 32]), ("write_queue", [1, 2, 5, 32])):
        if draw(st.booleans()):
            keys[name] = draw(sampled_from(sizes))
    return keys
