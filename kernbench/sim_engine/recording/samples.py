"""Samples and warnings, window by window, from the counters of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from math import lcm
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.bounds.energy import NO_WORK, Work
from kernbench.cmdq import Program
from kernbench.cmdq.entries import TeEntry
from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.common.units import ceil_div
from kernbench.sim_engine.recording.metadata import WindowState, damaged, totals_of
from kernbench.sim_engine.recording.templates import text
from kernbench.trace.schema import BY_NAME
from kernbench_core.numbers import EngineType

SATURATED_WINDOWS = 8
COMPONENTS = {EngineType.TE: "TE", EngineType.VE: "VE", EngineType.COMPONENT: "M_CPU"}
BANK_COUNTS = 2  #: grants and denials
ENGINES = 3  #: place of the samples of engines among the forms
ENERGY_PARTS = ("dram", "noc", "spm", "mac", "ve", "static")


def _form(event: str, only: Collection[str] = (), **kinds: str) -> str:
    """The format of a sample's line: its fields, or those in `only`, in the schema's order; `%d` is the default format."""
    names = [field.name for field in BY_NAME[event].fields]
    fields = (f',"{name}":{kinds.get(name, "%d")}' for name in names if name in only or not only)
    return f'{{"event_type":"{event}","t_cycle":%d{"".join(fields)}}}\n'


def _list(n: int) -> str:
    """The format of a list of numbers."""
    return f"[{','.join(['%d'] * n)}]"


_TEXT = '"%s"'
WARN_FIELDS = dict.fromkeys(("component", "code", "msg", "unit"), _TEXT)
WARN = _form("WARN", WARN_FIELDS, **WARN_FIELDS)
POWER = _form("POWER_STATE", unit=_TEXT, state=_TEXT)
ROUTERS = _form("NOC_QUEUE_DEPTH", ("unit", "window_cycles", "depth", "flit_cycles"), unit=_TEXT, depth="%s")
TERMINALS = _form("NOC_QUEUE_DEPTH", unit=_TEXT, depth="%s")
ENERGY = _form("ENERGY_SAMPLE", **{f"{part}_pj": "%s" for part in ENERGY_PARTS})
Counts = npt.NDArray[np.int64]
Made = tuple[bytes, int, bytes]  #: lines, their number, and which rows are not all zeros
Totals = tuple[Counts, Counts, Counts, Counts, Counts, tuple[Any, ...]]


class Energy:
    """[pJ] The energy so far, exact, by part of the machine: the sum over windows is `metrics.energy_pj` of the result.

    The values are integers over the common denominator of all energies of the machine.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        pe, model = plan.pe, plan.pe.energy
        static = model.static_mw / pe.freq_ghz  # pJ a cycle
        rates = {"dram": model.dram_pj_per_byte, "noc": model.noc_pj_per_byte_hop, "spm": model.spm_pj_per_byte}
        rates["static"] = static
        named = [*rates.values(), *model.mac_pj.values(), model.ve_op_pj]
        self.unit = lcm(*(rate.denominator for rate in named))
        self.rate = {name: int(rate * self.unit) for name, rate in rates.items()}
        self.mac = {bits: int(pj * self.unit) for bits, pj in model.mac_pj.items()}
        self.op = int(model.ve_op_pj * self.unit)
        self.cost = dict(self._costs(program, plan))
        self.macs = self.ops = 0
        self.region_bytes = 0  # bytes of the operand regions of jobs that have ended

    def _costs(self, program: Program, plan: Plan) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """The costs of each TE or VE entry, by position: MACs and ops in `1 / unit` pJ, and bytes of regions if they are
        streamed."""
        jobs, pe, entries = plan.program["compute"], plan.pe, plan.rows(program).entries
        rows = zip(jobs["entry"].tolist(), jobs["work"].tolist(), jobs["region_bytes"].sum(axis=1).tolist(), strict=True)
        for position, work, nbytes in rows:
            entry = entries[position]
            if isinstance(entry, TeEntry):
                macs = work * self.mac.get(entry.qbits_weight, self.mac.get(8, 0))
                yield position, (macs, 0, nbytes if pe.te.spm_traffic else 0)
            elif entry.engine == "ve":
                yield position, (0, work * self.op, nbytes if pe.ve.spm_traffic else 0)

    def ended(self, positions: Iterable[int]) -> None:
        """The jobs of these entries have ended. Later positions belong to components, whose work is in `Work`."""
        for position in positions:
            macs, ops, nbytes = self.cost.get(position, (0, 0, 0))
            self.macs += macs
            self.ops += ops
            self.region_bytes += nbytes

    def so_far(self, cycles: int, dram_bytes: int, noc_bytes: int, dma_bytes: int, by_parts: Work = NO_WORK) -> list[int]:
        """The energy of each component, in `1 / unit` pJ. Bytes of the DMA engines of PEs also count at the scratchpad."""
        rate, default = self.rate, self.mac.get(8, 0)
        by_bits, ops, streamed = by_parts
        travelled, accessed = dram_bytes * rate["dram"], (dma_bytes + self.region_bytes + streamed) * rate["spm"]
        macs = self.macs + sum(n * self.mac.get(bits, default) for bits, n in by_bits.items())
        return [travelled, noc_bytes * rate["noc"], accessed, macs, self.ops + ops * self.op, cycles * rate["static"]]


