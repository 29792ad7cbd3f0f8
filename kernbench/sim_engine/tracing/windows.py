"""Samples and warnings, window by window, from what the core counts anyway."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, TeEntry
from kernbench.cmdq.footprint import regions_of, work_of
from kernbench.cmdq.plan import Plan
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig
from kernbench.sim_engine.energy import NO_WORK, Work
from kernbench.sim_engine.tracing.lines import line
from kernbench.trace.schema import BY_NAME

SATURATED_WINDOWS = 8
COMPONENTS = {1: "TE", 2: "VE", 6: "M_CPU"}  # by the core's EngineType
ENERGY_PARTS = ("dram", "noc", "spm", "mac", "ve", "static")


def _form(event: str, **kinds: str) -> str:
    """The format of a sample's line: its fields in the order of the schema, `%d` where nothing else is said."""
    fields = (f',"{field.name}":{kinds.get(field.name, "%d")}' for field in BY_NAME[event].fields)
    return f'{{"event_type":"{event}","t_cycle":%d{"".join(fields)}}}\n'


_TEXT = '"%s"'
_DEPTHS = {n: f"[{','.join(['%d'] * n)}]" for n in (1, 3, 4)}  # of a TE or VE, of a DMA engine by channel
BANDWIDTH, ENGINE = _form("BANDWIDTH_SAMPLE", unit=_TEXT), _form("ENGINE_SAMPLE", unit=_TEXT)
QUEUES = {n: _form("QUEUE_SAMPLE", unit=_TEXT, queued=depths, active=depths) for n, depths in _DEPTHS.items()}
POWER = _form("POWER_STATE", unit=_TEXT, state=_TEXT)
ENERGY = _form("ENERGY_SAMPLE", **{f"{part}_pj": "%s" for part in ENERGY_PARTS})
Totals = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], list[Any], list[Any]]


class Energy:
    """Picojoules so far, exact, by part: the windows' sum is `metrics.energy_pj` of the result.

    Integers over one denominator, which is that of all the machine's energies.
    """

    def __init__(self, pe: NpuConfig, program: Program) -> None:
        model = pe.energy
        static = model.static_mw / pe.freq_ghz  # pJ a cycle
        rates = {"dram": model.dram_pj_per_byte, "noc": model.noc_pj_per_byte_hop, "spm": model.spm_pj_per_byte}
        rates["static"] = static
        named = [*rates.values(), *model.mac_pj.values(), model.ve_op_pj]
        self.unit = lcm(*(rate.denominator for rate in named))
        self.rate = {name: int(rate * self.unit) for name, rate in rates.items()}
        self.mac = {bits: int(pj * self.unit) for bits, pj in model.mac_pj.items()}
        self.op = int(model.ve_op_pj * self.unit)
        self.pe = pe
        self.program = program
        self.macs = self.ops = 0
        self.region_bytes = 0  # of the operand regions of jobs that ended

    def ended(self, positions: Iterable[int]) -> None:
        """These entries' jobs are over. What stands behind them is of components, and in `Work`."""
        for position in positions:
            if position >= len(self.program.entries):
                continue
            entry = self.program.entries[position]
            if isinstance(entry, TeEntry):
                self.macs += work_of(entry) * self.mac.get(entry.qbits_weight, self.mac.get(8, 0))
            elif entry.engine == "ve":
                self.ops += work_of(entry) * self.op
            else:
                continue
            self.region_bytes += self._regions(entry)

    def _regions(self, entry: Entry) -> int:
        engine = self.pe.te if entry.engine == "te" else self.pe.ve
        return sum(region.nbytes for region in regions_of(entry, self.pe)) if engine.spm_traffic else 0

    def so_far(self, cycles: int, dram_bytes: int, noc_bytes: int, dma_bytes: int, by_parts: Work = NO_WORK) -> list[int]:
        """By part, in `1 / unit` pJ; what the PEs' DMA engines move also costs at the scratchpad."""
        rate, default = self.rate, self.mac.get(8, 0)
        by_bits, ops, streamed = by_parts
        travelled, accessed = dram_bytes * rate["dram"], (dma_bytes + self.region_bytes + streamed) * rate["spm"]
        macs = self.macs + sum(n * self.mac.get(bits, default) for bits, n in by_bits.items())
        return [travelled, noc_bytes * rate["noc"], accessed, macs, self.ops + ops * self.op, cycles * rate["static"]]


