"""Hypothesis strategies and readers for tests of traces: random systems whose entries say what they are for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import drawn_arbiter
from tests.sampled import sampled_from
from tests.strategies import Draw, machines, programs

Event = dict[str, Any]
META: dict[str, st.SearchStrategy[Any]] = {
    "layer_id": st.integers(0, 3),
    "block_id": st.integers(0, 3),
    "phase": sampled_from(["prefill", "decode", 'say "hi"', "ü\n"]),
    "token_idx": st.integers(0, 2),
    "seq_len": st.integers(1, 100),
    "tile_id": st.integers(0, 9),
    "precision": sampled_from(["W4A8", "W8A8"]),
    "model_name": sampled_from(["toy", "<b>&\u2028"]),
    "tenant_id": st.integers(0, 2),
    "core_id": st.integers(0, 1),
    "npu_id": st.integers(0, 1),
    "thread_id": st.integers(0, 1),
    "source": sampled_from(["ISA", "MMIO"]),
    "desc_addr": st.integers(0, 2**47),
    "token": st.integers(0, 9),
    "irq_line": st.integers(0, 3),
    "marker": st.one_of(st.integers(0, 9), sampled_from(["end of layer", "\\"])),
}
ENERGY = {
    "dram_pj_per_byte": sampled_from([20, 3.3]),
    "noc_pj_per_byte_hop": sampled_from([1, 0.1]),
    "spm_pj_per_byte": sampled_from([1, 0.7]),
    "mac_pj": sampled_from([{8: 0.2}, {8: 0.2, 4: 0.1}, {"4": 0.3}]),
    "ve_op_pj": sampled_from([0.5, 1]),
    "static_mw": sampled_from([0, 12.5]),
}


@st.composite
def traced_systems(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A machine and a valid program, with energies on the one and things to say on the other; most are short of banks."""
    machine = draw(machines())
    if draw(sampled_from([True, True, True, False])):
        machine.update(_crowded(draw, machine))
    program = draw(programs(machine))
    machine["energy"] = draw(st.fixed_dictionaries({}, optional=ENERGY))
    names = draw(st.lists(sampled_from(sorted(META)), unique=True, max_size=6))
    for entry in program["cmdq"]:
        for name in names:
            if name not in entry and draw(st.booleans()):
                entry[name] = draw(META[name])
    return machine, program


def _crowded(draw: Draw, machine: dict[str, Any]) -> dict[str, Any]:
    """Sections for `machine` under which transfers and engines are in each other's way."""
    banks = draw(sampled_from([1, 2, 4]))
    spm = {
        "num_banks": banks,
        "bank_width_bytes": 16,
        "bank_size_bytes": 8192 // banks,
        "map": draw(sampled_from(["interleaved", "blocked"])),
        "conflict_penalty_cycles": draw(sampled_from([1, 2])),
        **drawn_arbiter(draw),
        "max_wait_cycles": draw(sampled_from([1, 4, 40])),
        "backpressure_cycles": draw(sampled_from([1, 2, 8])),
        "check_overlap": draw(sampled_from(["none", "none", "warn"])),
        **draw(sampled_from([{"ports": 1}, {"ports": 2}, {"read_ports": 1, "write_ports": 1}])),
    }
    channel = {"max_concurrent": 4, "priority": 0, "weight": draw(sampled_from([1, 3]))}
    kv_store = {"max_concurrent": 2, "priority": draw(sampled_from([0, 2])), "weight": 1}
    dma = {
        **machine["dma"],
        "max_concurrent_transfers": draw(sampled_from([2, 6])),
        "queue_depth_per_master": draw(sampled_from([1, 3, 8])),
        "channels": {"act_weight": channel, "kv_load": channel, "kv_store": kv_store},
    }
    wide = {"bus_width_bytes": 64, "dram_burst_cycles": draw(sampled_from([1, 3])), "peak_bw_bytes_per_cycle": 64}
    return {
        "max_cycles": draw(sampled_from([2000, 2000, 2000, 150])),
        "spm": spm,
        "dma": dma,
        "dram": {**machine["dram"], **wide},
        "control": {"issue_width": 0},
    }


def parsed(lines: Iterable[bytes]) -> list[Event]:
    """The events of a trace's lines."""
    return [json.loads(line) for line in lines]


def named(events: Sequence[Event], *names: str) -> list[Event]:
    """The events of these types, in order."""
    return [event for event in events if event["event_type"] in names]
