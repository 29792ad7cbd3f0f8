"""Perturbed runs of programs, by docs/model/perturbed_runs.md: draws, and what they change in the slow simulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from . import ref_jobs
from .ref_control import CONTROL, Control, Record
from .ref_dma import DmaEngine, DmaJob
from .ref_engines import ServiceEngine
from .ref_flit_transfers import FlitSimulation, FlitSystem, Routed
from .ref_kernels import FlitKernels, SystemKernels
from .ref_machine import completed
from .ref_system import SystemSimulation
from .ref_system_parts import Roads, numbered, sections
from .ref_tl import Tl
from .reference import Simulation

MASK = 2**64 - 1
CHANNELS = ("act_weight", "kv_load", "kv_store")
ORDERS = 2**31


def hashed(*parts: object) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def _mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


class Draws(NamedTuple):
    """The draws of a seed. `latency` and `start`: [cycle] their largest values; `slowest`: the smallest share of a capacity."""

    seed: int
    latency: int
    start: int
    slowest: Fraction

    def value(self, kind: str, name: str, ordinal: int, most: int) -> int:
        if most <= 0:
            return 0
        form, base = hashed(self.seed, kind), hashed(self.seed, kind, name)
        share, names = (1, 2, 8, 32)[form & 3], (1, 1, 1, 4)[form >> 4 & 3]
        shift = (0, 0, 3, 6)[form >> 2 & 3] if kind in ("latency", "start") else 0
        bits = _mix(base + (ordinal + 1) * 0x9E3779B97F4A7C15 & MASK)
        if (base >> 8) % names or (bits & 0xFFFF) % share:
            return 0
        return (bits >> 16) % max(1, most >> shift) + 1


def simulate_perturbed(machine: dict[str, Any], program: dict[str, Any], draws: Draws) -> dict[str, Any]:
    """A run on one NPU."""

    def made(machine: dict[str, Any], program: dict[str, Any]) -> PerturbedRun:
        has_routers = (machine.get("noc") or {}).get("model") == "flit"
        return (PerturbedFlits if has_routers else PerturbedNpu)(completed(machine), program, draws)

    return _outcome(machine, program, None, made)


def simulate_perturbed_system(
    system: dict[str, Any], program: dict[str, Any], roads: Roads, draws: Draws, mesh: Sequence[Any] = ()
) -> dict[str, Any]:
    """A run on a system. `mesh`: of one with routers, its links and terminals, as for `FlitSystem`."""

    def made(system: dict[str, Any], program: dict[str, Any]) -> PerturbedRun:
        if mesh:
            return PerturbedFlitSystem(system, program, roads, draws, mesh)
        return PerturbedSystem(system, program, roads, draws)

    return _outcome(system, program, sections(system)["spm"], made)


def _outcome(
    machine: dict[str, Any], program: dict[str, Any], spm: dict[str, Any] | None, made: Callable[..., PerturbedRun]
) -> dict[str, Any]:
    """What is said of a run whose commands may have several jobs."""
    if machine.get("control", {}).get("micro_scheduler") is None:
        run = made(machine, program)
        return run.run() | {"overlaps": sorted(run.overlaps)}
    of_jobs, spans = ref_jobs.divided(machine, program, spm)
    run = made(ref_jobs.without(machine), of_jobs)
    ids = [entry.get("id", at) for at, entry in enumerate(program["cmdq"])]
    run.commands = {of_jobs["cmdq"][at]["id"]: own for own, span in zip(ids, spans, strict=True) for at in span}
    return ref_jobs.of_commands(run.run() | {"overlaps": sorted(run.overlaps)}, program, spans)


class PerturbedRun(Simulation):
    """What draws change. Engines are named by their numbers in lists of all."""

    draws: Draws
    overlaps: Sequence[tuple[int, int, int]] = ()  # only a system lists them
    commands: dict[int, int] = {}  # the commands of jobs, by their ids

    def change(self, draws: Draws) -> None:
        """Before cycle 0."""
        self.draws = draws
        self.ready = {pe: draws.value("start", pe, 0, draws.start) for pe in self.pes()}
        for name in self.capacity:
            if self._varies(name):
                step = draws.value("capacity", name, 0, 8)
                self.capacity[name] *= 1 - (1 - draws.slowest) * Fraction(step, 8)
        for number, engine in enumerate(self.dma):
            drawn = draws.value("ties", f"{self.dma_name(number)} start", 0, 6)
            if drawn:
                places = list(permutations(range(3)))[drawn - 1]
                engine.places = dict(zip(CHANNELS, places, strict=True))
        for pe in self.pes():
            drawn = draws.value("ties", f"{pe} grant", 0, ORDERS)
            engines = [(0, i) for i in range(len(self.dma)) if self.pe_of_dma(i) == pe]
            engines += [(one.kind, one.number) for one in (*self.te, *self.ve) if self.pe_of(one) == pe]
            if drawn:
                order = np.random.default_rng(drawn).permutation(len(engines)).tolist()
                self.banks.places |= {own: engines[place] for own, place in zip(engines, order, strict=True)}
        if self.control.issue_width:
            drawn = draws.value("ties", "issue", 0, ORDERS)
            if drawn:
                self.control = OrderedControl(self.control, drawn, self.queue_of)

    def pes(self) -> list[str]:
        raise NotImplementedError

    def dma_name(self, number: int) -> str:
        raise NotImplementedError

    def pe_of_dma(self, number: int) -> str:
        """Of an engine of an endpoint: its own name."""
        raise NotImplementedError

    def pe_of(self, engine: ServiceEngine) -> str:
        raise NotImplementedError

    def queue_of(self, record: Record) -> Any:
        """The queue of an engine, or of a channel of a DMA engine, that an entry goes to."""
        raise NotImplementedError

    def _varies(self, name: str) -> bool:
        """Whether a resource is a link, or a DRAM channel whose bus does not decide its capacity."""
        if ".codec" in name or name == "llc" or name.endswith(".llc"):
            return False
        channel = name.startswith("dram.") or (".hbm_ctrl.ch" in name and "-" not in name)
        return not (channel and self.machine["allocation"].startswith("row_buffer"))

    def _may_start(self, cycle: int, engine: DmaEngine | ServiceEngine) -> bool:
        name = self.pe_of_dma(engine.number) if isinstance(engine, DmaEngine) else self.pe_of(engine)
        return cycle >= self.ready.get(name, 0)

    def _more_head(self, job: DmaJob) -> int:
        own = self.record_of[id(job.entry)].id
        return self.draws.value("latency", "entry", self.commands.get(own, own), self.draws.latency)


class PerturbedNpu(PerturbedRun):
    """A run on one NPU."""

    def __init__(self, machine: dict[str, Any], program: dict[str, Any], draws: Draws) -> None:
        super().__init__(machine, program)
        self.change(draws)

    def pes(self) -> list[str]:
        return ["pe0"]

    def dma_name(self, number: int) -> str:
        return f"dma{number}"

    def pe_of_dma(self, number: int) -> str:
        return "pe0"

    def pe_of(self, engine: ServiceEngine) -> str:
        return "pe0"

    def queue_of(self, record: Record) -> Any:
        entry = record.entry
        if record.opcode.startswith(("TE_", "VE_")):
            kind = record.opcode[:2].lower()
            return kind, entry.get(f"{kind}_id", 0)
        job = DmaJob(entry, 0, self.machine)
        return "dma", job.engine, job.channel


class WithRouters(PerturbedRun, Routed):
    """Links between routers are slower, too."""

    def change(self, draws: Draws) -> None:
        super().change(draws)
        self.slow_links()


class PerturbedFlits(WithRouters, PerturbedNpu, FlitSimulation):
    """A run on one NPU with routers."""


class OnSystem(PerturbedRun, SystemSimulation):
    """The engines of a system."""

    def pes(self) -> list[str]:
        return list(self.site.parts.pes)

    def dma_name(self, number: int) -> str:
        each, parts = self.machine["dma"]["engines"], self.site.parts
        if number >= each * len(parts.pes):
            return parts.endpoints[number - each * len(parts.pes)]
        return numbered(f"{parts.pes[number // each]}.pe_dma", number % each, each)

    def pe_of_dma(self, number: int) -> str:
        each, parts = self.machine["dma"]["engines"], self.site.parts
        return parts.pes[number // each] if number < each * len(parts.pes) else self.dma_name(number)

    def pe_of(self, engine: ServiceEngine) -> str:
        if engine in self.cpus:
            return self.site.parts.cpus[engine.number]
        kind = "te" if engine.kind == 1 else "ve"
        return self.site.parts.pes[engine.number // self.machine[kind]["engines"]]


class PerturbedSystem(OnSystem):
    """A program on a system."""

    def __init__(
        self, system: dict[str, Any], program: dict[str, Any], roads: Roads, draws: Draws, mesh: Sequence[Any] = ()
    ) -> None:
        self.build(system, program, roads, mesh)
        self.change(draws)

    def build(self, system: dict[str, Any], program: dict[str, Any], roads: Roads, mesh: Sequence[Any]) -> None:
        SystemSimulation.__init__(self, system, program, roads)

    def queue_of(self, record: Record) -> Any:
        entry, node = record.entry, self.site.node(record.entry)
        if record.opcode == "LAUNCH":
            return node
        if record.opcode.startswith(("TE_", "VE_")):
            kind = record.opcode[:2].lower()
            return node, kind, entry.get(f"{kind}_id", 0)
        is_kv = record.opcode.startswith("KV_") or entry.get("tensor_role") == "kv"
        is_store = "STORE" in record.opcode or "SEND" in record.opcode
        return node, entry.get("dma_id", 0), is_kv and (1 + is_store)


class PerturbedFlitSystem(WithRouters, PerturbedSystem, FlitSystem):
    """A program on a system with routers."""

    def build(self, system: dict[str, Any], program: dict[str, Any], roads: Roads, mesh: Sequence[Any]) -> None:
        FlitSystem.__init__(self, system, program, roads, *mesh)


class PerturbedKernels(OnSystem, SystemKernels):
    """Kernels on a system. `given`: the arguments of `SystemKernels` by name. `jobs`: the transfers of a run without draws,
    by PE and channel."""

    def __init__(self, draws: Draws, given: dict[str, Any], jobs: dict[str, int]) -> None:
        keys = given["system"]["pe"]["ipcq"]
        slots = keys["slots"] - draws.value("credits", "queues", 1, keys["slots"] - 1)
        pe = given["system"]["pe"] | {"ipcq": keys | {"slots": slots}}
        self.build_kernels(given | {"system": given["system"] | {"pe": pe}})
        self.jobs = jobs
        self.latest: dict[str, int] = {}  # by PE: when its last launch arrives
        self.change(draws)

    def build_kernels(self, given: dict[str, Any]) -> None:
        SystemKernels.__init__(self, **given)

    def _may_start(self, cycle: int, engine: DmaEngine | ServiceEngine) -> bool:
        return True  # launches arrive later instead

    def arrival(self, tl: Tl, at: int, number: int) -> int:
        at += self.draws.value("start", tl.pe.name, number, self.draws.start)
        at = self.latest[tl.pe.name] = max(at, self.latest.get(tl.pe.name, 0))
        return at

    def _more_head(self, job: DmaJob) -> int:
        name, number = job.number
        return self.draws.value("latency", name, number, self.draws.latency) if number < self.jobs.get(name, 0) else 0


class PerturbedFlitKernels(WithRouters, PerturbedKernels, FlitKernels):
    """Kernels on a system with routers. `given` has its `mesh`, too."""

    def build_kernels(self, given: dict[str, Any]) -> None:
        FlitKernels.__init__(self, **given)


class OrderedControl(Control):
    """The same command queue, in which entries that are ready at the same time are issued in a drawn order."""

    def __init__(self, of: Control, drawn: int, queue_of: Callable[[Record], Any]) -> None:
        self.__dict__.update(of.__dict__)
        random = np.random.default_rng(drawn)
        self.position = list(range(len(self.records)))
        segment: list[int] = []
        for i in range(len(self.records) + 1):
            if i < len(self.records) and self.records[i].opcode != "BARRIER":
                segment.append(i)
                continue
            queues: dict[Any, list[int]] = {}
            for k, place in zip(segment, random.permutation(segment).tolist(), strict=True):
                if self.records[k].opcode not in CONTROL:  # those keep their own
                    self.position[k] = place
                    queues.setdefault(queue_of(self.records[k]), []).append(k)
            for members in queues.values():
                places = sorted(self.position[k] for k in members)
                for k, place in zip(members, places, strict=True):
                    self.position[k] = place
            segment = []

    def issue(self, cycle: int, submit: Callable[[Record], None], completed: Callable[[Record], None]) -> bool:
        room, acted = self.issue_width, False
        while True:
            issued = 0
            here = set(self._can(cycle))
            while here:
                at = min(here, key=lambda k: (self.position[k], self.records[k].opcode not in CONTROL))
                here.remove(at)
                record = self.records[at]
                if record.opcode in CONTROL:
                    before = set(self._can(cycle))
                    record.issue = record.start = record.end = cycle
                    completed(record)
                    here |= {k for k in self._can(cycle) if k > at and k not in before}
                elif room > 0:
                    record.issue = cycle
                    room -= 1
                    submit(record)
                else:
                    continue
                issued += 1
            acted = acted or issued > 0
            if not issued:
                return acted

    def _can(self, cycle: int) -> list[int]:
        """The entries that could be issued now."""
        found = []
        for i, record in enumerate(self.records):
            here = record.arrival is not None and record.arrival <= cycle
            if record.issue is None and here and self._ready(i, cycle):
                found.append(i)
            if record.opcode == "BARRIER" and not self._ended(record, cycle):
                break
        return found
