"""Results that points of a sweep share, and a small target that shares them."""

from __future__ import annotations

from kernbench.sweep.targets.llm import SIMULATED, LlmTarget
from kernbench.workloads import planner
from kernbench.workloads.llm import emitted, run, steps
from tests.llm_cases import MODELS

KNOWN = (SIMULATED, run.TALLIES, run.CYCLES, steps.PLANS, steps.PLACED, emitted.PROGRAMS, planner.BUFFERS)
PARAMS = {"prompt": 9, "tokens": 1, "phase": "decode"}


def forget_results() -> None:
    """Let nothing be known from an earlier point."""
    for known in KNOWN:
        known.clear()


def small_target(model: str = "window") -> LlmTarget:
    """A decode step of a model of two layers."""
    made = LlmTarget("model", "llama2-7b", PARAMS)
    made.model = MODELS[model]
    return made
