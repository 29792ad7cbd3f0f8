"""Samples and warnings of a reference trace, window by window, from what the reference counts anyway."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .ref_machine import exact
from .ref_trace_lines import TRACE, Lines, Who

if TYPE_CHECKING:
    from .ref_trace import TracedSimulation

HERE = Who(TRACE)
SATURATED_WINDOWS = 8
PARTS = ("dram", "noc", "spm", "mac", "ve", "static")


class Energy:
    """Picojoules so far, exact, by part: the sum of all windows is the energy of the result."""

    def __init__(self, machine: dict[str, Any]) -> None:
        model = machine["energy"]
        self.dram = exact(model["dram_pj_per_byte"])
        self.noc = exact(model["noc_pj_per_byte_hop"])
        self.spm = exact(model["spm_pj_per_byte"])
        self.ve_op = exact(model["ve_op_pj"])
        self.mac = {int(bits): exact(pj) for bits, pj in model["mac_pj"].items()}
        self.static = exact(model["static_mw"]) / exact(machine["freq_ghz"])  # per cycle
        self.macs = self.ops = Fraction(0)
        self.regions = 0  # bytes of the operand regions of jobs that ended

    def job_ended(self, entry: dict[str, Any], amount: int, region_bytes: int) -> None:
        """A TE or VE job is over."""
        if entry["opcode"].startswith("TE_"):
            self.macs += amount * self.mac.get(entry["qbits_weight"], self.mac.get(8, Fraction(0)))
        else:
            self.ops += amount * self.ve_op
        self.regions += region_bytes

    def so_far(self, cycles: int, moved: Counter[str], dma_bytes: int) -> dict[str, Fraction]:
        """By part, after `cycles` cycles; `moved`: bytes by channel and link."""
        return {
            "dram": self.dram * sum(n for name, n in moved.items() if name.startswith("dram.")),
            "noc": self.noc * sum(n for name, n in moved.items() if name.startswith("noc.")),
            "spm": self.spm * (dma_bytes + self.regions),
            "mac": self.macs,
            "ve": self.ops,
            "static": self.static * cycles,
        }


class Windows:
    """Closes a window every `length` cycles; totals of a window are differences of totals of the run."""

    def __init__(self, run: TracedSimulation, lines: Lines, length: int) -> None:
        self.run = run
        self.lines = lines
        self.length = length
        self.energy = Energy(run.machine)
        self.read: Counter[str] = Counter()  # bytes towards the scratchpad by channel and link, of the whole run
        self.write: Counter[str] = Counter()
        self.before = self._totals(0)  # at the end of the last window
        self.depths: dict[str, tuple[list[int], list[int]]] = {}  # queued and active after the last cycle
        self.saturated: Counter[str] = Counter()  # windows in a row
        self.asleep: set[str] = set()

    def end_of_cycle(self, cycle: int) -> None:
        """After P7 of `cycle`."""
        self.depths = self._depths()
        if (cycle + 1) % self.length == 0:
            self._close(cycle, self.length)

    def end_of_run(self, cycles: int) -> None:
        """The last window may be shorter."""
        if cycles % self.length:
            self._close(cycles - 1, cycles % self.length)

    def energy_pj(self, cycles: int) -> dict[str, Fraction]:
        """Of the whole run, by part."""
        dma_bytes = sum(engine.count["bytes"] for engine in self.run.dma)
        return self.energy.so_far(cycles, self.read + self.write, dma_bytes)

    def _totals(self, cycles: int) -> Counter[tuple[str, ...]]:
        """Everything that only grows, flat."""
        out: Counter[tuple[str, ...]] = Counter()
        for i, engine in enumerate(self.run.dma):
            out[f"dma{i}", "busy"] = engine.count["busy"]
            out[f"dma{i}", "backpressure"] = engine.stalled["backpressure"]
            out[f"dma{i}", "bank_conflict"] = engine.stalled["bank_conflict"]
        for name, service in self.run.named_services():
            out[name, "busy"] = service.count["busy"]
            out[name, "bank_conflict"] = service.bank_conflict
        for name, count in self.run.resource.items():
            out[name, "busy"], out[name, "members"] = count["busy"], count["member_cycles"]
            out[name, "read"], out[name, "write"] = self.read[name], self.write[name]
        for key, by_bank in self.run.banks.counters().items():
            out.update({("spm", key, str(bank)): n for bank, n in enumerate(by_bank)})
        out.update({("energy", part): pj for part, pj in self.energy_pj(cycles).items()})
        return out

    def _depths(self) -> dict[str, tuple[list[int], list[int]]]:
        out: dict[str, tuple[list[int], list[int]]] = {}
        channels = ("act_weight", "kv_load", "kv_store")
        for i, engine in enumerate(self.run.dma):
            queued = [sum(1 for job in engine.pending if job.channel == name) for name in channels]
            active = [sum(1 for job in engine.active if job.channel == name) for name in channels]
            out[f"dma{i}"] = (queued, active)
        for name, service in self.run.named_services():
            out[name] = ([len(service.queue)], [service.jobs_inside])
        return out

    def _close(self, last: int, length: int) -> None:
        """The window of `length` cycles whose last cycle is `last`."""
        now = self._totals(last + 1)
        delta = {key: value - self.before[key] for key, value in now.items()}
        self.before = now
        if length == self.length:
            self._warn(last, delta)
        for unit in self.run.resource:
            sample = {f"{key}_bytes": delta[unit, key] for key in ("read", "write")}
            sample |= {"busy_cycles": delta[unit, "busy"], "member_cycles": delta[unit, "members"]}
            if any(sample.values()):
                self._add("BANDWIDTH_SAMPLE", last, {"unit": unit, "window_cycles": length, **sample})
        for unit, (queued, active) in self.depths.items():
            if any(queued) or any(active):
                self._add("QUEUE_SAMPLE", last, {"unit": unit, "queued": queued, "active": active})
        for unit in self.depths:
            self._engine_sample(unit, last, length, delta)
        banks = {key: self._by_bank(delta, key) for key in ("requests", "grants", "denials")}
        if any(banks["requests"]):
            self._add("BANK_SAMPLE", last, {"unit": "spm", "window_cycles": length, **banks})
        energy = {f"{part}_pj": float(delta["energy", part]) for part in PARTS}
        self._add("ENERGY_SAMPLE", last, {"window_cycles": length, **energy})

    def _engine_sample(self, unit: str, last: int, length: int, delta: dict[tuple[str, ...], int]) -> None:
        keys = ("busy", "backpressure", "bank_conflict")
        sample = {f"{key}_cycles": delta.get((unit, key), 0) for key in keys}
        works = any(sample.values())
        if works:
            self._add("ENGINE_SAMPLE", last, {"unit": unit, "window_cycles": length, **sample})
        if works == (unit in self.asleep):  # it woke up or fell asleep
            self.asleep ^= {unit}
            self._add("POWER_STATE", last, {"unit": unit, "state": "ACTIVE" if works else "IDLE"})

    def _by_bank(self, delta: dict[tuple[str, ...], int], key: str) -> list[int]:
        return [delta["spm", key, str(bank)] for bank in range(self.run.spm.banks)]

    def _warn(self, last: int, delta: dict[tuple[str, ...], int]) -> None:
        """The rules of `WARN_CODES` that look at whole windows."""
        length = self.length
        for unit, service in self.run.named_services():
            busy = delta[unit, "busy"]
            if 0 < 2 * busy < length:
                text = f"{unit} worked in {busy} of {length} cycles, less than half"
                self._add_warning(last, "TE" if service.kind == 1 else "VE", "LOW_UTIL", text, unit)
        for unit, capacity in self.run.capacity.items():
            if not unit.startswith("dram."):
                continue
            moved = delta[unit, "read"] + delta[unit, "write"]
            self.saturated[unit] = self.saturated[unit] + 1 if 100 * moved >= 95 * capacity * length else 0
            if self.saturated[unit] == SATURATED_WINDOWS:
                text = (
                    f"{unit} moved at least 95% of what it can in each of {SATURATED_WINDOWS} windows of {length} cycles, "
                    f"{moved} bytes in the last"
                )
                self._add_warning(last, "DRAM", "CHANNEL_SATURATED", text, unit)
        requests, denials = sum(self._by_bank(delta, "requests")), sum(self._by_bank(delta, "denials"))
        if requests >= length and 4 * denials > requests:
            text = f"spm denied {denials} of {requests} bank requests in {length} cycles, more than a quarter"
            self._add_warning(last, "SRAM", "HIGH_CONFLICT", text, "spm")

    def _add_warning(self, last: int, component: str, code: str, text: str, unit: str) -> None:
        self._add("WARN", last, {"component": component, "code": code, "msg": text, "unit": unit})

    def _add(self, name: str, last: int, fields: dict[str, Any]) -> None:
        self.lines.add(name, last, HERE, fields)
