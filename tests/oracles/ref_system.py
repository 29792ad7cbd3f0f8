"""The slow, obvious simulator of programs on systems: docs/model with many PEs (docs/model/systems.md).

Phases, shares, banks and engines are those of one NPU (`reference.py`); here are more of them, under other names. Programs are
taken to be valid. Routes and addresses come from `roads`: what they are is not this reference's question.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .ref_banks import Banks
from .ref_cache import Cache
from .ref_control import Control, Record
from .ref_controller import ControllerChannel
from .ref_dma import DmaEngine, DmaJob
from .ref_engines import ServiceEngine, Work, te_work, tensor_engine, ve_work
from .ref_geometry import Range, Scratchpad, overlap
from .ref_machine import exact
from .ref_rows import RowChannel
from .ref_system_jobs import Site, SystemJob, cache_name, moves
from .ref_system_parts import Roads, kind_of, numbered
from .reference import Simulation

COMPONENT = 6  # engine type of an M_CPU
CPU = {"period": 1, "spm_traffic": False}


def simulate_system(system: dict[str, Any], program: dict[str, Any], roads: Roads) -> dict[str, Any]:
    """Run `program` on `system`: status, cycles, entries and counters as in a result (docs/model/formats.md), and `overlaps`.

    An overlap is (cycle, id of the entry that starts, id of the first one in the file that it overlaps).
    """
    run = SystemSimulation(system, program, roads)
    return {**run.run(), "overlaps": sorted(run.overlaps)}


class SystemSimulation(Simulation):
    """The state of one run on a system; only what the program uses is there."""

    def __init__(self, system: dict[str, Any], program: dict[str, Any], roads: Roads) -> None:
        self.site = site = Site(system, program, roads)
        self.machine = machine = site.machine
        self.spm = Scratchpad(machine["spm"])  # of one PE
        self.banks = Banks({**machine["spm"], "num_banks": self.spm.banks * len(site.pads)})
        self.control = Control(program, machine["control"]["issue_width"], machine["control"].get("mmio"))
        self.record_of = {id(record.entry): record for record in self.control.records}
        self._add_engines()
        for entry in moves(program):
            SystemJob(entry, 0, site)  # to know its resources
        self.capacity = {**self._channels(), **site.capacity}
        self.resource = {name: {"bytes": 0, "busy": 0, "member_cycles": 0} for name in self.capacity}
        dram, channels = machine["dram"], self._channels()
        self.rows = {name: RowChannel(dram) for name in channels if machine["allocation"] == "row_buffer_v1"}
        self.controllers = {name: ControllerChannel(dram) for name in channels if machine["allocation"] == "row_buffer_v2"}
        llc = machine["llc"]
        stacks = sorted({memory for memory, _ in site.slices}) if llc is not None else []
        self.caches = [Cache(llc, cache_name(stack)) for stack in stacks]
        self.capacity |= {cache.name: exact(llc["bw_bytes_per_cycle"]) for cache in self.caches}
        self.resource |= {cache.name: {"bytes": 0, "busy": 0, "member_cycles": 0} for cache in self.caches}
        self.members = []
        self.submitted = 0
        self.running = []
        self.overlaps: list[tuple[int, int, int]] = []

    def _cache_of(self, job: DmaJob) -> Cache | None:
        assert isinstance(job, SystemJob)
        return next((cache for cache in self.caches if cache.name == job.cache), None)

    def _add_engines(self) -> None:
        machine, pads = self.machine, list(self.site.pads.values())
        dmas = len(pads) * machine["dma"]["engines"] + len(self.site.parts.endpoints)
        tes, ves = machine["te"]["engines"], machine["ve"]["engines"]
        self.dma = [DmaEngine(i, machine["dma"]) for i in range(dmas)]
        self.te = [tensor_engine(i, machine["te"], pads[i // tes]) for i in range(tes * len(pads))]
        self.ve = [ServiceEngine(2, i, machine["ve"], pads[i // ves], "ops") for i in range(ves * len(pads))]
        self.cpus = [ServiceEngine(COMPONENT, i, CPU, self.spm, "launches") for i in range(len(self.site.parts.cpus))]
        self.services = [*self.te, *self.ve, *self.cpus]

    def _channels(self) -> dict[str, Fraction]:
        """Bytes per cycle of the channels of every slice in use."""
        dram = self.machine["dram"]
        bus = exact(dram["bus_width_bytes"]) / exact(dram["dram_burst_cycles"])
        capacity = min(exact(dram["peak_bw_bytes_per_cycle"]), bus) / dram["period"]
        if self.machine["allocation"] == "row_buffer_v2":
            capacity = ControllerChannel(dram).peak
        per = dram["channels"]
        slices = sorted(self.site.slices, key=lambda at: (_stack(at[0]), at[1]))
        return {f"{memory}.ch{number * per + i}": capacity for memory, number in slices for i in range(per)}

    def _submit(self, record: Record) -> None:
        entry, seq, site = record.entry, self.submitted, self.site
        self.submitted += 1
        if kind_of(record.opcode) == "cpu":
            m_cpu = site.node(entry)
            cycles = site.launch_cycles(m_cpu)
            work = Work(entry, seq, cycles, 0, cycles, [], [], entry.get("counts", 1))
            self.cpus[site.parts.cpus.index(m_cpu)].queue.append(work)
        elif record.opcode.startswith(("TE_", "VE_")):
            kind = record.opcode[:2].lower()
            engines, work = (self.te, te_work) if kind == "te" else (self.ve, ve_work)
            node, each = site.node(entry), self.machine[kind]["engines"]
            number = site.parts.pes.index(node) * each + entry.get(f"{kind}_id", 0)
            engines[number].queue.append(work(entry, seq, self.machine[kind], site.pads[node]))
        else:
            job = SystemJob(entry, seq, site)
            self.dma[job.engine].pending.append(job)

    def _record_start(self, cycle: int, record: Record, reads: list[Range], writes: list[Range]) -> None:
        both = [(other, _clash(reads, writes, its_reads, its_writes)) for other, its_reads, its_writes in self.running]
        early = [self.control.records.index(other) for other, clash in both if clash]
        if early and self.machine["spm"]["check_overlap"] != "none":
            self.overlaps.append((cycle, record.id, self.control.records[min(early)].id))
        super()._record_start(cycle, record, reads, writes)

    def _counters(self) -> dict[str, Any]:
        site, machine = self.site, self.machine
        counters: dict[str, Any] = {}
        each = machine["dma"]["engines"]
        names = [numbered(f"{pe}.pe_dma", i, each) for pe in site.parts.pes for i in range(each)]
        counters.update(zip([*names, *site.parts.endpoints], (engine.counters() for engine in self.dma), strict=True))
        for kind, part, engines in (("te", "pe_gemm", self.te), ("ve", "pe_math", self.ve)):
            each = machine[kind]["engines"]
            names = [numbered(f"{pe}.{part}", i, each) for pe in site.parts.pes for i in range(each)]
            counters.update(zip(names, (engine.counters() for engine in engines), strict=True))
        counters.update(zip(site.parts.cpus, (cpu.counters() for cpu in self.cpus), strict=True))
        edges = [name for name in site.capacity if self.resource[name]["busy"]]
        counters.update({name: self.resource[name] for name in [*self._channels(), *site.roads.in_order(edges)]})
        for name, channel in (*self.rows.items(), *self.controllers.items()):
            counters[name] = {**counters[name], **channel.count}
        counters.update({cache.name: self.resource[cache.name] | cache.count for cache in self.caches})
        of_all = self.banks.counters()
        for pe, pad in site.pads.items():
            here = slice(pad.first_bank, pad.first_bank + pad.banks)
            counters[f"{pe}.pe_tcm"] = {kind: counts[here] for kind, counts in of_all.items()}
        return counters


def _stack(memory: str) -> tuple[int, int]:
    sip, cube = memory.split(".")[:2]
    return int(sip.removeprefix("sip")), int(cube.removeprefix("cube"))


def _clash(reads: list[Range], writes: list[Range], its_reads: list[Range], its_writes: list[Range]) -> bool:
    """Whether two jobs' ranges overlap where one writes; addresses of different scratchpads differ."""
    return any(overlap(a, b) for a in writes for b in its_reads + its_writes) or any(
        overlap(a, b) for a in reads for b in its_writes
    )
