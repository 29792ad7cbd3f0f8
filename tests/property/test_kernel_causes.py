"""Random traffic between kernels, traced: lawful, explained to the cycle, and nothing between a command and its cause."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cli.tracing import traced
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from kernbench.trace.why.spans import Stories
from tests.property.test_queue_traffic import RELAXED, in_turns, rounds

WAYS = 48  # [cycle] a launch's way, a credit's, and the turns of scheduler and PE_IPCQ, all together at most


traffic = st.tuples(
    rounds,
    st.integers(2, 4),
    st.lists(st.sampled_from([0, 1, 7, 90, 400]), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from(["tcm", "sram", "hbm"]),
    st.booleans(),
)


def check_causes(plan: Any, ranks: int, skews: Any, slots: int, tier: str, waits: bool) -> None:
    plain, run = (in_turns(plan, ranks, skews, slots, tier, waits) for _ in range(2))
    plain.run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        with traced(run.machine, path, TraceOptions("full")):
            run.run()
        assert run.machine.cycle == plain.machine.cycle
        assert validate(open_trace(path)).valid
        why = explain(open_trace(path))
    assert sum(stretch.end - stretch.start for stretch in why.path) == run.machine.cycle
    stories = Stories(why.history)
    for command in why.history.commands:
        ready, job = stories.ready(command), command.job
        if job is not None and command.opcode not in ("KERNEL", "LAUNCH"):
            assert ready is not None and 0 <= job.issue - ready <= max(skews) + WAYS, command.id


@settings(RELAXED, max_examples=10)
@given(traffic)
def test_every_command_comes_soon_after_its_cause(drawn: Any) -> None:
    check_causes(*drawn)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1000)
@given(traffic)
def test_every_command_comes_soon_after_its_cause_long(drawn: Any) -> None:
    check_causes(*drawn)
