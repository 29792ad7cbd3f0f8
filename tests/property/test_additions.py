"""Systems with every addition switched on at once: the core against the references, by every walk."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import addition_search
from tests.addition_strategies import systems_with_every_addition
from tests.property.test_system_differential import check_system
from tests.row_strategies import System


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=12)
@given(systems_with_every_addition(), st.data())
def test_every_addition_at_once(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@pytest.mark.nightly
def test_every_addition_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.addition_search`, which prints its seed and what it ran."""
    with capsys.disabled():
        addition_search.main([])
