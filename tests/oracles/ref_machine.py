"""Machine dicts with the defaults of docs/model/formats.md filled in, sizes in bytes; decimals are read as exact rationals."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

TABLES = ("f_w", "f_a", "sfu", "mac_pj")  # a table replaces the default one as a whole
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SIZES = (("dram", "interleave_bytes"), ("dram", "capacity_bytes"), ("spm", "bank_size_bytes"))

DEFAULTS: dict[str, Any] = {
    "schema": "kernbench/npu/1",
    "freq_ghz": 1,
    "allocation": "shared_bw_v1",
    "max_cycles": 100_000_000,
    "control": {"issue_width": 0},
    "dma": {
        "engines": 1,
        "max_concurrent_transfers": 4,
        "queue_depth_per_master": 8,
        "alignment_bytes": 64,
        "arbiter": "priority",
        "kv_load_bonus": 1,
        "period": 1,
        "codecs": [],
        "channels": {
            "act_weight": {"max_concurrent": 4, "priority": 0, "weight": 1},
            "kv_load": {"max_concurrent": 4, "priority": 0, "weight": 1},
            "kv_store": {"max_concurrent": 4, "priority": 0, "weight": 1},
        },
    },
    "dram": {
        "channels": 1,
        "interleave_bytes": 256,
        "capacity_bytes": 1 << 30,
        "bus_width_bytes": 64,
        "dram_burst_cycles": 4,
        "peak_bw_bytes_per_cycle": 128,
        "t_setup_cycles": 0,
        "period": 1,
    },
    "noc": None,
    "llc": None,
    "spm": {
        "num_banks": 16,
        "bank_size_bytes": 64 << 10,
        "bank_width_bytes": 16,
        "map": "interleaved",
        "conflict_penalty_cycles": 1,
        "max_wait_cycles": 8,
        "backpressure_cycles": 8,
        "check_overlap": "none",
    },
    "te": {
        "engines": 2,
        "macs_per_cycle": 4096,
        "f_w": {8: 1, 4: 1.5, 2: 2},
        "f_a": {8: 1, 4: 1.1},
        "init_cycles": 8,
        "finalize_cycles": 4,
        "spm_traffic": True,
        "timing": "macs",
        "period": 1,
    },
    "ve": {
        "engines": 2,
        "lanes": 64,
        "ops_per_lane": 1,
        "f_a": {8: 1},
        "init_cycles": 8,
        "finalize_cycles": 4,
        "reduction_pipeline": 8,
        "sfu": {"exp": 0, "rsqrt": 0, "gelu": 0, "tanh": 0, "sigmoid": 0, "silu": 0},
        "spm_traffic": True,
        "period": 1,
    },
    "kv_layouts": [{"t_max": 2048, "head_dim": 128}],
    "energy": {
        "dram_pj_per_byte": 20,
        "noc_pj_per_byte_hop": 1,
        "spm_pj_per_byte": 1,
        "mac_pj": {8: 0.2},
        "ve_op_pj": 0.5,
        "static_mw": 0,
    },
}

NOC_DEFAULTS: dict[str, Any] = {
    "kind": "mesh",
    "rows": 2,
    "cols": 4,
    "link_bytes_per_cycle": 64,
    "hop_latency_cycles": 2,
    "dma_at": [[1, 0]],
    "dram_at": [[0, 0]],
}


MMIO_DEFAULTS: dict[str, Any] = {"write_cycles": 1, "latency_cycles": 0, "interrupt_cycles": 0}

LLC_DEFAULTS: dict[str, Any] = {"line_bytes": 128, "ways": 16, "latency_cycles": 0, "write": "back", "write_allocate": True}


def exact(number: float | str | Fraction) -> Fraction:
    """The rational that the decimal `number` spells: 1.1 is 11/10, not the nearest double."""
    return number if isinstance(number, Fraction) else Fraction(str(number))


def size_in_bytes(size: int | str) -> int:
    """Bytes of a plain integer or of text such as "12 KiB"."""
    if isinstance(size, int):
        return size
    number, unit = size.split()
    return int(number) * UNITS[unit]


def completed(machine: dict[str, Any]) -> dict[str, Any]:
    """A deep copy of `machine` with every section and key that it leaves out, and sizes as plain integers."""
    full = _merged(DEFAULTS, machine)
    for section, key in SIZES:
        full[section][key] = size_in_bytes(full[section][key])
    if full["control"].get("mmio") is not None:
        full["control"]["mmio"] = _merged(MMIO_DEFAULTS, full["control"]["mmio"])
    if full["noc"] is not None:
        full["noc"] = _merged(NOC_DEFAULTS, full["noc"])
    if full["llc"] is not None:
        full["llc"] = _merged(LLC_DEFAULTS, full["llc"])
    if "read_ports" not in full["spm"]:
        full["spm"].setdefault("ports", 1)
    return full


def factor(table: dict[Any, Any], qbits: int) -> Fraction:
    """The scale of `qbits` in an `f_*` table, whose keys may be text; 1 where it is missing."""
    for key, value in table.items():
        if int(key) == qbits:
            return exact(value)
    return Fraction(1)


def _merged(default: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(default)
    for key, value in given.items():
        below = default.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and key not in TABLES:
            out[key] = _merged(below, value)
        else:
            out[key] = copy.deepcopy(value)
    return out
