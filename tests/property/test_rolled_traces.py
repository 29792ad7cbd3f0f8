"""Traces of scratchpads that are run from request to request (rolling.pyx), byte for byte against stepping, at every level."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.cmdq import Program, load_program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from tests.property.test_skipping import crowded, programs

LEVELS = ("summary", "full", "access")
KINDS = ["dma"] * 6 + ["te", "ve"]
SIZES = [1 << 10, 5000, 1 << 13]


class Bytes(bytearray):
    """A sink that keeps what it gets."""

    def write(self, text: bytes) -> None:
        self.extend(text)


def trace_of(config: Any, program: Program, options: TraceOptions, skip: bool, cuts: list[int]) -> list[bytes]:
    """The lines of a run; behind each cut it is run on the other way."""
    machine, out = Machine(config, program), Bytes()
    tracing = machine.trace(out, options)
    for number, cut in enumerate([*cuts, 1 << 40]):
        if machine.status == "running":
            machine.run(cycles=max(cut - machine.cycle, 1), skip=skip == (number % 2 == 0))
    tracing.close()
    return bytes(out).split(b"\n")


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_crowds_are_traced_as_by_stepping(data: st.DataObject) -> None:
    compare(data)


@pytest.mark.nightly
@settings(deadline=None, max_examples=3000, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_crowds_for_long(data: st.DataObject) -> None:
    compare(data)


def compare(data: st.DataObject) -> None:
    machine = data.draw(crowded())
    config, program = load_config(machine), load_program(data.draw(programs(machine, KINDS, SIZES)))
    options = TraceOptions(data.draw(st.sampled_from(LEVELS)), data.draw(st.sampled_from([100, 1 << 20])))
    cuts = sorted(data.draw(st.sets(st.integers(1, 4000), max_size=2)))
    stepped = trace_of(config, program, options, False, [])
    assert trace_of(config, program, options, True, []) == stepped
    if cuts:
        assert trace_of(config, program, options, True, cuts) == stepped
