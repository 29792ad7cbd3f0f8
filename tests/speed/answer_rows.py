"""Answers that a user of an interactive command waits for: a step back of the debugger, and a choice of the tuner. No test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.registry import read_registry
from kernbench.ccl.rings import RING
from kernbench.ccl.tuner import Estimated, Tuner, known_times
from kernbench.config import SystemConfig, load_config
from kernbench.debug import Session
from tests.speed.sample import Sample

TARGET = "llama2-7b-decode"
CYCLES = (129_000, 100_123, 64_512, 40_000, 1_025, 2)  #: from which the debugger steps back, all over the run
CHOICES = 50  #: of one measurement
PES = Shape(1563, 8, 8)  #: a group of 100,032 PEs


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """What one answer takes."""

    answer: str
    ms: Sample  #: of CPU time
    goal_ms: float


def answer_rows(repeats: int = 3) -> Iterator[AnswerRow]:
    """All answers."""
    session = Session(TARGET)
    session.end()
    back = _sample(lambda: _slowest_back(session), repeats)
    yield AnswerRow(f"a step back in {TARGET}, the slowest of {len(CYCLES)}", back, 50)
    for simulated in (False, True):
        tuner = _tuner(simulated)
        tuner.choose("all_reduce", 1000, "f16")
        what = "with" if simulated else "without"
        yield AnswerRow(f"a choice of the tuner, {what} simulated times", _sample(lambda one=tuner: _choice(one), repeats), 1)
    yield AnswerRow("the first choice of the tuner for 100,032 PEs", _sample(_first_choice, repeats), 10_000)


def _sample(measured: Callable[[], float], repeats: int) -> Sample:
    return Sample([1000 * measured() for _ in range(repeats)])


def _slowest_back(session: Session) -> float:
    slowest = 0.0
    for cycle in CYCLES:
        session.goto(cycle)
        begin = time.process_time()
        session.back()
        slowest = max(slowest, time.process_time() - begin)
    return slowest


def _tuner(simulated: bool) -> Tuner:
    config = load_config("two_sips", kind=SystemConfig)
    group = group_of(config, shape_for(config, 16))
    return Tuner(config, group, read_registry(), known_times(config.digest(), group) if simulated else {})


def _choice(tuner: Tuner) -> float:
    begin = time.process_time()
    for count in range(1, CHOICES + 1):
        tuner.choose("all_reduce", 64 * count, "f16")
    return (time.process_time() - begin) / CHOICES


def _first_choice() -> float:
    tuner = Tuner(load_config("pod_8sip", kind=SystemConfig), Estimated(PES, RING, (), ()), read_registry())
    begin = time.process_time()
    tuner.choose("all_reduce", 1 << 19, "f16")
    return time.process_time() - begin
