"""Small, nasty machines with DRAM rows (`allocation: row_buffer_v1`), and programs for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kernbench.config.dram_device import ADDRESS_MAPS, PAGE_POLICIES, SCHEDULERS
from tests.machine_strategies import drawn_arbiter, machines
from tests.strategies import crowds, programs

RULES: list[dict[str, str]] = [  # of a controller; one machine in five names none
    *({} for _ in range(3)),
    *({"scheduler": one, "page": two, "map": three} for one in SCHEDULERS for two in PAGE_POLICIES for three in ADDRESS_MAPS),
]
Draw = Any  # the `draw` of a composite strategy: its type depends on what is drawn
System = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def row_systems(draw: Draw) -> System:
    """A machine whose DRAM has rows, few and small enough that bursts meet in banks, and a program that is valid on it."""
    machine = draw(machines())
    size, burst = draw(st.sampled_from([(64, 4), (32, 2), (64, 1), (16, 3), (96, 5), (8, 1)]))
    _give_rows(draw, machine, size, burst)
    machine["dram"]["row_buffer"] |= draw(st.sampled_from(RULES))
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
    size, burst = draw(st.sampled_from([(16, 2), (24, 3), (20, 3), (3, 1), (7, 2), (48, 5), (64, 4), (9, 1), (1, 1)]))
    _give_rows(draw, machine, size, burst)
    rows = machine["dram"]["row_buffer"]
    enough = burst + sum(value for name, value in rows.items() if name[:2] == "t_" and name != "t_refi")
    rows["t_refi"] = draw(st.sampled_from([0, 0, enough, 500 + enough]))
    rows |= {name: draw(st.integers(1, 4)) for name in ("queue_bursts", "buffer_bursts")}
    engines = machine["dma"]["engines"] = draw(st.sampled_from([1, 2, 2, 3, 4]))
    if "noc" in machine:
        machine["noc"]["dma_at"] = (machine["noc"]["dma_at"] * engines)[:engines]
    machine["dma"]["alignment_bytes"] = draw(st.sampled_from([1, 3, 8, 12, 24, 24, 40, 48, 100]))
    machine["spm"] = draw(_crowded_banks())
    program = draw(crowds(machine, work=draw(st.booleans()), least=5))
    rows |= draw(st.sampled_from(RULES))
    return machine, program


def _give_rows(draw: Draw, machine: dict[str, Any], size: int, burst: int) -> None:
    """Let the machine's DRAM have rows, and bursts of so many bytes and DRAM clocks."""
    machine["allocation"] = "row_buffer_v1"
    machine["dram"] |= {
        "channels": draw(st.sampled_from([1, 1, 2, 3])),
        "interleave_bytes": size * draw(st.sampled_from([1, 2, 3, 8])),
        "bus_width_bytes": size,
        "dram_burst_cycles": burst,
        "peak_bw_bytes_per_cycle": 256,
        "row_buffer": draw(row_buffers(size, burst)),
    }
    if "noc" in machine:
        machine["noc"]["dram_at"] = [machine["noc"]["dram_at"][0]] * machine["dram"]["channels"]


@st.composite
def _crowded_banks(draw: Draw) -> dict[str, Any]:
    """A scratchpad in which transfers deny each other banks."""
    banks, width = draw(st.sampled_from([1, 2, 2, 3, 5])), draw(st.sampled_from([1, 3, 4, 4, 6, 8, 20]))
    ports = draw(st.sampled_from([{"ports": 1}, {"ports": 1}, {"read_ports": 1, "write_ports": 1}, {"ports": 2}]))
    return ports | {
        "num_banks": banks,
        "bank_size_bytes": -(-4096 // (banks * width)) * width,
        "bank_width_bytes": width,
        "map": draw(st.sampled_from(["interleaved", "interleaved", "blocked"])),
        "conflict_penalty_cycles": draw(st.sampled_from([1, 2, 3, 7])),
        **drawn_arbiter(draw),
        "max_wait_cycles": draw(st.sampled_from([1, 2, 4, 8, 40])),
        "backpressure_cycles": draw(st.integers(1, 3)),
    }


@st.composite
def row_buffers(draw: Draw, size: int, burst: int) -> dict[str, Any]:
    """`dram.row_buffer` for bursts of so many bytes and DRAM clocks."""
    short, long = st.sampled_from([1, 1, 2, 3, 5]), st.sampled_from([1, 3, 7, 14, 30])
    rows: dict[str, Any] = {
        "bank_groups": draw(st.sampled_from([1, 2, 4])),
        "banks_per_group": draw(st.sampled_from([1, 2, 3])),
        "row_bytes": size * draw(st.sampled_from([1, 2, 5, 16])),
        **{name: draw(long) for name in ("t_rcd", "t_rcd_wr", "t_rp", "t_ras", "t_wr", "t_faw")},
        **{name: draw(short) for name in ("t_cwl", "t_rtp", "t_rrd_s", "t_wtr_s")},
        "t_ccd_s": burst + draw(st.sampled_from([0, 0, 1])),
        "t_rfc": draw(st.sampled_from([5, 20, 60])),
    }
    rows["t_cl"] = max(1, rows["t_cwl"] - burst - 1) + draw(st.sampled_from([0, 2, 14]))
    for name in ("t_ccd", "t_rrd", "t_wtr"):
        rows[f"{name}_l"] = rows[f"{name}_s"] + draw(st.sampled_from([0, 1, 4]))
    least = max(rows["t_ras"], rows["t_rtp"], rows["t_cwl"] + burst + rows["t_wr"]) + rows["t_rp"] + rows["t_rfc"] + 1
    rows["t_refi"] = draw(st.sampled_from([0, least, least + 40, 400 + least]))
    for name, sizes in (("queue_bursts", [1, 2, 5, 32]), ("buffer_bursts", [1, 2, 8]), ("batch_bursts", [1, 2, 16])):
        if draw(st.booleans()):
            rows[name] = draw(st.sampled_from(sizes))
    return rows
