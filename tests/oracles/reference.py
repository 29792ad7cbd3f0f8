"""The slow, obvious simulator of docs/model: every cycle and every phase, exact rationals, nothing skipped.

It is written from docs/model alone and imports nothing of what it checks. Programs are taken to be valid
(docs/model/endings.md); machine dicts may leave out whatever docs/model/formats.md gives a default for.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

from .ref_banks import Banks
from .ref_cache import Cache, WriteBack
from .ref_control import Control, Record
from .ref_controller import ControllerChannel
from .ref_dma import DmaEngine, DmaJob, Flow
from .ref_engines import ServiceEngine, Work, te_work, tensor_engine, ve_work
from .ref_geometry import Range, Scratchpad, mesh_links, overlap
from .ref_machine import completed, exact
from .ref_rows import RowChannel
from .ref_share import rates


def simulate(machine: dict[str, Any], program: dict[str, Any]) -> dict[str, Any]:
    """Run `program` on `machine`; status, cycles, entries and counters as in the result of docs/model/formats.md."""
    return Simulation(completed(machine), program).run()


class OverlapError(Exception):
    """A job would start on a scratchpad range that another one uses, under `check_overlap: error`."""


class Simulation:
    """The state of one run; `machine` is complete."""

    def __init__(self, machine: dict[str, Any], program: dict[str, Any]) -> None:
        self.machine = machine
        self.spm = Scratchpad(machine["spm"])
        self.banks = Banks(machine["spm"])
        self.control = Control(program, machine["control"]["issue_width"], machine["control"].get("mmio"))
        self.record_of = {id(record.entry): record for record in self.control.records}
        self.dma = [DmaEngine(i, machine["dma"]) for i in range(machine["dma"]["engines"])]
        self.te = [tensor_engine(i, machine["te"], self.spm) for i in range(machine["te"]["engines"])]
        self.ve = [ServiceEngine(2, i, machine["ve"], self.spm, "ops") for i in range(machine["ve"]["engines"])]
        self.services = [*self.te, *self.ve]
        self.capacity = _capacities(machine)
        self.resource = {name: {"bytes": 0, "busy": 0, "member_cycles": 0} for name in self.capacity}
        self.rows: dict[str, RowChannel] = {}
        if machine["allocation"] == "row_buffer_v1":
            self.rows = {f"dram.ch{i}": RowChannel(machine["dram"]) for i in range(machine["dram"]["channels"])}
        self.controllers: dict[str, ControllerChannel] = {}
        if machine["allocation"] == "row_buffer_v2":
            self.controllers = {f"dram.ch{i}": ControllerChannel(machine["dram"]) for i in range(machine["dram"]["channels"])}
        self.caches = [] if machine["llc"] is None else [Cache(machine["llc"])]
        self.members: list[Flow | WriteBack] = []
        self.submitted = 0
        self.running: list[tuple[Record, list[Range], list[Range]]] = []  # started, unfinished: reads, writes

    def run(self) -> dict[str, Any]:
        """Step cycle by cycle to the end of the run."""
        cycle = 0
        while True:
            if self.control.finished:
                return self._result("done", max([0, *(r.end for r in self.control.records if r.end is not None)]))
            if cycle >= self.machine["max_cycles"]:
                return self._result("aborted", cycle)
            for record in self.control.arriving(cycle):
                self._arrived(record, cycle)
            acted = self.control.issue(cycle, self._submit, self._completed)  # P2
            if self.control.finished:
                continue
            self.control.host(cycle)
            if not acted and not self._in_flight() and not self.control.host_works(cycle):
                return self._result("deadlock", cycle)
            try:
                self._start(cycle)  # P3
            except OverlapError:
                return self._result("failed", cycle)
            self._share(cycle)  # P4
            self._bank(cycle)  # P5
            self._move(cycle)  # P6
            self._routers(cycle)
            self._complete(cycle)  # P7
            cycle += 1

    def _submit(self, record: Record) -> None:
        entry, seq = record.entry, self.submitted
        self.submitted += 1
        if record.opcode.startswith("TE_"):
            self.te[entry.get("te_id", 0)].queue.append(te_work(entry, seq, self.machine["te"], self.spm))
        elif record.opcode.startswith("VE_"):
            self.ve[entry.get("ve_id", 0)].queue.append(ve_work(entry, seq, self.machine["ve"], self.spm))
        else:
            self.dma[entry.get("dma_id", 0)].pending.append(DmaJob(entry, seq, self.machine))

    def _arrived(self, record: Record, cycle: int) -> None:
        """An entry that the host wrote is in the queue: nothing to do, but something to see."""

    def _completed(self, record: Record) -> None:
        """A control entry completed in P2: nothing to do, but something to see."""

    def _cache_of(self, job: DmaJob) -> Cache | None:
        """The cache before the memory of a transfer."""
        return self.caches[0] if self.caches else None

    @property
    def _queues(self) -> list[WriteBack]:
        return [queue for cache in self.caches for queue in cache.queues.values()]

    def _looked_up(self, cycle: int, job: DmaJob, count: dict[str, int]) -> None:
        """The lookups of a job that starts were made: nothing to do, but something to see."""

    def _in_flight(self) -> bool:
        if any(engine.pending or engine.active for engine in self.dma):
            return True
        return any(engine.queue or engine.jobs_inside for engine in self.services)

    def _start(self, cycle: int) -> None:
        def dma_starts(job: DmaJob) -> None:
            self._record_start(cycle, self.record_of[id(job.entry)], job.reads, job.writes)
            cache = self._cache_of(job)
            if cache is not None:
                before = dict(cache.count)
                job.look_up(cache)
                self._looked_up(cycle, job, {name: count - before[name] for name, count in cache.count.items()})
            job.head += self._more_head(job)

        def work_starts(job: Work) -> None:
            self._record_start(cycle, self.record_of[id(job.entry)], job.reads, job.writes)

        for engine in self.dma:
            if self._may_start(cycle, engine):
                engine.admit(cycle, dma_starts)
        for service in self.services:
            if self._may_start(cycle, service):
                service.start(cycle, work_starts)

    def _may_start(self, cycle: int, engine: DmaEngine | ServiceEngine) -> bool:
        """Whether the PE of an engine has begun: only perturbed runs let one begin later."""
        return True

    def _more_head(self, job: DmaJob) -> int:
        """[cycle] Head latency that only perturbed runs add."""
        return 0

    def _record_start(self, cycle: int, record: Record, reads: list[Range], writes: list[Range]) -> None:
        if self.machine["spm"]["check_overlap"] == "error":
            for _, other_reads, other_writes in self.running:
                clash = [(a, b) for a in writes for b in other_reads + other_writes]
                clash += [(a, b) for a in reads for b in other_writes]
                if any(overlap(a, b) for a, b in clash):
                    raise OverlapError
        record.start = cycle
        self.running.append((record, reads, writes))

    def _share(self, cycle: int) -> None:
        joined: list[Flow | WriteBack] = [*self._joined(cycle)]
        joined += [queue for queue in self._queues if queue.left]
        members = _first_of_each_channel(joined) if self.machine["allocation"] == "fifo_v1" else joined
        if self.rows:
            self._share_rows(cycle, joined)
        elif self.controllers:
            self._share_controllers(cycle, joined)
        elif members != self.members:
            self.members = members
            sharers = [(flow.weight, flow.route) for flow in members]
            new_rates = rates(self.machine["allocation"], sharers, self.capacity)
            for flow, rate in zip(members, new_rates, strict=True):
                flow.set_rate(rate)
        for name, count in self.resource.items():
            here = sum(1 for flow in self.members if name in flow.route)
            count["member_cycles"] += here
            count["busy"] += 1 if here else 0

    def _joined(self, cycle: int) -> list[Flow]:
        """Flows that may use their resources."""
        return [
            flow
            for engine in self.dma
            for job in engine.active
            if cycle >= job.start + job.head
            for flow in job.flows
            if flow.left and not flow.out
        ]

    def _share_rows(self, cycle: int, joined: list[Any]) -> None:
        """`row_buffer_v1`: the flow whose burst is on a channel's data bus is its member; one without a channel always."""
        capacity = dict(self.capacity)
        members = []
        for name, channel in self.rows.items():
            burst = channel.step(cycle, [flow for flow in joined if flow.dram == name])
            if burst is not None:
                members.append(burst.flow)
                capacity[name] = channel.share(burst)
        self.members = [flow for flow in joined if flow.dram is None or flow in members]
        sharers = [(flow.weight, flow.route) for flow in self.members]
        for flow, rate in zip(self.members, rates("shared_bw_v1", sharers, capacity), strict=True):
            flow.set_rate(rate)

    def _share_controllers(self, cycle: int, joined: list[Any]) -> None:
        """`row_buffer_v2`: a flow is a member while its controller has bytes for it, or room; one without a channel always."""
        able: set[Flow] = set()
        for name, channel in self.controllers.items():
            able |= set(channel.step(cycle, [flow for flow in joined if flow.dram == name]))
        self.members = [flow for flow in joined if flow.dram is None or flow in able]
        weights: dict[str, int] = {}
        for flow in self.members:
            for name in flow.route:
                weights[name] = weights.get(name, 0) + flow.weight
        for flow in self.members:
            links = [self.capacity[name] * flow.weight / weights[name] for name in flow.route if name != flow.dram]
            if flow.dram is None:
                flow.set_rate(min(links))
            else:
                channel = self.controllers[flow.dram]
                flow.set_rate(channel.rate(flow, min(links, default=channel.peak), cycle))

    def _ask(self, cycle: int) -> None:
        for flow in self.members:
            if isinstance(flow, Flow) and flow.request is None:
                flow.ask(cycle, self.spm.banks * self.spm.width)

    def _bank(self, cycle: int) -> None:
        self._ask(cycle)
        for service in self.services:
            service.ask(cycle)
        holders: list[Flow | ServiceEngine] = [*self._flows(), *self.services]
        self.banks.arbitrate(cycle, [holder.request for holder in holders if holder.request is not None])
        for channel in self.rows.values():
            channel.after_requests()

    def _flows(self) -> list[Flow]:
        return [flow for engine in self.dma for job in engine.active for flow in job.flows]

    def _move(self, cycle: int) -> None:
        for flow in self._flows():
            if flow.request is not None and not flow.request.missing:
                flow.request = None
                flow.out = False
                flow.left -= flow.request_bytes
                flow.moved_at = cycle
                self.dma[flow.job.engine].count["bytes"] += flow.request_bytes
                self._count_bytes(flow)
        for queue in self._queues:
            moved = queue.move() if queue in self.members else 0
            self._written_back(queue, moved)
        for service in self.services:
            service.advance(cycle)
        for engine in self.dma:
            engine.count_cycle(cycle)

    def _count_bytes(self, flow: Flow) -> None:
        """Bytes of a served request."""
        carried = floor((flow.total - flow.left) / flow.job.ratio)
        for name in flow.route:
            self.resource[name]["bytes"] += carried - flow.carried
        flow.carried = carried

    def _routers(self, cycle: int) -> None:
        """P6b: only machines with routers have it."""

    def _ended(self, flow: Flow) -> bool:
        return not flow.left

    def _written_back(self, queue: WriteBack, moved: int) -> None:
        for name in queue.route:
            self.resource[name]["bytes"] += moved

    def _complete(self, cycle: int) -> None:
        backpressure = self.machine["spm"]["backpressure_cycles"]
        for flow in self._flows():
            first = flow.request.first_denied if flow.request is not None else None
            if first is not None and cycle - first + 1 >= backpressure:
                flow.out = True
        for queue in self._queues:
            queue.complete(cycle)
        ended: list[dict[str, Any]] = []
        for engine in self.dma:
            for job in [job for job in engine.active if all(self._ended(flow) for flow in job.flows)]:
                engine.active.remove(job)
                engine.count["jobs"] += 1
                ended.append(job.entry)
        ended += [work.entry for service in self.services for work in service.complete()]
        for entry in ended:
            self.record_of[id(entry)].end = cycle + 1
        self.running = [started for started in self.running if started[0].end is None]

    def _result(self, status: str, cycles: int) -> dict[str, Any]:
        entries = [
            {"id": r.id, "opcode": r.opcode, "issue": r.issue, "start": r.start, "end": r.end}
            for r in self.control.records
        ]
        return {"status": status, "cycles": cycles, "entries": entries, "counters": self._counters()}

    def _counters(self) -> dict[str, Any]:
        """Everything of docs/model/counters.md, by name."""
        counters: dict[str, Any] = {}
        counters.update({f"dma{i}": engine.counters() for i, engine in enumerate(self.dma)})
        counters.update({f"te{i}": engine.counters() for i, engine in enumerate(self.te)})
        counters.update({f"ve{i}": engine.counters() for i, engine in enumerate(self.ve)})
        used = {name: count for name, count in self.resource.items() if name.startswith(("dram.", "llc")) or count["busy"]}
        for cache in self.caches:
            used[cache.name] = {**used[cache.name], **cache.count}
        for name, count in [(name, channel.count) for name, channel in (*self.rows.items(), *self.controllers.items())]:
            used[name] = {**used[name], **count}
        counters.update(used)  # a link that no flow was ever a member of is not listed
        counters["spm"] = self.banks.counters()
        return counters


