"""Systolic arrays whose jobs overlap: the core against the reference by every walk, in traces and in snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.array_strategies import array_systems
from tests.property.test_differential import check_system
from tests.property.test_ref_trace import check_system as check_trace_laws
from tests.property.test_snapshots import take_up
from tests.property.test_trace import LEVELS, WINDOWS, check_checkpoints, compare

System = tuple[dict[str, Any], dict[str, Any]]
Check = Callable[[System, st.DataObject, Path], None]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))

CHECKS: dict[str, Check] = {
    "walks": lambda system, data, folder: check_system(system, data),
    "snapshots": lambda system, data, folder: take_up(system, data),
    "traces": lambda system, data, folder: compare(system, data.draw(LEVELS), data.draw(WINDOWS)),
    "laws": lambda system, data, folder: check_trace_laws(system, data.draw(WINDOWS)),
    "checkpoints": lambda system, data, folder: check_checkpoints(system, data.draw(LEVELS), folder, data),
}


@pytest.mark.parametrize("check", CHECKS)
@settings(RELAXED, max_examples=12)
@given(system=array_systems(), data=st.data())
def test_jobs_overlap_as_the_reference_says(check: str, tmp_path_factory: Any, system: System, data: st.DataObject) -> None:
    CHECKS[check](system, data, tmp_path_factory.getbasetemp())


@pytest.mark.nightly
@pytest.mark.parametrize("check", CHECKS)
@settings(RELAXED, max_examples=1500)
@given(system=array_systems(), data=st.data())
def test_jobs_overlap_as_the_reference_says_for_long(
    check: str, tmp_path_factory: Any, system: System, data: st.DataObject
) -> None:
    CHECKS[check](system, data, tmp_path_factory.getbasetemp())
