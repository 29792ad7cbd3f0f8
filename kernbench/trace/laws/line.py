"""The record that the laws check: one object that is reused for all lines of a file, with the fields that laws need."""

from __future__ import annotations

from typing import Any

from kernbench.trace.events import MAX_INT, Record
from kernbench.trace.schema import EVENTS, Event

#: Integers that some law checks, besides `t_cycle`. They are machine integers in compiled code.
COUNTS = (
    "cmd_id", "job_id", "channel", "size_bytes", "latency_cycles", "stall_cycles", "mac_count", "op_count", "head_cycles",
    "total_cycles", "start_cycle", "end_cycle", "bytes", "duration_cycles", "num_requests", "allowed", "bank_id",
    "window_cycles", "busy_cycles", "member_cycles", "read_bytes", "write_bytes", "backpressure_cycles",
    "bank_conflict_cycles", "flit_cycles",
)  # fmt: skip
#: Other fields that some law checks.
OBJECTS = (
    "unit", "job_type", "status", "reason", "direction", "by", "requests", "grants", "denials", "dram_pj", "noc_pj",
    "spm_pj", "mac_pj", "ve_pj", "static_pj", "depth",
)  # fmt: skip
NAMES = COUNTS + OBJECTS
OMITTED = -1  #: value of an integer that a line omits; the schema allows no integer below 0
assert MAX_INT < 1 << 63  # then all integers of the schema are machine integers


class Line:
    """One record. An integer of the event that the line omits is OMITTED, and any other such field is None; fields of other
    events have undefined values.
    """

    def __init__(self) -> None:
        self.event: Event = EVENTS[0]
        self.number = 0  #: number of the event type
        self.component = ""  #: of the event type
        self.t_cycle = 0
        self.unit: Any = None  #: also None if the event has no unit
        for name in COUNTS:
            setattr(self, name, OMITTED)
        for name in OBJECTS[1:]:
            setattr(self, name, None)

    def take(self, record: Record) -> None:
        """Copy the fields of a decoded record."""
        self.event = record.event
        self.number = record.event.number
        self.component = record.event.component
        self.t_cycle = record.t_cycle
        for name in COUNTS:
            value = getattr(record, name, None)
            setattr(self, name, OMITTED if value is None else value)
        for name in OBJECTS:
            setattr(self, name, getattr(record, name, None))

    def count(self, index: int, value: int) -> None:
        """Set the integer at an index of `COUNTS`.

        A C compiler makes one jump of these comparisons; `setattr` would look up a name for every value of a trace.
        """
        if index == 0:
            self.cmd_id = value
        elif index == 1:
            self.job_id = value
        elif index == 2:
            self.channel = value
        elif index == 3:
            self.size_bytes = value
        elif index == 4:
            self.latency_cycles = value
        elif index == 5:
            self.stall_cycles = value
        elif index == 6:
            self.mac_count = value
        elif index == 7:
            self.op_count = value
        elif index == 8:
            self.head_cycles = value
        elif index == 9:
            self.total_cycles = value
        elif index == 10:
            self.start_cycle = value
        elif index == 11:
            self.end_cycle = value
        elif index == 12:
            self.bytes = value
        elif index == 13:
            self.duration_cycles = value
        elif index == 14:
            self.num_requests = value
        elif index == 15:
            self.allowed = value
        elif index == 16:
            self.bank_id = value
        elif index == 17:
            self.window_cycles = value
        elif index == 18:
            self.busy_cycles = value
        elif index == 19:
            self.member_cycles = value
        elif index == 20:
            self.read_bytes = value
        elif index == 21:
            self.write_bytes = value
        elif index == 22:
            self.backpressure_cycles = value
        elif index == 23:
            self.bank_conflict_cycles = value
        elif index == 24:
            self.flit_cycles = value

    def set(self, index: int, value: Any) -> None:
        """Set the field at an index of `OBJECTS`, in the same way."""
        if index == 0:
            self.unit = value
        elif index == 1:
            self.job_type = value
        elif index == 2:
            self.status = value
        elif index == 3:
            self.reason = value
        elif index == 4:
            self.direction = value
        elif index == 5:
            self.by = value
        elif index == 6:
            self.requests = value
        elif index == 7:
            self.grants = value
        elif index == 8:
            self.denials = value
        elif index == 9:
            self.dram_pj = value
        elif index == 10:
            self.noc_pj = value
        elif index == 11:
            self.spm_pj = value
        elif index == 12:
            self.mac_pj = value
        elif index == 13:
            self.ve_pj = value
        elif index == 14:
            self.static_pj = value
        elif index == 15:
            self.depth = value
