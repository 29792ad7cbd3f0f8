"""Lower bounds of a run on an NPU, written from docs/model/bounds.md. Those of systems are in ref_system_bounds.py."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from .ref_control import Control, Record
from .ref_controller import ControllerChannel
from .ref_dma import DmaJob
from .ref_engines import Work, te_work, ve_work
from .ref_geometry import Scratchpad, ceil_div, pieces_by_channel
from .ref_machine import completed, exact

Moved = dict[str, int]  # [B] of each resource


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
    moved: Moved = {f"dram.ch{i}": 0 for i in range(full["dram"]["channels"])}
    works = {r.id: _work(r.entry, full) for r in control.records if r.opcode.startswith(("TE_", "VE_"))}
    found, jobs = critical_path(control, lambda record: _job(record, works, full, capacity, moved))
    return {"critical_path": found, **of_resources(moved, capacity, full), **of_engines(jobs, full["dma"])}


def critical_path(control: Control, job_of: Callable[[Record], Job | None]) -> tuple[int, list[Job]]:
    """The largest end if only dependencies delay a job, and the jobs that can be issued; control entries have no job."""
    ends: dict[int, int] = {}
    jobs: list[Job] = []
    while True:
        able = [(i, r) for i, r in enumerate(control.records) if r.id not in ends and _waits(control, i) <= ends.keys()]
        if not able:
            return max([0, *ends.values()]), jobs
        for i, record in able:
            begin = max([0, *(ends[other] for other in _waits(control, i))])
            job = job_of(record)
            if job is None:
                ends[record.id] = begin
                continue
            jobs.append(job)
            ends[record.id] = ceil_div(begin, job.period) * job.period + job.cycles


def _waits(control: Control, index: int) -> set[int]:
    """The ids that an entry waits for, with those that its place in the file gives."""
    record, before = control.records[index], control.records[:index]
    gates = {other.id for other in before if other.opcode == "BARRIER"}
    return {*record.waits_for, *gates, *(other.id for other in before if record.opcode == "END")}


def of_resources(moved: Moved, capacity: dict[str, Fraction], full: dict[str, Any]) -> dict[str, int]:
    """The cycles that each resource needs for its bytes, without those that may stay in write queues."""
    posted = 0
    if full["allocation"] == "row_buffer_v2":
        channel = ControllerChannel(full["dram"])
        posted = channel.t["write_queue"] * channel.t["burst_bytes"]
    found = {}
    for name, nbytes in moved.items():
        waiting = posted if name.rpartition(".")[2].startswith("ch") else 0
        found[name] = ceil(Fraction(max(0, nbytes - waiting)) / capacity[name])
    return found


def of_engines(jobs: list[Job], dma: dict[str, Any]) -> dict[str, int]:
    """The cycles that each engine needs for its jobs."""
    return {engine: _engine([job for job in jobs if job.engine == engine], dma) for engine in {job.engine for job in jobs}}


def _engine(jobs: list[Job], dma: dict[str, Any]) -> int:
    if jobs[0].ticks == 0:
        each = [min(one["max_concurrent"], dma["queue_depth_per_master"]) for one in dma["channels"].values()]
        return ceil_div(sum(job.cycles for job in jobs), min(dma["max_concurrent_transfers"], sum(each)))
    period = jobs[0].period
    shared = min(job.hidden for job in jobs) + min(job.tail for job in jobs)
    return (sum(job.ticks for job in jobs) + shared) * period - (period - 1)


def moving(own: Moved, capacity: dict[str, Fraction], longest: int, row: int) -> int:
    """The cycles of a transfer after its head latency. `longest`: [B] of its longest flow, 0 if no banks limit it."""
    return max(1, *(ceil(nbytes / capacity[name]) for name, nbytes in own.items()), ceil_div(longest, row))


def of_work(work: Work, engine: str, period: int, same: list[Work]) -> Job:
    """A job of a tensor or vector engine; `same`: all jobs of this engine, also those that are never issued."""
    hidden = tail = 0
    if work.parts is not None:
        others = [other.parts for other in same if other.parts is not None]
        most, free = max(p.last for p in others), max(p.spare for p in others)
        left = max(work.parts.wires - most, work.parts.port - free, 0)
        hidden = max(0, min(work.parts.load - left, work.parts.load + work.parts.stream - 1))
        tail = work.parts.rest
    return Job(engine, period, (work.total - hidden - 1) * period + 1, work.total - hidden - tail, hidden, tail)


def _capacities(full: dict[str, Any]) -> dict[str, Fraction]:
    dram, noc = full["dram"], full["noc"]
    bus = min(exact(dram["peak_bw_bytes_per_cycle"]), Fraction(dram["bus_width_bytes"], dram["dram_burst_cycles"]))
    channel = ControllerChannel(dram).peak if full["allocation"] == "row_buffer_v2" else bus / dram["period"]
    found = {f"dram.ch{i}": channel for i in range(dram["channels"])}
    if full["llc"] is not None:
        found["llc"] = exact(full["llc"]["bw_bytes_per_cycle"])
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
    record: Record, works: dict[int, Work], full: dict[str, Any], capacity: dict[str, Fraction], moved: Moved
) -> Job | None:
    entry = record.entry
    if record.id in works:
        kind = record.opcode[:2].lower()
        same = [other for other in works.values() if other.entry.get("te_id", 0) == entry.get("te_id", 0)]
        return of_work(works[record.id], f"{kind}{entry.get(f'{kind}_id', 0)}", full[kind]["period"], same)
    if not record.opcode.startswith(("DMA_", "KV_")):
        return None
    job = DmaJob(entry, 0, full)
    own: Moved = {}
    for flow in job.flows:
        for name in flow.route:
            own[name] = own.get(name, 0) + int(flow.total / job.ratio)
    if full["llc"] is not None:
        own["llc"] = sum(nbytes for _, nbytes in job.rows)
    for name, nbytes in own.items():
        moved[name] = moved.get(name, 0) + nbytes
    longest = max((flow.total for flow in job.flows), default=0)  # 0: a cache decides what its flows are
    row = full["spm"]["num_banks"] * full["spm"]["bank_width_bytes"]
    return Job(f"dma{job.engine}", full["dma"]["period"], _head(job, full) + moving(own, capacity, longest, row), 0, 0, 0)


def _head(job: DmaJob, full: dict[str, Any]) -> int:
    """With a cache, the smaller of the head latencies of a transfer that hits and of one that misses."""
    llc, dram, noc = full["llc"], full["dram"], full["noc"]
    if llc is None:
        return job.head
    hop = 0 if noc is None else noc["hop_latency_cycles"]
    used = pieces_by_channel(job.rows, job.spm_addr, job.spm.width, dram["channels"], dram["interleave_bytes"])
    miss = dram["t_setup_cycles"] + hop * max(len(job.links_over_cache(channel)) for channel in used)
    return int(min(llc["latency_cycles"] + hop * len(job.links_of_cache()), miss))
