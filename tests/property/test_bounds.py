"""The lower bounds of results equal those of a reference written from docs/model/bounds.md, and no run ends earlier."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.bounds import lower_bounds
from tests.array_strategies import array_systems
from tests.cache_strategies import cache_systems, cached_systems_of_pes
from tests.oracles.ref_bounds import bounds
from tests.oracles.ref_system_bounds import system_bounds
from tests.row_strategies import controller_systems, row_systems
from tests.strategies import systems
from tests.system_roads import PlainRoads
from tests.systems_of_pes import systems_of_pes

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
DRAWN = {
    "plain": systems(),
    "rows": row_systems(),
    "controllers": controller_systems(),
    "arrays": array_systems(),
    "caches": cache_systems(),
    "systems": systems_of_pes(),
    "caches of systems": cached_systems_of_pes(),
}


def check(system: System) -> None:
    machine, program = system
    config, parsed = load_config(machine), load_program(program)
    found = lower_bounds(parsed, config)
    got = found.to_dict()
    of_system = machine.get("schema") == "kernbench/system/1"
    want = system_bounds(machine, program, PlainRoads(config)) if of_system else bounds(machine, program)
    assert {name: got[name] for name in got if name not in ("cycles", "limit")} == want
    assert got["cycles"] == max(value for name, value in got.items() if name not in ("cycles", "limit"))
    run = Machine(config, parsed)
    run.run()
    result = run.result()
    assert result.status != "done" or result.cycles >= found.cycles


@pytest.mark.parametrize("kind", DRAWN)
@settings(RELAXED, max_examples=12)
@given(data=st.data())
def test_bounds_are_those_of_the_reference(kind: str, data: st.DataObject) -> None:
    check(data.draw(DRAWN[kind]))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DRAWN)
@settings(RELAXED, max_examples=1500)
@given(data=st.data())
def test_bounds_are_those_of_the_reference_for_long(kind: str, data: st.DataObject) -> None:
    check(data.draw(DRAWN[kind]))
