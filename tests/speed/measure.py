"""Times the core's stepping, its skipping and the SimPy model on one benchmark machine, turn by turn.

An engine-tick is a cycle of an active transfer, of a TE or VE with a job, or of a DRAM channel or mesh link with a member. All
three runs end while every queue still has work, so the time per engine-tick does not depend on their length, and SimPy runs
fewer cycles of the same machine.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kernbench_core import Core, Status
from tests.speed.sample import Sample
from tests.speed.simpy_model import SimpyMachine
from tests.speed.simpy_tables import plan
from tests.speed.workloads import Load, core_tables, jobs_for

Span = tuple[int | None, int | None]  # start and end of a job, [cycle]


@dataclass(frozen=True)
class Size:
    """How much of a machine is run."""

    pes: int
    core_cycles: int
    simpy_cycles: int
    repeats: int


@dataclass(frozen=True)
class Timing:
    """Process time per engine-tick of one way to run a machine, over all repeats."""

    cycles: int
    ticks: int
    samples: tuple[float, ...]  # [ns per engine-tick]

    @property
    def median(self) -> float:
        """[ns per engine-tick]"""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half of what lies between the fastest and the slowest sample, as a part of the median."""
        return (max(self.samples) - min(self.samples)) / 2 / self.median

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "cycles": self.cycles,
            "engine_ticks": self.ticks,
            "ns_per_engine_tick": {"median": self.median, "spread": self.spread, "samples": list(self.samples)},
        }


@dataclass(frozen=True)
class Row:
    """One machine under one load."""

    load: str
    pes: int
    stepping: Timing
    skipping: Timing
    simpy: Timing

    @property
    def over_simpy(self) -> Sample:
        """How many times SimPy's time per engine-tick is that of stepping."""
        return _ratio(self.simpy, self.stepping)

    @property
    def over_stepping(self) -> Sample:
        """How many times the time of stepping is that of skipping."""
        return _ratio(self.stepping, self.skipping)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "load": self.load,
            "pes": self.pes,
            "stepping": self.stepping.to_dict(),
            "skipping": self.skipping.to_dict(),
            "simpy": self.simpy.to_dict(),
            "simpy_over_stepping": self.over_simpy,
            "stepping_over_skipping": self.over_stepping,
        }


def _ratio(of: Timing, to: Timing) -> Sample:
    """The ratios within a round: a machine that is slower for a while is so for both."""
    return Sample(a / b for a, b in zip(of.samples, to.samples, strict=True))


def engine_ticks(jobs: Sequence[Span], busy: Sequence[int], cycle: int) -> int:
    """Engine-ticks of the first `cycle` cycles, in which resource `k` had a member in `busy[k]` cycles."""
    active = sum((cycle if end is None else end) - start for start, end in jobs if start is not None)
    return active + sum(busy)


def core_jobs(core: Core) -> list[Span]:
    """Start and end of each entry."""
    _, start, end = core.entries()
    return [(None if s < 0 else s, None if e < 0 else e) for s, e in zip(start.tolist(), end.tolist(), strict=True)]


def measure(load: Load, size: Size) -> Row:
    """Time `size.repeats` rounds of stepping, skipping and SimPy.

    Raises RuntimeError where the three do not agree, or an engine ran out of work: there would be nothing to compare.
    """
    long = core_tables(load, size.pes, jobs_for(load, size.pes, size.core_cycles))
    short = core_tables(load, size.pes, jobs_for(load, size.pes, size.simpy_cycles))
    short_plan = plan(*short)
    samples: dict[str, list[float]] = {"stepping": [], "skipping": [], "simpy": []}
    gc.disable()  # as timeit does: a collection would fall into whichever run comes next
    try:
        for _ in range(size.repeats):
            stepped, skipped, model = Core(*long), Core(*long), SimpyMachine(short_plan)
            gc.collect()
            samples["stepping"].append(_seconds(partial(stepped.run, size.core_cycles, skip=False)))
            samples["skipping"].append(_seconds(partial(skipped.run, size.core_cycles, skip=True)))
            samples["simpy"].append(_seconds(partial(model.run, size.simpy_cycles)))
    finally:
        gc.enable()
    core = Core(*short)
    core.run(size.simpy_cycles)
    _refuse_disagreement(stepped, skipped, size)
    _refuse_disagreement_with_simpy(core, model, size)
    _refuse_idle_engines(stepped, size)
    _refuse_idle_engines(core, size)
    busy = [resource["busy"] for resource in stepped.counters()["resources"]]
    ticks = engine_ticks(core_jobs(stepped), busy, size.core_cycles)
    simpy_ticks = engine_ticks(model.entries(), [resource.busy for resource in model.resources], size.simpy_cycles)
    return Row(
        load.name,
        size.pes,
        _timing(size.core_cycles, ticks, samples["stepping"]),
        _timing(size.core_cycles, ticks, samples["skipping"]),
        _timing(size.simpy_cycles, simpy_ticks, samples["simpy"]),
    )


def _seconds(run: Callable[[], object]) -> float:
    """CPU time of this process: what other processes do counts less than in wall time."""
    before = time.process_time()
    run()
    return time.process_time() - before


def _timing(cycles: int, ticks: int, seconds: Sequence[float]) -> Timing:
    return Timing(cycles, ticks, tuple(s / ticks * 1e9 for s in seconds))


def _refuse_disagreement(stepped: Core, skipped: Core, size: Size) -> None:
    if core_jobs(stepped) != core_jobs(skipped) or stepped.counters() != skipped.counters():
        raise RuntimeError(f"{size.pes} PEs: stepping and skipping differ in the first {size.core_cycles} cycles")


def _refuse_disagreement_with_simpy(core: Core, model: SimpyMachine, size: Size) -> None:
    for entry, (ours, theirs) in enumerate(zip(core_jobs(core), model.entries(), strict=True)):
        unseen = ours[1] == size.simpy_cycles and theirs == (ours[0], None)  # a TE or VE of SimPy sees its end one cycle later
        if ours != theirs and not unseen:
            raise RuntimeError(f"{size.pes} PEs: entry {entry} runs {ours} in the core and {theirs} in SimPy")
    for number, (counter, resource) in enumerate(zip(core.counters()["resources"], model.resources, strict=True)):
        if counter["busy"] != resource.busy:
            raise RuntimeError(f"{size.pes} PEs: resource {number} is busy {counter['busy']} and {resource.busy} cycles")


def _refuse_idle_engines(core: Core, size: Size) -> None:
    counters = core.counters()
    idle = [number for number, engine in enumerate(counters["dma"] + counters["compute"]) if engine["idle"]]
    if core.status != Status.RUNNING or idle:
        raise RuntimeError(f"{size.pes} PEs: engines {idle} ran out of work before cycle {core.cycle}; see jobs_for")
