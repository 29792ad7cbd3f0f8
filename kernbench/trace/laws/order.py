"""Laws of single lines: their order, their level, the tracks that they name."""

from __future__ import annotations

from kernbench.trace.events import Record
from kernbench.trace.laws.law import Context
from kernbench.trace.schema import LEVELS, PHASES

#: What a wait's events stand in, where the table of events has one phase for all: (STALL_EVENT, RESUME_EVENT).
_WAITS = {"queue_full": (3, 3), "priority_deferred": (3, 3), "backpressure": (7, 6), "bank_conflict": (5, 6)}
_OF_COMMAND = {"IRQ_EMIT", "TOKEN_COMPLETE", "MARKER", "TOKEN"}  # phase 2 where a control command ends
_KINDS = {"DMA_START": "DMA", "DMA_END": "DMA", "TE_START": "TE", "TE_END": "TE", "VE_START": "VE", "VE_END": "VE"}
_KINDS |= dict.fromkeys(("DRAM_TX_START", "DRAM_TX_END", "DRAM_TX_SUSPEND", "DRAM_TX_RESUME"), "DRAM")
_KINDS |= {"NOC_TX_START": "NOC", "NOC_TX_END": "NOC", "SRAM_CONFLICT": "SRAM", "BANK_SAMPLE": "SRAM"}
_KINDS |= {"SRAM_ACCESS": "SRAM", "MEM_ACCESS_EVENT": "DMA"}


class Order:
    """Where the file is, cycle and phase."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.t_cycle: int = context.meta.t_cycle
        self.phase = 0
        self._level = LEVELS.index(context.meta.level) if context.meta.level in LEVELS else len(LEVELS)

    def look(self, record: Record) -> None:
        """A line that fits the schema."""
        name = record.event.name
        self._place(record, name)
        high = LEVELS.index(record.event.level) > self._level
        if high or (not self.context.full and name in ("STALL_EVENT", "RESUME_EVENT") and record.reason == "bank_conflict"):
            self.context.say("level", f"{name} does not belong to a file of level {self.context.meta.level}")
        unit = getattr(record, "unit", None)
        if unit is None:
            return
        kind = self.context.units.get(unit)
        if kind is None:
            self.context.say("track", f"{name} is of {unit}, which is no track of TRACE_META")
        elif name in _KINDS and kind != _KINDS[name]:
            self.context.say("track", f"{name} is of {unit}, which is no track of {_KINDS[name]}, but of {kind}")

    def _place(self, record: Record, name: str) -> None:
        t_cycle, phase = record.t_cycle, record.event.phase
        if phase == 3 and name != "DMA_START":
            phase = self._start(record, name)
        elif phase == 0:
            phase = self._end(record, name)
        if t_cycle < self.t_cycle:
            if name == "CMD_ENQUEUE":  # in a window's file they keep the cycle in which they were queued
                return
            self.context.say("order", f"cycle {t_cycle} comes after cycle {self.t_cycle}")
        elif t_cycle == self.t_cycle and phase < self.phase:
            text = f"{name} of phase {PHASES[phase]} comes after phase {PHASES[self.phase]} of cycle {t_cycle}"
            self.context.say("order", text)
        self.t_cycle, self.phase = t_cycle, phase

    def _start(self, record: Record, name: str) -> int:
        if name == "CMD_START":
            return 2 if self.context.units.get(record.unit) == "CPU" else 3
        if name in ("STALL_EVENT", "RESUME_EVENT"):
            return _WAITS[record.reason][name == "RESUME_EVENT"]
        return 3

    def _end(self, record: Record, name: str) -> int:
        if name == "CMD_END":
            if record.status != "OK":
                return 8
            return 2 if self.context.units.get(record.unit) == "CPU" else 0
        control = name in _OF_COMMAND and record.t_cycle == self.t_cycle and self.phase == 2
        return 2 if control else 0

    def finish(self, end: Record, events: int) -> None:
        """The last line."""
        say = self.context.say
        if end.t_cycle < self.t_cycle:
            say("order", f"cycle {end.t_cycle} comes after cycle {self.t_cycle}")
        if end.t_cycle != end.cycles:
            say("end", f"TRACE_END stands at cycle {end.t_cycle}, but the run has {end.cycles}")
        if end.events != events:
            say("end", f"TRACE_END says {end.events} events, but there are {events}")
