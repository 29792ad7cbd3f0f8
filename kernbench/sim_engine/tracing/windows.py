"""Samples and warnings, window by window, from what the core counts anyway."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, TeEntry
from kernbench.cmdq.footprint import regions_of, work_of
from kernbench.cmdq.lower import resource_names
from kernbench.common import naming
from kernbench.config import NpuConfig
from kernbench.sim_engine.tracing.lines import line

SATURATED_WINDOWS = 8
ENERGY_PARTS = ("dram", "noc", "spm", "mac", "ve", "static")
Totals = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], list[Any], list[Any]]


class Energy:
    """Picojoules so far, exact, by part: the windows' sum is `metrics.energy_pj` of the result."""

    def __init__(self, config: NpuConfig, program: Program) -> None:
        self.config = config
        self.program = program
        self.macs = self.ops = Fraction(0)
        self.region_bytes = 0  # of the operand regions of jobs that ended

    def ended(self, positions: Iterable[int]) -> None:
        """These entries' jobs are over."""
        model = self.config.energy
        for position in positions:
            entry = self.program.entries[position]
            if isinstance(entry, TeEntry):
                default = model.mac_pj.get(8, Fraction(0))
                self.macs += work_of(entry) * model.mac_pj.get(entry.qbits_weight, default)
            elif entry.engine == "ve":
                self.ops += work_of(entry) * model.ve_op_pj
            else:
                continue
            self.region_bytes += self._regions(entry)

    def _regions(self, entry: Entry) -> int:
        engine = self.config.te if entry.engine == "te" else self.config.ve
        return sum(region.nbytes for region in regions_of(entry, self.config)) if engine.spm_traffic else 0

    def so_far(self, cycles: int, dram_bytes: int, noc_bytes: int) -> dict[str, Fraction]:
        """By part; what travels between DRAM and scratchpad also costs at the scratchpad."""
        model = self.config.energy
        return {
            "dram": dram_bytes * model.dram_pj_per_byte,
            "noc": noc_bytes * model.noc_pj_per_byte_hop,
            "spm": (dram_bytes + self.region_bytes) * model.spm_pj_per_byte,
            "mac": self.macs,
            "ve": self.ops,
            "static": model.static_mw * cycles / self.config.freq_ghz,
        }


