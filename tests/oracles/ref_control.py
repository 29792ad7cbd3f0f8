"""Control (docs/model/control.md, P2): which entries are issued in a cycle, by passes in file order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CONTROL = ("NOP", "BARRIER", "END")


class Record:
    """An entry of the program with what is known of its timing."""

    def __init__(self, index: int, entry: dict[str, Any]) -> None:
        self.entry = entry
        self.opcode: str = entry["opcode"]
        self.id: int = entry.get("id", index)
        self.waits_for: list[int] = [*entry.get("deps_before", []), *entry.get("wait_for", [])]
        self.arrival: int | None = 0  # None: the host has not begun to write it
        self.issue: int | None = None
        self.start: int | None = None
        self.end: int | None = None


class Control:
    """The command queue: a fixed list of records, issued as their dependencies complete."""

    def __init__(self, program: dict[str, Any], issue_width: int, mmio: dict[str, int] | None = None) -> None:
        self.records = [Record(i, entry) for i, entry in enumerate(program["cmdq"])]
        self.by_id = {record.id: record for record in self.records}
        self.issue_width = issue_width
        for record in self.records:
            for later in record.entry.get("deps_after", []):
                self.by_id[later].waits_for.append(record.id)
        self.mmio = mmio
        self.free = 0  # the cycle from which on the host writes nothing
        for record in self.records:
            if mmio is not None and record.entry.get("source") == "MMIO":
                record.arrival = None

    def arriving(self, cycle: int) -> list[Record]:
        """The entries that arrive in the queue in `cycle`."""
        return [record for record in self.records if record.arrival == cycle and cycle > 0]

    def host(self, cycle: int) -> None:
        """The end of P2: the host may begin to write an entry."""
        if self.mmio is None or cycle < self.free:
            return
        known = [record for record in self.records if record.arrival is None and self._known(record, cycle)]
        if known:
            self.free = cycle + self.mmio["write_cycles"]
            known[0].arrival = self.free + self.mmio["latency_cycles"]

    def host_works(self, cycle: int) -> bool:
        """Whether an entry is on its way to the queue, or is known now or later without anything else."""
        if self.mmio is None:
            return False
        later = cycle + self.mmio["interrupt_cycles"]
        return any(
            record.arrival > cycle if record.arrival is not None else self._known(record, later) for record in self.records
        )

    def _known(self, record: Record, cycle: int) -> bool:
        assert self.mmio is not None
        raised = [other for other in map(self.by_id.__getitem__, record.waits_for) if "irq_line" in other.entry]
        return all(other.end is not None and other.end + self.mmio["interrupt_cycles"] <= cycle for other in raised)

    @property
    def finished(self) -> bool:
        """Whether every entry has ended."""
        return all(record.end is not None for record in self.records)

    def issue(self, cycle: int, submit: Callable[[Record], None], completed: Callable[[Record], None]) -> bool:
        """P2 of `cycle`: hand ready engine jobs to `submit`, and tell of control entries; whether anything was issued."""
        acted = False
        room = self.issue_width if self.issue_width else len(self.records)
        while True:
            before = acted
            issued = 0
            for i, record in enumerate(self.records):
                here = record.arrival is not None and record.arrival <= cycle
                if record.issue is None and here and self._ready(i, cycle):
                    if record.opcode in CONTROL:
                        record.issue = record.start = record.end = cycle
                        issued += 1
                        completed(record)
                    elif room > 0:
                        record.issue = cycle
                        room -= 1
                        issued += 1
                        submit(record)
                if record.opcode == "BARRIER" and not self._ended(record, cycle):
                    break  # nothing after an open barrier is issued
            acted = before or issued > 0
            if not issued:
                return acted

    def _ready(self, index: int, cycle: int) -> bool:
        record = self.records[index]
        if record.opcode == "END" and not all(self._ended(r, cycle) for r in self.records[:index]):
            return False
        return all(self._ended(self.by_id[other], cycle) for other in record.waits_for)

    @staticmethod
    def _ended(record: Record, cycle: int) -> bool:
        return record.end is not None and record.end <= cycle
