"""Programs and machines that combine what other strategies draw one by one: codecs, hosts that write entries, micro-schedulers,
caches, DRAM rows and controllers, crowded banks, and systems of PEs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.cache_strategies import cache_systems, cached_row_systems, give_cache
from tests.machine_strategies import Draw
from tests.oracles.ref_dma import DmaJob
from tests.oracles.ref_machine import completed
from tests.row_strategies import System, controller_systems, dram_program, pressed_row_systems, row_systems, row_systems_of_pes
from tests.sampled import sampled_from
from tests.system_programs import system_programs
from tests.systems_of_pes import system_machines
from tests.trace_systems import traced_systems

RATIOS = (Fraction(1), Fraction(2), Fraction(3), Fraction(3, 2), Fraction(5, 4), Fraction(7, 3))
MAX_CYCLES = 20_000


def give_codecs(draw: Draw, machine: dict[str, Any], *programs: dict[str, Any]) -> None:
    """One or two codecs in each DMA engine; some tiles of the programs move through them."""
    sizes = machine["dma"]["alignment_bytes"], machine["dram"]["interleave_bytes"]
    ratios = [ratio for ratio in RATIOS if all((ratio * size).denominator == 1 for size in sizes)]
    machine["dma"]["codecs"] = [
        {
            "ratio": str(draw(sampled_from(ratios))),
            "bytes_per_cycle": draw(sampled_from([1, 5, 16, 64, 256])),
            "latency_cycles": draw(sampled_from([0, 0, 3])),
        }
        for _ in range(draw(st.integers(1, 2)))
    ]
    whole = completed(machine)
    size = whole["spm"]["num_banks"] * whole["spm"]["bank_size_bytes"]
    for cmdq, k in [(program["cmdq"], k) for program in programs for k in range(len(program["cmdq"]))]:
        entry = cmdq[k]
        if entry["opcode"].startswith("DMA_") and "num_elements" in entry and draw(sampled_from([True, True, False])):
            through = {**entry, "codec": draw(st.integers(0, len(machine["dma"]["codecs"]) - 1))}
            if DmaJob(through, 0, whole).range[1] <= size:
                cmdq[k] = through


def give_host(draw: Draw, machine: dict[str, Any], program: dict[str, Any]) -> None:
    """A host that writes some entries of a program and is told of the ends of others."""
    mmio = {
        "write_cycles": draw(sampled_from([1, 1, 3, 20, 150])),
        "latency_cycles": draw(sampled_from([0, 1, 7, 60])),
        "interrupt_cycles": draw(sampled_from([0, 1, 5, 90])),
    }
    machine["control"] = {**machine.get("control", {}), "mmio": mmio}
    for entry in program["cmdq"]:
        entry |= draw(sampled_from([{"source": "MMIO"}, {"source": "MMIO"}, {"source": "ISA"}, {}]))
        entry |= draw(sampled_from([{"irq_line": 1}, {}]))


def give_jobs(draw: Draw, machine: dict[str, Any], *programs: dict[str, Any]) -> None:
    """A micro-scheduler of small tiles and chunks, and commands of few jobs."""
    sizes = sampled_from([None, 1, 2, 3, 5, 8, 16])
    limits = {name: draw(sizes) for name in ("tile_m", "tile_n", "tile_k")}
    limits["chunk_elements"] = draw(sampled_from([None, 7, 16, 33, 64]))
    most = {name: value for name, value in limits.items() if value is not None}
    machine["control"] = {**machine.get("control", {}), "micro_scheduler": most}
    for entry in [entry for program in programs for entry in program["cmdq"]]:
        if entry["opcode"].startswith("TE_"):
            for axis in "mnk":
                entry[axis] = min(entry[axis], 3 * most.get(f"tile_{axis}", entry[axis]))


def _give_control(draw: Draw, machine: dict[str, Any], program: dict[str, Any]) -> None:
    """A host or a micro-scheduler, which no machine has together, or neither."""
    kind = draw(sampled_from(["host", "jobs", "none"]))
    if kind == "host":
        give_host(draw, machine, program)
    elif kind == "jobs":
        give_jobs(draw, machine, program)


@st.composite
def combined_systems(draw: Draw, crowded: st.SearchStrategy[System]) -> System:
    """A machine of `crowded` or of another strategy, with what its allocation rule leaves room for."""
    base = draw(sampled_from([crowded, crowded, crowded, traced_systems(), cache_systems(), cached_row_systems()]))
    if draw(sampled_from([False, False, True])):
        base = draw(sampled_from([row_systems(), controller_systems(), pressed_row_systems()]))
    machine, program = draw(base)
    machine["max_cycles"] = min(machine["max_cycles"], MAX_CYCLES)
    fits = "llc" not in machine and machine["allocation"] in ("shared_bw_v1", "fifo_v1")
    if fits and draw(sampled_from([True, True, False])):
        give_codecs(draw, machine, program)
    _give_control(draw, machine, program)
    return machine, program


@st.composite
def combined_systems_of_pes(draw: Draw) -> System:
    """Systems with caches, rows or controllers, and hosts or micro-schedulers."""
    if draw(st.booleans()):
        system, program = draw(row_systems_of_pes())
    else:
        system = draw(system_machines())
        program = draw(system_programs(system))
    system["max_cycles"] = MAX_CYCLES
    if draw(st.booleans()):
        machine: dict[str, Any] = {}
        give_cache(draw, machine)
        system["cube"]["llc"] = machine["llc"]
        if "row_buffer" in system["allocation"]:
            system["cube"]["llc"]["write"] = "through"
        program = dram_program(draw, system)
    _give_control(draw, system, program)
    return system, program
