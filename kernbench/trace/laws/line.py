"""The record that the laws check: one object that is reused for all lines of a file, with the fields that laws need."""

from __future__ import annotations

from typing import Any

from kernbench.trace.events import Record
from kernbench.trace.schema import EVENTS, Event

#: Fields that some law checks, besides `t_cycle`.
NAMES = (
    "unit", "cmd_id", "job_id", "channel", "size_bytes", "latency_cycles", "stall_cycles", "mac_count", "op_count",
    "head_cycles", "total_cycles", "start_cycle", "end_cycle", "bytes", "duration_cycles", "num_requests", "allowed",
    "bank_id", "window_cycles", "busy_cycles", "member_cycles", "read_bytes", "write_bytes", "backpressure_cycles",
    "bank_conflict_cycles", "job_type", "status", "reason", "direction", "by", "requests", "grants", "denials",
    "dram_pj", "noc_pj", "spm_pj", "mac_pj", "ve_pj", "static_pj", "depth", "flit_cycles",
)  # fmt: skip


class Line:
    """One record. A field of the event that the line omits is None; fields of other events have undefined values."""

    def __init__(self) -> None:
        self.event: Event = EVENTS[0]
        self.number = 0  #: number of the event type
        self.component = ""  #: of the event type
        self.t_cycle: Any = 0
        self.now = 0  #: the same as `t_cycle`, for comparisons: a machine integer in compiled code
        self.unit: Any = None  #: also None if the event has no unit
        for name in NAMES[1:]:
            setattr(self, name, None)

    def take(self, record: Record) -> None:
        """Copy the fields of a decoded record."""
        self.event = record.event
        self.number = record.event.number
        self.component = record.event.component
        self.t_cycle = self.now = record.t_cycle
        for name in NAMES:
            setattr(self, name, getattr(record, name, None))

    def put(self, place: int, value: Any) -> None:
        """Set the field at an index of `NAMES`."""
        if place == 0:
            self.unit = value
        elif place == 1:
            self.cmd_id = value
        elif place == 2:
            self.job_id = value
        elif place == 3:
            self.channel = value
        elif place == 4:
            self.size_bytes = value
        elif place == 5:
            self.latency_cycles = value
        elif place == 6:
            self.stall_cycles = value
        elif place == 7:
            self.mac_count = value
        elif place == 8:
            self.op_count = value
        elif place == 9:
            self.head_cycles = value
        elif place == 10:
            self.total_cycles = value
        elif place == 11:
            self.start_cycle = value
        elif place == 12:
            self.end_cycle = value
        elif place == 13:
            self.bytes = value
        elif place == 14:
            self.duration_cycles = value
        elif place == 15:
            self.num_requests = value
        elif place == 16:
            self.allowed = value
        elif place == 17:
            self.bank_id = value
        elif place == 18:
            self.window_cycles = value
        elif place == 19:
            self.busy_cycles = value
        elif place == 20:
            self.member_cycles = value
        elif place == 21:
            self.read_bytes = value
        elif place == 22:
            self.write_bytes = value
        elif place == 23:
            self.backpressure_cycles = value
        elif place == 24:
            self.bank_conflict_cycles = value
        elif place == 25:
            self.job_type = value
        elif place == 26:
            self.status = value
        elif place == 27:
            self.reason = value
        elif place == 28:
            self.direction = value
        elif place == 29:
            self.by = value
        elif place == 30:
            self.requests = value
        elif place == 31:
            self.grants = value
        elif place == 32:
            self.denials = value
        elif place == 33:
            self.dram_pj = value
        elif place == 34:
            self.noc_pj = value
        elif place == 35:
            self.spm_pj = value
        elif place == 36:
            self.mac_pj = value
        elif place == 37:
            self.ve_pj = value
        elif place == 38:
            self.static_pj = value
        elif place == 39:
            self.depth = value
        elif place == 40:
            self.flit_cycles = value
