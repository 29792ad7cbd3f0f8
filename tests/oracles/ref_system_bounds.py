"""Lower bounds of a run on a system, written from docs/model/bounds.md."""

from __future__ import annotations

from typing import Any

from .ref_bounds import Job, Moved, critical_path, moving, of_engines, of_resources, of_work
from .ref_control import Record
from .ref_engines import Work, te_work, ve_work
from .ref_system import SystemSimulation
from .ref_system_jobs import SystemJob
from .ref_system_parts import Roads, kind_of, numbered


def system_bounds(system: dict[str, Any], program: dict[str, Any], roads: Roads) -> dict[str, int]:
    """The critical path, then each resource with bytes and each engine with jobs, as `metrics.bounds` of a result."""
    run = SystemSimulation(system, program, roads)  # only to know its parts
    machine, site = run.machine, run.site
    moved: Moved = {}
    works = {r.id: _work(r.entry, run) for r in run.control.records if r.opcode.startswith(("TE_", "VE_"))}

    def job_of(record: Record) -> Job | None:
        entry = record.entry
        if record.id in works:
            same = [works[r.id] for r in run.control.records if r.id in works and _name(r.entry, run) == _name(entry, run)]
            return of_work(works[record.id], _name(entry, run), machine[record.opcode[:2].lower()]["period"], same)
        if kind_of(record.opcode) == "cpu":
            cycles = site.launch_cycles(site.node(entry))
            return Job(site.node(entry), 1, cycles, cycles, 0, 0)
        if not record.opcode.startswith(("DMA_", "KV_", "HOST_")):
            return None
        job = SystemJob(entry, 0, site)
        own: Moved = {}
        for flow in job.flows:
            for name in flow.route:
                own[name] = own.get(name, 0) + flow.total
        longest = max((flow.total for flow in job.flows), default=0)
        head = job.head
        if job.cache:
            at = job.behind
            own[job.cache] = sum(nbytes for _, nbytes in at.rows)
            head = at.hops + min(machine["llc"]["latency_cycles"], machine["dram"]["t_setup_cycles"])
        for name, nbytes in own.items():
            moved[name] = moved.get(name, 0) + nbytes
        if record.opcode == "HOST_COPY_TILE":
            longest = 0  # no banks limit it
        row = machine["spm"]["num_banks"] * machine["spm"]["bank_width_bytes"]
        return Job(_name(entry, run), machine["dma"]["period"], head + moving(own, run.capacity, longest, row), 0, 0, 0)

    found, jobs = critical_path(run.control, job_of)
    return {"critical_path": found, **of_resources(moved, run.capacity, machine), **of_engines(jobs, machine["dma"])}


def _name(entry: dict[str, Any], run: SystemSimulation) -> str:
    """The engine that runs an entry."""
    node = run.site.node(entry)
    for kind, part in (("te", "pe_gemm"), ("ve", "pe_math")):
        if entry["opcode"].startswith(f"{kind.upper()}_"):
            return numbered(f"{node}.{part}", entry.get(f"{kind}_id", 0), run.machine[kind]["engines"])
    if entry["opcode"] == "HOST_COPY_TILE":
        return node
    return numbered(f"{node}.pe_dma", entry.get("dma_id", 0), run.machine["dma"]["engines"])


def _work(entry: dict[str, Any], run: SystemSimulation) -> Work:
    kind, of = ("te", te_work) if entry["opcode"].startswith("TE_") else ("ve", ve_work)
    return of(entry, 0, run.machine[kind], run.site.pads[run.site.node(entry)])
