"""The core's tables read for the SimPy model: pieces of flows and banks of streams, worked out before the clock starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Pieces = list[tuple[int, int]]  # (bit of the bank, bytes)


@dataclass(frozen=True)
class TransferJob:
    """A DMA job: what it moves over each DRAM channel, and by which resources."""

    entry: int
    engine: int
    number: int  # its place in the order of submission
    head: int  # [cycle] from its start until it is a member
    pieces: dict[int, Pieces]  # by channel
    routes: dict[int, list[int]]  # by channel


@dataclass(frozen=True)
class ComputeJob:
    """A TE or VE job: its cycles, and the set of banks (bits) that each body cycle asks for."""

    entry: int
    engine: int
    init: int
    banks: list[int]
    finalize: int


@dataclass(frozen=True)
class Plan:
    """A machine with its jobs, each in the order in which they are submitted. Many runs may share it: it never changes."""

    machine: dict[str, Any]
    entries: int
    transfers: list[TransferJob]
    computes: list[ComputeJob]


def plan(machine: dict[str, Any], program: dict[str, Any]) -> Plan:
    """Read the core's tables; ValueError names the first thing in them that the SimPy model leaves out."""
    _refuse_what_is_not_modelled(machine, program)
    transfers, computes = list(_transfer_jobs(machine, program)), list(_compute_jobs(machine, program))
    return Plan(machine, len(program["op"]), transfers, computes)


def _refuse_what_is_not_modelled(machine: dict[str, Any], program: dict[str, Any]) -> None:
    dma = program["dma"]
    refused = {
        "allocation": machine["allocation"] != 0,
        "overlap": machine["overlap"] != 0,
        "issue_width": machine["issue_width"] != 0,
        "spm.blocked": any(spm["blocked"] for spm in machine["spm"]),
        "spm.split": any(spm["split"] for spm in machine["spm"]),
        "period": any(engine["period"] != 1 for engine in machine["dma"] + machine["compute"]),
        "dma.queue_depth": any(
            engine["queue_depth"] < min(engine["max_concurrent"], engine["channels"][0][0]) for engine in machine["dma"]
        ),
        "waits": bool(program["waits"].any()),
        "op": bool((program["op"] > 1).any()),
        "dma.channel": bool(dma["channel"].any()),
        "dma.rows": bool((dma["rows"] != 1).any()),
    }
    for name, is_refused in refused.items():
        if is_refused:
            raise ValueError(f"{name}: not modelled in SimPy; see tests/speed/simpy_model.py")


def _transfer_jobs(machine: dict[str, Any], program: dict[str, Any]) -> Iterator[TransferJob]:
    table = {name: column.tolist() for name, column in program["dma"].items()}
    starts, latency = machine["route_start"].tolist(), machine["route_latency"].tolist()
    path = machine["route_path"].tolist()
    (memory,) = machine["memories"]
    align, channels = memory["align"], memory["channels"]
    in_order = sorted(range(len(table["entry"])), key=table["entry"].__getitem__)
    for number, k in enumerate(in_order):
        engine = table["engine"][k]
        first = table["dram_addr"][k] // align * align
        last = -(-(table["dram_addr"][k] + table["row_bytes"][k]) // align) * align
        spm = machine["spm"][machine["dma"][engine]["spm"]]
        pieces = _pieces(first, last, table["spm_addr"][k], channels, memory["interleave"], spm)
        route = {channel: table["route"][k] + channel for channel in pieces}
        yield TransferJob(
            entry=table["entry"][k],
            engine=engine,
            number=number,
            head=memory["setup"] + max(latency[r] for r in route.values()),
            pieces=pieces,
            routes={channel: path[starts[r] : starts[r + 1]] for channel, r in route.items()},
        )


def _pieces(first: int, last: int, spm_addr: int, channels: int, interleave: int, spm: dict[str, Any]) -> dict[int, Pieces]:
    """Per channel the pieces of DRAM bytes [first, last): consecutive bytes of the flow on one scratchpad line."""
    width, banks = spm["line"], spm["banks"]
    flows: dict[int, Pieces] = {}
    line_of_last: dict[int, int] = {}
    dram = first
    while dram < last:
        at = spm_addr + dram - first
        size = min(last - dram, interleave - dram % interleave, width - at % width)
        channel, line = dram // interleave % channels, at // width
        pieces = flows.setdefault(channel, [])
        if line_of_last.get(channel) == line:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + size)
        else:
            pieces.append((1 << line % banks, size))
        line_of_last[channel] = line
        dram += size
    return flows


def _compute_jobs(machine: dict[str, Any], program: dict[str, Any]) -> Iterator[ComputeJob]:
    table = {name: column.tolist() for name, column in program["compute"].items()}
    for k in sorted(range(len(table["entry"])), key=table["entry"].__getitem__):
        engine = machine["compute"][table["engine"][k]]
        body = table["body"][k]
        banks = [0] * body
        if engine["traffic"]:
            spm = machine["spm"][engine["spm"]]
            for r in range(table["regions"][k]):
                _add_stream(banks, table["region_addr"][k][r], table["region_bytes"][k][r], spm["line"], spm["banks"])
        yield ComputeJob(table["entry"][k], table["engine"][k], table["init"][k], banks, table["finalize"][k])


def _add_stream(banks: list[int], addr: int, nbytes: int, width: int, count: int) -> None:
    """Add the banks of a region of `nbytes` at `addr`, spread evenly over the body cycles `banks`."""
    if banks:
        share = -(-nbytes // len(banks))
        for line in range(addr // width, -(-(addr + nbytes) // width)):
            banks[max(0, line * width - addr) // share] |= 1 << line % count  # the first line may begin before the region
