"""The reference's traces keep the laws: the file alone says what the counters say."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.trace import schema
from kernbench.trace.json_schema import trace_json_schema
from tests.oracles import reference
from tests.oracles.ref_trace import reference_trace
from tests.property.trace_laws import System, check_bytes, check_laws, check_levels
from tests.trace_systems import Event, parsed, traced_systems

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
LINES = jsonschema.Draft202012Validator(trace_json_schema())


def check_system(system: System, window: int) -> None:
    at = {level: parsed(reference_trace(*system, level=level, window=window)) for level in schema.LEVELS[1:]}
    check_levels(at)
    check_bytes(system, at["full"])
    check_laws(system, at["access"], reference.simulate(*system))


@settings(RELAXED, max_examples=10)
@given(traced_systems(), st.sampled_from([7, 64, 1024]))
def test_traces_keep_the_laws(system: System, window: int) -> None:
    check_system(system, window)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(traced_systems(), st.sampled_from([7, 64, 1024]))
def test_traces_keep_the_laws_for_long(system: System, window: int) -> None:
    check_system(system, window)


@settings(RELAXED, max_examples=8)
@given(traced_systems())
def test_lines_fit_the_json_schema(system: System) -> None:
    """Of each event type the first, the last and the longest."""
    by_name: dict[str, list[Event]] = {}
    for event in parsed(reference_trace(*system, window=64)):
        by_name.setdefault(event["event_type"], []).append(event)
    for events in by_name.values():
        for event in (events[0], events[-1], max(events, key=len)):
            LINES.validate(event)


@settings(RELAXED, max_examples=10)
@given(traced_systems(), st.integers(1, 400))
def test_an_interrupted_trace_is_the_whole_one_up_to_there(system: System, until: int) -> None:
    whole = parsed(reference_trace(*system))
    part = parsed(reference_trace(*system, until=until))
    if whole[-1]["cycles"] <= until and whole[-1]["status"] != "aborted":
        assert part == whole
        return
    assert part[-1]["cycles"] == min(until, whole[-1]["cycles"])
    before = [e for e in part[1:] if e["t_cycle"] < part[-1]["cycles"] - 1]
    assert before == whole[1 : 1 + len(before)]