class Ended(msgspec.Struct, frozen=True):
    """A window of `length` cycles, which ends with cycle `cycles - 1`."""

    cycles: int
    length: int
    totals: Totals
    by_parts: Work  #: work of component jobs so far
    jobs: list[int]  #: positions of entries whose jobs ended in it


class Windows:
    """Makes the lines of windows; the values of a window are differences of the totals of the core.

    The lines of several windows are made at once, because calls of numpy and of the core take longer than their work.
    """

    def __init__(
        self, program: Program, plan: Plan, length: int, totals: Totals, kept: Collection[str], samples: Any, *, banks: bool
    ) -> None:
        """`totals`: the totals before the first cycle. `kept`: the units whose lines are written. `samples`: the core's class.
        `banks`: whether samples of banks and power states are included, as from level `full` on."""
        self.length = length
        self.banks = banks
        self.kept = kept
        self.energy = Energy(program, plan)
        self.before = totals
        self.spent = self.energy.so_far(0, 0, 0, 0)
        self.channels, self.links_end = plan.channels, plan.links.stop
        # [B] capacity of each channel in a window
        self.much = [ceil_div(95 * rate * length, 100) for rate in plan.capacities[: plan.channels]]
        self.engines, self.compute, self.resources = list(plan.dma), list(plan.compute), plan.resources
        self.components = [COMPONENTS[engine["kind"]] for engine in plan.machine["compute"]]
        self.scratchpads = plan.scratchpads
        self.bank_counts = plan.bank_counts
        self.with_scratchpad = plan.with_scratchpad
        self.saturated = [0] * self.channels  # number of consecutive windows
        self.asleep: set[str] = set()
        self.units = [*self.engines, *self.compute]
        self.worked = bytes([1] * len(self.units))  # whether components are not asleep
        self.queues = router_queues(plan) if banks else []
        self.bandwidth = self._samples(samples, "BANDWIDTH_SAMPLE", self.resources)
        self.engine = self._samples(samples, "ENGINE_SAMPLE", self.units)
        self.new_samples = samples
        self.queue_forms: dict[int, tuple[Any, Any]] = {}  #: of DMA engines and of TEs and VEs, by channels of a DMA engine
        counts = dict.fromkeys(("requests", "grants", "denials"), _list(plan.pe.spm.num_banks))
        self.bank = self._samples(samples, "BANK_SAMPLE", self.scratchpads, **counts)

    def _samples(self, samples: Any, event: str, units: Sequence[str], **kinds: str) -> Any:
        """Lines of an event whose fields are a unit, and the window's length if the event has one, and numbers."""
        start, unit, *texts = (text.encode() for text in _form(event, unit="%d", **kinds).split("%d"))
        timed = any(field.name == "window_cycles" for field in BY_NAME[event].fields)
        kept = bytes(name in self.kept for name in units)
        return samples(start, [unit + text(name) for name in units], texts, kept, timed=timed)

    def _queues_of(self, places: int) -> tuple[Any, Any]:
        """The forms of samples of queues. Queues between PEs, which a run can open, are a further channel of DMA engines."""
        if places not in self.queue_forms:
            forms = [
                self._samples(self.new_samples, "QUEUE_SAMPLE", units, queued=_list(n), active=_list(n))
                for units, n in ((self.engines, places), (self.compute, 1))
            ]
            self.queue_forms[places] = forms[0], forms[1]
        return self.queue_forms[places]

    def _places(self, depths: Counts) -> int:
        """The number of channels of a DMA engine."""
        return (len(depths) // 2 - len(self.compute)) // max(len(self.engines), 1)

    def depths_of(self, depths: Counts, engine: int) -> Counts:
        """`(queued, active)` of a DMA engine by channel, or of a TE or VE: a view."""
        places, engines = self._places(depths), len(self.engines)
        first = 2 * (min(engine, engines) * places + max(engine - engines, 0))
        return depths[first : first + 2 * (places if engine < engines else 1)].reshape(2, -1)

    def state(self) -> dict[str, Any]:
        """The state as JSON, with the totals at the end of the last window."""
        dma, compute, resources, banks, *_ = self.before
        energy = [str(n) for n in (self.energy.macs, self.energy.ops, self.energy.region_bytes)]  # past 64 bits on long runs
        return {
            "totals": [column.tolist() for column in (dma, compute, resources)],
            "banks": self.bank_counts(banks).tolist(),
            "energy": energy,
            "spent": [str(pj) for pj in self.spent],
            "saturated": self.saturated,
            "asleep": sorted(self.asleep),
        }

    def go_on(self, state: WindowState) -> None:
        """Restore the state. InputError if it is not before the current state of the run."""
        names = ("DMA engines", "engines", "resources")
        dma, compute, resources = (totals_of(*columns) for columns in zip(names, state.totals, self.before[:3], strict=True))
        now = self.bank_counts(self.before[3])
        if len(state.banks) != len(now) or len(state.saturated) != self.channels or not set(state.asleep) <= set(self.units):
            raise damaged("its windows are those of another machine")
        for saved, done in zip(state.banks, now, strict=True):
            for column in range(BANK_COUNTS):
                done[column] = totals_of("banks", saved[column], done[column])
        self.before = (dma, compute, resources, self.before[3], *self.before[4:])
        self.energy.macs, self.energy.ops, self.energy.region_bytes = (int(n) for n in state.energy)
        self.spent = [int(pj) for pj in state.spent]
        self.saturated, self.asleep = state.saturated, set(state.asleep)
        self.worked = bytes(unit not in self.asleep for unit in self.units)

    def close(self, ended: Sequence[Ended]) -> list[tuple[bytes, int]]:
        """The lines of each window and their number; the windows follow each other."""
        groups = groupby(ended, lambda window: len(window.totals[4]))
        return [lines for _, windows in groups for lines in self._close(list(windows))]

    def _close(self, ended: Sequence[Ended]) -> list[tuple[bytes, int]]:
        """Likewise, of windows with equal numbers of queues."""
        dma, _, resources, _ = totals = [self._totals(ended, kind) for kind in range(4)]
        spent, work, moved, counted = (total[1:] - total[:-1] for total in totals)
        banks = self.bank_counts(counted)
        made = self._samples_of(ended, moved, self._busy(spent, work), banks)
        energies = self._energies(ended, dma[1:], resources[1:])
        busy, channels = work[:, :, 0].tolist(), (moved[:, : self.channels, 0] + moved[:, : self.channels, 1]).tolist()
        by_scratchpad = banks.sum(axis=3).tolist()
        found = []
        for k, window in enumerate(ended):
            lines = _Lines(window.cycles - 1, window.length, self.kept)
            if window.length == self.length:
                self._warn(lines, busy[k], channels[k], by_scratchpad[k])
            for form in made:
                lines.add(*form[k][:2])
            self._queues(lines, window.totals[5], self.before[5])
            lines.put(None, ENERGY, (window.length, *energies[k]))
            for unit, state in self._changed(made[ENGINES][k][2]):
                lines.put(unit, POWER, (unit, state))
            self.before = window.totals
            found.append((b"".join(lines.done), lines.count))
        return found

    def _totals(self, ended: Sequence[Ended], kind: int) -> Counts:
        """The totals of a kind at the beginning of the first window and at the end of each window."""
        columns: list[Any] = [self.before[kind], *(window.totals[kind] for window in ended)]
        return np.concatenate(columns).reshape(len(columns), *columns[0].shape)

    def _samples_of(self, ended: Sequence[Ended], moved: Counts, busy: Counts, banks: Counts) -> list[list[Made]]:
        """The core's lines of each form, by window."""
        n, places = len(ended), self._places(ended[0].totals[4])
        middle, (dma_queues, compute_queues) = 2 * len(self.engines) * places, self._queues_of(places)
        depths = np.concatenate([window.totals[4] for window in ended]).reshape(n, -1)
        numbers = [
            (self.bandwidth, moved),
            (dma_queues, depths[:, :middle].reshape(n, len(self.engines), 2 * places)),
            (compute_queues, depths[:, middle:].reshape(n, len(self.compute), 2)),
            (self.engine, busy),
        ]
        if self.banks:
            counts = banks.reshape(n, len(self.scratchpads), BANK_COUNTS * banks.shape[3])
            numbers.append((self.bank, np.concatenate((banks.sum(axis=2), counts), axis=2)))
        cycles, lengths = [window.cycles - 1 for window in ended], [window.length for window in ended]
        # The core reads contiguous rows, and slices of the depths of queues are not contiguous.
        flat = [(form, rows.reshape(n * rows.shape[1], rows.shape[2])) for form, rows in numbers]
        return [form.windows(cycles, lengths, np.ascontiguousarray(rows)) for form, rows in flat]

    def _queues(self, lines: _Lines, now: tuple[Any, ...], then: tuple[Any, ...]) -> None:
        """Samples of the buffers of routers that were not empty."""
        if not self.queues:
            return
        sums, depths, packets = now
        passed = (sums - then[0]).tolist()
        for unit, place, terminal in self.queues:
            depth, waiting = depths[place].tolist(), 0 if terminal is None else int(packets[terminal])
            if passed[place] or waiting or any(depth):
                values = (unit, lines.length, str(depth).replace(" ", ""), passed[place])
                if terminal is None:
                    lines.put(unit, ROUTERS, values)
                else:
                    lines.put(unit, TERMINALS, (*values, waiting))

    def _busy(self, dma: Counts, compute: Counts) -> Counts:
        """The numbers of an engine's sample, by window and engine."""
        busy = np.zeros((len(dma), len(self.units), 3), dtype=np.int64)
        busy[:, : len(self.engines)] = dma[:, :, :3]
        busy[:, len(self.engines) :, ::2] = compute
        return busy

    def _changed(self, works: bytes) -> list[tuple[str, str]]:
        """The power states of engines that fell asleep or woke up. `works`: whether each engine works in this window."""
        if works == self.worked or not self.banks:
            return []
        changed = [(unit, now) for unit, now, then in zip(self.units, works, self.worked, strict=True) if now != then]
        self.asleep ^= {unit for unit, _ in changed}
        self.worked = works
        return [(unit, "ACTIVE" if now else "IDLE") for unit, now in changed]

    def _energies(self, ended: Sequence[Ended], dma: Counts, resources: Counts) -> list[list[str]]:
        """The energy of each window by part."""
        moved = resources[:, :, 0] + resources[:, :, 1]
        by_pes = dma[:, : self.with_scratchpad, 3].sum(axis=1).tolist()
        dram_bytes = moved[:, : self.channels].sum(axis=1).tolist()
        noc_bytes = moved[:, self.channels : self.links_end].sum(axis=1).tolist()
        found = []
        for window, dram, noc, spm in zip(ended, dram_bytes, noc_bytes, by_pes, strict=True):
            self.energy.ended(window.jobs)
            now = self.energy.so_far(window.cycles, dram, noc, spm, window.by_parts)
            # The quotient of two integers is the float nearest to it.
            found.append([repr((new - old) / self.energy.unit) for new, old in zip(now, self.spent, strict=True)])
            self.spent = now
        return found

    def _warn(self, lines: _Lines, busy: list[int], moved: list[int], banks: list[list[int]]) -> None:
        """`busy`: the cycles of each TE and VE. `moved`: the bytes of each channel. `banks`: grants and denials of each
        scratchpad."""
        length = self.length
        for unit, component, cycles in zip(self.compute, self.components, busy, strict=True):
            if 0 < 2 * cycles < length:
                lines.warn(unit, component, "LOW_UTIL", f"{unit} worked in {cycles} of {length} cycles, less than half")
        for k, nbytes in enumerate(moved):
            unit = self.resources[k]
            self.saturated[k] = self.saturated[k] + 1 if nbytes >= self.much[k] else 0
            if self.saturated[k] != SATURATED_WINDOWS:
                continue
            text = (
                f"{unit} moved at least 95% of what it can in each of {SATURATED_WINDOWS} windows of {length} cycles, "
                f"{nbytes} bytes in the last"
            )
            lines.warn(unit, "DRAM", "CHANNEL_SATURATED", text)
        for unit, (granted, denied) in zip(self.scratchpads, banks, strict=True):
            requests = granted + denied
            if requests >= length and 4 * denied > requests:
                text = f"{unit} denied {denied} of {requests} bank requests in {length} cycles, more than a quarter"
                lines.warn(unit, "SRAM", "HIGH_CONFLICT", text)


def router_queues(plan: Plan) -> list[tuple[str, int, int | None]]:
    """The buffers of router inputs: the unit that fills the buffer, the number of the input, and of a buffer that a terminal
    fills the number of this terminal. Empty without routers. Links that are on no route have no unit and are left out."""
    network = plan.machine.get("network")
    if network is None:
        return []
    known = {*plan.dma, *plan.resources}
    terminals = len(network["links"]) - network["terminals"]
    found: list[tuple[str, int, int | None]] = []
    for k, (place, resource) in enumerate(zip(network["links"][:, 0].tolist(), network["resources"].tolist(), strict=True)):
        link = network["names"][k]
        unit = plan.resources[resource] if resource >= 0 else link if link in known else naming.source_of(link)
        if place >= 0 and unit in known:
            found.append((unit, place, k - terminals if k >= terminals else None))
    return found


class _Lines:
    """The lines of one window, which ends with cycle `last`."""

    def __init__(self, last: int, length: int, kept: Collection[str]) -> None:
        self.last = last
        self.length = length
        self.kept = kept
        self.done: list[bytes] = []
        self.count = 0

    def add(self, lines: bytes, count: int) -> None:
        """The number of lines of units that are kept."""
        self.done.append(lines)
        self.count += count

    def put(self, unit: str | None, form: str, values: tuple[object, ...]) -> None:
        """Write a sample. Names of units need no escapes, so one format makes the line."""
        if unit is None or unit in self.kept:
            self.add((form % (self.last, *values)).encode(), 1)

    def warn(self, unit: str, component: str, code: str, text: str) -> None:
        """Its text consists of names and numbers only."""
        self.put(unit, WARN, (component, code, text, unit))
