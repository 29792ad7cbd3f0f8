"""Hypothesis strategy for long transfers between the scratchpads of one cube, whose banks hardly ever meet, or do."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import Draw, drawn_arbiter
from tests.sampled import sampled_from

Entry = dict[str, Any]
PES = 4
LINE = 32  # [B]


@st.composite
def rings(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A system and a program that is valid on it: up to 40 moves of up to 8 KiB, and work beside them."""
    spm = _scratchpad(draw)
    entries = [_entry(draw, spm, step) for step in range(draw(st.integers(2, 40)))]
    for at, entry in enumerate(entries):  # what starts later meets what has been in flight for some time
        if at and draw(st.booleans()):
            entry["deps_before"] = [draw(st.integers(max(0, at - 6), at - 1))]
    return _system(draw, spm), {"metadata": {"version": "1.0", "name": "rings"}, "cmdq": entries}


def _scratchpad(draw: Draw) -> dict[str, Any]:
    banks = draw(sampled_from([4, 8, 16, 32]))
    return {
        "num_banks": banks,
        "bank_width_bytes": LINE,
        "bank_size_bytes": 65536 // banks,
        "map": draw(sampled_from(["interleaved"] * 7 + ["blocked"])),
        "conflict_penalty_cycles": draw(sampled_from([1, 1, 1, 2])),
        **drawn_arbiter(draw),
        "max_wait_cycles": draw(sampled_from([1, 4, 64])),
        "backpressure_cycles": draw(sampled_from([1, 3, 8, 64])),
        "check_overlap": "none",
        **draw(sampled_from([{"ports": 1}, {"ports": 2}, {"ports": 3}, {"read_ports": 1, "write_ports": 1}])),
    }


def _system(draw: Draw, spm: dict[str, Any]) -> dict[str, Any]:
    def link() -> dict[str, Any]:
        return {"bytes_per_cycle": draw(sampled_from([7, 20.5, 32, 33, 64, 80])), "cycles": draw(sampled_from([0, 2]))}

    return {
        "schema": "kernbench/system/1",
        "allocation": draw(sampled_from(["shared_bw_v1", "shared_bw_v1", "max_min_v1", "fifo_v1"])),
        "system": {"sips": 1, "link": link()},
        "sip": {"cols": 1, "io": [{"name": "io0", "side": "w"}]},
        "cube": {
            "pes": PES,
            "mesh": {"rows": 2, "cols": 2, "link": link(), "router_cycles": 1},
            "hbm": {"channels": PES * 2, "interleave_bytes": draw(sampled_from([32, 256])), "capacity_bytes": PES * 65536,
                    "bus_width_bytes": 32, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 256, "t_setup_cycles": 3,
                    "period": 1, "width_mm": 1, "height_mm": 1, "link": link()},
            "sram": {"bytes": 65536, "bytes_per_cycle": 64, "cycles": 1},
            "ucie": {"ports_per_side": 1, "link": link(), "router": link()},
            "m_cpu": {"cycles": 0},
        },
        "io": {"pcie": {"link": link(), "setup_cycles": 1}, "io_cpu": {"cycles": 1}, "noc": link()},
        "pe": {"dma": {"engines": 1, "max_concurrent_transfers": 4, "queue_depth_per_master": 4}, "spm": spm,
               "te": {"engines": 1}, "ve": {"engines": 1}, "link": link()},
        "wires": {"mm_per_cycle": 20, "board_mm_per_cycle": 1000},
    }  # fmt: skip


def _entry(draw: Draw, spm: dict[str, Any], step: int) -> Entry:
    pe = draw(st.integers(0, PES - 1))
    node = f"sip0.cube0.pe{pe}"
    kind = draw(sampled_from(["send"] * 6 + ["receive"] * 3 + ["load", "store", "work"]))
    if kind == "work":
        places = [_place(draw, spm, name, 4096) for name in ("in", "in2", "out")]
        return {"opcode": "VE_ADD_TILE", "node": node, "qbits_activation": 16, "length": draw(sampled_from([64, 500, 2048])),
                **places[0], **places[1], **places[2]}  # fmt: skip
    nbytes = draw(sampled_from([32, 96, 500, 1024, 2048, 2048, 8192]))
    entry = {"node": node, "tensor_role": "activation", "qbits": 8, "num_elements": nbytes, **_place(draw, spm, "spm", nbytes)}
    if kind in ("load", "store"):
        address = draw(st.integers(0, 65536 - 8192)) + pe * 65536
        return {"opcode": f"DMA_{kind.upper()}_TILE", "dram_addr": address, **entry}
    peer = f"sip0.cube0.pe{(pe + draw(sampled_from([1, 1, 1, 2, 3]))) % PES}"
    opcode = "DMA_SEND_TILE" if kind == "send" else "DMA_RECV_TILE"
    return {"opcode": opcode, "peer": peer, **entry, **_place(draw, spm, "peer", nbytes)}


def _place(draw: Draw, spm: dict[str, Any], prefix: str, nbytes: int) -> dict[str, int]:
    """At a line, so that banks meet as they do in programs: ranges begin on few banks."""
    line = draw(st.integers(0, (65536 - 8192 - LINE) // LINE)) // 4 * 4
    if spm["map"] == "interleaved":
        return {f"{prefix}_bank": line % spm["num_banks"], f"{prefix}_offset": line // spm["num_banks"] * LINE}
    return {f"{prefix}_bank": 0, f"{prefix}_offset": line * LINE}
