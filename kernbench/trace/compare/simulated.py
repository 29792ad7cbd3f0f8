"""Simulated counters by name, at the end of a run and before it: `te0.busy`, `dram.ch0.bytes`, `spm.denials[3]`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import cycles_to_ns, plain_number
from kernbench.trace.events import Record
from kernbench.trace.reader import Trace

Number = int | float
#: Sample: (its field, the counter that it adds to). Fields of channels are joined: bytes are read and written.
_SAMPLED: dict[str, tuple[tuple[str, str], ...]] = {
    "BANDWIDTH_SAMPLE": (
        ("read_bytes", "bytes"), ("write_bytes", "bytes"), ("busy_cycles", "busy"), ("member_cycles", "member_cycles"),
    ),
    "ENGINE_SAMPLE": (
        ("busy_cycles", "busy"), ("backpressure_cycles", "stalled.backpressure"),
        ("bank_conflict_cycles", "stalled.bank_conflict"),
    ),
    "BANK_SAMPLE": (("requests", "requests"), ("grants", "grants"), ("denials", "denials")),
    "ENERGY_SAMPLE": tuple((f"{part}_pj", f"energy_pj.{part}") for part in ("dram", "noc", "spm", "mac", "ve", "static")),
}  # fmt: skip
_READ = {name: ("t_cycle", *(() if name == "ENERGY_SAMPLE" else ("unit",)), *dict(fields)) for name, fields in _SAMPLED.items()}


class Simulated:
    """The counters of a run."""

    def __init__(self, trace: Trace) -> None:
        series: dict[str, dict[int, Number]] = {}
        for records in trace.batches(only=_READ):
            for record in records:
                for name, value in _sampled(record):
                    steps = series.setdefault(name, {})
                    steps[record.t_cycle + 1] = steps.get(record.t_cycle + 1, 0) + value
        if trace.broken is not None or trace.end is None:
            remedy = "only a whole run has counters"
            raise InputError(Problem(trace.path, f"the trace breaks off: {trace.broken}", remedy=remedy))
        self.end: Record = trace.end
        self.totals: dict[str, Number] = dict(_totals(trace.end, trace.freq_ghz))
        #: By counter: ends of the windows that changed it, and what it was before them and after each.
        self.steps: dict[str, tuple[list[int], list[Number]]] = {}
        for name, steps in ((name, steps) for name, steps in series.items() if name in self.totals):
            ends = sorted(steps)
            self.steps[name] = ends, [0, *accumulate(steps[end] for end in ends)]
        self._window = max(trace.meta.window_cycles, 1)
        if "cycles" in (trace.meta.filter or {}):  # samples of some cycles make no counter
            self.steps.clear()

    def at(self, name: str, cycle: int) -> tuple[Number, int] | None:
        """The counter as it stood when the last window ended that is over at `cycle`, and that cycle; None where not sampled.

        From the end of the run on it is the total. One whose total is 0 always was.
        """
        if cycle >= self.end.t_cycle:
            return (self.totals[name], self.end.t_cycle) if name in self.totals else None
        if name == "cycles":
            return cycle, cycle
        window = cycle // self._window * self._window
        if name in self.steps:
            ends, sums = self.steps[name]
            return sums[bisect_right(ends, window)], window
        return (0, window) if self.totals.get(name) == 0 else None


def _sampled(record: Record) -> Iterator[tuple[str, Number]]:
    fields = _SAMPLED.get(record.event.name)
    for field, counter in fields or ():
        name = counter if record.event.name == "ENERGY_SAMPLE" else f"{record.unit}.{counter}"
        value = getattr(record, field)
        if isinstance(value, list):
            yield name, sum(value)
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
        else:
            yield name, value


def _totals(end: Record, freq_ghz: Fraction) -> Iterator[tuple[str, Number]]:
    """Every number of TRACE_END by its path; lists also as their sum."""
    yield "cycles", end.cycles
    ns = plain_number(cycles_to_ns(end.cycles, freq_ghz))
    yield "t_ns", ns if not isinstance(ns, str) else float(cycles_to_ns(end.cycles, freq_ghz))
    yield from _numbers("", end.counters)
    yield from _numbers("energy_pj", end.energy_pj or {})


def _numbers(path: str, value: Any) -> Iterator[tuple[str, Number]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, list) and all(isinstance(item, (int, float)) for item in value):
        yield path, sum(value)
        yield from ((f"{path}[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value