def _first_of_each_channel(joined: list[Any]) -> list[Any]:
    """`fifo_v1`: per DRAM channel the flow of the earliest started transfer, and every flow that has none."""
    first: dict[str, Flow] = {}
    for flow in sorted(joined, key=lambda f: f.turn):
        if flow.dram is not None:
            first.setdefault(flow.dram, flow)
    return [flow for flow in joined if flow.dram is None or first[flow.dram] is flow]


def _capacities(machine: dict[str, Any]) -> dict[str, Fraction]:
    """Bytes per cycle of each DRAM channel and directed link."""
    dram, noc = machine["dram"], machine["noc"]
    bus = exact(dram["bus_width_bytes"]) / exact(dram["dram_burst_cycles"])
    channel = min(exact(dram["peak_bw_bytes_per_cycle"]), bus) / dram["period"]
    if machine["allocation"] == "row_buffer_v2":
        channel = ControllerChannel(dram).peak
    capacity = {f"dram.ch{i}": channel for i in range(dram["channels"])}
    if noc is not None:
        capacity.update({name: exact(noc["link_bytes_per_cycle"]) for name in mesh_links(noc)})
    for k, codec in enumerate(machine["dma"]["codecs"]):
        own = exact(codec["bytes_per_cycle"]) / exact(codec["ratio"])
        capacity.update({f"dma{i}.codec{k}": own for i in range(machine["dma"]["engines"])})
    if machine["llc"] is not None:
        capacity["llc"] = exact(machine["llc"]["bw_bytes_per_cycle"])
    return capacity
