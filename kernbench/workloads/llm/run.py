"""Runs a language model: either each distinct segment once, or all segments of every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry
from kernbench.cmdq.footprint import transfer_of
from kernbench.cmdq.program import Program
from kernbench.common.errors import InternalError
from kernbench.config.schema import NpuConfig
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.result import Result
from kernbench.workloads.limit import StoppedError
from kernbench.workloads.llm.exchanges import Sent
from kernbench.workloads.llm.known import Kept
from kernbench.workloads.llm.steps import LlmPrograms, Segment, Step

if TYPE_CHECKING:
    from kernbench.workloads.parallel.programs import ParallelPrograms

ROLES = ("weights", "kv", "activations")  #: purposes of DRAM bytes; the embedding and RoPE tables count as activations
Progress = Callable[[int, int], None]  #: arguments: the number of segments that have run, and the number of all segments


@dataclass(slots=True)
class Tally:
    """The sum of the results of some segments. Bounds and energy are added up, because segments run in sequence."""

    cycles: int = 0
    bytes: Counter[str] = field(default_factory=Counter)  #: of DRAM by role, alignment included
    macs: int = 0
    te_busy: int = 0  #: [engine-cycle]
    te_cycles: int = 0  #: [engine-cycle] available cycles of all TEs
    bounds: Counter[str] = field(default_factory=Counter)  #: [cycle] by resource and engine, and of the critical path
    energy_pj: Counter[str] = field(default_factory=Counter)
    entries: int = 0
    reductions: Counter[Sent] = field(default_factory=Counter)  #: collectives

    def add(self, other: Tally, times: int = 1) -> None:
        """Adds `other` this number of times."""
        self.cycles += other.cycles * times
        self.macs += other.macs * times
        self.te_busy += other.te_busy * times
        self.te_cycles += other.te_cycles * times
        self.entries += other.entries * times
        for mine, its in ((self.bytes, other.bytes), (self.bounds, other.bounds), (self.energy_pj, other.energy_pj)):
            for name, value in its.items():
                mine[name] += value * times
        for reduction, count in other.reductions.items():
            self.reductions[reduction] += count * times

    @property
    def limit(self) -> tuple[str, int]:
        """The name and the value of the largest bound."""
        name = max(sorted(self.bounds), key=lambda key: self.bounds[key]) if self.bounds else "critical path"
        return name, self.bounds[name]


@dataclass(frozen=True, slots=True)
class StepRun:
    """The results of a step: their sum, and the sum for each kind of segment."""

    step: Step
    total: Tally
    kinds: dict[str, Tally]
    counts: dict[str, int] = field(default_factory=dict)  #: number of segments of each kind


@dataclass(frozen=True, slots=True)
class LlmRun:
    """All steps, and the number of segments that were simulated for them."""

    programs: LlmPrograms | ParallelPrograms
    steps: list[StepRun]
    simulated: int
    segments: int
    #: for each phase of a pipeline, the share of the time in which its busiest stage waits
    waiting: dict[str, float] = field(default_factory=dict)
    #: For each phase, the cycles that hand-offs add to a step, and those that the way back to the first stage adds.
    hand_offs: dict[str, tuple[int, int]] = field(default_factory=dict)


def run_llm(programs: LlmPrograms, *, reuse: bool = True, progress: Progress | None = None) -> LlmRun:
    """Simulates a job. `reuse`: equal segments are simulated once; otherwise each step is one program.

    The cycles are equal in both cases. Raises StoppedError if the cycles reach `programs.max_cycles`.
    """
    reuse = reuse and periods_are_one(programs.machine)
    work = [(step, Counter(segment.key for segment in programs.segments(step))) for step in programs.steps]
    total = sum(len(keys) if reuse else 1 for _, keys in work)
    done, steps = 0, []
    for step, keys in work:
        whole, kinds = Tally(), dict[str, Tally]()
        if not reuse:
            whole = run_program(programs.step_program(step), programs)
            done += 1
        first: dict[Any, Segment] = {}
        for segment in programs.segments(step) if reuse else ():
            first.setdefault(segment.key, segment)
        for key, segment in first.items():
            if progress is not None:
                programs.on_compared = partial(progress, done, total)  # a search may take much longer than the segment itself
            tally = segment_tally(programs, segment)
            programs.on_compared = None
            whole.add(tally, keys[key])
            kinds.setdefault(segment.kind, Tally()).add(tally, keys[key])
            done += 1
            if progress is not None:
                progress(done, total)
        counts = Counter[str](segment.kind for segment in programs.segments(step)) if kinds else Counter[str]()
        steps.append(StepRun(step, whole, kinds, dict(counts)))
        # the same rule as for one program, whose END is in the cycle after its last one
        if sum(one.total.cycles for one in steps) >= programs.max_cycles:
            where = f"in {step.phase}, step {len(steps)} of {len(work)}"
            raise StoppedError(programs.model.name, programs.max_cycles, where)
    return LlmRun(programs, steps, done, sum(sum(keys.values()) for _, keys in work))


def periods_are_one(config: NpuConfig) -> bool:
    """Whether all periods are 1; otherwise the cycle in which a segment starts would matter."""
    return config.dma.period == config.te.period == config.ve.period == 1


@dataclass(frozen=True, slots=True)
class StoredTally:
    """A tally as it is kept on disk."""

    numbers: tuple[int, int, int, int, int]
    bytes: dict[str, int]
    bounds: dict[str, int]
    energy_pj: dict[str, int | float]
    reductions: list[tuple[Sent, int]]

    @classmethod
    def of(cls, tally: Tally) -> StoredTally:
        """The same values."""
        numbers = tally.cycles, tally.macs, tally.te_busy, tally.te_cycles, tally.entries
        energies = dict[str, int | float](tally.energy_pj)
        return cls(numbers, tally.bytes, tally.bounds, energies, list(tally.reductions.items()))

    def tally(self) -> Tally:
        """The same values."""
        cycles, macs, te_busy, te_cycles, entries = self.numbers
        return Tally(
            cycles, Counter(self.bytes), macs, te_busy, te_cycles, Counter(self.bounds), Counter(self.energy_pj), entries,
            Counter(dict(self.reductions)),
        )  # fmt: skip


def kept_tallies(most: int, kind: str) -> Kept[Tally]:
    """A table of tallies that other processes find on disk."""
    return Kept[Tally](most, kind, StoredTally, StoredTally.of, StoredTally.tally)


TALLIES = kept_tallies(1 << 14, "tally")  #: tallies of segments, by content


def segment_tally(programs: LlmPrograms, segment: Segment) -> Tally:
    """The tally of a segment; segments of equal content are simulated once. Callers must not modify it."""

    def simulated() -> Tally:
        programs.reduced.clear()
        tally = run_program(programs.segment_program(segment), programs)
        tally.reductions = Counter(programs.reduced)
        return tally

    return TALLIES.of(programs.target, programs.content(segment), simulated)


CYCLES = Kept[int](1 << 16, "cycles", int)  #: cycles of segments, by content


def step_cycles(programs: LlmPrograms, step: Step) -> int:
    """[cycle] of a step, without its bounds, bytes and energy, which often take longer to compute than the simulation.

    Raises StoppedError if a segment is longer than `programs.max_cycles`.
    """
    if not periods_are_one(programs.machine):
        return run_program(programs.step_program(step), programs).cycles
    counts: Counter[Hashable] = Counter(segment.key for segment in programs.segments(step))
    total = 0
    for segment in {segment.key: segment for segment in programs.segments(step)}.values():
        cycles = CYCLES.of(programs.target, programs.content(segment), partial(_cycles, programs, segment))
        total += counts[segment.key] * cycles
    return total


def _cycles(programs: LlmPrograms, segment: Segment) -> int:
    program = programs.segment_program(segment)
    machine = Machine(programs.target, program)
    machine.run()
    if machine.status == "aborted":
        raise StoppedError(program.name, machine.cycle)
    if machine.status != "done":
        raise InternalError(f"{program.name}: {machine.status} at cycle {machine.cycle}")
    return machine.cycle


def run_program(program: Program, programs: LlmPrograms) -> Tally:
    """Runs one program from cycle 0 to its end."""
    machine = Machine(programs.target, program)
    machine.run()
    result = machine.result()
    if result.status == "aborted":
        raise StoppedError(program.name, result.cycles)
    if result.status != "done":
        raise InternalError(f"{program.name}: {result.status} at cycle {result.cycles}")
    return tally_of(program, result, programs.machine, len(programs.places))


def tally_of(program: Program, result: Result, config: NpuConfig, pes: int) -> Tally:
    """The tally of a program that ran on this number of PEs."""
    given = result.metrics["bounds"]
    bounds = {name: cycles for name, cycles in given.items() if name not in ("cycles", "limit", "critical_path")}
    engines = [counted for counted in result.counters.values() if isinstance(counted, dict) and "macs" in counted]
    return Tally(
        cycles=result.cycles,
        bytes=role_bytes(program.entries, config),
        macs=sum(engine["macs"] for engine in engines),
        te_busy=sum(engine["busy"] for engine in engines),
        te_cycles=result.cycles * config.te.engines * pes,
        bounds=Counter({**bounds, "critical path": given["critical_path"]}),
        energy_pj=Counter({name: pj for name, pj in result.metrics["energy_pj"].items() if name != "total"}),
        entries=len(program.entries),
    )


def role_bytes(entries: Iterable[Entry], config: NpuConfig) -> Counter[str]:
    """DRAM bytes of transfers by their purpose."""
    found = Counter(dict.fromkeys(ROLES, 0))
    for entry in entries:
        if isinstance(entry, KvEntry):
            found["kv"] += transfer_of(entry, config).bytes_aligned
        elif isinstance(entry, DmaEntry):
            # a page table counts as part of the cache
            role = {"weight": "weights", "kv": "kv"}.get(entry.tensor_role, "activations")
            found[role] += transfer_of(entry, config).bytes_aligned
    return found
