"""DRAM with rows: the core against the reference written from ADR 33, by stepping, by skipping and by any mixture."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.test_differential import check_system
from tests.row_strategies import row_systems

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(RELAXED, max_examples=40)
@given(row_systems(), st.data())
def test_core_equals_reference(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=2000)
@given(row_systems(), st.data())
def test_core_equals_reference_for_long(system: System, data: st.DataObject) -> None:
    check_system(system, data)
