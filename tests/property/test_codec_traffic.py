"""Transfers through codecs: the core against the reference, and traces against the laws (docs/model/compressed.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.energy import ledger
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.oracles.ref_dma import DmaJob
from tests.oracles.ref_machine import completed
from tests.property.test_differential import RELAXED, System, check_system
from tests.property.test_trace import trace_of
from tests.property.test_why import check_commands, check_path
from tests.strategies import systems

RATIOS = (Fraction(1), Fraction(2), Fraction(3), Fraction(3, 2), Fraction(5, 4), Fraction(7, 3))


@st.composite
def compressed_systems(draw: Any) -> System:
    """A machine with one or two codecs, and a program of which some tiles move through them."""
    machine, program = draw(systems())
    machine["allocation"] = draw(st.sampled_from(["shared_bw_v1", "fifo_v1"]))
    sizes = machine["dma"]["alignment_bytes"], machine["dram"]["interleave_bytes"]
    ratios = [ratio for ratio in RATIOS if all((ratio * size).denominator == 1 for size in sizes)]
    machine["dma"]["codecs"] = [
        {
            "ratio": str(draw(st.sampled_from(ratios))),
            "bytes_per_cycle": draw(st.sampled_from([1, 5, 16, 64, 256])),
            "latency_cycles": draw(st.sampled_from([0, 0, 3])),
        }
        for _ in range(draw(st.integers(1, 2)))
    ]
    whole = completed(machine)
    size = whole["spm"]["num_banks"] * whole["spm"]["bank_size_bytes"]
    for k, entry in enumerate(program["cmdq"]):
        if entry["opcode"].startswith("DMA_") and "num_elements" in entry and draw(st.sampled_from([True, True, False])):
            through = {**entry, "codec": draw(st.integers(0, len(machine["dma"]["codecs"]) - 1))}
            if DmaJob(through, 0, whole).range[1] <= size:
                program["cmdq"][k] = through
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
    ledger(open_trace(file))  # raises if the energies do not add up to the result's
