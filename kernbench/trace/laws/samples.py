"""Laws of samples: samples fit into their windows, and their sums equal the counters of TRACE_END."""

from __future__ import annotations

from decimal import Context as DecimalContext
from decimal import Decimal, Inexact
from fractions import Fraction
from typing import Any

from kernbench.common.units import parse_rational
from kernbench.config.routers import DEFAULTS
from kernbench.trace.laws.counters import UNUSED
from kernbench.trace.laws.law import Context, Law
from kernbench.trace.laws.line import Line
from kernbench.trace.laws.sum import Sum
from kernbench.trace.metric.collect import PARTS

_BANKS = ("requests", "grants", "denials")
# enough digits for exact sums of floats from 1e-324 to the schema's limit of 1e60
_EXACT = DecimalContext(prec=1000, traps=[Inexact])
_POWERS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
_FEW = 1e15  # numbers of at most 15 digits are below it
_NEAR = Fraction(1, 10**9)  # relative tolerance of a sum of energies, because each energy is rounded to a float


#: Kinds of samples, as indices in `Samples.events`.
_BANDWIDTH, _ENGINE, _BANK, _QUEUE, _ENERGY = range(5)


class Sampled:
    """The samples of a unit: the cycle of the last sample of each kind, and sums."""

    def __init__(self) -> None:
        self.last = [-1] * 5
        self.bytes = Sum()
        self.busy = Sum()
        self.member_cycles = Sum()
        self.backpressure = Sum()
        self.bank_conflict = Sum()


