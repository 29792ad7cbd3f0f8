"""Converts the records of the core into the lines of a trace file, while the run continues."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.interrupts import interrupts_held, no_interrupt
from kernbench.sim_engine.recording.metadata import (
    TraceState,
    command_line,
    damaged,
    enqueue_line,
    enqueue_lines,
    meta_line,
    part_names,
    units,
)
from kernbench.sim_engine.recording.options import FOREVER, Sink, TraceOptions
from kernbench.sim_engine.recording.samples import Counts, Ended, Totals, Windows
from kernbench.sim_engine.recording.templates import COLUMNS, TABLES, Columns, kinds, line
from kernbench.sim_engine.run.commands import Command
from kernbench.trace.schema import LEVELS
from kernbench_core.numbers import Opkind

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine

#: windows that are written together, because the code that writes them is not in the near caches after the core has run
AT_ONCE = 32
FEW = 1 << 11  #: records; with more, writing is worthwhile

MAX_NAMES = 40  #: limit of units that an error message lists one by one

OPEN_ENDS = {"aborted": "TIMEOUT", "deadlock": "DEADLOCK", "failed": "CANCELLED", "interrupted": "CANCELLED"}


def _told(names: list[str]) -> str:
    """Names of units; if there are many, one of each kind."""
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    kinds = {"-" if "-" in name else re.sub("[0-9]", "", name.rpartition(".")[2]): name for name in reversed(names)}
    return f"{len(names):,} like {', '.join(reversed(kinds.values()))}"


class Tracing:
    """The trace of one run, from cycle 0."""

    def __init__(
        self, machine: Machine, core: Any, format: Any, samples: Any, sink: Sink, options: TraceOptions
    ) -> None:
        """`core`: the state of the run. `format`, `samples`: the core's classes."""
        self.machine = machine
        self.new_format = format
        self.core = core
        self.sink = sink
        self.options = options
        self.records = core.tracer(LEVELS.index(options.level))
        self.first, self.last = options.cycles or (0, FOREVER)
        plan, program = machine.plan, machine.program
        self.names = [unit["unit"] for unit in units(plan)] + part_names(plan, machine.impls)
        self.commands = machine.keep_commands()
        names = self.names
        self.kept = {name for name in names if not options.only or any(fnmatchcase(name, p) for p in options.only)}
        if not self.kept:
            rule = f"no unit fits; the machine has {_told(names)}"
            raise InputError(Problem("trace", rule, "only", ", ".join(options.only)))
        self.columns = Columns(program, plan, names)
        self.format = self._format([(left, -1) for left in self.columns.tokens_remaining])
        banks = options.level != "summary"
        self.windows = Windows(program, plan, options.window, self._totals(), self.kept, samples, banks=banks)
        self.edge = options.window  # the next end of a window [cycle]
        self.counted = 0  # jobs that ended up to this cycle are counted
        self.jobs: list[int] = []  # positions of those that ended after the end of the last window
        self.ended: list[Ended] = []  # windows whose lines are not written yet
        self.arrived: set[int] = set()  # positions of entries that the host has written, since the trace began or continued
        self.closed = False
        self.inside = False  #: whether `run` is active: after an interrupt there, the trace cannot continue
        self.writing = False  #: whether lines are being written: the last ones may then be missing
        self._limit = 0  # [cycle] end of the continued run
        self._interrupt: Callable[[], None] = no_interrupt  # set if everything is written

    def _tables(self) -> tuple[list[Any], list[list[bytes]]]:
        """Columns and texts in the form of the core."""
        columns = self.columns
        return [columns.columns[name] for name in COLUMNS], [columns.tables[name] for name in TABLES]

    def _format(self, tokens: list[tuple[int, int]]) -> Any:
        """The core's formatter; `tokens`: the remaining entries and the first start of each token group."""
        plan = self.machine.plan
        engines = len(plan.dma) + len(plan.compute)
        return self.new_format(
            *self._tables(),
            kinds(engines, engines + plan.channels, engines + len(plan.resources)),
            bytes(name in self.kept for name in self.names),
            COLUMNS.index("unit"),
            COLUMNS.index("group"),
            [left for left, _ in tokens],
            [start for _, start in tokens],
            self.first,
            self.last,
        )

    def begin(self, program_hash: str) -> None:
        """The events before the first cycle."""
        config, program, plan, options = self.machine.config, self.machine.program, self.machine.plan, self.options
        impls = self.machine.impls
        left_out = options.left_out()
        self.sink.write(meta_line(config, program, plan, program_hash, options.level, options.window, left_out, impls))
        commands = list(enqueue_lines(program, plan))
        self.sink.write(b"".join(commands))
        self.format.count(len(commands))

    def state(self) -> dict[str, Any]:
        """The state as JSON; `go_on` continues from it in another process, as a `TraceState`."""
        options = {"level": self.options.level, "window": self.options.window}
        options |= {"only": self.options.only, "cycles": self.options.cycles}
        return {
            "options": options,
            "records": base64.b64encode(self.records.dump()).decode(),
            "lines": self.format.lines,
            "tokens": self.format.tokens(),
            "edge": self.edge,
            "counted": self.counted,
            "windows": self.windows.state(),
        }

    def go_on(self, state: TraceState) -> None:
        """Continue the trace of a loaded checkpoint. InputError if the state does not fit this run."""
        state.check_place(int(self.core.cycle))
        groups = self.columns.tokens_remaining
        if len(state.tokens) != len(groups) or any(left > most for (left, _), most in zip(state.tokens, groups, strict=True)):
            raise damaged("its token groups are those of another program")
        try:
            self.records.load(state.record_bytes())
        except ValueError as error:
            raise damaged(str(error)) from None
        self.format = self._format(state.tokens)
        fault = self.format.fault(self.records, len(self.machine.rows.entries), len(self.names), state.counted, FOREVER)
        if fault is not None:
            raise damaged(fault)
        self.format.count(state.lines)
        self.edge, self.counted = state.edge, state.counted
        self.windows.go_on(state.windows)

    @contextmanager
    def whole_up_to(self, limit: int) -> Iterator[None]:
        """Context of a run up to a cycle: an interrupt waits until the records of the core are written."""
        self._limit = limit
        with interrupts_held() as self._interrupt:
            yield

    def run(self, to: int, *, skip: bool, **stops: Any) -> bool:
        """Run the core to the given cycle or to the window's end, and write the lines that are final then. Returns whether a
        condition stopped the run."""
        self.inside = True
        came = bool(self.core.run(min(to, self.edge), skip=skip, trace=self.records, **stops))
        self.writing = True
        self._sync(goes_on=not came and self.core.status == 0 and int(self.core.cycle) < self._limit)
        self.inside = self.writing = False
        self._interrupt()
        return came

    def _sync(self, *, goes_on: bool) -> None:
        """After the core ran: close the window if it ended there, and write the final lines, or later if the run `goes_on`."""
        cycle = int(self.core.cycle)
        self._look(cycle)
        if cycle == self.edge:
            self._end_window(cycle, self.options.window)
            self.edge += self.options.window
            if goes_on and len(self.ended) < AT_ONCE and len(self.records) < FEW:
                return
        self._write(cycle)

    def _look(self, cycle: int) -> None:
        """The core has stopped before this cycle: find the jobs that have ended."""
        self.jobs += self.records.ends(self.counted, cycle + 1)
        self.counted = cycle

    def _end_window(self, cycles: int, length: int) -> None:
        """The core is at the end of a window: store the values for its lines."""
        totals = self._totals()
        if self.machine.status == "failed":
            self._take_back(totals[4], cycles)
        self._not_yet(totals[4], cycles)
        self.ended.append(Ended(cycles, length, totals, self.core.submitted_work(), self.jobs))
        self.jobs = []

    def _totals(self) -> Totals:
        return *self.core.totals(), self.core.router_queues()

    def _write(self, before: int) -> None:
        """Write windows that ended, and lines of all records of earlier cycles."""
        for window, (lines, count) in zip(self.ended, self.windows.close(self.ended), strict=True):
            self._write_records(window.cycles)
            if self.first < window.cycles <= self.last:
                self.sink.write(lines)
                self.format.count(count)
        self.ended = []
        self.windows.energy.ended(self.jobs)
        self.jobs = []
        self._write_records(before)

    def _write_records(self, before: int) -> None:
        if self.columns.add(self.commands.added):
            self.format.extend(*self._tables())
        while lines := self.format.text(self.records, before, self):
            self.sink.write(lines)

    def _take_back(self, depths: Counts, cycle: int) -> None:
        """The cycle in which a run fails belongs to no window: undo the jobs that it queued and started."""
        issued, started, _ = self.core.entries()
        units_of = {name: self.windows.depths_of(depths, k) for k, name in enumerate(self.windows.units)}
        for entry in self.machine.rows.entries:
            if entry.engine == "control" or cycle not in (issued[entry.index], started[entry.index]):
                continue
            queued, active = units_of[self.machine.plan.units[entry.index]]
            place = int(self.columns.columns["channel"][entry.index]) if entry.engine == "dma" else 0
            if started[entry.index] == cycle:
                active[place] -= 1
                queued[place] += 1
            if issued[entry.index] == cycle:
                queued[place] -= 1

    def _not_yet(self, depths: Counts, cycle: int) -> None:
        """Work that components submit at the end of a window, for the next cycle or in the cycle of a failure, belongs to no
        window.
        """
        for _, op, engine, channel, issue, start in self.core.open_jobs():
            if issue < cycle and start < cycle:
                continue
            if op in (Opkind.OP_DMA, Opkind.OP_COMPUTE):
                place = channel if op == Opkind.OP_DMA else 0
                number = engine if op == Opkind.OP_DMA else len(self.windows.engines) + engine
                queued, active = self.windows.depths_of(depths, number)
                if start == cycle:
                    active[place] -= 1
                    queued[place] += 1
                if issue == cycle:
                    queued[place] -= 1

    def _add(self, lines: Iterable[bytes]) -> None:
        found = list(lines)
        self.sink.write(b"".join(found))
        self.format.count(len(found))

    def enqueued(self, cycle: int, row: int) -> bytes:
        """CMD_ENQUEUE of an entry that the host has written, or of a command that a component has submitted."""
        program = self.machine.program
        if row < len(program.entries):
            self.arrived.add(row)
            return enqueue_line(program, self.machine.plan, program.entries[row], cycle)[:-1]
        command = self.commands[row]
        assert isinstance(command, Command)
        return command_line(command, cycle, by_cause=self.machine.plan.pe.energy.by_cause)[:-1]

    def overlap(self, cycle: int, late: int, early: int, job: int) -> bytes | None:
        """WARN OVERLAP; None if its unit is left out."""
        entries = self.machine.rows.entries
        unit = self.machine.plan.units[late]
        if unit not in self.kept:
            return None
        message = (
            f"{entries[late].where} starts while {entries[early].where} still runs, and their scratchpad "
            "ranges overlap where at least one writes"
        )
        fields = {"cmd_id": entries[late].command_id, "job_id": job, "unit": unit, "code": "OVERLAP", "msg": message}
        fields |= {"component": entries[late].engine.upper(), "layer_id": entries[late].meta.get("layer_id")}
        return line("WARN", cycle, fields, entries[late])[:-1]

    def emitted(self, cycle: int, entry: int, value: int, name: int) -> bytes | None:
        """The MARKER of a component for one of its commands; None if its unit is excluded."""
        command = self.commands[entry]
        if self.commands.unit(entry) not in self.kept:
            return None
        fields = {"marker": f"{self.core.name_of(name)}={value}", "cmd_id": command.id}
        return line("MARKER", cycle, fields, command)[:-1]

    def close(self) -> None:
        """The run is over or stops: write the last window, the reason of the end, ends of open commands, and TRACE_END."""
        if self.closed:
            return
        self.closed = True
        result = self.machine.result()
        status, cycles = ("interrupted" if result.status == "running" else result.status), result.cycles
        self._look(cycles)
        if cycles % self.options.window:
            self._end_window(cycles, cycles % self.options.window)
        self._write(cycles)
        self._write_records(FOREVER)
        if self.first <= cycles < self.last:
            self._add(self._why(status, cycles))
        self._add(self._open_ends(status, cycles, [time.end for time in result.entries]))
        last = {"status": status, "cycles": cycles, "events": self.format.lines, "counters": result.counters}
        last["energy_pj"] = result.metrics["energy_pj"]
        self.sink.write(line("TRACE_END", cycles, last))

    def _why(self, status: str, cycles: int) -> list[bytes]:
        """The ERROR event, if the run did not end normally."""
        entries = self.machine.rows.entries
        failure = self.machine.failure()
        if failure is not None and failure["code"] == "COMPONENT":
            fields = {"component": failure["component"], "code": "COMPONENT", "msg": failure["message"]}
            return [line("ERROR", cycles, fields)]
        if failure is not None:
            failed = entries[self.core.failed_entry]
            fields = {"cmd_id": failed.command_id, "job_id": self.core.number_of(failed.index)}
            fields["component"] = failed.engine.upper()
            return [line("ERROR", cycles, {**fields, "code": "OVERLAP", "msg": failure["message"]}, failed)]
        reasons = {"aborted": "MAX_CYCLES", "deadlock": "DEADLOCK"}
        if status not in reasons:
            return []
        ends = self.core.entries()[2].tolist()
        rows = (self.commands[k] for k in (*(k for k, end in enumerate(ends) if end < 0), *self._open_commands()))
        still_open = list({one.command_id: one for one in list(rows)[::-1]}.values())[::-1]
        first = f", the first is {still_open[0].where}" if still_open else ""
        why = f"the run was stopped at max_cycles = {cycles}" if status == "aborted" else "nothing can ever happen again"
        message = f"cycle {cycles}: {why}; {len(still_open)} commands are not complete{first}"
        return [line("ERROR", cycles, {"component": "CPU", "code": reasons[status], "msg": message})]

    def _open_commands(self) -> list[int]:
        """Rows of components' commands that are not complete."""
        return sorted(row for row, *_ in self.core.open_jobs() if row >= 0)

    def _open_ends(self, status: str, cycles: int, ends: list[int | None]) -> list[bytes]:
        """CMD_END for every command that is in the queue and not complete, because each start in a file needs an end.

        The lines are also written if `--trace-cycles` excludes the last cycle.
        """
        out = []
        arrivals = self.core.arrivals()
        plan, failed = self.machine.plan, self.core.failed_entry
        if plan.jobs is not None and failed >= 0:
            failed = plan.jobs.command[failed]
        units = plan.command_units
        for entry, end in zip(self.machine.program.entries, ends, strict=True):
            if arrivals is not None and entry.index not in self.arrived:
                arrival = arrivals[entry.index]
                # Entries that the host does not write are in the queue before cycle 0, in which a run can fail.
                if not (arrival == 0 or 0 < arrival < cycles):
                    continue
            if end is None and units[entry.index] in self.kept:
                how = "ERROR" if entry.index == failed else OPEN_ENDS[status]
                fields = {"cmd_id": entry.id, "unit": units[entry.index], "status": how}
                out.append(line("CMD_END", cycles, fields, entry))
        for row in self._open_commands():
            command, unit = self.commands[row], self.commands.unit(row)
            if unit in self.kept:
                fields = {"cmd_id": command.id, "unit": unit, "status": OPEN_ENDS[status]}
                out.append(line("CMD_END", cycles, fields, command))
        return out
