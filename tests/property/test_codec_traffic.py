"""Transfers through codecs: the core against the reference, and traces against the laws (docs/model/compressed.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.energy import ledger
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.combined_strategies import give_codecs
from tests.property.test_differential import RELAXED, System, check_system
from tests.property.test_trace import trace_of
from tests.property.test_why import check_commands, check_path
from tests.strategies import systems


@st.composite
def compressed_systems(draw: Any) -> System:
    """A machine with one or two codecs, and a program of which some tiles move through them."""
    machine, program = draw(systems())
    machine["allocation"] = draw(st.sampled_from(["shared_bw_v1", "fifo_v1"]))
    give_codecs(draw, machine, program)
    return machine, program


@settings(RELAXED, max_examples=15)
@given(compressed_systems(), st.data())
def test_core_equals_reference_with_codecs(system: System, data: st.DataObject) -> None:
    """Times, counters, snapshots: plain, fast, and with pieces of each."""
    check_system(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(compressed_systems(), st.data())
def test_core_equals_reference_with_codecs_for_long(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=10)
@given(compressed_systems(), st.sampled_from(["summary", "full", "access"]))
def test_traces_with_codecs_keep_the_laws(tmp_path_factory: pytest.TempPathFactory, system: System, level: str) -> None:
    """Bytes of accesses are those of flows times the ratio, the time of each command is explained, and energies add up."""
    file = tmp_path_factory.mktemp("codecs") / "run.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in trace_of(system, TraceOptions(level, 64))))
    report = validate(open_trace(file))
    assert report.valid, report.violations
    if level == "summary":
        return
    why = explain(open_trace(file))
    check_path(why)
    check_commands(why.history)
    try:
        ledger(open_trace(file))  # raises if the energies do not add up to the result's
    except InputError as error:
        assert "the run stopped while accesses were under way" in str(error)
