"""Traces of random programs on random machines, exported: every slice is whole, every flow has both ends, nothing is lost."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.trace.compare.align import Reading, Simulated, align, merge
from kernbench.trace.compare.diff import compare
from kernbench.trace.compare.matching import PARTS, read_run
from kernbench.trace.exporters.write import Format, TimeUnit, export
from kernbench.trace.reader import open_trace
from tests.oracles.ref_trace import reference_trace
from tests.strategies import systems
from tests.trace_exports import READERS, wanted

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
FORMS = [Format.CHROME, *([Format.PERFETTO] if find_spec("perfetto") else [])]


def traced(system: System, folder: Path, name: str = "x") -> Path:
    file = folder / f"{name}.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in reference_trace(*system, level="full", window=16)))
    return file


def check_exports(system: System) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = traced(system, folder)
        trace = open_trace(file)
        records = [trace.meta, *trace, trace.end]
        want = wanted(records)  # type: ignore[arg-type]
        ended = records[-1].status == "done"  # type: ignore[union-attr]
        for form in FORMS:
            for time in TimeUnit:
                counts = export(open_trace(file), form, folder / "out", time)
                read = READERS[form](folder / "out")
                read.check()
                assert {name: counts[name] for name in want} == read.counts()
                assert read.counts() == want
                assert not ended or not any("open" in args for *_, args in read.slices)
        check_diff(file)


def check_diff(file: Path) -> None:
    """A run against itself is the same, and the parts of its commands are all of their cycles."""
    ran = read_run(open_trace(file))
    found = compare(ran, ran)
    assert found.by == "id" and len(found.pairs) == len(ran.commands) and not found.changed and found.growth in (0, None)
    for command in ran.commands:
        if command.cycles is not None:
            assert command.cycles == sum(command.parts[part] for part in PARTS), command
    counted: dict[str, int] = {"DMA": 0, "TE": 0, "VE": 0}
    for command in ran.commands:
        kind = ran.units.get(command.unit, "")
        if kind in counted and command.cycles is not None:
            counted[kind] += command.parts["bank"] + command.parts["work"] + command.parts["head"] + command.parts["move"]
    if ran.status == "done":
        te = ran.machine.get("pe", ran.machine).get("te", {})
        for kind in ("TE", "VE"):
            engines = [counter for unit, counter in ran.counters.items() if ran.units.get(unit) == kind]
            own = sum(counter["busy"] + counter["stalled"]["bank_conflict"] for counter in engines)
            if kind == "TE" and te.get("drain") == "overlapped":  # cycles in which jobs overlap are of each of them
                assert counted[kind] >= own
            else:  # an engine does one job at a time, so its jobs' cycles are its own
                assert counted[kind] == own


def check_align(system: System, cycles: list[int]) -> None:
    """Samples add up to the totals, counters never fall, and the merged trace has all lines of the first."""
    with tempfile.TemporaryDirectory() as place:
        file = traced(system, Path(place))
        trace = open_trace(file)
        simulated = Simulated(trace)
        for name, (_, sums) in simulated.steps.items():
            if not name.startswith("energy_pj."):  # floats
                assert sums[-1] == simulated.totals[name], name
                assert all(low <= high for low, high in pairwise(sums)), name
        times = sorted(cycles)
        readings = [Reading(name, Fraction(1), None, cycle, None, "") for name in ("cycles", "te0.busy") for cycle in times]
        found = align(trace, "board.csv", readings)
        out = Path(place) / "merged.jsonl"
        with out.open("wb") as target:
            merge(found, target)
        before, after = file.read_bytes().splitlines(), out.read_bytes().splitlines()
        assert [line for line in after[:-1] if b'"HW_COUNTER"' not in line] == before[:-1]
        assert len(after) == len(before) + len(readings)
        merged = open_trace(out)
        times = [record.t_cycle for record in merged]
        assert times == sorted(times) and merged.broken is None
        assert merged.end is not None and merged.end.events == len(times)


@given(system=systems())
@settings(max_examples=8, **RELAXED)
def test_exports_of_random_systems(system: System) -> None:
    check_exports(system)


@given(system=systems(), cycles=st.lists(st.integers(0, 400), max_size=4))
@settings(max_examples=8, **RELAXED)
def test_counters_beside_random_systems(system: System, cycles: list[int]) -> None:
    check_align(system, cycles)


@pytest.mark.nightly
@given(system=systems(), cycles=st.lists(st.integers(0, 4000), max_size=6))
@settings(max_examples=400, **RELAXED)
def test_many_random_systems(system: System, cycles: list[int]) -> None:
    check_exports(system)
    check_align(system, cycles)
