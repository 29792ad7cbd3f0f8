"""Horizons of scratchpads on engines with a period: a held request is served, and its body goes on, off the period.

A horizon that is too late is seen only where one is reached with nothing else to bring the scratchpad up to date, so these
machines are small, short of banks and slow to press.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cmdq import load_program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from tests.machine_strategies import drawn_arbiter
from tests.oracles.reference import simulate

System = tuple[dict[str, Any], dict[str, Any]]
PERIODS, PLACES = st.sampled_from([2, 3, 5, 7]), st.integers(0, 63).map(lambda k: 16 * k)


@st.composite
def systems(draw: st.DrawFn) -> System:
    engine = {"engines": 2, "init_cycles": draw(st.integers(0, 2)), "finalize_cycles": draw(st.integers(0, 2))}
    machine = {
        "spm": {
            "num_banks": draw(st.sampled_from([1, 2])),
            "bank_size_bytes": 4096,
            "conflict_penalty_cycles": draw(st.integers(1, 3)),
            **drawn_arbiter(draw),
            "max_wait_cycles": draw(st.sampled_from([2, 8, 40])),
            "backpressure_cycles": draw(st.sampled_from([8, 40, 400])),
        },
        "te": {**engine, "macs_per_cycle": draw(st.sampled_from([8, 64])), "period": draw(PERIODS)},
        "ve": {**engine, "lanes": draw(st.sampled_from([4, 16])), "period": draw(PERIODS)},
    }
    size = st.integers(1, 12)
    cmdq: list[dict[str, Any]] = []
    for k in range(draw(st.integers(2, 8))):
        if draw(st.booleans()):
            shape = {name: draw(size) for name in "mnk"}
            cmdq.append({"opcode": "TE_GEMM_TILE", "te_id": k % 2, **shape, "qbits_weight": 8, "qbits_activation": 8})
            operands = ("ifm", "wgt", "ofm")
        else:
            length = draw(st.integers(1, 300))
            cmdq.append({"opcode": "VE_COPY_TILE", "ve_id": k % 2, "length": length, "qbits_activation": 8})
            operands = ("in", "out")
        cmdq[-1] |= {f"{name}_bank": 0 for name in operands} | {f"{name}_offset": draw(PLACES) for name in operands}
    return machine, {"metadata": {"version": "1.0", "name": "horizon"}, "cmdq": cmdq}


STEPS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@settings(max_examples=120, deadline=None)
@given(systems(), STEPS)
def test_engines_with_a_period_end_when_the_reference_says(system: System, steps: list[int]) -> None:
    compare(system, steps)


@pytest.mark.nightly
@settings(max_examples=10_000, deadline=None)
@given(systems(), STEPS)
def test_engines_with_a_period_for_long(system: System, steps: list[int]) -> None:
    compare(system, steps)


def compare(system: System, steps: list[int]) -> None:
    want = simulate(*system)
    config, program = load_config(system[0]), load_program(system[1])
    for walk, skip in (("plain", False), ("fast", False), ("fast", True)):
        run, k = Machine(config, program, walk=walk), 0
        while run.status == "running":
            run.step(steps[k % len(steps)] if k < 200 else 1 << 20, skip=skip)
            k += 1
        result = run.result().to_dict()
        assert [result[name] for name in ("status", "cycles", "entries", "counters")] == [
            want[name] for name in ("status", "cycles", "entries", "counters")
        ]
