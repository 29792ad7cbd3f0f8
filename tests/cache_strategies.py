"""Small, nasty machines with a last-level cache, and programs whose transfers meet on its lines."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import machines
from tests.row_strategies import MOVES, controller_systems, dram_program, row_systems
from tests.sampled import sampled_from
from tests.strategies import crowds, programs
from tests.systems_of_pes import system_machines

Draw = Any  # the `draw` of a composite strategy: its type depends on what is drawn
System = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def cache_systems(draw: Draw) -> System:
    """A machine with a cache of few lines, and a program whose transfers are on few bytes of DRAM, so that lines meet."""
    machine = draw(machines())
    give_cache(draw, machine)
    if draw(st.integers(0, 7)):  # most write back what they evict
        machine["llc"] |= {"write": "back", "write_allocate": True}
    kind = draw(sampled_from(["crowd", "queue", "queue"]))
    program = draw(crowds(machine, work=draw(st.booleans()), least=5) if kind == "crowd" else programs(machine))
    move_near(draw, machine, program)
    repeat_transfers(draw, program)
    return machine, program


@st.composite
def cached_systems_of_pes(draw: Draw) -> System:
    """Systems whose cubes have caches."""
    system = draw(system_machines())
    machine: dict[str, Any] = {}
    give_cache(draw, machine)
    system["cube"]["llc"] = machine["llc"]
    program = dram_program(draw, system)
    repeat_transfers(draw, program)
    return system, program


@st.composite
def cached_row_systems(draw: Draw) -> System:
    """The same over DRAM rows and controllers, which take no write-backs."""
    machine, program = draw(st.one_of(row_systems(), controller_systems()))
    give_cache(draw, machine)
    machine["llc"]["write"] = "through"
    machine["max_cycles"] = 20_000
    move_near(draw, machine, program)
    repeat_transfers(draw, program)
    return machine, program


def give_cache(draw: Draw, machine: dict[str, Any]) -> None:
    """Let the machine have a cache of one to some hundred lines."""
    line = draw(sampled_from([1, 3, 8, 16, 20, 64, 64, 100, 128, 256]))
    ways = draw(sampled_from([0, 1, 2, 3, 4, 8]))
    machine["llc"] = {
        "line_bytes": line,
        "ways": ways,
        "capacity_bytes": line * (ways or 1) * draw(sampled_from([1, 2, 2, 3, 4, 5, 8, 40])),
        "bw_bytes_per_cycle": draw(sampled_from([1, 3.5, 16, 64, 100, 256])),
        "latency_cycles": draw(sampled_from([0, 0, 1, 5, 30])),
        "write": draw(sampled_from(["back"] * 5 + ["through"])),
        "write_allocate": draw(sampled_from([True, True, False])),
    }
    if "noc" in machine:
        rows, cols = machine["noc"]["rows"], machine["noc"]["cols"]
        machine["llc"]["at"] = [draw(st.integers(0, rows - 1)), draw(st.integers(0, cols - 1))]


def repeat_transfers(draw: Draw, program: dict[str, Any]) -> None:
    """Repeat transfers with DRAM, each after the one that it repeats, so that lines are touched twice: stores as loads, too."""
    entries = program["cmdq"]
    moves = [(k, one) for k, one in enumerate(entries) if one["opcode"] in MOVES]
    if not moves or any(one["opcode"] == "END" for one in entries):
        return
    for number in range(draw(sampled_from([2, 4, 6, 8, 10]))):
        index, one = draw(sampled_from(moves))
        copy = {key: value for key, value in one.items() if not key.startswith("deps_")}
        copy |= {"id": 1000 + number, "opcode": draw(sampled_from(MOVES[one["opcode"]]))}
        entries.append(copy | {"deps_before": [one.get("id", index)]})


def move_near(draw: Draw, machine: dict[str, Any], program: dict[str, Any]) -> None:
    """Move most 1-D and 2-D transfers to one of a few places, as far from an aligned address as before: they stay as long."""
    align = machine["dma"]["alignment_bytes"]
    places = draw(st.lists(sampled_from([0, 64, 100, 1024, 5000]), min_size=1, max_size=3))
    for entry in program["cmdq"]:
        if "dram_addr" in entry and draw(st.integers(0, 3)):
            place = draw(sampled_from(places)) // align * align + entry["dram_addr"] % align
            entry["dram_addr"] = min(entry["dram_addr"], place)
