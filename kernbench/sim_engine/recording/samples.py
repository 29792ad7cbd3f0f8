"""Samples and warnings, window by window, from the counters of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import lcm
from typing import Any

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
ENERGY_PARTS = ("dram", "noc", "spm", "mac", "ve", "static")


def _form(event: str, only: Collection[str] = (), **kinds: str) -> str:
    """The format of a sample's line: its fields, or those in `only`, in the schema's order; `%d` is the default format."""
    names = [field.name for field in BY_NAME[event].fields]
    fields = (f',"{name}":{kinds.get(name, "%d")}' for name in names if name in only or not only)
    return f'{{"event_type":"{event}","t_cycle":%d{"".join(fields)}}}\n'


_TEXT = '"%s"'
#: Formats of the queue depths of a TE or VE (one number), and of a DMA engine (one for each channel).
_DEPTHS = {n: f"[{','.join(['%d'] * n)}]" for n in (1, 3, 4)}
WARN_FIELDS = dict.fromkeys(("component", "code", "msg", "unit"), _TEXT)
WARN = _form("WARN", WARN_FIELDS, **WARN_FIELDS)
QUEUES = {n: _form("QUEUE_SAMPLE", unit=_TEXT, queued=depths, active=depths) for n, depths in _DEPTHS.items()}
NO_JOBS = {n: [0] * n for n in _DEPTHS}
POWER = _form("POWER_STATE", unit=_TEXT, state=_TEXT)
BANK = _form("BANK_SAMPLE", unit=_TEXT, requests="%s", grants="%s", denials="%s")
ROUTERS = _form("NOC_QUEUE_DEPTH", ("unit", "window_cycles", "depth", "flit_cycles"), unit=_TEXT, depth="%s")
TERMINALS = _form("NOC_QUEUE_DEPTH", unit=_TEXT, depth="%s")
ENERGY = _form("ENERGY_SAMPLE", **{f"{part}_pj": "%s" for part in ENERGY_PARTS})
Totals = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], list[Any], list[Any], tuple[Any, ...]]


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


class Windows:
    """Closes windows; the values of a window are differences of the totals of the core."""

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
        self.with_scratchpad = plan.with_scratchpad
        self.saturated = [0] * self.channels  # number of consecutive windows
        self.asleep: set[str] = set()
        self.units = [*self.engines, *self.compute]
        self.worked = bytes([1] * len(self.units))  # whether components are not asleep
        self.queues = router_queues(plan) if banks else []
        self.bandwidth = self._samples(samples, "BANDWIDTH_SAMPLE", self.resources)
        self.engine = self._samples(samples, "ENGINE_SAMPLE", self.units)

    def _samples(self, samples: Any, event: str, units: Sequence[str]) -> Any:
        """Lines of an event whose fields are a unit, the window's length and numbers."""
        start, unit, *texts = (text.encode() for text in _form(event, unit=_TEXT).replace(_TEXT, "%d").split("%d"))
        return samples(start, [unit + text(name) for name in units], texts, bytes(name in self.kept for name in units))

    def state(self) -> dict[str, Any]:
        """The state as JSON, with the totals at the end of the last window."""
        dma, compute, resources, banks, *_ = self.before
        energy = [str(n) for n in (self.energy.macs, self.energy.ops, self.energy.region_bytes)]  # past 64 bits on long runs
        return {
            "totals": [column.tolist() for column in (dma, compute, resources)],
            "banks": [[column.tolist() for column in pair] for pair in banks],
            "energy": energy,
            "spent": [str(pj) for pj in self.spent],
            "saturated": self.saturated,
            "asleep": sorted(self.asleep),
        }

    def go_on(self, state: WindowState) -> None:
        """Restore the state. InputError if it is not before the current state of the run."""
        names = ("DMA engines", "engines", "resources")
        dma, compute, resources = (totals_of(*columns) for columns in zip(names, state.totals, self.before[:3], strict=True))
        now = self.before[3]
        if len(state.banks) != len(now) or len(state.saturated) != self.channels or not set(state.asleep) <= set(self.units):
            raise damaged("its windows are those of another machine")
        banks = [
            tuple(totals_of("banks", *column) for column in zip(saved, done, strict=True))
            for saved, done in zip(state.banks, now, strict=True)
        ]
        self.before = (dma, compute, resources, banks, [], ())
        self.energy.macs, self.energy.ops, self.energy.region_bytes = (int(n) for n in state.energy)
        self.spent = [int(pj) for pj in state.spent]
        self.saturated, self.asleep = state.saturated, set(state.asleep)
        self.worked = bytes(unit not in self.asleep for unit in self.units)

    def close(self, cycles: int, length: int, totals: Totals, by_parts: Work) -> tuple[bytes, int]:
        """The window of `length` cycles that ends with cycle `cycles - 1`: its lines, and their number.

        `by_parts`: the work of components' jobs so far.
        """
        dma, compute, resources = (now - then for now, then in zip(totals[:3], self.before[:3], strict=True))
        pairs = zip(totals[3], self.before[3], strict=True)
        banks = [(now[0] - then[0], now[1] - then[1]) for now, then in pairs][: len(self.scratchpads)]
        then = self.before[5]
        self.before = totals
        lines = _Lines(cycles - 1, length, self.kept)
        if length == self.length:
            self._warn(lines, compute, resources, banks)
        lines.add(*self.bandwidth.lines(cycles - 1, length, resources)[:2])
        for unit, (queued, active) in zip(self.units, totals[4], strict=True):
            if queued != NO_JOBS[len(queued)] or active != NO_JOBS[len(active)]:
                lines.put(unit, QUEUES[len(queued)], (unit, *queued, *active))
        states = self._engines(lines, dma, compute)
        for unit, (grants, denials) in zip(self.scratchpads, banks, strict=True) if self.banks else ():
            if grants.any() or denials.any():
                counts = (str(column.tolist()).replace(" ", "") for column in (grants + denials, grants, denials))
                lines.put(unit, BANK, (unit, length, *counts))
        self._queues(lines, totals[5], then)
        self._energy(lines, cycles, totals, by_parts)
        for unit, state in states if self.banks else ():
            lines.put(unit, POWER, (unit, state))
        return b"".join(lines.done), lines.count

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

    def _engines(self, lines: _Lines, dma: Any, compute: Any) -> list[tuple[str, str]]:
        """Samples of engines, and engines that fell asleep or woke up."""
        spent = np.zeros((len(self.units), 3), dtype=np.int64)
        spent[: len(dma)] = dma[:, :3]
        spent[len(dma) :, 0] = compute[:, 0]
        spent[len(dma) :, 2] = compute[:, 1]
        text, count, works = self.engine.lines(lines.last, lines.length, spent)
        lines.add(text, count)
        if works == self.worked:
            return []
        changed = [(unit, now) for unit, now, then in zip(self.units, works, self.worked, strict=True) if now != then]
        self.asleep ^= {unit for unit, _ in changed}
        self.worked = works
        return [(unit, "ACTIVE" if now else "IDLE") for unit, now in changed]

    def _energy(self, lines: _Lines, cycles: int, totals: Totals, by_parts: Work) -> None:
        dma, _, resources = totals[:3]
        moved = (resources[:, 0] + resources[:, 1]).tolist()
        by_pes = sum(dma[: self.with_scratchpad, 3].tolist())
        dram_bytes, noc_bytes = sum(moved[: self.channels]), sum(moved[self.channels : self.links_end])
        now = self.energy.so_far(cycles, dram_bytes, noc_bytes, by_pes, by_parts)
        # The quotient of two integers is the float nearest to it.
        sample = [(new - old) / self.energy.unit for new, old in zip(now, self.spent, strict=True)]
        self.spent = now
        lines.put(None, ENERGY, (lines.length, *map(repr, sample)))

    def _warn(self, lines: _Lines, compute: Any, resources: Any, banks: list[tuple[Any, Any]]) -> None:
        length = self.length
        for unit, component, busy in zip(self.compute, self.components, compute[:, 0].tolist(), strict=True):
            if 0 < 2 * busy < length:
                lines.warn(unit, component, "LOW_UTIL", f"{unit} worked in {busy} of {length} cycles, less than half")
        for k, moved in enumerate((resources[: self.channels, 0] + resources[: self.channels, 1]).tolist()):
            unit = self.resources[k]
            self.saturated[k] = self.saturated[k] + 1 if moved >= self.much[k] else 0
            if self.saturated[k] != SATURATED_WINDOWS:
                continue
            text = (
                f"{unit} moved at least 95% of what it can in each of {SATURATED_WINDOWS} windows of {length} cycles, "
                f"{moved} bytes in the last"
            )
            lines.warn(unit, "DRAM", "CHANNEL_SATURATED", text)
        for unit, (grants, denials) in zip(self.scratchpads, banks, strict=True):
            denied = int(denials.sum())
            requests = denied + int(grants.sum()) if denied else 0
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
