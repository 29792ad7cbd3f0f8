"""A small chip and small traces, for tests of replays."""

from __future__ import annotations

from typing import Any

from kernbench.analysis.noc.device import Device

#: 4 columns, 3 rows; DRAM at (0, 0) and (0, 1), [x, y]; 16 bytes a cycle everywhere, so that cycles are easy to work out.
CHIP: dict[str, Any] = {
    "name": "toy",
    "columns": 4,
    "rows": 3,
    "nocs": {"NOC_0": ["east", "south"], "NOC_1": ["north", "west"]},
    "link_bytes_per_cycle": 16,
    "packet_bytes": 1024,
    "packet_rates": {32: 4, 128: 16},
    "injection": {"worker": 16, "dram": 8, "ethernet": 16},
    "absorption": {"worker": 16, "dram": 16, "ethernet": 16},
    "read_latency": {"same_tile": 10, "same_column": 40, "same_row": 30, "other": 52},
    "write_latency": {"start": 20, "hop": 5},
    "dram_access_cycles": 100,
    "barrier_cycles": 8,
    "buffer_bytes": 64,
    "hold_bytes": 128,
    "link_packets": 2,
    "controller_bytes_per_cycle": 32,
    "controllers": [[[0, 0]], [[1, 0]]],
    "ethernet": [[2, 3]],
}
Events = list[dict[str, Any]]


def chip(**more: Any) -> Device:
    """The toy, with other values."""
    return Device.model_validate(CHIP | more)


def kernel(x: int, y: int, *events: dict[str, Any], proc: str = "NCRISC", begin: int = 1000) -> Events:
    """A processor's events, its zone's begin first; times count from 1000."""
    zone = {"proc": proc, "zone": f"{proc}-KERNEL", "zone_phase": "begin", "sx": x, "sy": y, "timestamp": begin}
    return [zone, *({"proc": proc, "sx": x, "sy": y} | event | {"timestamp": 1000 + event["timestamp"]} for event in events)]


def read(at: int, x: int, y: int, nbytes: int, noc: str = "NOC_0", **more: Any) -> dict[str, Any]:
    """A read of a tile."""
    return {"type": "READ", "noc": noc, "vc": -1, "dx": x, "dy": y, "num_bytes": nbytes, "timestamp": at} | more


def write(at: int, x: int, y: int, nbytes: int, noc: str = "NOC_0", **more: Any) -> dict[str, Any]:
    """A write to a tile."""
    return read(at, x, y, nbytes, noc) | {"type": "WRITE_"} | more


def barrier(start: int, end: int, what: str = "READ") -> Events:
    """A barrier's two events."""
    place = {"noc": "NOC_0", "vc": -1, "dx": -1, "dy": -1, "num_bytes": 0}
    times = (("START", start), ("END", end))
    return [place | {"type": f"{what}_BARRIER_{name}", "timestamp": at} for name, at in times]