class Samples(Law):
    """Sums of samples, by unit."""

    events = ("BANDWIDTH_SAMPLE", "ENGINE_SAMPLE", "BANK_SAMPLE", "NOC_QUEUE_DEPTH", "ENERGY_SAMPLE")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._window: int = context.meta.window_cycles
        self._short = (-1, 0)  # the last cycle of the last window that is shorter than the others, and its line
        self._units: dict[str, Sampled] = {}
        self._banks: dict[str, dict[str, list[int]]] = {}
        self._room = _room(context.meta.sim_config)
        # By part, sums of the energies with each number of digits after the decimal point: [pJ], [0.1 pJ], [0.01 pJ] and so on.
        self._scaled = {part: [0] * len(_POWERS) for part in PARTS}
        self._decimals = dict.fromkeys(PARTS, Decimal(0))  # [pJ] sum of the energies with more digits

    def check(self, record: Line, event: int) -> None:
        if event == _BANDWIDTH:
            self._bandwidth(record)
        elif event == _ENGINE:
            self._engine(record)
        elif event == _BANK:
            self._bank(record)
        elif event == _QUEUE:
            self._queue(record)
        else:
            self._energies(record)

    def _fits(self, record: Line, unit: str, kind: int) -> Sampled:
        """Check that the window ends here, has the right length, and has one sample of this kind and unit."""
        found = self._units.get(unit)
        if found is None:
            found = self._units[unit] = Sampled()
        if found.last[kind] == record.t_cycle:
            self.context.report("samples", f"{unit or 'the run'} has two {record.event.name} in one window")
        found.last[kind] = record.t_cycle
        if not self.context.partial and self._window > 0:
            self._has_length(record)
        return found

    def _has_length(self, record: Line) -> None:
        cycles = record.window_cycles
        if cycles != self._window:
            self._short = record.t_cycle, self.context.line
        if cycles != record.t_cycle % self._window + 1:
            text = f"a window of {cycles} cycles ends after cycle {record.t_cycle}, but windows are of {self._window}"
            self.context.report("samples", text)

    def _too_long(self, record: Line, used: int, what: str) -> None:
        text = f"{record.unit} is {what} for {used} cycles of a window of {record.window_cycles}"
        self.context.report("samples", text)

    def _bandwidth(self, record: Line) -> None:
        sums = self._fits(record, record.unit, _BANDWIDTH)
        # A flit counts in the window in which it leaves, and may occupy its link in the next window too (docs/model/traces.md).
        flits = self._room[0] and self.context.units.get(record.unit) == "NOC"
        if record.busy_cycles > record.window_cycles and not flits:
            self._too_long(record, record.busy_cycles, "busy")
        if record.member_cycles < record.busy_cycles:
            text = f"{record.unit} has {record.member_cycles} member-cycles in {record.busy_cycles} busy cycles"
            self.context.report("samples", text)
        sums.bytes.add(record.read_bytes)
        sums.bytes.add(record.write_bytes)
        sums.busy.add(record.busy_cycles)
        sums.member_cycles.add(record.member_cycles)

    def _engine(self, record: Line) -> None:
        sums = self._fits(record, record.unit, _ENGINE)
        left = record.window_cycles - record.busy_cycles
        if left >= 0:  # then the next difference needs no more than 64 bits
            left -= record.backpressure_cycles
        if left < record.bank_conflict_cycles:
            used = sum([record.busy_cycles, record.backpressure_cycles, record.bank_conflict_cycles])
            self._too_long(record, used, "busy or stalled")
        sums.busy.add(record.busy_cycles)
        sums.backpressure.add(record.backpressure_cycles)
        sums.bank_conflict.add(record.bank_conflict_cycles)

    def _bank(self, record: Line) -> None:
        self._fits(record, record.unit, _BANK)
        requests, grants, denials = record.requests, record.grants, record.denials
        banks = len(requests)
        if banks != len(grants) or banks != len(denials):
            self.context.report("samples", f"{record.unit} counts requests, grants and denials of different numbers of banks")
            return
        for bank in range(banks):
            requested, granted, denied = requests[bank], grants[bank], denials[bank]
            if requested != granted + denied:
                text = f"bank {bank} of {record.unit} has {requested} requests, but {granted} grants and {denied} denials"
                self.context.report("samples", text)
        sums = self._banks.get(record.unit)
        if sums is None:
            sums = self._banks[record.unit] = {key: [] for key in _BANKS}
        _add(sums["requests"], requests)
        _add(sums["grants"], grants)
        _add(sums["denials"], denials)

    def _queue(self, record: Line) -> None:
        self._fits(record, record.unit, _QUEUE)
        channels, depth = self._room
        flits = sum(record.depth)
        if channels and (len(record.depth) != channels or max(record.depth) > depth):
            text = f"the buffer of {record.unit} holds {record.depth} flits, but has {channels} channels of {depth} flits"
            self.context.report("samples", text)
        if channels and record.flit_cycles > channels * depth * record.window_cycles:
            text = f"the buffer of {record.unit} has {record.flit_cycles} flit-cycles in {record.window_cycles} cycles, "
            self.context.report("samples", f"{text}but room for {channels * depth} flits")
        if flits and not record.flit_cycles:
            self.context.report("samples", f"{record.unit} has {flits} flits at the end of a window in which it had none")

    def _energies(self, record: Line) -> None:
        self._fits(record, "", _ENERGY)
        self._energy("dram", record.dram_pj)
        self._energy("noc", record.noc_pj)
        self._energy("spm", record.spm_pj)
        self._energy("mac", record.mac_pj)
        self._energy("ve", record.ve_pj)
        self._energy("static", record.static_pj)

    def _energy(self, part: str, pj: Any) -> None:
        """Add the energy of a window: an integer, or a float as its shortest decimal number."""
        if type(pj) is int:
            self._scaled[part][0] += pj
            return
        value: float = pj
        if -_FEW < value < _FEW:
            for digits in range(len(_POWERS)):
                scaled = value * _POWERS[digits]
                if scaled >= _FEW or scaled <= -_FEW:
                    break
                whole = int(scaled + 0.5) if scaled >= 0 else int(scaled - 0.5)
                # a decimal number of at most 15 digits that is rounded to this float is the shortest one
                if whole / _POWERS[digits] == value:
                    self._scaled[part][digits] += whole
                    return
        self._decimals[part] = _EXACT.add(self._decimals[part], Decimal(repr(pj)))

    def finish(self, end: Any) -> None:
        if self.context.partial:
            return
        last, line = self._short
        if line and last + 1 != end.cycles:
            text = f"a shorter window ends after cycle {last}, but the run has {end.cycles} cycles"
            self.context.report("samples", text, line)
        for unit, kind in self.context.units.items():
            counters = end.counters.get(unit, UNUSED if kind in ("DRAM", "NOC") else None)
            if isinstance(counters, dict):
                self._compare(unit, kind, counters)
        self._compare_energy(end.energy_pj or {})

    def _compare(self, unit: str, kind: str, counters: dict[str, Any]) -> None:
        sums = self._units.get(unit) or Sampled()
        if kind in ("DMA", "TE", "VE"):
            stalled = counters.get("stalled")
            flat = {"busy": counters.get("busy"), **(stalled if isinstance(stalled, dict) else {})}
            parts = {"busy": sums.busy, "backpressure": sums.backpressure, "bank_conflict": sums.bank_conflict}
            self._same(unit, {key: part.value() for key, part in parts.items()}, flat)
        elif kind in ("DRAM", "NOC"):
            parts = {"bytes": sums.bytes, "busy": sums.busy, "member_cycles": sums.member_cycles}
            self._same(unit, {key: part.value() for key, part in parts.items()}, counters)
        elif kind == "SRAM" and self.context.full:
            lists = {key: reported if isinstance(reported := counters.get(key), list) else [] for key in _BANKS}
            none = {key: [0] * len(reported) for key, reported in lists.items()}
            self._same(unit, self._banks.get(unit, none), counters)

    def _same(self, unit: str, sums: dict[str, Any], counters: dict[str, Any]) -> None:
        for key, value in sums.items():
            reported = counters.get(key, 0)
            if reported != value:
                self.context.report("counters", f"samples of {unit} add up to {key} {value}, but TRACE_END says {reported}")

    def _compare_energy(self, reported: dict[str, Any]) -> None:
        numbers = _numbers(reported)
        for part, scaled in self._scaled.items():
            pj = Fraction(self._decimals[part]) + sum([Fraction(whole, 10**digits) for digits, whole in enumerate(scaled)])
            if part in numbers and abs(pj - numbers[part]) > _NEAR * max(pj, Fraction(1)):
                text = f"windows add up to {float(pj)} pJ of {part}, but TRACE_END says {reported[part]}"
                self.context.report("energy", text)
        total = sum([numbers.get(part, Fraction(0)) for part in PARTS], Fraction(0))
        if "total" in numbers and abs(total - numbers["total"]) > _NEAR * max(total, Fraction(1)):
            self.context.report("energy", f"the parts add up to {float(total)} pJ, but the total is {reported['total']}")


