"""DRAM with rows: the core against a reference written from docs/model/dram_rows.md, by stepping, skipping and any mixture."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import row_search
from tests.all_walks import Case, Drawn, check
from tests.property.test_differential import check_laws, check_system
from tests.property.test_system_differential import check_system as check_system_of_pes
from tests.reached import watched
from tests.row_strategies import System, pressed_row_systems, row_systems, row_systems_of_pes

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
LEVELS = st.sampled_from(["summary", "full", "access"])


@settings(RELAXED, max_examples=7)
@given(row_systems(), st.data())
def test_core_equals_reference(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=2000)
@given(row_systems(), st.data())
def test_core_equals_reference_for_long(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=9)
@given(pressed_row_systems(), LEVELS)
def test_flows_that_leave_for_backpressure(system: System, level: str) -> None:
    """And every program ends, and traces are the same by every walk."""
    want, seen = watched(system)
    check(Drawn(Case(system, level=level), want, seen))
    check_laws(system[0], want)
    assert want["status"] != "aborted", f"it hangs: no end in {want['cycles']} cycles"


@settings(RELAXED, max_examples=7)
@given(pressed_row_systems(), st.data())
def test_flows_that_leave_for_backpressure_in_pieces(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=7)
@given(row_systems_of_pes(), st.data())
def test_systems(system: System, data: st.DataObject) -> None:
    """Stacks of many PEs, beside transfers between scratchpads, to SRAMs and from the host."""
    check_system_of_pes(system, data)


@settings(RELAXED, max_examples=6)
@given(row_systems_of_pes(), LEVELS)
def test_traces_of_systems(system: System, level: str) -> None:
    want, seen = watched(system)
    check(Drawn(Case(system, level=level), want, seen))


@pytest.mark.nightly
def test_flows_that_leave_for_backpressure_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.row_search`, which prints its seed and what it ran."""
    with capsys.disabled():
        row_search.main([])
