"""What skipping brings: on loads that it is for, and on a layer of a language model. And a yardstick for stepping."""

from __future__ import annotations

import ctypes
import gc
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.catalogue import WORKLOADS
from kernbench_core import Core
from tests.speed.goals import Goal
from tests.speed.measure import Size, core_jobs, engine_ticks
from tests.speed.sample import Sample
from tests.speed.skip_loads import SHORT, SPARSE, STABLE, sparse_tables, stable_tables
from tests.speed.workloads import LOADS, Load, Tables, core_tables, jobs_for

END = 1 << 40
GOALS = {"sparse": 20.0, "short": 0.97, "stable": 10.0}  #: times as fast as stepping, at least
YARDSTICK_GOAL = 3.0  #: stepping takes at most so many times the C loop
SOURCE = Path(__file__).with_name("yardstick.c")
FLOWS = {"dram": 8, "compute": 1, "conflict": 8}  #: flows of a PE at a time, about
STREAMS = {"dram": (2, 2, 2, 8, 8, 0), "compute": (32, 32, 32, 29, 29, 0), "conflict": (32, 32, 32, 29, 29, 0)}  #: [B/cycle]


@dataclass(frozen=True, slots=True)
class SkipRow:
    """Stepping and skipping of one run, medians of CPU time."""

    load: str
    cycles: int
    entries: int
    stepping: float  #: [s]
    skipping: float  #: [s]
    ratio: Sample  #: of the ratios within a round

    @property
    def cycles_a_second(self) -> float:
        return self.cycles / self.skipping


@dataclass(frozen=True, slots=True)
class Yard:
    """A minimal C loop beside stepping, 8 PEs: ns per engine-tick."""

    load: str
    loop: float
    stepping: float
    ratio: Sample


@cache
def skip_rows(rounds: int = 5) -> list[SkipRow]:
    """The loads of skip_loads.py, then the decode layer. They are measured once in a process."""
    rows = [_row(load, sparse_tables(load, 40), rounds) for load in (SPARSE, SHORT)]
    rows.append(_row(STABLE, stable_tables(2), rounds))
    config = load_config("npu_server")
    program = WORKLOADS["llama2-7b-decode"](config)

    def decode(skip: bool) -> Callable[[], object]:
        machine = Machine(config, program)
        return lambda: machine.run(skip=skip)

    cycles = _cycles(config, program)
    rows.append(_timed("decode", cycles, len(program.entries), decode, rounds))
    return rows


def _cycles(config: object, program: object) -> int:
    machine = Machine(config, program)  # type: ignore[arg-type]
    machine.run()
    return machine.result().cycles


def _row(load: Load, tables: tuple[Tables, Tables], rounds: int) -> SkipRow:
    stepped, skipped = Core(*tables), Core(*tables)
    stepped.run(END, skip=False)
    skipped.run(END)
    if core_jobs(stepped) != core_jobs(skipped) or stepped.counters() != skipped.counters():
        raise RuntimeError(f"{load.name}: stepping and skipping differ")

    def runs(skip: bool) -> Callable[[], object]:
        core = Core(*tables)
        return lambda: core.run(END, skip=skip)

    return _timed(load.name, stepped.cycle, len(tables[1]["op"]), runs, rounds)


def _timed(name: str, cycles: int, entries: int, runs: Callable[[bool], Callable[[], object]], rounds: int) -> SkipRow:
    samples: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for skip, spent in samples.items():
            spent.append(_seconds(runs(skip)))
    ratio = Sample(a / b for a, b in zip(samples[False], samples[True], strict=True))
    return SkipRow(name, cycles, entries, statistics.median(samples[False]), statistics.median(samples[True]), ratio)


def _seconds(run: Callable[[], object]) -> float:
    gc.collect()
    before = time.process_time()
    run()
    return time.process_time() - before


def skip_table(rows: list[SkipRow]) -> str:
    """As text."""
    out = ["  load     cycles entries   step ms   skip ms  step/skip       M cycles/s  us/entry"]
    for row in rows:
        spent = f"{row.stepping * 1e3:9.2f} {row.skipping * 1e3:9.3f} {row.ratio:7.1f}x {row.ratio.about:8}"
        rates = f"{row.cycles_a_second / 1e6:11.1f} {row.skipping / row.entries * 1e6:9.2f}"
        out.append(f"  {row.load:7} {row.cycles:7} {row.entries:7} {spent} {rates}")
    return "\n".join(out)


def skip_goals(rows: list[SkipRow]) -> list[Goal]:
    """What skipping saves; `wait_rows` has the goal of the decode layer."""
    loads = [row for row in rows if row.load in GOALS]
    return [Goal(f"{row.load}: stepping over skipping", row.ratio, GOALS[row.load], "x", more=True) for row in loads]


def yardsticks(size: Size) -> list[Yard]:
    """The three loads beside the C loop; none where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "yardstick.so"
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", "-o", built, SOURCE], check=True)
        return [_yard(load, size, ctypes.CDLL(str(built))) for load in LOADS.values()]


def _yard(load: Load, size: Size, library: ctypes.CDLL) -> Yard:
    tables = core_tables(load, size.pes, jobs_for(load, size.pes, size.core_cycles))
    loop = library.yardstick
    loop.argtypes = [ctypes.c_int64] * 5 + [ctypes.POINTER(ctypes.c_int64), ctypes.c_int]
    streams = (ctypes.c_int64 * 6)(*STREAMS[load.name])
    flows = FLOWS[load.name]
    rate = (4 * 64, load.burst_cycles * size.pes * flows)
    ours, theirs = [], []
    for _ in range(size.repeats):
        core = Core(*tables)
        ours.append(_seconds(lambda core=core: core.run(size.core_cycles, skip=False)))  # type: ignore[misc]
        theirs.append(_seconds(lambda: loop(size.pes, size.core_cycles, flows, *rate, streams, load.ports)))
    busy = [resource["busy"] for resource in core.counters()["resources"]]
    ticks = engine_ticks(core_jobs(core), busy, size.core_cycles)
    ratio = Sample(a / b for a, b in zip(ours, theirs, strict=True))
    return Yard(load.name, statistics.median(theirs) / ticks * 1e9, statistics.median(ours) / ticks * 1e9, ratio)


def yard_table(rows: list[Yard]) -> str:
    """As text, in ns per engine-tick."""
    if not rows:
        return "  not measured: there is no C compiler"
    lines = [f"  {row.load:8} {row.loop:6.2f} {row.stepping:8.2f} {row.ratio:7.2f}x {row.ratio.about}" for row in rows]
    return "\n".join(["  load     C loop stepping   ratio", *lines])


def yard_goals(rows: list[Yard]) -> list[Goal]:
    """Stepping beside the loop."""
    return [Goal(f"{row.load}, 8 PEs: stepping over a C loop", row.ratio, YARDSTICK_GOAL, "x") for row in rows]