class Windows:
    """Closes windows; what one holds is the difference of the core's totals."""

    def __init__(self, config: NpuConfig, program: Program, length: int, totals: Totals, *, banks: bool) -> None:
        """`totals`: before the first cycle. `banks`: also samples of banks and power states, as from level `full` on."""
        self.length = length
        self.banks = banks
        self.energy = Energy(config, program)
        self.before = totals
        self.spent = self.energy.so_far(0, 0, 0)
        self.channels = config.dram.channels
        self.capacity = config.dram.capacity
        self.engines = [naming.engine("dma", k) for k in range(config.dma.engines)]
        self.compute = [naming.engine("te", k) for k in range(config.te.engines)]
        self.compute += [naming.engine("ve", k) for k in range(config.ve.engines)]
        self.resources = resource_names(config)
        self.saturated = [0] * self.channels  # windows in a row
        self.asleep: set[str] = set()

    def state(self) -> dict[str, Any]:
        """Where it stands, as JSON; the totals at the last end of a window are in it."""
        dma, compute, resources, banks, _ = self.before
        energy = {"macs": str(self.energy.macs), "ops": str(self.energy.ops), "region_bytes": self.energy.region_bytes}
        return {
            "totals": [column.tolist() for column in (dma, compute, resources, *banks[0])],
            "energy": energy,
            "spent": {part: str(pj) for part, pj in self.spent.items()},
            "saturated": self.saturated,
            "asleep": sorted(self.asleep),
        }

    def go_on(self, state: dict[str, Any]) -> None:
        """Stand there again."""
        columns = [np.array(column, dtype=np.int64).reshape(old.shape) for column, old in zip(
            state["totals"], (*self.before[:3], *self.before[3][0]), strict=True)]  # fmt: skip
        self.before = (columns[0], columns[1], columns[2], [(columns[3], columns[4])], [])
        energy = state["energy"]
        self.energy.macs, self.energy.ops = Fraction(energy["macs"]), Fraction(energy["ops"])
        self.energy.region_bytes = energy["region_bytes"]
        self.spent = {part: Fraction(pj) for part, pj in state["spent"].items()}
        self.saturated, self.asleep = state["saturated"], set(state["asleep"])

    def close(self, cycles: int, length: int, totals: Totals) -> list[tuple[str | None, bytes]]:
        """The window of `length` cycles that ends with cycle `cycles - 1`: its lines, each with the track that it is about."""
        dma, compute, resources = (now - then for now, then in zip(totals[:3], self.before[:3], strict=True))
        grants, denials = (now - then for now, then in zip(totals[3][0], self.before[3][0], strict=True))
        self.before = totals
        lines = _Lines(cycles - 1, length)
        if length == self.length:
            self._warn(lines, compute, resources, int(grants.sum()), int(denials.sum()))
        for unit, (read, write, busy, members) in zip(self.resources, resources.tolist(), strict=True):
            sample = {"read_bytes": read, "write_bytes": write, "busy_cycles": busy, "member_cycles": members}
            lines.add("BANDWIDTH_SAMPLE", unit, sample, any(sample.values()))
        for unit, (queued, active) in zip([*self.engines, *self.compute], totals[4], strict=True):
            lines.add("QUEUE_SAMPLE", unit, {"queued": queued, "active": active}, any(queued) or any(active), timed=False)
        states = self._engines(lines, dma, compute)
        if self.banks:
            bank = {"requests": (grants + denials).tolist(), "grants": grants.tolist(), "denials": denials.tolist()}
            lines.add("BANK_SAMPLE", naming.SPM, bank, any(bank["requests"]))
        self._energy(lines, cycles, totals[2])
        for unit, state in states if self.banks else ():
            lines.add("POWER_STATE", unit, {"state": state}, True, timed=False)
        return lines.done

    def _engines(self, lines: _Lines, dma: Any, compute: Any) -> list[tuple[str, str]]:
        """Samples of engines; which fell asleep or woke up."""
        spent = [*dma.tolist(), *([busy, 0, held] for busy, held in compute.tolist())]
        states = []
        for unit, (busy, backpressure, held) in zip([*self.engines, *self.compute], spent, strict=True):
            sample = {"busy_cycles": busy, "backpressure_cycles": backpressure, "bank_conflict_cycles": held}
            works = any(sample.values())
            lines.add("ENGINE_SAMPLE", unit, sample, works)
            if works == (unit in self.asleep):
                self.asleep ^= {unit}
                states.append((unit, "ACTIVE" if works else "IDLE"))
        return states

    def _energy(self, lines: _Lines, cycles: int, resources: Any) -> None:
        moved = resources[:, 0] + resources[:, 1]
        now = self.energy.so_far(cycles, int(moved[: self.channels].sum()), int(moved[self.channels :].sum()))
        sample = {f"{part}_pj": float(now[part] - self.spent[part]) for part in ENERGY_PARTS}
        self.spent = now
        lines.add("ENERGY_SAMPLE", None, sample, True)

    def _warn(self, lines: _Lines, compute: Any, resources: Any, granted: int, denied: int) -> None:
        length = self.length
        for unit, busy in zip(self.compute, compute[:, 0].tolist(), strict=True):
            text = f"{unit} worked in {busy} of {length} cycles, less than half"
            lines.warn(unit, unit[:2].upper(), "LOW_UTIL", text, 0 < 2 * busy < length)
        for k, moved in enumerate((resources[: self.channels, 0] + resources[: self.channels, 1]).tolist()):
            unit = self.resources[k]
            self.saturated[k] = self.saturated[k] + 1 if 100 * moved >= 95 * self.capacity * length else 0
            text = (
                f"{unit} moved at least 95% of what it can in each of {SATURATED_WINDOWS} windows of {length} cycles, "
                f"{moved} bytes in the last"
            )
            lines.warn(unit, "DRAM", "CHANNEL_SATURATED", text, self.saturated[k] == SATURATED_WINDOWS)
        requests = granted + denied
        text = f"{naming.SPM} denied {denied} of {requests} bank requests in {length} cycles, more than a quarter"
        lines.warn(naming.SPM, "SRAM", "HIGH_CONFLICT", text, requests >= length and 4 * denied > requests)


class _Lines:
    """The lines of one window, which ends with cycle `last`."""

    def __init__(self, last: int, length: int) -> None:
        self.last = last
        self.length = length
        self.done: list[tuple[str | None, bytes]] = []

    def add(self, event: str, unit: str | None, fields: dict[str, Any], wanted: bool, *, timed: bool = True) -> None:
        if wanted:
            window = {"window_cycles": self.length} if timed else {}
            named = {} if unit is None else {"unit": unit}
            self.done.append((unit, line(event, self.last, {**named, **window, **fields})))

    def warn(self, unit: str, component: str, code: str, text: str, wanted: bool) -> None:
        fields = {"component": component, "code": code, "msg": text, "unit": unit}
        if wanted:
            self.done.append((unit, line("WARN", self.last, fields)))
