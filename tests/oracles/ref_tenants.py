"""Several programs on one machine, by docs/model/tenants.md: queues of their own, engines of their own, shifted addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

from . import ref_jobs
from .ref_control import CONTROL, Control, Record
from .ref_dma import DmaEngine, DmaJob
from .ref_geometry import aligned_rows, dram_rows
from .ref_machine import completed
from .ref_system import SystemSimulation
from .ref_system_jobs import SystemJob
from .ref_system_parts import Roads, sections
from .reference import Simulation

Times = tuple[int | None, int | None, int | None]


class Queues:
    """The command queues of all tenants; a pass looks at their entries by (position, tenant)."""

    def __init__(
        self, programs: Sequence[dict[str, Any]], issue_width: int, spans: Sequence[Sequence[Sequence[int]]] | None = None
    ) -> None:
        """`spans`: of each tenant the records of each of its commands, where a micro-scheduler divides commands into jobs."""
        self.queues = [Control(program, issue_width) for program in programs]
        whole = spans or [[[at] for at in range(len(queue.records))] for queue in self.queues]
        #: (record, tenant), in the order of a pass.
        places = [(k, t, at) for t, those in enumerate(whole) for k, span in enumerate(those) for at in span]
        self.order = [(at, t) for _, t, at in sorted(places)]
        self.records = [record for queue in self.queues for record in queue.records]
        self.issue_width = issue_width

    @property
    def finished(self) -> bool:
        return all(queue.finished for queue in self.queues)

    def host(self, cycle: int) -> None:
        """Tenants have no host that writes entries."""

    def arriving(self, cycle: int) -> list[Record]:
        return []

    def host_works(self, cycle: int) -> bool:
        return False

    def issue(self, cycle: int, submit: Callable[[Record], None], done: Callable[[Record], None]) -> bool:
        room = self.issue_width if self.issue_width else len(self.records)
        acted = False
        while True:
            issued, shut = 0, set[int]()
            for at, t in self.order:
                record = self.queues[t].records[at]
                if t in shut:
                    continue
                if record.issue is None and self.queues[t]._ready(at, cycle):
                    if record.opcode in CONTROL:
                        record.issue = record.start = record.end = cycle
                        issued += 1
                        done(record)
                    elif room > 0:
                        record.issue = cycle
                        room -= 1
                        issued += 1
                        submit(record)
                if record.opcode == "BARRIER" and not Control._ended(record, cycle):
                    shut.add(t)
            acted = acted or issued > 0
            if not issued:
                return acted


class Shared(Simulation):
    """The weight of a job is that of its engine."""

    def _submit(self, record: Record) -> None:
        entry = record.entry
        if not record.opcode.startswith(("DMA_", "KV_")):
            super()._submit(record)
            return
        engine = self.dma[entry["dma_id"]]
        engine.pending.append(DmaJob(entry, self.submitted, {**self.machine, "dma": engine.dma}))
        self.submitted += 1


def simulate(
    machine: dict[str, Any], programs: Sequence[dict[str, Any]], quotas: Sequence[tuple[int, int | None]]
) -> tuple[str, list[list[Times]]]:
    """The status, and (issue, start, end) of each entry of each tenant. `quotas`: weight and outstanding of each."""
    whole, count = completed(machine), len(programs)
    spans = None
    if whole["control"].get("micro_scheduler") is not None:
        found = [ref_jobs.divided(machine, program) for program in programs]
        programs, spans = [of_jobs for of_jobs, _ in found], [one for _, one in found]
    own = whole["dma"]["engines"]
    wide = {**whole, "dma": {**whole["dma"], "engines": own * count}}
    if whole.get("noc"):
        wide["noc"] = {**whole["noc"], "dma_at": whole["noc"]["dma_at"] * count}
    moved = [[_moved(entry, t, count, whole) for entry in program["cmdq"]] for t, program in enumerate(programs)]
    run = Shared(wide, {"cmdq": []})
    width = whole["control"]["issue_width"]
    run.control = Queues([{"cmdq": entries} for entries in moved], width, spans)  # type: ignore[assignment]
    run.record_of = {id(record.entry): record for record in run.control.records}
    for number in range(own * count):
        weight, outstanding = quotas[number // own]
        channels = {
            name: {**one, "weight": one["weight"] * weight} for name, one in whole["dma"]["channels"].items()
        }
        most = outstanding or whole["dma"]["max_concurrent_transfers"]
        run.dma[number] = DmaEngine(number, {**whole["dma"], "channels": channels, "max_concurrent_transfers": most})
    status, times = run.run()["status"], _times(run)
    if spans is not None:
        ends = [[(one[span[0]], one[span[-1]]) for span in those] for one, those in zip(times, spans, strict=True)]
        times = [[(first[0], first[1], last[2]) for first, last in one] for one in ends]
    return status, times


def _times(run: Simulation) -> list[list[Times]]:
    return [[(one.issue, one.start, one.end) for one in queue.records] for queue in run.control.queues]  # type: ignore[attr-defined]


class SharedSystem(SystemSimulation):
    """Each PE has as many DMA engines as all tenants together. The weight of a job is that of its tenant."""

    quotas: Sequence[tuple[int, int | None]] = ()

    def _submit(self, record: Record) -> None:
        if not record.opcode.startswith(("DMA_", "KV_")):  # of endpoints and M_CPUs too, which have no quota
            super()._submit(record)
            return
        job = SystemJob(record.entry, self.submitted, self.site)
        self.submitted += 1
        job.weight *= self.quotas[record.entry["tenant_id"]][0]
        self.dma[job.engine].pending.append(job)


def simulate_system(
    system: dict[str, Any], programs: Sequence[dict[str, Any]], quotas: Sequence[tuple[int, int | None]], roads: Roads
) -> tuple[str, list[list[Times]]]:
    """`simulate` on a system."""
    count, whole = len(programs), sections(system)
    own = whole["dma"]["engines"]
    wide = {**system, "pe": {**system["pe"], "dma": {**system["pe"].get("dma", {}), "engines": own * count}}}
    moved = [[_moved_on_system(entry, t, count, system, roads) for entry in one["cmdq"]] for t, one in enumerate(programs)]
    # What the entries move decides what there is of the system; who waits for whom is known to the queue of each tenant alone.
    free = [{key: value for key, value in entry.items() if key != "deps_after"} for entries in moved for entry in entries]
    run = SharedSystem(wide, {"cmdq": free}, roads)
    run.quotas = quotas
    run.control = Queues([{"cmdq": entries} for entries in moved], whole["control"]["issue_width"])  # type: ignore[assignment]
    run.record_of = {id(record.entry): record for record in run.control.records}
    for number in range(own * count * len(run.site.pads)):
        most = quotas[number % (own * count) // own][1] or whole["dma"]["max_concurrent_transfers"]
        run.dma[number] = DmaEngine(number, {**run.machine["dma"], "max_concurrent_transfers": most})
    return run.run()["status"], _times(run)


def _moved_on_system(entry: dict[str, Any], tenant: int, count: int, system: dict[str, Any], roads: Roads) -> dict[str, Any]:
    """An entry in the parts of its tenant."""
    whole, cube = sections(system), system["cube"]
    align = whole["dma"]["alignment_bytes"]
    out = _in_scratchpad(entry, tenant, count, whole["spm"]) | {"tenant_id": tenant}
    if entry["opcode"].startswith(("DMA_", "KV_")):
        out["dma_id"] = entry.get("dma_id", 0) + tenant * whole["dma"]["engines"]
    for name in ("dram_addr", "dram_base_addr"):
        if name not in entry:
            continue
        _, slice_ = roads.memory(_first_byte(entry, whole["kv_layouts"], align))
        if slice_ is None:
            size, line = cube["sram"]["bytes"], align
        else:
            size = cube["hbm"]["capacity_bytes"] // (cube["hbm"].get("slices") or cube["pes"])
            line = lcm(whole["dram"]["channels"] * whole["dram"]["interleave_bytes"], align)
        out[name] += tenant * (size // count // line * line)
    return out


def _first_byte(entry: dict[str, Any], layouts: list[dict[str, int]], align: int) -> int:
    if entry["opcode"] == "HOST_COPY_TILE":
        return int(entry["dram_addr"]) // align * align
    return min(start for start, _ in aligned_rows(dram_rows(entry, layouts), align))


def _in_scratchpad(entry: dict[str, Any], tenant: int, count: int, spm: dict[str, Any]) -> dict[str, Any]:
    out = dict(entry)
    for name in [name.removesuffix("_bank") for name in entry if name.endswith("_bank")]:
        if spm["map"] == "blocked":
            out[f"{name}_bank"] += tenant * (spm["num_banks"] // count)
        else:
            width = spm["bank_width_bytes"]
            out[f"{name}_offset"] += tenant * (spm["bank_size_bytes"] // count // width * width)
    return out


def _moved(entry: dict[str, Any], tenant: int, count: int, machine: dict[str, Any]) -> dict[str, Any]:
    dram, spm = machine["dram"], machine["spm"]
    line = lcm(dram["channels"] * dram["interleave_bytes"], machine["dma"]["alignment_bytes"])
    out = _in_scratchpad(entry, tenant, count, spm)
    for name in ("dram_addr", "dram_base_addr"):
        if name in out:
            out[name] += tenant * (dram["capacity_bytes"] // count // line * line)
    if entry["opcode"].startswith(("DMA_", "KV_")):
        out["dma_id"] = entry.get("dma_id", 0) + tenant * machine["dma"]["engines"]
    return out
