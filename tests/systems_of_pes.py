"""Hypothesis strategy for small, nasty systems and programs over their PEs: `systems_of_pes()` draws both.

PEs, scratchpads and the PEs' engines are those of `tests.machine_strategies`; links are narrow, memories tiny, latencies short.
"""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import Draw, drawn_arbiter, machines
from tests.sampled import sampled_from
from tests.system_programs import system_programs

System = tuple[dict[str, Any], dict[str, Any]]
NARROW, WIDE = (2, 3.5, 4, 7.75, 16, 64), (16, 33, 64, 128)  # [byte/cycle] of links: wide ones bring a line a cycle
SHORT = sampled_from([0, 0, 1, 3])  # [cycle]


@st.composite
def system_machines(draw: Draw) -> dict[str, Any]:
    """A system dict of a few SIPs of one or two cubes of two to four PEs."""
    npu = draw(machines())
    pe = {name: npu[name] for name in ("dma", "spm", "te", "ve") if name in npu}
    if draw(sampled_from([True] * 5 + [False])):
        pe["spm"] = _crowded(draw)
    system = {name: npu[name] for name in ("allocation", "max_cycles", "control", "kv_layouts") if name in npu}
    widths = draw(sampled_from([NARROW, WIDE, WIDE]))
    pe["link"] = _link(draw, widths)
    sides = draw(sampled_from(["w", "w", "ew", "n"]))
    numbers = draw(st.permutations(range(len(sides))))
    return {
        "schema": "kernbench/system/1",
        **system,
        "system": _package(draw, widths),
        "sip": {
            "cols": draw(st.integers(1, 2)),
            "io": [{"name": f"io{i}", "side": side} for i, side in zip(numbers, sides, strict=True)],
        },
        "cube": _cube(draw, widths),
        "io": {
            "pcie": {"link": _link(draw, widths), "setup_cycles": draw(SHORT)},
            "io_cpu": {"cycles": draw(SHORT)},
            "noc": _link(draw, widths),
        },
        "pe": pe,
        "wires": {"mm_per_cycle": draw(sampled_from([20, 1000])), "board_mm_per_cycle": 1000},
    }


@st.composite
def systems_of_pes(draw: Draw) -> System:
    """A system and a program that is valid on it."""
    system = draw(system_machines())
    return system, draw(system_programs(system))


def _package(draw: Draw, widths: tuple[float, ...]) -> dict[str, Any]:
    """The network between SIPs."""
    link = _link(draw, widths)
    kind = draw(sampled_from(["ring"] * 8 + ["dimensions", "dimensions", "rails", "rails", "switch", "fat_tree", "torus"]))
    if kind == "ring":
        return {"sips": draw(sampled_from([1, 1, 1, 2])), "link": link}
    switch = {"cycles": draw(SHORT), "oversubscription": draw(sampled_from([1, 1, 2, 3]))}
    if kind == "dimensions":
        return {"kind": kind, "link": link, "switch": switch, **_dimensions(draw, widths)}
    sips = draw(st.integers(2, 6))
    rows = 1 if kind == "switch" else draw(sampled_from([rows for rows in range(1, sips + 1) if sips % rows == 0]))
    found: dict[str, Any] = {"kind": kind, "sips": sips, "rows": rows, "link": link}
    if kind == "rails":
        found["rails"] = {"link": _link(draw, widths)}
        if draw(st.booleans()):
            found["rails"]["nics"] = [draw(st.integers(0, 2)) for _ in range(sips // rows)]
        del switch["oversubscription"]
    return found if kind == "torus" else found | {"switch": switch}


def _dimensions(draw: Draw, widths: tuple[float, ...]) -> dict[str, Any]:
    """Some dimensions with together at most eight SIPs; some of them have links or switches of their own."""
    sizes = draw(sampled_from([(2,), (3,), (5,), (1, 3), (2, 2), (3, 2), (2, 3), (4, 2), (2, 2, 2), (2, 1, 3)]))
    found = []
    for size in sizes:
        one: dict[str, Any] = {"kind": draw(sampled_from(["ring", "fully_connected", "switch"])), "size": size}
        if draw(sampled_from([False, False, True])):
            one["link"] = _link(draw, widths)
        if one["kind"] == "switch" and draw(st.booleans()):
            one["switch"] = {"cycles": draw(SHORT), "oversubscription": draw(sampled_from([1, 2]))}
        found.append(one)
    return {"sips": prod(sizes), "dimensions": found}


def _link(draw: Draw, widths: tuple[float, ...]) -> dict[str, Any]:
    return {"bytes_per_cycle": draw(sampled_from(widths)), "cycles": draw(SHORT)}


def _cube(draw: Draw, widths: tuple[float, ...]) -> dict[str, Any]:
    pes = draw(st.integers(2, 4))
    slices = draw(sampled_from([None, 1, 2]))
    count = slices or pes
    bus, burst = draw(sampled_from([(64, 4), (64, 1), (8, 1), (16, 3), (32, 12)]))
    hbm: dict[str, Any] = {
        "channels": count * draw(sampled_from([1, 2, 2, 3])),
        "interleave_bytes": draw(sampled_from([3, 8, 32, 96, 256])),
        "capacity_bytes": count * draw(sampled_from([512, 1000, 4096])),
        "bus_width_bytes": bus,
        "dram_burst_cycles": burst,
        "peak_bw_bytes_per_cycle": draw(sampled_from([4, 10.5, 64])),
        "t_setup_cycles": draw(SHORT),
        "period": draw(sampled_from([1, 1, 2])),
        "width_mm": 1,
        "height_mm": 1,
        "link": _link(draw, widths),
    }
    if slices is not None:
        hbm["slices"] = slices
    return {
        "pes": pes,
        "mesh": {
            "rows": draw(st.integers(1, 2)),
            "cols": draw(st.integers(2, 3)),
            "link": _link(draw, widths),
            "router_cycles": draw(st.integers(0, 1)),
        },
        "hbm": hbm,
        "sram": {
            "bytes": draw(sampled_from([512, 1500])),
            "bytes_per_cycle": draw(sampled_from(widths)),
            "cycles": draw(SHORT),
        },
        "ucie": {"ports_per_side": draw(st.integers(1, 2)), "link": _link(draw, widths), "router": _link(draw, widths)},
        "m_cpu": {"cycles": draw(SHORT)},
    }


def _crowded(draw: Draw) -> dict[str, Any]:
    """A scratchpad of few banks, ports and patience."""
    banks = draw(sampled_from([1, 2, 3, 4, 8]))
    width = draw(sampled_from([2, 4, 8, 16]))
    return {
        "num_banks": banks,
        "bank_width_bytes": width,
        "bank_size_bytes": -(-2048 // (banks * width)) * width,
        "map": draw(sampled_from(["interleaved", "interleaved", "blocked"])),
        "conflict_penalty_cycles": draw(sampled_from([1, 1, 2, 3])),
        **drawn_arbiter(draw),
        "max_wait_cycles": draw(sampled_from([1, 1, 2, 4, 40])),
        "backpressure_cycles": draw(sampled_from([1, 1, 2, 3, 8])),
        "check_overlap": draw(sampled_from(["none"] * 8 + ["warn", "error"])),
        **draw(sampled_from([{"ports": 1}, {"ports": 1}, {"ports": 1}, {"ports": 2}, {"read_ports": 1, "write_ports": 1}])),
    }
