"""Lower bounds of a run on an NPU without a last-level cache, written from docs/model/bounds.md."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from .ref_control import Control, Record
from .ref_controller import ControllerChannel
from .ref_dma import DmaJob
from .ref_engines import Work, te_work, ve_work
from .ref_geometry import Scratchpad, ceil_div
from .ref_machine import completed, exact


class Job(NamedTuple):
    """What one entry adds to the bounds."""

    engine: str
    period: int
    cycles: int  # duration
    ticks: int  # of an engine's work that no other job shares; 0 for a transfer
    hidden: int
    tail: int


def bounds(machine: dict[str, Any], program: dict[str, Any]) -> dict[str, int]:
    """The critical path, then each resource and engine, as `metrics.bounds` of a result."""
    full = completed(machine)
    control = Control(program, 0)
    capacity = _capacities(full)
    moved: dict[str, int] = {f"dram.ch{i}": 0 for i in range(full["dram"]["channels"])}
    ends: dict[int, int] = {}
    jobs: list[Job] = []
    works = {r.id: _work(r.entry, full) for r in control.records if r.opcode.startswith(("TE_", "VE_"))}
    while True:
        able = [(i, r) for i, r in enumerate(control.records) if r.id not in ends and _waits(control, i) <= ends.keys()]
        if not able:
            break
        for i, record in able:
            begin = max([0, *(ends[other] for other in _waits(control, i))])
            job = _job(record, works, full, capacity, moved)
            if job is None:
                ends[record.id] = begin
                continue
            jobs.append(job)
            ends[record.id] = ceil_div(begin, job.period) * job.period + job.cycles
    found = {"critical_path": max([0, *ends.values()])}
    posted = 0
    if full["allocation"] == "row_buffer_v2":
        channel = ControllerChannel(full["dram"])
        posted = channel.t["write_queue"] * channel.t["burst_bytes"]
    for name, nbytes in moved.items():
        waiting = posted if name.startswith("dram.") else 0
        found[name] = ceil(Fraction(max(0, nbytes - waiting)) / capacity[name])
    for engine in {job.engine for job in jobs}:
        found[engine] = _engine([job for job in jobs if job.engine == engine], full["dma"])
    return found


def _waits(control: Control, index: int) -> set[int]:
    """The ids that an entry waits for, with those that its place in the file gives."""
    record, before = control.records[index], control.records[:index]
    gates = {other.id for other in before if other.opcode == "BARRIER"}
    return {*record.waits_for, *gates, *(other.id for other in before if record.opcode == "END")}


def _capacities(full: dict[str, Any]) -> dict[str, Fraction]:
    dram, noc = full["dram"], full["noc"]
    bus = min(exact(dram["peak_bw_bytes_per_cycle"]), Fraction(dram["bus_width_bytes"], dram["dram_burst_cycles"]))
    channel = ControllerChannel(dram).peak if full["allocation"] == "row_buffer_v2" else bus / dram["period"]
    found = {f"dram.ch{i}": channel for i in range(dram["channels"])}
    for engine in range(full["dma"]["engines"]):
        for number, codec in enumerate(full["dma"]["codecs"]):
            found[f"dma{engine}.codec{number}"] = exact(codec["bytes_per_cycle"]) / exact(codec["ratio"])
    if noc is not None:
        sides = ((0, 1), (0, -1), (1, 0), (-1, 0))
        places = [(row, col) for row in range(noc["rows"]) for col in range(noc["cols"])]
        for row, col in places:
            for down, right in sides:
                found[f"noc.r{row}c{col}-r{row + down}c{col + right}"] = exact(noc["link_bytes_per_cycle"])
    return found


def _work(entry: dict[str, Any], full: dict[str, Any]) -> Work:
    kind = "te" if entry["opcode"].startswith("TE_") else "ve"
    return (te_work if kind == "te" else ve_work)(entry, 0, full[kind], Scratchpad(full["spm"]))


def _job(
    record: Record, works: dict[int, Work], full: dict[str, Any], capacity: dict[str, Fraction], moved: dict[str, int]
) -> Job | None:
    entry = record.entry
    if record.id in works:
        kind = record.opcode[:2].lower()
        engine, period, work = f"{kind}{entry.get(f'{kind}_id', 0)}", full[kind]["period"], works[record.id]
        hidden = tail = 0
        if work.parts is not None:
            same = [other for other in works.values() if other.entry.get("te_id", 0) == entry.get("te_id", 0)]
            others = [other.parts for other in same if other.parts is not None]
            most, free = max(p.last for p in others), max(p.spare for p in others)
            left = max(work.parts.wires - most, work.parts.port - free, 0)
            hidden = max(0, min(work.parts.load - left, work.parts.load + work.parts.stream - 1))
            tail = work.parts.rest
        return Job(engine, period, (work.total - hidden - 1) * period + 1, work.total - hidden - tail, hidden, tail)
    if not record.opcode.startswith(("DMA_", "KV_")):
        return None
    job = DmaJob(entry, 0, full)
    own: dict[str, int] = {}
    for flow in job.flows:
        for name in flow.route:
            own[name] = own.get(name, 0) + int(flow.total / job.ratio)
    for name, nbytes in own.items():
        moved[name] = moved.get(name, 0) + nbytes
    row = full["spm"]["num_banks"] * full["spm"]["bank_width_bytes"]
    moving = max(1, *(ceil(nbytes / capacity[name]) for name, nbytes in own.items()))
    cycles = job.head + max(moving, ceil_div(max(flow.total for flow in job.flows), row))
    return Job(f"dma{job.engine}", full["dma"]["period"], cycles, 0, 0, 0)


def _engine(jobs: list[Job], dma: dict[str, Any]) -> int:
    if jobs[0].engine.startswith("dma"):
        each = [min(one["max_concurrent"], dma["queue_depth_per_master"]) for one in dma["channels"].values()]
        return ceil_div(sum(job.cycles for job in jobs), min(dma["max_concurrent_transfers"], sum(each)))
    period = jobs[0].period
    shared = min(job.hidden for job in jobs) + min(job.tail for job in jobs)
    return (sum(job.ticks for job in jobs) + shared) * period - (period - 1)