def _room(machine: Any) -> tuple[int, int]:
    """The number of virtual channels of a router's input, and the flits of a channel; zeros if the machine has no routers or
    its description, which is not validated, does not state them."""
    for path in (("noc",), ("cube", "mesh")):
        mesh = machine
        for key in path:
            mesh = mesh.get(key) if isinstance(mesh, dict) else None
        if isinstance(mesh, dict) and mesh.get("model") == "flit":
            given = mesh.get("flit")
            spec = given if isinstance(given, dict) else {}
            channels, depth = spec.get("channels", DEFAULTS.channels), spec.get("depth", DEFAULTS.depth)
            return (channels, depth) if isinstance(channels, int) and isinstance(depth, int) else (0, 0)
    return 0, 0


def _add(sums: list[int], counts: list[int]) -> None:
    """Add counts by bank; the list grows if more banks are counted."""
    known = len(sums)
    for bank in range(len(counts)):
        if bank < known:
            sums[bank] += counts[bank]
        else:
            sums.append(counts[bank])


def _numbers(reported: dict[str, Any]) -> dict[str, Fraction]:
    """The energies that are numbers; if the energy of a component is missing, only the law of its sum is violated."""
    found = {}
    for part, pj in reported.items():
        try:
            found[part] = parse_rational(pj)
        except ValueError:
            continue
    return found