class Windows:
    """Closes windows; what one holds is the difference of the core's totals."""

    def __init__(self, program: Program, plan: Plan, length: int, totals: Totals, *, banks: bool) -> None:
        """`totals`: before the first cycle. `banks`: also samples of banks and power states, as from level `full` on."""
        self.length = length
        self.banks = banks
        self.energy = Energy(plan.pe, program)
        self.before = totals
        self.spent = self.energy.so_far(0, 0, 0, 0)
        self.channels = plan.channels
        # [B] of each channel in a window
        self.much = [ceil_div(95 * rate * length, 100) for rate in plan.capacities[: plan.channels]]
        self.engines, self.compute, self.resources = list(plan.dma), list(plan.compute), plan.resources
        self.components = [COMPONENTS[engine["kind"]] for engine in plan.machine["compute"]]
        self.scratchpads = plan.scratchpads
        self.with_scratchpad = plan.with_scratchpad
        self.saturated = [0] * self.channels  # windows in a row
        self.asleep: set[str] = set()

    def state(self) -> dict[str, Any]:
        """Where it stands, as JSON; the totals at the last end of a window are in it."""
        dma, compute, resources, banks, _ = self.before
        energy = [str(n) for n in (self.energy.macs, self.energy.ops, self.energy.region_bytes)]  # past 64 bits on long runs
        return {
            "totals": [column.tolist() for column in (dma, compute, resources)],
            "banks": [[column.tolist() for column in pair] for pair in banks],
            "energy": energy,
            "spent": [str(pj) for pj in self.spent],
            "saturated": self.saturated,
            "asleep": sorted(self.asleep),
        }

    def go_on(self, state: dict[str, Any]) -> None:
        """Stand there again."""
        dma, compute, resources = (
            np.array(column, dtype=np.int64).reshape(old.shape)
            for column, old in zip(state["totals"], self.before[:3], strict=True)
        )
        banks = [tuple(np.array(column, dtype=np.int64) for column in pair) for pair in state["banks"]]
        self.before = (dma, compute, resources, banks, [])
        self.energy.macs, self.energy.ops, self.energy.region_bytes = (int(n) for n in state["energy"])
        self.spent = [int(pj) for pj in state["spent"]]
        self.saturated, self.asleep = state["saturated"], set(state["asleep"])

    def close(self, cycles: int, length: int, totals: Totals, by_parts: Work) -> list[tuple[str | None, bytes]]:
        """The window of `length` cycles that ends with cycle `cycles - 1`: its lines, each with the track that it is about.

        `by_parts`: what components' jobs did so far.
        """
        dma, compute, resources = (now - then for now, then in zip(totals[:3], self.before[:3], strict=True))
        pairs = zip(totals[3], self.before[3], strict=True)
        banks = [(now[0] - then[0], now[1] - then[1]) for now, then in pairs][: len(self.scratchpads)]
        self.before = totals
        lines = _Lines(cycles - 1, length)
        if length == self.length:
            self._warn(lines, compute, resources, [(int(grants.sum()), int(denials.sum())) for grants, denials in banks])
        for unit, sample in zip(self.resources, resources.tolist(), strict=True):
            if any(sample):
                lines.put(unit, BANDWIDTH, (unit, length, *sample))
        for unit, (queued, active) in zip([*self.engines, *self.compute], totals[4], strict=True):
            if any(queued) or any(active):
                lines.put(unit, QUEUES[len(queued)], (unit, *queued, *active))
        states = self._engines(lines, dma, compute)
        for unit, (grants, denials) in zip(self.scratchpads, banks, strict=True) if self.banks else ():
            if grants.any() or denials.any():
                bank = {"requests": (grants + denials).tolist(), "grants": grants.tolist(), "denials": denials.tolist()}
                lines.done.append((unit, line("BANK_SAMPLE", cycles - 1, {"unit": unit, "window_cycles": length, **bank})))
        self._energy(lines, cycles, totals, by_parts)
        for unit, state in states if self.banks else ():
            lines.put(unit, POWER, (unit, state))
        return lines.done

    def _engines(self, lines: _Lines, dma: Any, compute: Any) -> list[tuple[str, str]]:
        """Samples of engines; which fell asleep or woke up."""
        spent = [*dma[:, :3].tolist(), *((busy, 0, held) for busy, held in compute.tolist())]
        states = []
        for unit, sample in zip([*self.engines, *self.compute], spent, strict=True):
            works = any(sample)
            if works:
                lines.put(unit, ENGINE, (unit, lines.length, *sample))
            if works == (unit in self.asleep):
                self.asleep ^= {unit}
                states.append((unit, "ACTIVE" if works else "IDLE"))
        return states

    def _energy(self, lines: _Lines, cycles: int, totals: Totals, by_parts: Work) -> None:
        dma, _, resources = totals[:3]
        moved = (resources[:, 0] + resources[:, 1]).tolist()
        by_pes = int(dma[: self.with_scratchpad, 3].sum())
        now = self.energy.so_far(cycles, sum(moved[: self.channels]), sum(moved[self.channels :]), by_pes, by_parts)
        # The quotient of two integers is the float nearest to it.
        sample = [(new - old) / self.energy.unit for new, old in zip(now, self.spent, strict=True)]
        self.spent = now
        lines.put(None, ENERGY, (lines.length, *map(repr, sample)))

    def _warn(self, lines: _Lines, compute: Any, resources: Any, banks: list[tuple[int, int]]) -> None:
        length = self.length
        for unit, component, busy in zip(self.compute, self.components, compute[:, 0].tolist(), strict=True):
            if 0 < 2 * busy < length:
                text = f"{unit} worked in {busy} of {length} cycles, less than half"
                lines.warn(unit, component, "LOW_UTIL", text)
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
        for unit, (granted, denied) in zip(self.scratchpads, banks, strict=True):
            requests = granted + denied
            if requests >= length and 4 * denied > requests:
                text = f"{unit} denied {denied} of {requests} bank requests in {length} cycles, more than a quarter"
                lines.warn(unit, "SRAM", "HIGH_CONFLICT", text)


class _Lines:
    """The lines of one window, which ends with cycle `last`."""

    def __init__(self, last: int, length: int) -> None:
        self.last = last
        self.length = length
        self.done: list[tuple[str | None, bytes]] = []

    def put(self, unit: str | None, form: str, values: tuple[object, ...]) -> None:
        """A sample: names of units need no escapes, so its line is one format."""
        self.done.append((unit, (form % (self.last, *values)).encode()))

    def warn(self, unit: str, component: str, code: str, text: str) -> None:
        fields = {"component": component, "code": code, "msg": text, "unit": unit}
        self.done.append((unit, line("WARN", self.last, fields)))
