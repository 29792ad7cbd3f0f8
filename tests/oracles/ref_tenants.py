"""Several programs on one NPU, by docs/model/tenants.md: queues of their own, engines of their own, shifted addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

from .ref_control import CONTROL, Control, Record
from .ref_dma import DmaEngine, DmaJob
from .ref_machine import completed
from .reference import Simulation


class Queues:
    """The command queues of all tenants; a pass looks at their entries by (position, tenant)."""

    def __init__(self, programs: Sequence[dict[str, Any]], issue_width: int) -> None:
        self.queues = [Control(program, issue_width) for program in programs]
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
        order = sorted((at, t) for t, queue in enumerate(self.queues) for at in range(len(queue.records)))
        acted = False
        while True:
            issued, shut = 0, set[int]()
            for at, t in order:
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
) -> tuple[str, list[list[tuple[int | None, int | None, int | None]]]]:
    """The status, and (issue, start, end) of each entry of each tenant. `quotas`: weight and outstanding of each."""
    whole, count = completed(machine), len(programs)
    own = whole["dma"]["engines"]
    wide = {**whole, "dma": {**whole["dma"], "engines": own * count}}
    if whole.get("noc"):
        wide["noc"] = {**whole["noc"], "dma_at": whole["noc"]["dma_at"] * count}
    moved = [[_moved(entry, t, count, whole) for entry in program["cmdq"]] for t, program in enumerate(programs)]
    run = Shared(wide, {"cmdq": []})
    run.control = Queues([{"cmdq": entries} for entries in moved], whole["control"]["issue_width"])  # type: ignore[assignment]
    run.record_of = {id(record.entry): record for record in run.control.records}
    for number in range(own * count):
        weight, outstanding = quotas[number // own]
        channels = {
            name: {**one, "weight": one["weight"] * weight} for name, one in whole["dma"]["channels"].items()
        }
        most = outstanding or whole["dma"]["max_concurrent_transfers"]
        run.dma[number] = DmaEngine(number, {**whole["dma"], "channels": channels, "max_concurrent_transfers": most})
    status = run.run()["status"]
    return status, [[(one.issue, one.start, one.end) for one in queue.records] for queue in run.control.queues]  # type: ignore[attr-defined]


def _moved(entry: dict[str, Any], tenant: int, count: int, machine: dict[str, Any]) -> dict[str, Any]:
    dram, spm = machine["dram"], machine["spm"]
    line = lcm(dram["channels"] * dram["interleave_bytes"], machine["dma"]["alignment_bytes"])
    out = dict(entry)
    for name in ("dram_addr", "dram_base_addr"):
        if name in out:
            out[name] += tenant * (dram["capacity_bytes"] // count // line * line)
    for name in [name.removesuffix("_bank") for name in entry if name.endswith("_bank")]:
        if spm["map"] == "blocked":
            out[f"{name}_bank"] += tenant * (spm["num_banks"] // count)
        else:
            width = spm["bank_width_bytes"]
            out[f"{name}_offset"] += tenant * (spm["bank_size_bytes"] // count // width * width)
    if entry["opcode"].startswith(("DMA_", "KV_")):
        out["dma_id"] = entry.get("dma_id", 0) + tenant * machine["dma"]["engines"]
    return out
