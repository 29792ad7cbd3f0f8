"""Last-level caches: the core against a reference written from docs/model/llc.md, by stepping, skipping and any mixture."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import cache_search
from tests.all_walks import Case, Drawn, check
from tests.cache_strategies import System, cache_systems, cached_row_systems, cached_systems_of_pes
from tests.property.test_differential import check_system
from tests.reached import watched

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
LEVELS = st.sampled_from(["summary", "full", "access"])


@settings(RELAXED, max_examples=9)
@given(cache_systems(), st.data())
def test_core_equals_reference(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=6)
@given(cache_systems(), LEVELS)
def test_traces_are_those_of_the_reference_by_every_walk(system: System, level: str) -> None:
    want, seen = watched(system)
    check(Drawn(Case(system, level=level), want, seen))


@settings(RELAXED, max_examples=6)
@given(cached_row_systems(), st.data())
def test_core_equals_reference_over_dram_rows_and_controllers(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@settings(RELAXED, max_examples=6)
@given(cached_systems_of_pes(), LEVELS)
def test_caches_of_systems(system: System, level: str) -> None:
    want, seen = watched(system)
    check(Drawn(Case(system, level=level), want, seen))


@pytest.mark.nightly
def test_caches_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.cache_search`, which prints its seed and what it ran."""
    with capsys.disabled():
        cache_search.main([])
