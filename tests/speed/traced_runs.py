"""What a trace costs: the same run without one and at each level, and what records and lines cost by themselves."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.schema import LEVELS
from kernbench.workloads.catalogue import WORKLOADS
from tests.speed.goals import Goal
from tests.speed.sample import Sample

TARGET, CONFIG = "llama2-7b-decode", "npu_server"
GOAL_SUMMARY, GOAL_FULL = 1.2, 1.5  #: times the run without a trace
GOAL_EVENT_NS, GOAL_LINES_S = 20.0, 0.12  #: at `full`: an event in the simulation loop; a million lines


class Nowhere:
    """A sink that only counts."""

    def __init__(self) -> None:
        self.nbytes = 0

    def write(self, text: bytes) -> None:
        self.nbytes += len(text)


class Timed:
    """An object whose method `name` is timed."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name = inner, name
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._name:
            return found

        def timed(*args: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return found(*args, **named)
            finally:
                self.seconds += time.process_time() - began

        return timed


@dataclass(frozen=True, slots=True)
class TracedRun:
    """One level: medians of CPU seconds over the rounds."""

    level: str
    events: int
    nbytes: int
    whole: Sample  #: from the first cycle to the result, or to TRACE_END, which needs the result
    over_off: Sample  #: `whole` over that of the run without a trace, within a round
    loop: Sample  #: in the core
    lines: Sample  #: records sorted and made lines


def traced_runs(rounds: int = 5) -> list[TracedRun]:
    """The decode run at every level, in turn."""
    config = load_config(CONFIG)
    program = WORKLOADS[TARGET](config)
    samples: dict[str, list[TracedRun]] = {level: [] for level in LEVELS}
    for _ in range(rounds):
        for level in LEVELS:
            samples[level].append(_once(config, program, level))
    return [_median(runs, samples["off"]) for runs in samples.values()]


def _once(config: NpuConfig, program: Program, level: str) -> TracedRun:
    machine, sink = Machine(config, program), Nowhere()
    gc.collect()  # what rows before this one have left is looked for here, and not in one of the runs
    core: Any = Timed(machine._core, "run")
    machine._core = core
    if level == "off":
        began = time.process_time()
        machine.run()
        machine.result()
        return TracedRun(level, 0, 0, *_once_each(time.process_time() - began, core.seconds, 0.0))
    tracing = machine.trace(sink, TraceOptions(level))
    lines: Any = Timed(tracing.format, "text")
    tracing.format = lines
    began = time.process_time()
    machine.run()
    tracing.close()
    spent = time.process_time() - began
    return TracedRun(level, tracing.format.lines, sink.nbytes, *_once_each(spent, core.seconds, lines.seconds))


def _once_each(whole: float, loop: float, lines: float) -> tuple[Sample, Sample, Sample, Sample]:
    return Sample([whole]), Sample([1.0]), Sample([loop]), Sample([lines])


def _median(runs: list[TracedRun], off: list[TracedRun]) -> TracedRun:
    first = runs[0]
    whole, loop, lines = (Sample(getattr(run, name) for run in runs) for name in ("whole", "loop", "lines"))
    over = Sample(run.whole / untraced.whole for run, untraced in zip(runs, off, strict=True))
    return TracedRun(first.level, first.events, first.nbytes, whole, over, loop, lines)


def traced_table(runs: list[TracedRun]) -> str:
    """As text."""
    off = runs[0]
    out = ["  level      events   MB   run s         over off  loop ns/event  lines s/million"]
    for run in runs:
        each = f"{(run.loop - off.loop) / run.events * 1e9:14.1f} {run.lines / run.events * 1e6:16.3f}" if run.events else ""
        whole = f"{run.whole:7.3f} {run.whole.about:7} {run.over_off:7.2f}x"
        out.append(f"  {run.level:7} {run.events:9,} {run.nbytes / 1e6:4.0f} {whole} {each}".rstrip())
    return "\n".join(out)


def traced_goals(runs: list[TracedRun]) -> list[Goal]:
    """Of the levels `summary` and `full`."""
    off, summary, full = runs[:3]
    return [
        Goal("a run with a trace at `summary`, over the run without", summary.over_off, GOAL_SUMMARY, "times"),
        Goal("a run with a trace at `full`, over the run without", full.over_off, GOAL_FULL, "times"),
        Goal("`full`: an event in the simulation loop", (full.loop - off.loop) / full.events * 1e9, GOAL_EVENT_NS, "ns"),
        Goal("`full`: a million lines", full.lines / full.events * 1e6, GOAL_LINES_S, "s"),
    ]
